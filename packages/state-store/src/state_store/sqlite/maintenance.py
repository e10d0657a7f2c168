"""What a person does with a whole store: look, back up, upgrade, restore, compact, salvage.

Each call opens and closes what it needs. Looking and backing up go on beside others; whatever
changes files is done alone (see `gate`) and is refused with StoreInUse, naming who is in the way,
while any process has the store open. Invariant: no call loses anything: a database that is replaced
stays beside its successor, and a call that raises has changed nothing.

Must not: decide what is to be done, or ask anybody.
"""

from __future__ import annotations

import os
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import apsw

from state_store.errors import StoreDamaged, StoreFull, StoreUnavailable
from state_store.sqlite import backups, policy
from state_store.sqlite.beside import free_bytes, size_of
from state_store.sqlite.connecting import connect, require_file
from state_store.sqlite.faults import hindered, newest_backup, translated, unavailable
from state_store.sqlite.gate import enter
from state_store.sqlite.opening import alone_in, bring_up_to_date, make_directory
from state_store.sqlite.place import Place
from state_store.sqlite.removing import holding, remove_backups, remove_store
from state_store.sqlite.restoring import restore
from state_store.sqlite.surroundings import look_around
from state_store.sqlite.swapping import SwapUnfinished, is_begun, require_finished
from state_store.sqlite.telling import telling
from state_store.sqlite.upgrading import plan
from state_store.upkeep import Backup, Compacted, Restored, Surroundings, Upgrade

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from state_store.findings import Report, SalvageReport

# The database once more in the log, and a copy in a temporary file.
_COMPACTING_FACTOR = 2


class Maintenance:
    """The store in the file at *path*, from outside. Thread-safe; every call stands alone.

    *options* are those of `SqliteStore.open`: `owners_dir`, `clock`, `busy_timeout_ms`,
    `allow_network_filesystem` and `progress`, which long calls tell what they are at.
    """

    def __init__(self, path: Path, *, workspace_id: str, **options: Any) -> None:
        self._place = Place.at(path, workspace_id=workspace_id, **options)

    def look_around(self) -> Surroundings:
        """Return what the store stands on and who has it open; the database stays closed.

        Nothing is created, and a missing or damaged database is no error.
        """
        return look_around(self._place)

    def plan(self) -> Upgrade | None:
        """Return what opening the store would upgrade; None when nothing. Changes nothing."""
        with _finished(self._place.path):
            return plan(self._place)

    def upgrade(self) -> Upgrade | None:
        """Bring the schema to this program's, as opening it does; None when it is there already.

        A verified backup is made first. UpgradeFailed leaves the content as it was.
        """
        self._require_there()
        return bring_up_to_date(self._place)

    def check(self) -> Report:
        """Look the whole database over and say what is wrong. Changes nothing.

        Any schema that this program knows will do, and others may go on working. A damaged file is
        a report and no error.
        """
        from state_store.sqlite.checking import check  # noqa: PLC0415 - seldom needed

        place = self._place
        with closing(enter(place, creating=False)), _finished(place.path):
            require_finished(place.path)
            return check(place)

    def back_up(self) -> Backup:
        """Make a verified backup beside the database while others go on working.

        It holds all that was committed when it began, and lies on the disk when this returns. The
        newest five good ones stay, older ones go (`Backup.pruned`); what is damaged does not count
        and stays. The same content is backed up once.
        """
        place = self._place
        self._require_there()
        with closing(enter(place, creating=True)), _finished(place.path):
            require_finished(place.path)
            require_file(place.path)
            with translated(place.path, waited_ms=place.busy_timeout_ms, writing=False):
                connection, version = connect(place, rules=policy.READING)
                with closing(connection):
                    backup = backups.make(connection, place, version=version)
            return replace(backup, pruned=backups.prune(place))

    def backups(self) -> tuple[Backup, ...]:
        """Return the backups beside the database, oldest first, also those that are no good."""
        directory = self._place.path.parent
        try:
            with os.scandir(directory):  # what may not be listed would look empty below
                return backups.listed(self._place)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise unavailable(directory, error) from error

    def backups_holding(self, session_id: str) -> tuple[str, ...]:
        """Return the paths of backups that hold the session, or cannot be read, oldest first."""
        return holding(self._place, session_id)

    def remove_backups(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Remove backups of this store for good, also beside others; return their paths.

        Returns when that is on the disk. BackupUnusable, and none is removed, when one of *paths*
        is something else.
        """
        return remove_backups(self._place, paths)

    def remove(
        self, *, first: Callable[[], None] = lambda: None, kept: frozenset[str] = frozenset()
    ) -> None:
        """Remove the whole store for good: its directory, but for the names *kept* in it.

        *first* is called when nobody else is in and nothing was removed; if it raises, all stays.
        StoreInUse while anybody has the store open. One that was cut off is finished by the next.
        """
        remove_store(self._place, first, kept)

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
        BackupUnusable, before anybody is waited for, when the backup cannot be restored here.
        """
        place = self._place
        chosen = backups.require_usable(backup, place) if backup else backups.newest_good(place)
        make_directory(place.path.parent)
        with alone_in(place, "restore", even_stuck=over_damaged):
            return restore(
                place,
                chosen,
                over_damaged=over_damaged,
                over_newer=over_newer,
                revive_deleted=revive_deleted,
            )

    def compact(self) -> Compacted:
        """Rebuild the database without the space that deletions left, and empty its log."""
        place = self._place
        self._require_there()
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

    def salvage(self, into: Path) -> SalvageReport:
        """Write what can be read of a damaged database into a new one at *into*; say what it was.

        Nothing is invented, and what was deleted stays so. The damaged files keep their bytes; the
        new file can be restored in their place like a backup.
        """
        from state_store.sqlite.salvage import salvage  # noqa: PLC0415 - seldom needed

        self._require_there()
        with alone_in(self._place, "salvage", even_stuck=True):
            return salvage(self._place, into)

    def _compact(self, connection: apsw.Connection) -> None:
        progress, path = self._place.progress, self._place.path
        with telling(connection, progress, "checking the database"):
            sound = policy.is_sound(connection)
        if not sound:
            raise StoreDamaged(path, "SQLite found it corrupt", backup_path=newest_backup(path))
        try:
            with telling(connection, progress, "compacting"):
                connection.execute("VACUUM")
        except apsw.FullError as error:
            raise StoreFull(
                path,
                "no space is left on its disk, or where SQLite makes temporary files",
                hint="Nothing was changed. Free space, or name a directory that has some in"
                " SQLITE_TMPDIR.",
            ) from error
        with suppress(apsw.Error):  # what was committed is safe in the log
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        policy.settle_log_on_close(connection)

    def _require_there(self) -> None:
        """Raise StoreMissing before so much as a lock file is made for a store that is not there.

        While a restore is unfinished the database may have no name for a while.
        """
        if not is_begun(self._place.path):
            require_file(self._place.path)


@contextmanager
def _finished(path: Path) -> Iterator[None]:
    """Tell in a public error that a restore, or an upgrade, was begun and not finished."""
    try:
        yield
    except SwapUnfinished as error:
        reason = "a restore or an upgrade of it was begun and not finished"
        hint = "Nothing is lost. Open the store once: that finishes it."
        raise StoreUnavailable(path, reason, hint=hint) from error
