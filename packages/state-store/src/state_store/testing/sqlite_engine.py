"""The engine of this package, as a contract about processes opens it.

An example of what another engine's author writes: a function that opens a store at a location,
one for the asynchronous face, and one that inspects the data when nobody has it open.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from state_store.asynchronous import AsyncSqliteStore
from state_store.sqlite.schema import SCHEMA
from state_store.sqlite.store import SqliteStore
from state_store.testing.faces import SyncFace

if TYPE_CHECKING:
    from state_store.protocol import SessionStore

WORKSPACE_ID = "11111111-2222-4333-8444-555555555555"


def open_store(location: str) -> SessionStore:
    """Open the database at the path *location*."""
    return SqliteStore.open(Path(location), workspace_id=WORKSPACE_ID)


def open_async_store(location: str) -> SessionStore:
    """Open the same through the asynchronous face."""
    return SyncFace.over(lambda: AsyncSqliteStore.open(Path(location), workspace_id=WORKSPACE_ID))


def inspect(location: str) -> None:
    """Ask SQLite whether file and references are whole, and look for what should not be there."""
    path = Path(location)
    with_log = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        assert with_log.execute("PRAGMA integrity_check").get == "ok"
        assert with_log.execute("PRAGMA foreign_key_check").fetchall() == []
        assert with_log.execute("SELECT count(*) FROM schema_version").get == SCHEMA.version
        assert with_log.execute("SELECT count(*) FROM store").get == 1
    finally:
        with_log.close()
    assert list((path.parent / "owners").iterdir()) == [], "an owner's file was left behind"
