"""What a person does with a whole store: look, back up, upgrade, restore, compact.

Each call opens and closes what it needs. Looking and backing up go on beside others; whatever
changes files is done alone (see `gate`) and is refused with StoreInUse, naming who is in the way,
while any process has the store open. Invariant: no call loses anything: a database that is replaced
stays beside its successor, and a call that raises has changed nothing.

Must not: decide what is to be done, or ask anybody.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import apsw

from state_store.errors import BackupUnusable, StoreDamaged, StoreFull
from state_store.records import Backup, Compacted, Restored, Upgrade
from state_store.sqlite import backups, policy
from state_store.sqlite.beside import backups_of, free_bytes, size_of
from state_store.sqlite.connecting import connect, require_file
from state_store.sqlite.faults import hindered, newest_backup, translated
from state_store.sqlite.gate import enter
from state_store.sqlite.opening import alone_in, bring_up_to_date
from state_store.sqlite.place import Place
from state_store.sqlite.restoring import restore
from state_store.sqlite.swapping import require_finished
from state_store.sqlite.upgrading import plan

if TYPE_CHECKING:
    from pathlib import Path

# The database once more in the log, and a copy in a temporary file.
_COMPACTING_FACTOR = 2


class Maintenance:
    """The store in the file at *path*, from outside. Thread-safe; every call stands alone.

    *options* are those of `SqliteStore.open`: `owners_dir`, `clock`, `busy_timeout_ms`,
    `allow_network_filesystem` and `progress`, which long calls tell what they are at.
    """

    def __init__(self, path: Path, *, workspace_id: str, **options: Any) -> None:
        self._place = Place.at(path, workspace_id=workspace_id, **options)

    def plan(self) -> Upgrade | None:
        """Return what opening the store would upgrade; None when nothing. Changes nothing."""
        return plan(self._place)

    def upgrade(self) -> Upgrade | None:
        """Bring the schema to this program's, as opening it does; None when it is there already.

        A verified backup is made first. UpgradeFailed leaves the content as it was.
        """
        require_file(self._place.path)
        return bring_up_to_date(self._place)

    def back_up(self) -> Backup:
        """Make a verified backup beside the database while others go on working.

        It holds all that was committed when it began, and lies on the disk when this returns. The
        newest five stay, older ones go (`Backup.pruned`). The same content is backed up once.
        """
        place = self._place
        with closing(enter(place, creating=False)):
            require_finished(place.path)
            require_file(place.path)
            with translated(place.path, waited_ms=place.busy_timeout_ms, writing=False):
                connection, version = connect(place, rules=policy.READING)
                with closing(connection):
                    backup = backups.make(connection, place, version=version)
        return replace(backup, pruned=backups.prune(place.path))

    def backups(self) -> tuple[Backup, ...]:
        """Return the backups beside the database, oldest first, also those that are no good."""
        return tuple(backups.describe(one) for one in backups_of(self._place.path))

    def restore(
        self,
        backup: Path | None = None,
        *,
        over_damaged: bool = False,
        over_newer: bool = False,
        revive_deleted: bool = False,
    ) -> Restored:
        """Put *backup*, the newest good one if it is None, in the place of the database.

        What is replaced stays beside it. A damaged database is replaced only when told so, and so
        is one of a newer program. Sessions that were deleted since stay deleted, unless
        *revive_deleted*. A backup of an older schema is upgraded when the store is next opened.
        """
        with alone_in(self._place, "restore"):
            return restore(
                self._place,
                backup or self._newest_good(),
                over_damaged=over_damaged,
                over_newer=over_newer,
                revive_deleted=revive_deleted,
            )

    def compact(self) -> Compacted:
        """Rebuild the database without the space that deletions left, and empty its log."""
        place = self._place
        with alone_in(place, "compact"):
            require_file(place.path)
            if denied := hindered(place.path, writing=True):
                raise denied
            before = size_of(place.path)
            if free_bytes(place.path) < _COMPACTING_FACTOR * before:
                raise StoreFull(
                    place.path,
                    f"compacting needs {_COMPACTING_FACTOR * before} bytes free beside it",
                    hint="Nothing was changed. Free space and try again.",
                )
            with translated(place.path, waited_ms=place.busy_timeout_ms):
                connection, _ = connect(place, rules=policy.WRITING, writing=True)
                with closing(connection):
                    self._compact(connection)
        return Compacted(before_bytes=before, after_bytes=size_of(place.path))

    def _compact(self, connection: apsw.Connection) -> None:
        progress, path = self._place.progress, self._place.path
        progress("checking the database", 0, 0)
        if not policy.is_sound(connection):
            raise StoreDamaged(path, "SQLite found it corrupt", backup_path=newest_backup(path))
        progress("compacting", 0, 0)
        connection.execute("VACUUM")
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        policy.settle_log_on_close(connection)

    def _newest_good(self) -> Path:
        for backup in reversed(backups_of(self._place.path)):
            try:
                backups.require_usable(backup, self._place)
            except BackupUnusable:
                continue
            return backup
        raise BackupUnusable(self._place.path.parent, "no backup in it can be read")
