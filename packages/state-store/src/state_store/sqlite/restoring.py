"""A backup takes the place of the database.

Invariants: nothing is replaced before the backup was verified from its first page to its last; what
a tombstone says, in the backup or in the database that goes, stays deleted unless the caller says
otherwise; a damaged or newer database is replaced only when the caller says so, another
workspace's never. The new database has a generation of its own: row numbers of the old one, which
a search index may hold, mean nothing in it.

All of this is for one who is alone in the store (see `gate`).
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from state_store.errors import BackupUnusable, StoreDamaged, StoreLost, StoreMissing, StoreNewer
from state_store.sqlite import backups, policy, sessions
from state_store.sqlite.connecting import connect, require_file
from state_store.sqlite.creating import connect_to_new
from state_store.sqlite.faults import newest_backup, translated
from state_store.sqlite.swapping import swap
from state_store.sqlite.telling import telling
from state_store.upkeep import Backup, Restored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state_store.sqlite.place import Place

Tombstone = tuple[str, str, int, int]
_TOMBSTONES = "SELECT session_id, deleted_at, message_count, run_count FROM tombstones"


def restore(
    place: Place, backup: Backup, *, over_damaged: bool, over_newer: bool, revive_deleted: bool
) -> Restored:
    """Put *backup*, which was verified, in the place of the database, which may be missing."""
    source = Path(backup.path)
    try:
        _require_sound(place)
    except (StoreMissing, StoreLost):
        pass
    except StoreNewer:
        if not over_newer:
            raise
    except StoreDamaged:
        if not over_damaged:
            raise
    known = _tombstones(place.path)
    erased_count = 0

    def build(building: Path, generation: str) -> None:
        nonlocal erased_count
        _copy(building, source, place, generation=generation)
        erased_count = _bury(building, known or (), revive_deleted=revive_deleted)
        _require_right(building, source, place)

    with translated(place.path, waited_ms=0):
        replaced = swap(place, build)
    return Restored(
        backup=backup,
        version=backup.version or 0,
        session_count=(backup.session_count or 0) - erased_count,
        erased_count=erased_count,
        deletions_known=known is not None,
        replaced_path=None if replaced is None else str(replaced),
    )


def put_back(place: Place, backup: Path) -> Path | None:
    """Put the *backup* that an upgrade made first in the place of what the upgrade made.

    It keeps its generation, for it is what it was; so an upgrade that fails at every start meets
    the very bytes of its backup again and makes no other one. Return where what was replaced is.
    """

    def build(building: Path, generation: str) -> None:
        _copy(building, backup, place, generation=generation)
        _require_right(building, backup, place)

    with closing(backups.connect(backup)) as connection:
        generation = connection.execute("SELECT generation FROM store").get
    return swap(place, build, generation=str(generation))


def _require_sound(place: Place) -> None:
    require_file(place.path)
    with translated(place.path, waited_ms=0, writing=False):
        connection, _ = connect(place, rules=policy.READING)
        with closing(connection), telling(connection, place.progress, "checking the database"):
            sound = policy.is_sound(connection)
    if not sound:
        reason = "SQLite found it corrupt"
        raise StoreDamaged(place.path, reason, backup_path=newest_backup(place.path))


def _tombstones(path: Path) -> tuple[Tombstone, ...] | None:
    """Return what the database that goes says was deleted; None when it is gone or unreadable."""
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            policy.keep_log_on_close(connection, path)
            return tuple(connection.execute(_TOMBSTONES))
    except apsw.Error:
        return None


def _copy(building: Path, backup: Path, place: Place, *, generation: str) -> None:
    """Write what *backup* holds into *building*, as a database of *generation*."""
    try:
        opened = backups.connect(backup)
    except apsw.CantOpenError as error:
        raise BackupUnusable(backup, "it cannot be opened any more") from error
    with closing(opened) as source:
        backups.copy(source, building, place.progress)
    with _changing(building) as connection:
        connection.execute("UPDATE store SET generation = ?", (generation,))


def _bury(building: Path, tombstones: tuple[Tombstone, ...], *, revive_deleted: bool) -> int:
    """Delete again what was deleted since, and return how many sessions that were.

    With *revive_deleted* they stay, and what is in no backup stays deleted all the same.
    """
    with _changing(building) as connection:
        present = {str(one) for (one,) in connection.execute("SELECT id FROM sessions").fetchall()}
        buried = [] if revive_deleted else [one for one in tombstones if one[0] in present]
        for session_id, *_ in buried:
            sessions.remove_rows(connection, session_id)
        connection.executemany(
            "INSERT OR IGNORE INTO tombstones (session_id, deleted_at, message_count, run_count)"
            " VALUES (?, ?, ?, ?)",
            [*buried, *(one for one in tombstones if one[0] not in present)],
        )
    return len(buried)


@contextmanager
def _changing(building: Path) -> Iterator[apsw.Connection]:
    """Commit what the block does to a file that is being built, and leave the file alone whole."""
    with closing(connect_to_new(building)) as connection:
        for rule in policy.WRITING:
            rule(connection, building)
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")
        # A close passes over the errors of its checkpoint, and half a file would be put in place.
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


def _require_right(building: Path, backup: Path, place: Place) -> None:
    with closing(backups.connect(building)) as connection:
        with telling(connection, place.progress, "checking the copy"):
            sound = policy.is_sound(connection)
        if not sound:
            raise BackupUnusable(backup, "the copy of it is not sound")
