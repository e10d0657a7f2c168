"""What was released stays: the migrations, and the databases that they made.

`fixtures/schema_<version>.sql` is a database as the release with that schema wrote it, with awkward
content. It is never made anew: it stands for files that people have.
"""

from __future__ import annotations

import hashlib
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from state_store import Maintenance, SqliteStore
from state_store.clock import UNREADABLE_TIME
from state_store.sqlite.schema import SCHEMA, Schema, describe, read_sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state_store import SessionSummary

FIXTURES = Path(__file__).parent / "fixtures"
MIGRATIONS = {
    "0001_first": "b2ed51a2276d0cc8dd771b4cf4bb270e5035573303610b11435ec14681223037",
    "0002_erasing": "c41dbbd8caec63d7dfcf1fc7d37943bd9b7fa7c9f4d44150e6381341b1f902a3",
    "0003_branches": "2d3af1fa1edc8069ea352d32ec30a68c2a9bf44ed8e90821776ba041907ec046",
}
CONTENT = {
    1: "ce99caf3666e9825da565f6ecda4805199b97203b03523b7f9ea73e7c3f0fcea",
    2: "7fa62edab918870143fbf05986ad79d0d6a67b3f6480694e6bf5b93646f158d2",
}
OLD_VERSIONS = range(1, SCHEMA.version)
LIST = (
    "SELECT id, message_count, total_tokens, status FROM sessions WHERE archived_at IS {} NULL"
    " ORDER BY updated_at DESC, id DESC"
)
MESSAGES = (
    "SELECT id, session_id, seq, run_id, role, content, reasoning_content, tool_calls,"
    " tool_call_id, name, kind, covers_first, covers_last, parts, provider_data, repaired,"
    " created_at, imported_at FROM messages ORDER BY session_id, seq"
)
RUNS = "SELECT id FROM runs WHERE session_id = ? ORDER BY first_seq"


def sha256(text: str) -> str:
    """Return the SHA-256 of a text file."""
    return hashlib.sha256(text.encode()).hexdigest()


def test_released_migrations_never_change() -> None:
    """Neither their text nor their names nor their order: a database says what it went through."""
    assert {one.name: sha256(read_sql(one.name)) for one in SCHEMA.migrations} == MIGRATIONS
    assert [one.name for one in SCHEMA.migrations] == sorted(MIGRATIONS)


def test_every_older_schema_has_a_database_that_never_changes() -> None:
    """Whoever adds a migration keeps a database of the schema before."""
    found = {
        version: sha256((FIXTURES / f"schema_{version}.sql").read_text(encoding="utf-8"))
        for version in OLD_VERSIONS
    }
    assert found == CONTENT


@pytest.fixture(params=OLD_VERSIONS)
def released(request: pytest.FixtureRequest, path: Path) -> Iterator[apsw.Connection]:
    """Make the database of a released schema; return a connection to another copy of it."""
    text = (FIXTURES / f"schema_{request.param}.sql").read_text(encoding="utf-8")
    path.parent.mkdir(mode=0o700)
    for one in (path, path.with_name("as_it_was.sqlite3")):
        with closing(apsw.Connection(str(one))) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(text)
    with closing(apsw.Connection(str(path.with_name("as_it_was.sqlite3")))) as connection:
        yield connection


@pytest.fixture
def upgraded(released: apsw.Connection, path: Path, workspace_id: str) -> Iterator[SqliteStore]:
    """Return the store of this program over it, opened for reading."""
    assert Maintenance(path, workspace_id=workspace_id).upgrade() is not None
    with SqliteStore.open(path, workspace_id=workspace_id, writing=False) as store:
        yield store


