"""From an older schema to a newer one: what is kept, what is undone, what is said.

The migrations on top of the first one are made up; see `state_store.testing.family`.
"""

from __future__ import annotations

import itertools
import os
import signal
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from state_store import (
    Maintenance,
    NewSession,
    SqliteStore,
    StoreDamaged,
    StoreFull,
    StoreUnavailable,
    UpgradeFailed,
)
from state_store.sqlite import telling, upgrading
from state_store.sqlite.opening import bring_up_to_date
from state_store.sqlite.place import Place
from state_store.sqlite.schema import SCHEMA, Migration, Schema
from state_store.testing.family import (
    Filled,
    digest_of,
    family,
    fill,
    in_sql,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from state_store.upkeep import Upgrade

    StartPython = Callable[..., Any]  # a Program of conftest.py


@pytest.fixture
def upgrade(path: Path, workspace_id: str) -> Callable[[Schema], Upgrade | None]:
    """Return what upgrades the test's database to a schema."""
    return lambda schema: bring_up_to_date(Place.at(path, workspace_id=workspace_id, schema=schema))


def kept_beside(path: Path, kind: str) -> list[Path]:
    """Return the backups, or what was replaced, without its sidecars."""
    found = sorted(path.parent.glob(f"{path.name}.{kind}-*"))
    return [one for one in found if not one.name.endswith(("-wal", "-shm"))]


def with_last(migration: Migration) -> Schema:
    """Return the family with one more migration."""
    return Schema((*family().migrations, migration))


def test_opening_an_older_database_upgrades_it(path: Path, workspace_id: str, old: Filled) -> None:
    """All sessions, in the same order; the steps are told; a verified backup holds the old."""
    before = digest_of(path)
    with SqliteStore.open(path, workspace_id=workspace_id) as store:
        made = store.upgraded
        assert made is not None
        assert (made.from_version, made.to_version) == (1, SCHEMA.version)
        assert made.steps == tuple(one.name for one in SCHEMA.migrations[1:])
        listed = store.list(limit=None).items + store.list(limit=None, archived=True).items
        assert {one.id for one in listed} == set(old.session_ids)
        assert [run.id for run in store.recovered] == [old.pending_run_id]
    assert made.backup is not None
    assert made.backup.problem is None
    assert (made.backup.version, made.backup.session_count) == (1, len(old.session_ids))
    assert digest_of(Path(made.backup.path)) == before
    with SqliteStore.open(path, workspace_id=workspace_id) as store:
        assert store.upgraded is None


def test_a_reader_upgrades_what_it_may_write(path: Path, workspace_id: str, old: Filled) -> None:
    """It reads what this program's tables say, and recovers nobody's run."""
    with SqliteStore.open(path, workspace_id=workspace_id, writing=False) as store:
        assert store.upgraded is not None
        assert store.get_run(old.pending_run_id).status == "pending"


def test_every_migration_is_recorded_by_number_and_name(
    path: Path, old: Filled, upgrade: Callable[[Schema], Upgrade | None]
) -> None:
    """In the table for people, in the header for programs."""
    upgrade(family())
    with closing(apsw.Connection(str(path))) as connection:
        recorded = connection.execute("SELECT version, name FROM schema_version").fetchall()
        assert recorded == list(enumerate((one.name for one in family().migrations), start=1))
        assert connection.pragma("user_version") == len(recorded)


def test_migrations_do_what_they_say(
    path: Path, old: Filled, upgrade: Callable[[Schema], Upgrade | None]
) -> None:
    """Rows moved, a trigger that fires, values that Python computed; nothing of before is lost."""
    with closing(apsw.Connection(str(path))) as connection:
        names = [name for _, name, *_ in connection.execute("PRAGMA table_info(runs)")]
        columns = ", ".join(map(str, names))
        runs = connection.execute(f"SELECT {columns} FROM runs ORDER BY id").fetchall()  # noqa: S608 - the same
    upgrade(family())
    with closing(apsw.Connection(str(path))) as connection:
        moved = connection.execute(
            f"SELECT {columns}, attempt FROM runs ORDER BY id"  # noqa: S608 - names of the schema
        ).fetchall()
        assert moved == [(*run, 1) for run in runs]
        count = connection.execute("SELECT count(*) FROM messages").get
        assert count == connection.execute("SELECT count(*) FROM lengths").get
        assert len(connection.execute("SELECT mood FROM moods").fetchall()) == 2
        there = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        assert {"messages_length", "runs_pending", "sessions_mood"} <= there


def test_a_failure_at_any_statement_leaves_the_old_and_one_backup(
    path: Path, old: Filled, upgrade: Callable[[Schema], Upgrade | None]
) -> None:
    """However often it is tried; then the family without the fault goes through."""
    before = digest_of(path)
    for number in itertools.count():
        failed = attempted(upgrade, failing_at(family(), number))
        if failed is None:
            break
        assert failed.restored is False
        assert (failed.found, failed.wanted) == (1, family().version)
        assert failed.reason == "Broken", "what a migration raises may hold content"
        assert digest_of(path) == before, number
        assert kept_beside(path, "backup") == [Path(failed.backup_path)], number
        assert kept_beside(path, "replaced") == []
    assert number > 20
    assert digest_of(path) != before
    assert digest_of(Path(kept_beside(path, "backup")[0])) == before


def attempted(upgrade: Callable[[Schema], Upgrade | None], schema: Schema) -> UpgradeFailed | None:
    """Upgrade to *schema* and return how it failed."""
    try:
        upgrade(schema)
    except UpgradeFailed as failed:
        return failed
    return None


class Broken(Exception):
    """What a migration raises that is made to fail."""


def failing_at(schema: Schema, number: int) -> Schema:
    """Return *schema*, whose upgrade raises before statement *number*, from its first migration."""
    statements = itertools.count()

    def traced(cursor: apsw.Cursor, statement: str, bindings: object) -> bool:
        if next(statements) == number:
            raise Broken(f"what a person wrote, at {statement}")
        return True

    def breaking(migration: Migration) -> Migration:
        def apply(connection: apsw.Connection) -> None:
            if connection.filename:  # and not the one that shows what the tables have to be
                connection.exec_trace = traced
            migration.apply(connection)

        return replace(migration, apply=apply)

    first, *later = schema.migrations
    return Schema((first, *map(breaking, later)))


def test_a_check_that_fails_after_the_commit_is_answered_with_the_backup(
    path: Path, old: Filled, upgrade: Callable[[Schema], Upgrade | None]
) -> None:
    """What the migration made is kept, once; the backup stays; a second start changes nothing."""
    before = digest_of(path)

    def check(connection: apsw.Connection) -> None:
        assert connection.execute("SELECT count(*) FROM made").get == 0
        raise Broken("what a person wrote")

    bad = with_last(replace(in_sql("0006_bad", "CREATE TABLE made (id)"), check=check))
    for _ in range(3):
        with pytest.raises(UpgradeFailed, match="the check of 0006_bad: Broken") as failed:
            upgrade(bad)
        assert failed.value.restored
        assert digest_of(path) == before
        assert kept_beside(path, "backup") == [Path(failed.value.backup_path)]
        assert len(kept_beside(path, "replaced")) == 1
    (evidence,) = kept_beside(path, "replaced")
    with closing(apsw.Connection(str(evidence))) as connection:
        assert connection.pragma("user_version") == bad.version
        assert connection.execute("SELECT count(*) FROM made").get == 0
    upgrade(family())
    assert digest_of(evidence) != before


def test_an_upgrade_cut_off_before_its_check_is_checked_by_the_next_start(
    path: Path, old: Filled, upgrade: Callable[[Schema], Upgrade | None]
) -> None:
    """Ctrl-C is no way around a check: neither for a reader nor for whoever upgrades on."""
    before = digest_of(path)

    def check(connection: apsw.Connection) -> None:
        raise reasons.pop(0)

    bad = with_last(Migration(name="0006_bad", apply=lambda _: None, check=check))
    for later in (bad, Schema((*bad.migrations, in_sql("0007", "CREATE TABLE seven (id)")))):
        reasons: list[BaseException] = [KeyboardInterrupt(), Broken()]
        with pytest.raises(KeyboardInterrupt):
            upgrade(bad)
        assert digest_of(path) != before
        with pytest.raises(UpgradeFailed) as failed:
            upgrade(later)
        assert failed.value.restored
        assert (failed.value.found, failed.value.wanted) == (1, bad.version)
        assert digest_of(path) == before


def test_an_upgrade_cut_off_before_its_check_is_right_if_the_check_says_so(
    path: Path, workspace_id: str, old: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one who opens it next finds a store at work, and no record of it any more."""

    def interrupted(place: Place, planned: Upgrade) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(upgrading, "_check_result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            SqliteStore.open(path, workspace_id=workspace_id)
    assert path.with_name(f"{path.name}.upgrade").exists()
    with SqliteStore.open(path, workspace_id=workspace_id) as store:
        assert store.list().items
    assert not path.with_name(f"{path.name}.upgrade").exists()


KEPT = "(SELECT id FROM sessions WHERE title = 'kept')"
LOST = "a session, a message or a run would be lost"
LOSSES = {
    "a session": (
        f"DELETE FROM messages WHERE session_id IN {KEPT};"  # noqa: S608 - names of the schema
        f" DELETE FROM tool_executions WHERE session_id IN {KEPT};"
        f" DELETE FROM runs WHERE session_id IN {KEPT};"
        f" DELETE FROM sessions WHERE id IN {KEPT}"
    ),
    "a message": "DELETE FROM messages WHERE role = 'tool'",
    "a run": "UPDATE runs SET status = 'completed', error_type = NULL WHERE status = 'failed'",
    "the order": "UPDATE sessions SET updated_at = '2030' WHERE title IS NULL",
    "a tombstone": "DELETE FROM tombstones",
    "a reference": "DELETE FROM sessions WHERE title = 'kept'",
}


@pytest.mark.parametrize("what", LOSSES)
def test_a_migration_that_loses_something_is_refused_before_its_commit(
    path: Path, old: Filled, upgrade: Callable[[Schema], Upgrade | None], what: str
) -> None:
    """A session, a message, a run, a tombstone, the order of the list, a reference."""
    before = digest_of(path)
    reason = "a row refers to one that is not there" if what == "a reference" else LOST
    with pytest.raises(UpgradeFailed, match=reason) as failed:
        upgrade(with_last(in_sql("0006_bad", LOSSES[what])))
    assert failed.value.restored is False
    assert failed.value.step == "the check of what it made"
    assert digest_of(path) == before


def test_a_migration_whose_tables_depend_on_the_rows_is_refused(
    path: Path, old: Filled, upgrade: Callable[[Schema], Upgrade | None]
) -> None:
    """An upgraded database would differ from a new one."""
    before = digest_of(path)

    def apply(connection: apsw.Connection) -> None:
        if connection.execute("SELECT count(*) FROM sessions").get:
            connection.execute("CREATE TABLE only_here (id)")

    with pytest.raises(UpgradeFailed, match="not those of the new schema"):
        upgrade(with_last(Migration(name="0006_bad", apply=apply)))
    assert digest_of(path) == before


def test_ctrl_c_in_a_migration_leaves_the_old(
    path: Path, old: Filled, start_python: StartPython
) -> None:
    """A real SIGINT, after the first statements; the next start goes through."""
    before = digest_of(path)
    program = start_python(
        """
from dataclasses import replace
from state_store.sqlite.opening import bring_up_to_date
from state_store.sqlite.place import Place
from state_store.sqlite.schema import Schema
from state_store.testing.family import family
def endless(connection):
    connection.execute("CREATE TABLE endless (id)")
    say("begun")
    while True:
        connection.execute("INSERT INTO endless VALUES (1)")
migrations = family().migrations
schema = Schema((*migrations, replace(migrations[-1], name="endless", apply=endless)))
try:
    bring_up_to_date(Place.at(path, workspace_id=workspace_id, schema=schema))
except KeyboardInterrupt:
    say("interrupted")
"""
    )
    assert program.line() == "begun"
    program.send_signal(signal.SIGINT)
    assert program.line() == "interrupted"
    assert digest_of(path) == before


def test_ctrl_c_ends_an_upgrade_while_sqlite_looks_the_database_over(
    path: Path, old: Filled, workspace_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which takes long when it is large. Nothing was begun."""
    monkeypatch.setattr(telling, "STEPS_BETWEEN", 100)
    before = digest_of(path)
    told: list[str] = []

    def interrupt(what: str, done: int, total: int) -> None:
        told.append(what)
        if told.count("checking the database") == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        Maintenance(path, workspace_id=workspace_id, progress=interrupt).upgrade()
    assert set(told) == {"checking the database"}
    assert digest_of(path) == before


def test_an_upgrade_is_not_begun_without_space(
    path: Path,
    old: Filled,
    upgrade: Callable[[Schema], Upgrade | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The backup, the log and the database have to fit; no backup is made."""
    before = path.read_bytes()
    monkeypatch.setattr(upgrading, "SPACE_FACTOR", 10**12)
    with pytest.raises(StoreFull, match="bytes free") as full:
        upgrade(family())
    assert "Nothing was changed" in str(full.value.hint)
    assert path.read_bytes() == before
    assert kept_beside(path, "backup") == []


def test_a_damaged_database_is_not_upgraded(
    path: Path, old: Filled, upgrade: Callable[[Schema], Upgrade | None]
) -> None:
    """What is broken before would look like the migration's fault, and a backup would hold it."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("DELETE FROM sessions WHERE title = 'kept'")
    before = path.read_bytes()
    with pytest.raises(StoreDamaged):
        upgrade(family())
    assert path.read_bytes() == before
    assert kept_beside(path, "backup") == []


def test_a_backup_that_cannot_be_made_stops_the_upgrade(
    path: Path,
    old: Filled,
    upgrade: Callable[[Schema], Upgrade | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No migration runs without one."""
    before = digest_of(path)

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("os.link", fail)
        with pytest.raises(StoreUnavailable):
            upgrade(family())
    assert digest_of(path) == before


def test_a_store_goes_on_after_an_upgrade(path: Path, workspace_id: str, old: Filled) -> None:
    """It takes everything that a new one takes."""
    with SqliteStore.open(path, workspace_id=workspace_id) as store:
        later = fill(store)
        store.create_session(NewSession(title="and another"))
        assert store.find_sessions(later.session_ids[0][-6:])
        for one in store.unerased():
            store.mark_erased(one)
        assert store.unerased() == ()
