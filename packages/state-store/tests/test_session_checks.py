"""Checking one session says what checking the whole database says of it, and nothing of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state_store.sqlite.checking import check
from state_store.sqlite.place import Place
from state_store.testing.damage import change
from state_store.testing.turns import USAGE, assistant, begin, calling, complete, result, turn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from state_store import SqliteStore

    OpenDisk = Callable[..., SqliteStore]


WORKSPACE_ID = "11111111-2222-4333-8444-555555555555"  # of the fixture `workspace_id`


@pytest.fixture
def made(open_disk: OpenDisk) -> tuple[str, str]:
    """Make two sessions of the same kind and return them."""
    ids = []
    with open_disk() as store:
        for _ in range(2):
            session_id = store.create_session().id
            turn(store, session_id)
            run = begin(store, session_id)
            seq = store.start_tools(run.id, calling("a", "b"), ["safe", "unsafe"]).seq
            for index, call_id in ((1, "b"), (0, "a")):
                store.finish_tool(
                    run.id, call_seq=seq, call_index=index, outcome="ok", message=result(call_id)
                )
            store.complete_run(run.id, assistant(), usage=USAGE)
            complete(store, begin(store, session_id))
            store.summarize(session_id, "in short", through=2)
            store.undo(session_id)
            ids.append(session_id)
    return ids[0], ids[1]


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("UPDATE messages SET run_id = NULL WHERE role = 'tool' AND session_id = :id", "tool"),
        ("DELETE FROM messages WHERE role = 'tool' AND session_id = :id", "gap"),
        ("DELETE FROM runs WHERE first_seq = 1 AND session_id = :id", "run"),
        ("DELETE FROM tool_executions WHERE call_index = 1 AND session_id = :id", "tool"),
        ("UPDATE tool_executions SET call_id = 'c' WHERE session_id = :id", "tool"),
        ("UPDATE tool_executions SET result_seq = 5 WHERE session_id = :id", "tool"),
        ("UPDATE tool_executions SET result_seq = NULL WHERE session_id = :id", "tool"),
        ("UPDATE messages SET covers_first = 9 WHERE session_id = :id", "covers"),
        ("UPDATE runs SET undone_at = NULL WHERE session_id = :id", "undone"),
        ("UPDATE runs SET undone_after = 99 WHERE session_id = :id", "undone"),
        ("UPDATE messages SET undone_at = created_at WHERE session_id = :id", "undone"),
        ("UPDATE sessions SET forked_from_seq = 1 WHERE id = :id", "branch"),
        ("UPDATE sessions SET forked_from_session = :id, forked_from_seq = 1", "branch"),
        ("UPDATE sessions SET status = 'failed' WHERE id = :id", "status"),
        ("UPDATE sessions SET message_count = 1 WHERE id = :id", "counter"),
        (
            "UPDATE messages SET tool_calls = '{' WHERE tool_calls <> '' AND session_id = :id",
            "value",
        ),
        ("UPDATE messages SET content = CAST(x'ff' AS TEXT) WHERE session_id = :id", "value"),
    ],
)
def test_what_is_wrong_with_a_session_is_found_by_both_checks(
    open_disk: OpenDisk, path: Path, made: tuple[str, str], statement: str, kind: str
) -> None:
    """In the same words, and the other session has nothing."""
    broken, whole = made
    change(path, statement, id=broken)
    everything = check(Place.at(path, workspace_id=WORKSPACE_ID)).findings
    with open_disk(writing=False) as store:
        found = store.check_session(broken)
        alone = store.check_session(whole)
    assert kind in {one.kind for one in found}
    assert _about(everything) == _about(found)
    assert [one for one in alone if broken not in repr(one)] == []


def test_a_message_of_another_session_s_run_is_found(
    open_disk: OpenDisk, path: Path, made: tuple[str, str]
) -> None:
    """Looking at one session, its run is not there; looking at all, it is another's."""
    broken, _ = made
    statement = "UPDATE messages SET run_id = (SELECT id FROM runs WHERE session_id <> :id)"
    change(path, f"{statement} WHERE seq = 3 AND session_id = :id", id=broken)
    place = f"message 3 of session {broken}"
    with open_disk(writing=False) as store:
        assert place in {one.object for one in store.check_session(broken)}
    everything = check(Place.at(path, workspace_id=WORKSPACE_ID)).findings
    assert place in {one.object for one in everything}


def _about(findings: Any) -> set[tuple[str, str, str]]:
    """Return what rows say of one another; pages and references are the whole database's alone."""
    return {
        (one.severity, one.object, one.message)
        for one in findings
        if one.kind not in {"foreign_key", "damaged"}
    }
