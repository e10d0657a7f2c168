"""From a path to one connection under the rules, or a reason why not.

Invariant: whose file it is, and of which schema, is known before anything is written: a foreign or
newer database keeps its bytes. A connection that fails a rule leaves nothing open.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import apsw

from state_store.errors import (
    StoreDamaged,
    StoreForeign,
    StoreLost,
    StoreMissing,
    StoreNewer,
    StoreUnavailable,
)
from state_store.sqlite import policy
from state_store.sqlite.beside import backups_of, log_of
from state_store.sqlite.faults import newest_backup, unavailable
from state_store.sqlite.schema import APPLICATION_ID
from state_store.sqlite.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from state_store.sqlite.place import Place
    from state_store.sqlite.policy import Rule


def connect(
    place: Place, *, rules: Sequence[Rule], writing: bool = False, name: str | None = None
) -> tuple[apsw.Connection, int]:
    """Open the database at *place* and return the connection with its schema version.

    Any version that the place's schema knows is accepted, and nothing is written but what the
    *rules* make. *name* is how SQLite is told to open it, if not by its path.
    """
    flags = apsw.SQLITE_OPEN_READWRITE if writing else apsw.SQLITE_OPEN_READONLY
    connection = apsw.Connection(name or str(place.path), flags=flags | apsw.SQLITE_OPEN_URI)
    try:
        policy.keep_log_on_close(connection, place.path)
        Waiting().wait_up_to(connection, place.busy_timeout_ms)
        version = identify(connection, place.path, place)
        for rule in rules:
            rule(connection, place.path)
    except BaseException:
        connection.close(True)
        raise
    return connection, version


def identify(connection: apsw.Connection, path: Path, place: Place) -> int:
    """Return the schema version of the file at *path*; raise when it is no database of *place*."""
    application_id = policy.pragma(connection, "application_id")
    version = policy.pragma(connection, "user_version")
    if application_id != APPLICATION_ID or not isinstance(version, int) or version < 1:
        raise StoreForeign(path, "another program made it")
    if version > place.schema.version:
        raise StoreNewer(path, found=version, supported=place.schema.version)
    try:
        found = connection.execute("SELECT workspace_id FROM store").get
    except apsw.SQLError:
        found = None
    if not isinstance(found, str):
        raise StoreDamaged(
            path, "its first table is missing or cannot be read", backup_path=newest_backup(path)
        )
    if found != place.workspace_id:
        raise StoreForeign(path, f"it belongs to workspace {found}, not {place.workspace_id}")
    return version


def require_file(path: Path) -> None:
    """Raise StoreMissing when nothing ever was at *path*, StoreDamaged when it is empty or gone.

    StoreUnavailable when it is no file: SQLite would wait for whoever writes into a FIFO.
    """
    try:
        facts = path.stat()
    except FileNotFoundError:
        require_not_lost(path)
        raise StoreMissing(path) from None
    except OSError as error:
        raise unavailable(path, error) from error
    if not stat.S_ISREG(facts.st_mode):
        hint = "Move it away; whatever it is, it was not made by this program."
        raise StoreUnavailable(path, "it is not a regular file", hint=hint)
    if facts.st_size == 0:
        raise StoreDamaged(path, "the file is empty", backup_path=newest_backup(path))


def require_not_lost(path: Path) -> None:
    """Raise StoreLost when there are signs that the missing database at *path* has been there."""
    backups = backups_of(path)
    signs = backups or os.path.lexists(log_of(path))
    if signs and not os.path.lexists(path):  # asked last: another process may be making it
        raise StoreLost(path, backup_path=str(backups[-1]) if backups else None)