def rows_of(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of *query*, by SQLite alone."""
    with closing(apsw.Connection(str(path))) as connection:
        return connection.execute(query).fetchall()


def test_it_has_the_tables_of_its_schema(released: apsw.Connection) -> None:
    """A fixture that does not is no database that anybody has."""
    version = released.pragma("user_version")
    assert Schema(SCHEMA.migrations[:version]).matches(released, version)
    assert describe(released)


def test_every_session_stays_visible_in_the_same_order_with_the_same_counts(
    released: apsw.Connection, upgraded: SqliteStore
) -> None:
    """In one page and in pages of two; archived ones where those are."""
    for archived in (False, True):
        before = released.execute(LIST.format("NOT" if archived else "")).fetchall()
        whole = upgraded.list(limit=None, archived=archived).items
        seen = [(one.id, one.message_count, one.total_tokens, one.status) for one in whole]
        assert seen == before
        paged: list[SessionSummary] = []
        cursor = None
        while True:
            page = upgraded.list(limit=2, cursor=cursor, archived=archived)
            paged += page.items
            if (cursor := page.next_cursor) is None:
                break
        assert tuple(paged) == whole


def test_messages_are_the_same_byte_for_byte(
    released: apsw.Connection, upgraded: SqliteStore, path: Path
) -> None:
    """Those that no type of ours can hold as well."""
    before = released.execute(MESSAGES).fetchall()
    assert rows_of(path, MESSAGES) == before
    assert len(before) > 30


def test_a_row_with_impossible_values_hides_no_other(
    released: apsw.Connection, upgraded: SqliteStore
) -> None:
    """Every session can be listed, found, opened and read to its end, with its runs and tools."""
    sessions = released.execute("SELECT id FROM sessions").fetchall()
    assert len(sessions) == 18
    for session_id in (str(row[0]) for row in sessions):
        assert upgraded.get_session(session_id).id == session_id
        assert [one.id for one in upgraded.find_sessions(session_id)] == [session_id]
        assert session_id in {one.id for one in upgraded.find_sessions(session_id[-6:])}
        told = [(one.id, one.content) for one in upgraded.messages(session_id, view="all").items]
        assert (
            told
            == released.execute(
                "SELECT id, content FROM messages WHERE session_id = ? ORDER BY seq", (session_id,)
            ).fetchall()
        )
        runs = [(run.id,) for run in upgraded.runs(session_id).items]
        assert runs == released.execute(RUNS, (session_id,)).fetchall()
        assert upgraded.load(session_id).id == session_id
        assert list(upgraded.export_messages(session_id)) is not None
        upgraded.tool_executions(session_id)


def test_a_time_that_cannot_be_read_is_marked_and_not_made_up(upgraded: SqliteStore) -> None:
    """An archived session stays archived; a time without a zone is one of UTC."""
    archived = upgraded.list(limit=None, archived=True).items
    (damaged,) = [one for one in archived if one.title == "a damaged archive"]
    assert upgraded.get_session(damaged.id).archived_at == UNREADABLE_TIME
    times = [upgraded.find_sessions(f"times {number}")[0].updated_at for number in range(8, 14)]
    assert [time == UNREADABLE_TIME for time in times] == [False, True, True, True, False, True]
    assert all(time.tzinfo is not None for time in times)


def test_awkward_values_come_back_as_they_are(
    released: apsw.Connection, upgraded: SqliteStore
) -> None:
    """Large numbers, zeros in text, empty and reused ids, unknown roles, empty fields."""
    (first,) = upgraded.find_sessions("reused ids")
    session = upgraded.get_session(first.id)
    assert session.metadata == {"largest": 2**64 - 1, "nul": "a\0b", "deep": [[[{}]]]}
    assert (session.duration_ms, session.revision) == (2**63 - 1, 2**63 - 1)
    messages = upgraded.messages(first.id).items
    assert [call.id for call in messages[1].tool_calls or ()] == ["same", "same", ""]
    assert messages[1].provider_data == '{"n": 18446744073709551615,  "spaced" : 1e2}'
    assert messages[3].content == "first\0with a zero"
    assert [one.call_id for one in upgraded.tool_executions(first.id)] == ["same", "same", ""]
    (roles,) = [one for one in upgraded.list(limit=None).items if "roles" in (one.title or "")]
    found = [one.role for one in upgraded.messages(roles.id).items]
    assert found == ["developer", "narrator", "ASSISTANT", "tool\0"]
    empty = [one for one in upgraded.list(limit=None).items if one.title == ""]
    assert [one.message_count for one in empty] == [2]
    (large,) = upgraded.find_sessions("largest")
    assert upgraded.messages(large.id).items[0].seq == 2**63 - 1


def test_the_runs_of_dead_owners_are_recovered_by_the_next_writer(
    upgraded: SqliteStore, path: Path, workspace_id: str
) -> None:
    """As interrupted, with their tools; a deleted session stays deleted."""
    upgraded.close()
    with SqliteStore.open(path, workspace_id=workspace_id) as store:
        (run,) = store.recovered
        assert (run.status, run.error_type) == ("failed", "interrupted")
        assert [one.outcome for one in store.tool_executions(run.session_id)] == ["unknown"]
        assert len(store.unerased()) == 2
        assert store.recover() == ()
