"""A family of made-up migrations, and old databases to upgrade with them.

What the tests of the upgrade engine share. They come behind the real ones, and an old database is
filled with what the store itself writes. Each does something else that migrations do: change
tables, rebuild one with its rows, make a trigger, compute with a function of Python.

Invariant: what `fill` writes is the same every time but for ids and times, and holds a run that a
process left pending, whose owner is dead.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import apsw

from state_store.clock import new_id
from state_store.records import NewSession, SessionState
from state_store.sqlite import runs
from state_store.sqlite.creating import create
from state_store.sqlite.database import Database
from state_store.sqlite.gate import enter
from state_store.sqlite.opening import make_directory, open_database
from state_store.sqlite.place import Place
from state_store.sqlite.recovery import claim
from state_store.sqlite.schema import SCHEMA, Migration, Schema
from state_store.sqlite.store import SqliteStore
from state_store.testing.clocks import SteppingClock
from state_store.testing.turns import USAGE, assistant, begin, calling, result, turn, user

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path


T = TypeVar("T")


def _named(place: int, name: str) -> str:
    """Return the name of the migration that is at *place* behind the real ones."""
    return f"{SCHEMA.version + place:04}_{name}"


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
    with closing(apsw.Connection(":memory:")) as real:
        for migration in SCHEMA.migrations:
            migration.apply(real)
        (table,), *indexes = real.execute(
            "SELECT sql FROM sqlite_schema WHERE tbl_name = 'runs' AND sql NOT NULL"
            " ORDER BY type = 'index'"
        ).fetchall()
        names = real.execute("SELECT name FROM pragma_table_info('runs')").fetchall()
    new = (
        str(table)
        .replace("TABLE runs", "TABLE runs_new")
        .replace("  UNIQUE", "  attempt INTEGER NOT NULL DEFAULT 1,\n  UNIQUE")
    )
    moved = ", ".join(str(name) for (name,) in names)
    return ";\n".join(
        (
            new,
            f"INSERT INTO runs_new ({moved}) SELECT {moved} FROM runs",  # noqa: S608 - the schema's own names
            "DROP TABLE runs",
            "ALTER TABLE runs_new RENAME TO runs",
            *(str(index) for (index,) in indexes),
        )
    )


WIDER = in_sql(
    _named(1, "wider"),
    "ALTER TABLE sessions ADD COLUMN mood TEXT;"
    "CREATE TABLE moods (mood TEXT NOT NULL PRIMARY KEY) STRICT;"
    "CREATE INDEX sessions_mood ON sessions (mood);",
)
TRIGGERED = in_sql(
    _named(3, "triggered"),
    "CREATE TABLE lengths (message_id INTEGER PRIMARY KEY, characters INTEGER NOT NULL) STRICT;"
    "INSERT INTO lengths SELECT id, length(coalesce(content, '')) FROM messages;"
    "CREATE TRIGGER messages_length AFTER INSERT ON messages BEGIN"
    " INSERT INTO lengths VALUES (new.id, length(coalesce(new.content, ''))); END;",
)
COMPUTED = Migration(name=_named(4, "computed"), apply=_in_python)


def rebuilt() -> Migration:
    """Return the migration that moves the rows of a table into a new one."""
    return in_sql(_named(2, "rebuilt"), _rebuilding())


def family() -> Schema:
    """Return the real migrations with all the made-up ones on top."""
    return Schema((*SCHEMA.migrations, WIDER, rebuilt(), TRIGGERED, COMPUTED))


FIRST = Schema(SCHEMA.migrations[:1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What `fill` wrote: all sessions, and the run that is pending still."""

    session_ids: tuple[str, ...]
    pending_run_id: str


def open_store(place: Place) -> SqliteStore:
    """Open the store of a program that has the newest real schema, or made-up ones on top of it."""
    opened = open_database(place, writing=True)
    store = SqliteStore(opened.database, opened.recovery, clock=place.clock, new_id=new_id)
    store.recovered, store.upgraded = opened.recovered, opened.upgraded
    return store


class OldStore:
    """A store as a program of an older schema has it open: its place among others, its claim.

    Its methods are not kept. What one did is done with today's in memory and its rows moved, as far
    as the older schema has columns for them.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        with ExitStack() as undo:
            make_directory(place.path.parent)
            presence = enter(place, creating=True)
            undo.callback(presence.close)
            create(place)
            self.database = Database.open(place, writing=True, presence=presence)
            undo.callback(self.database.close)
            make_directory(place.owners_dir)
            self._owner = claim(place.owners_dir, clock=place.clock)
            undo.pop_all()
        self._leaves_a_run = False

    def write(self, work: Callable[[SqliteStore], T]) -> T:
        """Do *work* as this store, in one transaction, and return what it returns."""
        place = self._place
        with closing(
            SqliteStore.in_memory(workspace_id=place.workspace_id, clock=place.clock)
        ) as model:
            done = work(model)
            with model._database.read() as source, self.database.write() as connection:  # noqa: SLF001 - rows as they are
                for table in ("sessions", "runs", "messages", "tool_executions", "tombstones"):
                    self._move(source, connection, table)
                connection.execute(
                    "UPDATE runs SET owner = ? WHERE status = 'pending' AND id IN"
                    " (SELECT value FROM json_each(?))",
                    (self._owner.id, json.dumps([run.id for run in runs.pending(source)])),
                )
                self._leaves_a_run |= bool(connection.changes())
        return done

    def _move(self, source: apsw.Connection, connection: apsw.Connection, table: str) -> None:
        known, wanted = (
            [name for (name,) in one.execute("SELECT name FROM pragma_table_info(?)", (table,))]
            for one in (connection, source)
        )
        # Ids of messages go on behind those that are there.
        names = [name for name in wanted if name in known and (table, name) != ("messages", "id")]
        columns = ", ".join(names)
        connection.executemany(
            f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(names))})",  # noqa: S608 - names of the schema
            source.execute(f"SELECT {columns} FROM {table}").fetchall(),  # noqa: S608 - the same
        )

    def close(self) -> None:
        """Close it in good order. The file of its claim stays while a run of it is pending."""
        self._owner.release(keep_file=self._leaves_a_run)
        self.database.close()


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
    with closing(OldStore(place)) as store:
        return store.write(fill)


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
