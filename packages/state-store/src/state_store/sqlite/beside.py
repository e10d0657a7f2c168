"""Which files lie beside a database, and what they are called.

Invariant: every name that this package makes is made here. The names of backups sort by time, and
those of what was set aside keep the database's own sidecars beside it, so that SQLite finds them.
Must not: open any of them.
"""

from __future__ import annotations

import os
import uuid
from datetime import UTC, datetime, timedelta
from glob import escape
from pathlib import Path

SIDECARS = ("-wal", "-shm", "-journal")
# The latest that a name begins with: what is of one microsecond counts on from there.
LATEST = datetime(9998, 1, 1, tzinfo=UTC)
_STAMP_LENGTH = len("20260102T030405000006Z")
_SECONDS_LENGTH = len("20260102T030405")


def at_rest(path: Path) -> set[str]:
    """Return the names of the files of a store that nobody has open and nothing happened to."""
    return {path.name, gate_of(path).name, presence_of(path).name}


def log_of(path: Path) -> Path:
    """Return the database's write-ahead log."""
    return Path(f"{path}-wal")


def gate_of(path: Path) -> Path:
    """Return the lock file that everybody passes on the way in; see `gate`."""
    return path.with_name(f"{path.name}.gate")


def presence_of(path: Path) -> Path:
    """Return the lock file that everybody holds who has the database open; see `gate`.

    Not `.lock`, which SQLite itself makes where it locks by files ("unix-dotfile").
    """
    return path.with_name(f"{path.name}.presence")


def search_of(path: Path) -> Path:
    """Return the search index of the database, which can be made anew; see `search`."""
    return path.with_name("search.sqlite3")


def intent_of(path: Path) -> Path:
    """Return the record of a restore that was begun; see `swapping`."""
    return path.with_name(f"{path.name}.restore")


def unproven_of(path: Path) -> Path:
    """Return the record of an upgrade that is not checked yet; see `unproven`."""
    return path.with_name(f"{path.name}.upgrade")


def new_building(path: Path) -> Path:
    """Return a name for something that is being built and gets its own when it is whole."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.new")


def new_ready(building: Path) -> Path:
    """Return the name of what was built whole and waits for its turn."""
    return building.with_name(f"{building.name}.ready")


def buildings_of(path: Path) -> list[Path]:
    """Return what is being built or waits for its turn, or was left so by a crash."""
    return sorted(path.parent.glob(f".{escape(path.name)}.*.new*"))


def new_backup(path: Path, *, version: int, now: datetime) -> Path:
    """Return the name of a backup made *now*, or as soon after as one is free."""
    while True:
        name = path.with_name(f"{path.name}.backup-{_stamp(now)}-v{version}")
        if not name.exists():
            return name
        now += timedelta(microseconds=1)


def backups_of(path: Path) -> list[Path]:
    """Return the backups, oldest first; before them what has such a name from somebody else."""
    found = path.parent.glob(f"{escape(path.name)}.backup-*")
    # A program that looked into one with SQLite, and was killed, left a sidecar and no backup.
    found = (one for one in found if not one.name.endswith(SIDECARS))
    return sorted(found, key=lambda one: (time_of(one) is not None, one))


def new_replaced(path: Path, *, now: datetime) -> Path:
    """Return the name that a database gets which a restore replaces *now*."""
    now = min(now, LATEST)
    while True:
        name = path.with_name(f"{path.name}.replaced-{_stamp(now)}")
        if not any(Path(f"{name}{end}").exists() for end in ("", *SIDECARS)):
            return name
        now += timedelta(microseconds=1)


def was_replaced_since(path: Path, backup: Path) -> bool:
    """Say whether a database was replaced since *backup* was made, and is kept."""
    made = backup.name.partition(".backup-")[2][:_STAMP_LENGTH]
    replaced = path.parent.glob(f"{escape(path.name)}.replaced-*")
    stamps = [one.name.partition(".replaced-")[2] for one in replaced]
    return any(stamp[:_STAMP_LENGTH] >= made for stamp in stamps)


def size_of(path: Path) -> int:
    """Return how many bytes the database and its log have together."""
    return sum(one.stat().st_size for one in (path, log_of(path)) if one.exists())


def free_bytes(path: Path) -> int:
    """Return how many bytes this user may still write on the disk that carries *path*."""
    facts = os.statvfs(path.parent)
    return facts.f_bavail * facts.f_frsize


def time_of(backup: Path) -> datetime | None:
    """Return when a backup was made, from its name; None for a name that we did not give."""
    stamp, _, version = backup.name.partition(".backup-")[2].partition("-v")
    if not (version.isascii() and version.isdecimal()):
        return None
    try:
        made = datetime.fromisoformat(f"{stamp[:_SECONDS_LENGTH]}.{stamp[_SECONDS_LENGTH:]}")
    except ValueError:
        return None
    return made if made.tzinfo is UTC and _stamp(made) == stamp else None


def _stamp(time: datetime) -> str:
    utc = time.astimezone(UTC)
    return f"{utc.year:04}{utc:%m%dT%H%M%S%fZ}"  # `%Y` does not pad everywhere
