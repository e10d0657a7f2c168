"""Backups beside the database: one self-contained, verified file each, named by its time.

Made through SQLite's backup interface from one read transaction, so that a backup is a consistent
prefix of what was committed, however many writers go on meanwhile. Invariants: a file has a
backup's name only when it was verified and is on the disk, so a killed backup is never taken for a
good one; nobody writes to a backup, so reading one needs no lock (`immutable`); the newest
`KEPT_COUNT` stay, and older ones go only when a new one has just been verified.

A copy of the file would be wrong: the newest commits live in the -wal, and closing the file would
drop this process's own locks. Source: SQLite documentation, "Online Backup API".
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import apsw

from state_store.errors import BackupUnusable, StateStoreError
from state_store.records import Backup
from state_store.sqlite import policy
from state_store.sqlite.beside import backups_of, new_backup, time_of
from state_store.sqlite.connecting import identify, require_file
from state_store.sqlite.creating import (
    building_beside,
    connect_to_new,
    sync_directory,
    sync_file,
)
from state_store.sqlite.faults import explain
from state_store.sqlite.frozen import uri_of

if TYPE_CHECKING:
    from pathlib import Path

    from state_store.progress import Progress
    from state_store.sqlite.place import Place

KEPT_COUNT = 5
_PAGES_A_STEP = 2_000


def make(source: apsw.Connection, place: Place, *, version: int) -> Backup:
    """Back up *source*, which is open on the database at *place*; return when it is on the disk.

    When the newest backup has the very same bytes it is returned and no other one is made: an
    upgrade that fails at every start must not push the good ones out.
    """
    path = place.path
    with building_beside(path) as building:
        source.execute("BEGIN DEFERRED")
        try:
            counts = _counts(source)
            copy(source, building, place.progress)
        finally:
            source.execute("ROLLBACK")
        place.progress("checking the backup", 0, 0)
        _require_faithful(building, counts)
        sync_file(building)
        newest = backups_of(path)[-1:]
        if newest and _same_bytes(newest[0], building):
            return describe(newest[0])
        backup = new_backup(path, version=version, now=place.clock())
        os.link(building, backup)
        sync_directory(path.parent)
    return describe(backup)


def prune(path: Path) -> tuple[str, ...]:
    """Remove all but the newest `KEPT_COUNT` backups and return the paths of those removed.

    Only for one who has just made a verified backup: so the only good one never goes.
    """
    removed = []
    for backup in backups_of(path)[:-KEPT_COUNT]:
        with suppress(OSError):
            backup.unlink()
            removed.append(str(backup))
    return tuple(removed)


def describe(backup: Path) -> Backup:
    """Return what a backup says of itself. One that cannot be read has a `problem`."""
    facts = backup.stat()
    version = session_count = problem = None
    try:
        with closing(connect(backup)) as connection:
            version = policy.pragma(connection, "user_version")
            session_count = connection.execute("SELECT count(*) FROM sessions").get
    except apsw.Error as error:
        problem = _problem(error, backup)
    return Backup(
        path=str(backup),
        created_at=time_of(backup) or datetime.fromtimestamp(facts.st_mtime, UTC),
        size_bytes=facts.st_size,
        version=version if isinstance(version, int) else None,
        session_count=session_count if isinstance(session_count, int) else None,
        problem=problem,
    )


def require_usable(backup: Path, place: Place) -> int:
    """Verify *backup* from its first page to its last and return its schema version.

    BackupUnusable when it is damaged, another workspace's, or newer than this program.
    """
    try:
        require_file(backup)
        with closing(connect(backup)) as connection:
            version = identify(connection, backup, place)
            sound = policy.is_sound(connection)
    except apsw.Error as error:
        raise BackupUnusable(backup, _problem(error, backup)) from error
    except StateStoreError as error:
        raise BackupUnusable(backup, getattr(error, "reason", str(error).rstrip("."))) from error
    if not sound:
        raise BackupUnusable(backup, "SQLite found it corrupt")
    return version


def holding(path: Path, session_id: str) -> tuple[str, ...]:
    """Return the backups beside *path* that hold the session, or may, oldest first."""
    return tuple(str(one) for one in backups_of(path) if _may_hold(one, session_id))


def connect(backup: Path) -> apsw.Connection:
    """Open a file that nobody writes, for reading."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return apsw.Connection(uri_of(backup), flags=flags)


def copy(source: apsw.Connection, building: Path, progress: Progress) -> None:
    """Write what *source* holds into the empty file *building*, which alone is the whole then."""
    with closing(connect_to_new(building)) as target:
        # Neither matters before the file has its name: what a crash leaves is never looked at.
        target.execute("PRAGMA synchronous=OFF; PRAGMA journal_mode=MEMORY")
        with target.backup("main", source, "main") as copying:
            while not copying.done:
                copying.step(_PAGES_A_STEP)
                done = copying.page_count - copying.remaining
                progress("copying", done, copying.page_count)
        target.execute("PRAGMA journal_mode=DELETE")


def _problem(error: apsw.Error, backup: Path) -> str:
    known = explain(error, backup, waited_ms=0)
    return getattr(known, "reason", None) or "it is not a database of this program"


def _may_hold(backup: Path, session_id: str) -> bool:
    """Say whether the session is in *backup*; of one that cannot be read anything may be."""
    try:
        with closing(connect(backup)) as connection:
            found = connection.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).get
    except apsw.Error:
        return True
    return found is not None


def _counts(connection: apsw.Connection) -> dict[str, object]:
    tables = [
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
    ]
    return {
        str(name): connection.execute(f'SELECT count(*) FROM "{name}"').get  # noqa: S608 - a table's name
        for name in tables
    }


def _require_faithful(building: Path, counts: dict[str, object]) -> None:
    with closing(connect(building)) as connection:
        if not policy.is_sound(connection) or _counts(connection) != counts:
            raise BackupUnusable(building, "the copy is not what was copied")


def _same_bytes(left: Path, right: Path) -> bool:
    if left.stat().st_size != right.stat().st_size:
        return False
    with left.open("rb") as one, right.open("rb") as other:
        while block := one.read(1 << 20):
            if block != other.read(1 << 20):
                return False
    return True
