"""The backups beside a database: which there are, and which still hold a deleted session.

Invariant: only reads, with SQLite, as the files stand (`immutable`); a backup is one self-contained
file that nobody writes. One that cannot be read may hold anything, so it counts as holding it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

from state_store.sqlite.frozen import uri_of

if TYPE_CHECKING:
    from pathlib import Path


def backups_of(path: Path) -> list[Path]:
    """Return the backups beside *path*, oldest first: their names sort by time."""
    return sorted(path.parent.glob(f"{path.name}.backup-*"))


def holding(path: Path, session_id: str) -> tuple[str, ...]:
    """Return the backups beside *path* that hold the session, or may, oldest first."""
    return tuple(str(one) for one in backups_of(path) if _may_hold(one, session_id))


def _may_hold(backup: Path, session_id: str) -> bool:
    try:
        connection = apsw.Connection(
            uri_of(backup), flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        )
        try:
            found = connection.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).get
        finally:
            connection.close()
    except apsw.Error:
        return True
    return found is not None
