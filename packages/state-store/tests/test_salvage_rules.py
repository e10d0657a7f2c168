from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from state_store import (
    NewSession,
    SqliteStore,
    Usage,
    new_id,
)
from state_store.sqlite.checking import check
from state_store.sqlite.place import Place
from state_store.sqlite.runs import NOBODY
from state_store.testing.damage import change, rows
from state_store.testing.turns import begin, calling, contents, result, turn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from state_store.findings import SalvageReport, TableSalvage

    OpenDisk = Callable[..., SqliteStore]

NOW = datetime(2027, 1, 1, tzinfo=UTC)
MARKER = "a text that has to be gone"


def table(report: SalvageReport, name: str) -> TableSalvage:
    """Return the account of one table."""
    return next(one for one in report.tables if one.table == name)


def test_a_tombstoned_session_is_not_brought_back(
    open_disk: OpenDisk, path: Path, into: Path, save: Callable[..., SalvageReport]
) -> None:
    """Nor is any byte of it in the new file, however its rows came to be there again (C41)."""
    with open_disk() as store:
        kept, gone = (store.create_session(NewSession(title=MARKER)).id for _ in range(2))
        turn(store, kept)
        turn(store, gone, MARKER)
        run = begin(store, gone)
        store.start_tools(run.id, calling("a"), ["safe"])
        store.update_session(kept, {"title": None})
    time = "2026-01-02T03:04:05.000006Z"
    change(path, "INSERT INTO tombstones VALUES (:gone, :time, 1, 1, NULL)", gone=gone, time=time)
    report = save()
    refused = {one.table: one.refused for one in report.tables if one.refused}
    assert refused == {
        "sessions": {"deleted": 1},
        "runs": {"deleted": 2},
        "messages": {"deleted": 4},
        "tool_executions": {"deleted": 1},
    }
    assert rows(into, "SELECT id FROM sessions") == [(kept,)]
    assert MARKER.encode() not in into.read_bytes()
    assert table(report, "tombstones").saved == 1


def test_messages_that_lost_their_session_are_kept_in_a_rebuilt_one(
    open_disk: OpenDisk,
    path: Path,
    into: Path,
    save: Callable[..., SalvageReport],
    workspace_id: str,
) -> None:
    """It says what the messages prove, carries a mark, and can be gone on with."""
    with open_disk() as store:
        session_id = store.create_session(NewSession(title="lost", metadata={"a": 1})).id
        turn(store, session_id, "the question")
        times = [one.created_at for one in store.messages(session_id).items]
    change(path, "DELETE FROM sessions")
    report = save()
    assert report.incomplete == (session_id,)
    assert (table(report, "sessions").rebuilt, table(report, "runs").rebuilt) == (1, 0)
    with SqliteStore.open(into, workspace_id=workspace_id) as store:
        session = store.get_session(session_id)
        assert (session.title, session.status, session.metadata) == (
            None,
            "closed",
            {"salvaged": True},
        )
        assert [session.created_at, session.updated_at] == times
        assert (session.message_count, session.total_tokens) == (2, 15)
        assert contents(store, session_id) == ["the question", "answer"]
        turn(store, session_id, "and now?")
    assert check(Place.at(into, workspace_id=workspace_id)).findings == ()


def test_a_run_that_lost_its_row_is_what_its_messages_prove(
    open_disk: OpenDisk,
    path: Path,
    into: Path,
    save: Callable[..., SalvageReport],
    workspace_id: str,
) -> None:
    """Completed when it ends with an answer, failed otherwise; what it used is not known."""
    with open_disk() as store:
        session_id = store.create_session(NewSession(metadata={"a": 1})).id
        answered = turn(store, session_id)
        asked = begin(store, session_id)
        seq = store.start_tools(asked.id, calling("a", "b"), ["safe", "safe"]).seq
        store.finish_tool(asked.id, call_seq=seq, call_index=0, outcome="ok", message=result("a"))
        store.fail_run(asked.id, "provider.error", usage=Usage())
    change(
        path, "UPDATE tool_executions SET outcome = NULL, finished_at = NULL WHERE call_index = 1"
    )
    change(path, "DELETE FROM runs")
    report = save()
    assert table(report, "runs").rebuilt == 2
    with SqliteStore.open(into, workspace_id=workspace_id) as store:
        first, second = store.runs(session_id).items
        assert (first.id, first.status, first.first_seq) == (answered.id, "completed", 1)
        assert (second.id, second.status, second.error_type) == (asked.id, "failed", "interrupted")
        assert first.usage == second.usage == Usage()
        assert first.owner == second.owner == NOBODY
        outcomes = [one.outcome for one in store.tool_executions(session_id)]
        assert outcomes == ["ok", "unknown"]
        session = store.get_session(session_id)
        assert (session.total_tokens, session.usage_complete) == (0, False)
        assert session.metadata == {"a": 1, "salvaged": True}
        assert session.status == "failed"


def test_a_pending_run_is_interrupted_and_its_open_tools_unknown(
    open_disk: OpenDisk,
    into: Path,
    save: Callable[..., SalvageReport],
    workspace_id: str,
) -> None:
    """Whoever ran it is gone; nothing else about the session changes."""
    with open_disk() as store:
        session_id = store.create_session(NewSession(title="t")).id
        run = begin(store, session_id)
        store.start_tools(run.id, calling("a"), ["unsafe"])
    report = save()
    assert report.incomplete == ()
    with SqliteStore.open(into, workspace_id=workspace_id) as store:
        (found,) = store.runs(session_id).items
        assert (found.status, found.error_type, found.finished_at) == ("failed", "interrupted", NOW)
        assert [one.outcome for one in store.tool_executions(session_id)] == ["unknown"]
        assert store.get_session(session_id).status == "failed"


