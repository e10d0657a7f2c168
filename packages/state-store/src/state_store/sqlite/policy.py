"""How every connection is set up: data, not code spread about.

Each rule is a named function that sets one thing and asserts that it holds; `WRITING`, `READING`
and `IN_MEMORY` list those that apply, in order. The rules come from the SQLite documentation
(WAL, PRAGMA, "How To Corrupt An SQLite Database File").

- synchronous=FULL: with NORMAL a power loss in WAL mode takes acknowledged commits with it.
- secure_delete=ON: FAST leaves whole freed pages readable, and a delete must be true.
- mmap_size=0: an I/O error in a mapped file is a signal that kills the process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw

from state_store.errors import StateStoreError
from state_store.sqlite import filesystem

Rule = Callable[[apsw.Connection, Path], None]
JOURNAL_SIZE_LIMIT_BYTES = 16 * 1024 * 1024


def pragma(connection: apsw.Connection, statement: str) -> object:
    """Return the single value that a PRAGMA answers."""
    return connection.execute(f"PRAGMA {statement}").get


def _expect(connection: apsw.Connection, name: str, value: int) -> None:
    pragma(connection, f"{name}={value}")
    if (found := pragma(connection, name)) != value:
        raise StateStoreError(f"SQLite did not accept {name}={value}; it answers {found!r}.")


def keep_log_on_close(connection: apsw.Connection, path: Path) -> None:
    """Leave database and log as they are when *connection* goes without a proper close.

    SQLite would checkpoint and remove the log: of a file that was refused, or in a forked child,
    beneath a parent that no longer holds its locks. `Database.close` takes the rule back.
    """
    del path
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)


def settle_log_on_close(connection: apsw.Connection) -> None:
    """Let the close that follows move the log into the database."""
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)


def use_wal(connection: apsw.Connection, path: Path) -> None:
    """Write through a write-ahead log, and be certain that it is in force."""
    mode = pragma(connection, "journal_mode=WAL")
    if mode != "wal":
        raise filesystem.refused_by_sqlite(path, f"SQLite answers journal_mode={mode}")


def sync_fully(connection: apsw.Connection, path: Path) -> None:
    """Return from COMMIT only when the bytes are on the disk."""
    del path
    _expect(connection, "synchronous", 2)


def enforce_foreign_keys(connection: apsw.Connection, path: Path) -> None:
    """Refuse rows whose parent is not there."""
    del path
    _expect(connection, "foreign_keys", 1)


def allow_dangling(connection: apsw.Connection, path: Path) -> None:
    """Let a migration rebuild a table that others refer to; the references are checked after it."""
    del path
    _expect(connection, "foreign_keys", 0)


def distrust_schema(connection: apsw.Connection, path: Path) -> None:
    """Keep a manipulated schema from calling functions with effects."""
    del path
    _expect(connection, "trusted_schema", 0)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)


def check_cells(connection: apsw.Connection, path: Path) -> None:
    """Find a damaged page when it is read, not when its damage has spread."""
    del path
    _expect(connection, "cell_size_check", 1)


def map_nothing(connection: apsw.Connection, path: Path) -> None:
    """Read through system calls, whose errors can be reported."""
    del path
    _expect(connection, "mmap_size", 0)


def overwrite_deleted(connection: apsw.Connection, path: Path) -> None:
    """Overwrite what is deleted with zeros."""
    del path
    _expect(connection, "secure_delete", 1)


def bound_journal(connection: apsw.Connection, path: Path) -> None:
    """Cut the write-ahead log back after a checkpoint."""
    del path
    _expect(connection, "journal_size_limit", JOURNAL_SIZE_LIMIT_BYTES)


def is_sound(connection: apsw.Connection) -> bool:
    """Say whether SQLite finds no page, index or reference of the whole database damaged.

    A value that the tables' own rules would not allow is no damage: it must not keep a person
    from all the others.
    """
    pragma(connection, "ignore_check_constraints=ON")
    try:
        return (
            pragma(connection, "integrity_check(1)") == "ok"
            and not connection.execute("PRAGMA foreign_key_check").fetchall()
        )
    finally:
        pragma(connection, "ignore_check_constraints=OFF")


IN_MEMORY: tuple[Rule, ...] = (enforce_foreign_keys, distrust_schema, check_cells)
READING: tuple[Rule, ...] = (*IN_MEMORY, map_nothing)
WRITING: tuple[Rule, ...] = (use_wal, sync_fully, *READING, overwrite_deleted, bound_journal)
UPGRADING: tuple[Rule, ...] = (
    *(rule for rule in WRITING if rule is not enforce_foreign_keys),
    allow_dangling,
)
