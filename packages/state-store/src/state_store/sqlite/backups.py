"""Backups beside the database: one self-contained, verified file each, named by its time.

Made through SQLite's backup interface from one read transaction, so that a backup is a consistent
prefix of what was committed, however many writers go on meanwhile. Invariants: a file has a
backup's name only when it was verified and is on the disk, so a killed backup is never taken for a
good one; nobody writes to a backup, so reading one needs no lock (`immutable`); a new one is the
newest by its name too, whatever the clock says. The newest `KEPT_COUNT` good ones stay, and older
ones go only when a new one has just been verified. What is no good, or has a name that was not
given here, pushes nothing out and is never removed.

A copy of the file would be wrong: the newest commits live in the -wal, and closing the file would
drop this process's own locks. Source: SQLite documentation, "Online Backup API".
"""

from __future__ import annotations

import os
import stat
from contextlib import closing, suppress
from dataclasses import replace
from datetime import MAXYEAR, UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from state_store.errors import BackupUnusable, StateStoreError, StoreDamaged, StoreMissing
from state_store.sqlite import policy
from state_store.sqlite.beside import LATEST, SIDECARS, backups_of, new_backup, time_of
from state_store.sqlite.connecting import identify, require_file
from state_store.sqlite.creating import (
    building_beside,
    connect_to_new,
    sync_directory,
    sync_file,
)
from state_store.sqlite.faults import explain, newest_backup, unavailable
from state_store.sqlite.frozen import uri_of
from state_store.sqlite.telling import telling
from state_store.upkeep import Backup

if TYPE_CHECKING:
    from state_store.progress import Progress
    from state_store.sqlite.place import Place

KEPT_COUNT = 5
_PAGES_A_STEP = 2_000
_CORRUPT = "SQLite found it corrupt"


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
            if source.in_transaction:
                source.execute("ROLLBACK")
        _require_faithful(building, counts, place)
        sync_file(building)
        made = _described(building, place, building.lstat())
        newest = [one for one in backups_of(path) if time_of(one)][-1:]
        if newest and not _is_same_file(newest[0], path) and _same_bytes(newest[0], building):
            backup = newest[0]
        else:
            backup = _give_name(building, place, version=version)
            sync_directory(path.parent)
    # Told from what was built: by now another process may have made newer ones and pruned this.
    return replace(made, path=str(backup), created_at=time_of(backup) or made.created_at)


def _give_name(building: Path, place: Place, *, version: int) -> Path:
    while True:
        now = _after_all(place.path, place.clock())
        backup = new_backup(place.path, version=version, now=now)
        with suppress(FileExistsError):  # another process made one in the same microsecond
            os.link(building, backup)
            return backup


def _after_all(path: Path, now: datetime) -> datetime:
    """Return *now*, or a time just after the newest backup's when the clock has gone back.

    Else the new one would count as the oldest: the first to be pruned, the last to be restored.
    """
    times = [made for made in map(time_of, backups_of(path)) if made and made.year < MAXYEAR]
    return max([min(now, LATEST), *(made + timedelta(microseconds=1) for made in times)])


def prune(place: Place) -> tuple[str, ...]:
    """Remove all but the newest `KEPT_COUNT` good backups; return the paths of those removed.

    Only for one who has just made a verified backup: so the only good one never goes.
    """
    path, removed = place.path, []
    named = [one for one in listed(place) if time_of(Path(one.path)) and not one.problem]
    for backup in named[:-KEPT_COUNT]:
        with suppress(OSError):
            Path(backup.path).unlink()
            removed.append(backup.path)
    if removed:
        sync_directory(path.parent)
    return tuple(removed)


def listed(place: Place) -> tuple[Backup, ...]:
    """Return what is beside the database under the name of a backup, oldest first."""
    found = []
    for backup in backups_of(place.path):
        try:
            found.append(_described(backup, place, backup.lstat()))
        except FileNotFoundError:  # it was pruned since its name was read
            continue
        except OSError as error:
            raise unavailable(backup, error) from error
    return tuple(sorted(found, key=lambda one: (one.created_at, one.path)))


