"""Reading a database where SQLite may not make its -wal and -shm: a read-only directory or medium.

`immutable=1` reads the file as it stands, without locks and without looking for a log. So it is
used only while there is no -wal, whose commits it would not see, and what was read is discarded
when a -wal has appeared or the file has changed since: it may mix two states.
Source: SQLite documentation, "Write-Ahead Logging", section on read-only databases.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import quote

from state_store.errors import StoreUnavailable
from state_store.sqlite.beside import log_of

if TYPE_CHECKING:
    from pathlib import Path

Snapshot = tuple[int, ...]


def uri_of(path: Path) -> str:
    """Return the name by which SQLite opens *path* as it stands."""
    return f"file:{quote(str(path))}?immutable=1"


def take(path: Path) -> Snapshot | None:
    """Return what tells this state of the file from a later one; None when it has a -wal."""
    try:
        facts = path.stat()
    except OSError:
        return None
    if os.path.lexists(log_of(path)):
        return None
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def require_unchanged(path: Path, snapshot: Snapshot) -> None:
    """Raise StoreUnavailable when what was read since *snapshot* may be of two states."""
    if take(path) != snapshot:
        raise StoreUnavailable(
            path, "another process began to write it while it was read", hint="Open it again."
        )