def test_lost_messages_leave_a_gap_that_is_reported_and_no_error(
    open_disk: OpenDisk,
    path: Path,
    into: Path,
    save: Callable[..., SalvageReport],
    workspace_id: str,
) -> None:
    """Numbers stay as they were; in another session the same gap is an error."""
    with open_disk() as store:
        session_id = store.create_session().id
        for _ in range(3):
            turn(store, session_id)
    change(path, "DELETE FROM messages WHERE seq IN (2, 3)")
    before = check(Place.at(path, workspace_id=workspace_id))
    assert {one.kind for one in before.findings} == {"gap", "run", "counter"}
    assert not before.ok
    assert save().incomplete == (session_id,)
    assert rows(into, "SELECT seq FROM messages ORDER BY seq") == [(1,), (4,), (5,), (6,)]
    after = check(Place.at(into, workspace_id=workspace_id))
    assert {one.severity for one in after.findings} == {"warning"}
    assert {one.kind for one in after.findings} == {"gap", "run"}


def test_a_value_that_cannot_have_been_stored_costs_its_row_alone(
    open_disk: OpenDisk,
    path: Path,
    into: Path,
    save: Callable[..., SalvageReport],
    workspace_id: str,
) -> None:
    """And a damaged time not even that: it is unknown, and the text is kept."""
    with open_disk() as store:
        session_id = store.create_session(NewSession(title="t")).id
        for _ in range(3):
            turn(store, session_id)
    change(
        path,
        "UPDATE messages SET kind = 'origami' WHERE seq = 2",
        "UPDATE messages SET created_at = '2026-13-45' WHERE seq = 3",
        "UPDATE sessions SET created_at = '', metadata = '{'",
        "UPDATE runs SET error_type = 'x' WHERE first_seq = 5",
    )
    report = save()
    messages, runs = table(report, "messages"), table(report, "runs")
    assert (messages.saved, messages.refused, messages.mended) == (5, {"impossible": 1}, 1)
    assert (runs.saved, runs.refused, runs.rebuilt) == (3, {"impossible": 1}, 1)
    assert table(report, "sessions").mended == 1
    with SqliteStore.open(into, workspace_id=workspace_id) as store:
        session = store.get_session(session_id)
        found = store.messages(session_id).items
        assert [one.seq for one in found] == [1, 3, 4, 5, 6]
        assert found[1].created_at is None
        assert session.created_at == found[0].created_at
        assert (session.title, session.metadata) == ("t", {"salvaged": True})


def test_a_message_between_two_sessions_is_refused(
    open_disk: OpenDisk, path: Path, save: Callable[..., SalvageReport]
) -> None:
    """Its run is another session's, or its number another one's place: it is two rows in one."""
    with open_disk() as store:
        one, other = (store.create_session().id for _ in range(2))
        for session_id in (one, other):
            for _ in range(3):
                turn(store, session_id)
    change(
        path,
        "UPDATE messages SET session_id = :one, seq = 40 WHERE session_id = :other AND seq = 6",
        "UPDATE messages SET seq = 50 WHERE session_id = :one AND seq = 2",
        one=one,
        other=other,
    )
    report = save()
    assert table(report, "messages").refused == {"contradicting": 2}
    assert set(report.incomplete) == {one, other}


def test_a_run_in_an_unknown_session_goes_where_its_messages_are(
    open_disk: OpenDisk, path: Path, into: Path, save: Callable[..., SalvageReport]
) -> None:
    """The id in its row is damaged; no session is made of that."""
    with open_disk() as store:
        session_id = store.create_session().id
        run = turn(store, session_id)
    change(path, "UPDATE runs SET session_id = :stranger", stranger=new_id())
    report = save()
    assert rows(into, "SELECT id FROM sessions") == [(session_id,)]
    assert rows(into, "SELECT id, session_id FROM runs") == [(run.id, session_id)]
    assert table(report, "runs").refused == {"contradicting": 1}
    assert table(report, "runs").rebuilt == 1


def test_the_mark_leaves_other_metadata_as_it_is(
    open_disk: OpenDisk, path: Path, into: Path, save: Callable[..., SalvageReport]
) -> None:
    """Large numbers, NUL and all."""
    metadata = {"n": 2**64 - 1, "nul": "\0", "ü": [1.5, None]}
    with open_disk() as store:
        session_id = store.create_session(NewSession(metadata=metadata)).id
        turn(store, session_id)
    change(path, "DELETE FROM messages WHERE seq = 2")
    save()
    ((found,),) = rows(into, "SELECT metadata FROM sessions")
    assert json.loads(found) == {**metadata, "salvaged": True}


@pytest.mark.parametrize("lost", [0, 1])
def test_a_session_that_lost_what_became_of_a_tool_is_incomplete(
    open_disk: OpenDisk, path: Path, save: Callable[..., SalvageReport], lost: int
) -> None:
    """Its result is there, or the call that began; either was stored together with the row."""
    with open_disk() as store:
        whole, session_id = (store.create_session().id for _ in range(2))
        for one in (whole, session_id):
            run = begin(store, one)
            seq = store.start_tools(run.id, calling("a", "b"), ["safe", "safe"]).seq
            message = result("a")
            store.finish_tool(run.id, call_seq=seq, call_index=0, outcome="ok", message=message)
            store.fail_run(run.id, "provider.error", usage=Usage())
    change(
        path,
        "DELETE FROM tool_executions WHERE session_id = :session_id AND call_index = :lost",
        session_id=session_id,
        lost=lost,
    )
    assert save().incomplete == (session_id,)