def _described(
    backup: Path, place: Place, facts: os.stat_result, *, thoroughly: bool = False
) -> Backup:
    """Return what a backup says of itself. One that cannot be restored here has a `problem`.

    *thoroughly*, it is verified from its first page to its last. FileNotFoundError when it is gone.
    """
    version = session_count = problem = None
    try:
        if not stat.S_ISREG(facts.st_mode):
            raise BackupUnusable(backup, "it is not a regular file")
        require_file(backup)
        with closing(connect(backup)) as connection:
            version = policy.pragma(connection, "user_version")
            identify(connection, backup, place)
            session_count = connection.execute("SELECT count(*) FROM sessions").get
            if thoroughly:
                with telling(connection, place.progress, "checking the backup"):
                    problem = None if policy.is_sound(connection) else _CORRUPT
    except StoreMissing:  # it has just gone
        raise
    except apsw.Error as error:
        problem = _problem(error, backup)
    except StateStoreError as error:
        problem = getattr(error, "reason", str(error).rstrip("."))
    if problem:
        backup.lstat()  # the problem may be that it has just gone
    return Backup(
        path=str(backup),
        created_at=time_of(backup) or datetime.fromtimestamp(facts.st_mtime, UTC),
        size_bytes=facts.st_size,
        version=version if isinstance(version, int) else None,
        session_count=session_count if isinstance(session_count, int) else None,
        problem=problem,
    )


def require_usable(backup: Path, place: Place) -> Backup:
    """Verify *backup* from its first page to its last and return what it says of itself.

    BackupUnusable when it is damaged, another workspace's, newer than this program, or no file.
    """
    try:
        facts = backup.lstat()
        if place.path.exists() and place.path.samefile(backup):
            raise BackupUnusable(backup, "it is the database itself")
    except FileNotFoundError as error:
        raise BackupUnusable(backup, "it is not there") from error
    except OSError as error:
        raise BackupUnusable(backup, error.strerror or type(error).__name__) from error
    try:
        found = _described(backup, place, facts, thoroughly=True)
    except FileNotFoundError as error:
        raise BackupUnusable(backup, "it is not there any more") from error
    if found.problem:
        raise BackupUnusable(backup, found.problem)
    return found


def newest_good(place: Place) -> Backup:
    """Verify the backups beside the database, the newest first, and return the first good one."""
    for backup in reversed(backups_of(place.path)):
        with suppress(BackupUnusable):
            return require_usable(backup, place)
    raise BackupUnusable(place.path.parent, "no backup in it can be read")


def holding(path: Path, session_id: str) -> tuple[str, ...]:
    """Return the backups beside *path* that hold the session, or may, oldest first."""
    return tuple(str(one) for one in backups_of(path) if _may_hold(one, session_id))


def connect(backup: Path) -> apsw.Connection:
    """Open a file that nobody writes, for reading.

    With what its log holds, if it has one: a backup has none, a database that was replaced may.
    CantOpenError when it is not a file: SQLite would wait for whoever writes into a FIFO.
    """
    if not backup.is_file():
        raise apsw.CantOpenError(f"{backup} is not a regular file")
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    has_log = any(os.path.lexists(f"{backup}{end}") for end in SIDECARS)
    connection = apsw.Connection(str(backup) if has_log else uri_of(backup), flags=flags)
    policy.keep_log_on_close(connection, backup)
    return connection


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


def _require_faithful(building: Path, counts: dict[str, object], place: Place) -> None:
    with closing(connect(building)) as connection:
        with telling(connection, place.progress, "checking the backup"):
            sound = policy.is_sound(connection)
        if not sound:  # pages are copied as they are
            raise StoreDamaged(place.path, _CORRUPT, backup_path=newest_backup(place.path))
        if _counts(connection) != counts:
            raise BackupUnusable(building, "the copy is not what was copied")


def _is_same_file(backup: Path, database: Path) -> bool:
    """Say whether *backup* is a hard link of the database, which nobody but SQLite may open."""
    with suppress(OSError):
        return backup.samefile(database)
    return False


def _same_bytes(left: Path, right: Path) -> bool:
    with suppress(OSError):
        if not left.is_symlink() and left.is_file() and left.stat().st_size == right.stat().st_size:
            with left.open("rb") as one, right.open("rb") as other:
                while block := one.read(1 << 20):
                    if block != other.read(1 << 20):
                        return False
                return True
    return False
