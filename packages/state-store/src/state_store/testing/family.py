"""A family of made-up migrations, and old databases to upgrade with them.

What the tests of the upgrade engine share. The first migration is the real one, so that an old
database is filled through the store itself; the others each do something else that migrations do:
change tables, rebuild one with its rows, make a trigger, compute with a function of Python.

Invariant: what `fill` writes is the same every time but for ids and times, and holds a run that a
process left pending, whose owner is dead.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import apsw

from state_store.clock import new_id
from state_store.records import NewSession, SessionState
from state_store.sqlite.opening import open_database
from state_store.sqlite.place import Place
from state_store.sqlite.schema import SCHEMA, Migration, Schema
from state_store.sqlite.store import SqliteStore
from state_store.testing.clocks import SteppingClock
from state_store.testing.turns import USAGE, assistant, begin, calling, result, turn, user

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path


def in_sql(name: str, text: str) -> Migration:
    """Return a migration that is SQL."""

    def apply(connection: apsw.Connection) -> None:
        connection.execute(text)

    return Migration(name=name, apply=apply)


def _in_python(connection: apsw.Connection) -> None:
    """Give every session a mood that SQL could not find."""
    connection.create_scalar_function("mood_of", _mood_of, 1, deterministic=True)
    connection.execute("UPDATE sessions SET mood = mood_of(title)")
    connection.execute("INSERT INTO moods SELECT DISTINCT mood FROM sessions WHERE mood NOT NULL")


def _mood_of(*titles: object) -> str | None:
    title = titles[0]
    return None if title is None else hashlib.sha256(str(title).encode()).hexdigest()[:2]


def _rebuilding() -> str:
    """Return the SQL that makes the table of runs anew, with a column more, and moves its rows."""
    (table,) = re.findall(r"(CREATE TABLE runs .*?STRICT;)", _first(), re.DOTALL)
    indexes = re.findall(r"(CREATE [A-Z ]*INDEX runs_.*?;)", _first(), re.DOTALL)
    columns = re.findall(r"^  ([a-z_]+) ", table, re.MULTILINE)
    new = table.replace("TABLE runs", "TABLE runs_new").replace(
        "  UNIQUE", "  attempt INTEGER NOT NULL DEFAULT 1,\n  UNIQUE"
    )
    moved = ", ".join(columns)
    return "\n".join(
        (
            new,
            f"INSERT INTO runs_new ({moved}) SELECT {moved} FROM runs;",  # noqa: S608 - the schema's own names
            "DROP TABLE runs;",
            "ALTER TABLE runs_new RENAME TO runs;",
            *indexes,
        )
    )


def _first() -> str:
    from state_store.sqlite.schema import read_sql  # noqa: PLC0415 - a file is read

    return read_sql(SCHEMA.migrations[0].name)


WIDER = in_sql(
    "0002_wider",
    "ALTER TABLE sessions ADD COLUMN mood TEXT;"
    "CREATE TABLE moods (mood TEXT NOT NULL PRIMARY KEY) STRICT;"
    "CREATE INDEX sessions_mood ON sessions (mood);",
)
TRIGGERED = in_sql(
    "0004_triggered",
    "CREATE TABLE lengths (message_id INTEGER PRIMARY KEY, characters INTEGER NOT NULL) STRICT;"
    "INSERT INTO lengths SELECT id, length(coalesce(content, '')) FROM messages;"
    "CREATE TRIGGER messages_length AFTER INSERT ON messages BEGIN"
    " INSERT INTO lengths VALUES (new.id, length(coalesce(new.content, ''))); END;",
)
COMPUTED = Migration(name="0005_computed", apply=_in_python)


def rebuilt() -> Migration:
    """Return the migration that moves the rows of a table into a new one."""
    return in_sql("0003_rebuilt", _rebuilding())


def family() -> Schema:
    """Return the first migration with all the made-up ones on top."""
    return Schema((SCHEMA.migrations[0], WIDER, rebuilt(), TRIGGERED, COMPUTED))


FIRST = Schema(SCHEMA.migrations[:1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What `fill` wrote: all sessions, and the run that is pending still."""

    session_ids: tuple[str, ...]
    pending_run_id: str


def open_store(place: Place) -> SqliteStore:
    """Open the store of a program that has the schema of *place*."""
    opened = open_database(place, writing=True)
    store = SqliteStore(opened.database, opened.recovery, clock=place.clock, new_id=new_id)
    store.recovered, store.upgraded = opened.recovered, opened.upgraded
    return store


def fill(store: SqliteStore) -> Filled:
    """Write something of everything that a store of the first schema can hold."""
    kept = store.create_session(NewSession(title="kept", metadata={"largest": 2**64 - 1})).id
    turn(store, kept, "a question\0 with a zero in it")
    run = begin(store, kept, "look twice")
    asked = store.start_tools(run.id, calling("same", "same"), ["safe", "unsafe"])
    store.finish_tool(
        run.id, call_seq=asked.seq, call_index=1, outcome="ok", message=result("same")
    )
    store.fail_run(run.id, "provider.error", usage=USAGE)
    archived = store.create_session().id
    turn(store, archived)
    store.archive_session(archived, archived=True)
    saved = new_id()
    store.save(SessionState(id=saved, messages=(user("saved"), assistant())), timedelta(0))
    deleted = store.create_session().id
    turn(store, deleted, "to be deleted")
    store.delete(deleted)
    left = store.create_session(NewSession(title="left")).id
    pending = begin(store, left, "nobody will answer")
    store.start_tools(pending.id, calling("under way"), ["unsafe"])
    return Filled(session_ids=(kept, archived, saved, left), pending_run_id=pending.id)


def old_database(
    path: Path,
    *,
    workspace_id: str,
    schema: Schema = FIRST,
    clock: Callable[[], datetime] | None = None,
) -> Filled:
    """Make a database of an older *schema* at *path*, filled, closed, with a dead owner's run."""
    place = Place.at(path, workspace_id=workspace_id, schema=schema, clock=clock or SteppingClock())
    store = open_store(place)
    try:
        return fill(store)
    finally:
        store.close()


def digest_of(path: Path) -> str:
    """Return the digest of a database that nobody has open, and see that it is whole."""
    flags = apsw.SQLITE_OPEN_READWRITE
    with closing(apsw.Connection(str(path), flags=flags)) as connection:
        assert connection.execute("PRAGMA integrity_check").get == "ok", path
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == [], path
        return digest(connection)


def digest(connection: apsw.Connection) -> str:
    """Return what tells this content from every other: the schema and all rows of all tables.

    Without the generation, which a restore changes, and without the times of migrations.
    """
    found = hashlib.sha256()
    described = connection.execute(
        "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name"
    ).fetchall()
    found.update(repr(described).encode())
    for kind, name, _ in described:
        if kind != "table":
            continue
        columns = ", ".join(
            str(column)
            for (column,) in connection.execute("SELECT name FROM pragma_table_info(?)", (name,))
            if (name, column) not in _OF_THE_MOMENT
        )
        rows = connection.execute(f"SELECT {columns} FROM {name}").fetchall()  # noqa: S608 - names of the schema
        found.update(repr((name, sorted(map(repr, rows)))).encode())
    return found.hexdigest()


_OF_THE_MOMENT = {("store", "generation"), ("schema_version", "applied_at")}
