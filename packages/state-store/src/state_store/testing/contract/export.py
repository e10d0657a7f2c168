"""The export: JSON lines that other tools read."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from state_store.clock import new_id
from state_store.records import NewMessage, NewSession, SessionState
from state_store.testing.contract.basis import Contract
from state_store.testing.turns import (
    assistant,
    begin,
    calling,
    complete,
    result,
    session_with_turn,
    user,
)

if TYPE_CHECKING:
    from state_store.protocol import SessionStore

# More than one page of any store that reads its export in pages.
LONG_COUNT = 1203


def exported(store: SessionStore, session_id: str) -> list[dict[str, Any]]:
    """Return the lines of an export, parsed."""
    lines = list(store.export_messages(session_id))
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    return [json.loads(line) for line in lines]


def saved(
    store: SessionStore, *messages: NewMessage, system_prompt: str | None = None
) -> list[dict[str, Any]]:
    """Return the export of a session with these messages."""
    state = SessionState(
        id=new_id(), settings=NewSession(system_prompt=system_prompt), messages=messages
    )
    store.save(state, timedelta(0))
    return exported(store, state.id)


class ExportContract(Contract):
    """One object a line, in order."""

    def test_a_turn_is_two_lines(self, store: SessionStore) -> None:
        """An assistant line always has tool_calls, null when there are none."""
        assert exported(store, session_with_turn(store)) == [
            {"role": "user", "content": "question"},
            {"role": "assistant", "content": "answer", "tool_calls": None},
        ]

    def test_the_fields_come_in_their_order(self, store: SessionStore) -> None:
        """And those that a message does not have are left out."""
        message = NewMessage(
            role="assistant",
            content="é\u2028",
            reasoning_content="hm",
            tool_calls=calling("c1").tool_calls,
            name="n",
            provider_data="{}",
        )
        state = SessionState(id=new_id(), messages=(message, result("c1")))
        store.save(state, timedelta(0))
        assert b"".join(store.export_messages(state.id)).decode() == (
            '{"role":"assistant","content":"é\u2028","reasoning_content":"hm","tool_calls":'
            '[{"id":"c1","type":"function","function":{"name":"look","arguments":'
            '"{\\"at\\": 1.0}"}}],"name":"n"}\n'
            '{"role":"tool","content":"seen","tool_call_id":"c1"}\n'
        )

    def test_the_system_prompt_is_the_first_line(self, store: SessionStore) -> None:
        """Also of a session that has no message yet."""
        prompt = {"role": "system", "content": "be brief"}
        assert saved(store, user("a"), system_prompt="be brief") == [
            prompt,
            {"role": "user", "content": "a"},
        ]
        assert saved(store, system_prompt="be brief") == [prompt]
        assert saved(store) == []

    def test_the_system_prompt_is_not_said_twice(self, store: SessionStore) -> None:
        """A stored first message that says it stands for it; another one does not."""
        system = NewMessage(role="system", content="be brief")
        assert saved(store, system, user("a"), system_prompt="be brief") == [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "a"},
        ]
        other = NewMessage(role="system", content="be long")
        assert [line["content"] for line in saved(store, other, system_prompt="be brief")] == [
            "be brief",
            "be long",
        ]

    def test_results_come_in_call_order(self, store: SessionStore) -> None:
        """However the tools finished; what answers no call comes behind."""
        lines = saved(
            store,
            user(),
            calling("c1", "c2", "c3"),
            result("c3"),
            result("c9"),
            result("c1"),
            result("c2"),
            calling("c1", "c2"),
            result("c2"),
            result("c1"),
            assistant(),
        )
        ids = [line["tool_call_id"] for line in lines if line["role"] == "tool"]
        assert ids == ["c1", "c2", "c3", "c9", "c1", "c2"]
        assert [line["role"] for line in lines[2:6]] == ["tool"] * 4
        unanswered = saved(store, calling("c1", "c2"), result("c2"), result("c1"))
        assert [line.get("tool_call_id") for line in unanswered] == [None, "c1", "c2"]

    def test_a_run_with_tools_is_exported_as_it_is_stored(self, store: SessionStore) -> None:
        """Calls without a result are exported without one: nothing is made up."""
        session_id = store.create_session().id
        run = begin(store, session_id)
        seq = store.start_tools(run.id, calling("c1", "c2"), ["safe", "safe"]).seq
        store.finish_tool(
            run.id, call_seq=seq, call_index=1, outcome="ok", message=result("c2", "two")
        )
        complete(store, run)
        lines = exported(store, session_id)
        assert [line["role"] for line in lines] == ["user", "assistant", "tool", "assistant"]
        assert [call["id"] for call in lines[1]["tool_calls"]] == ["c1", "c2"]

    @pytest.mark.parametrize("ids", [("", "", ""), ("same", "same", "same"), ("a", "", "a")])
    def test_the_rows_know_whose_a_result_is(
        self, store: SessionStore, ids: tuple[str, ...]
    ) -> None:
        """Where the provider's ids are empty or all the same, order still is the calls' order."""
        session_id = store.create_session().id
        run = begin(store, session_id)
        seq = store.start_tools(run.id, calling(*ids), ["safe"] * 3).seq
        for index in (2, 0, 1):
            store.finish_tool(
                run.id,
                call_seq=seq,
                call_index=index,
                outcome="ok",
                message=result(ids[index], f"of {index}"),
            )
        complete(store, run)
        contents = [line["content"] for line in exported(store, session_id)]
        assert contents[2:5] == ["of 0", "of 1", "of 2"]

    def test_what_comes_after_the_start_is_not_exported(self, store: SessionStore) -> None:
        """An export is the session as it was when it began, however slowly it is read."""
        messages = tuple(user(str(number)) for number in range(LONG_COUNT))
        session_id = new_id()
        store.save(SessionState(id=session_id, messages=messages), timedelta(0))
        lines = store.export_messages(session_id)
        next(lines)
        complete(store, begin(store, session_id))
        assert len(list(lines)) == LONG_COUNT - 1
        assert len(exported(store, session_id)) == LONG_COUNT + 2

    def test_a_snapshot_is_of_one_moment(self, store: SessionStore) -> None:
        """Session, runs, executions and the last seq fit together."""
        session_id = session_with_turn(store)
        run = begin(store, session_id)
        seq = store.start_tools(run.id, calling("c1"), ["safe"]).seq
        found = store.snapshot(session_id)
        assert (found.session, found.last_seq) == (store.get_session(session_id), seq)
        assert found.runs == store.runs(session_id).items
        assert found.executions == store.tool_executions(session_id)
        assert store.snapshot(store.create_session().id).last_seq == 0

    def test_a_snapshot_says_which_messages_are_undone_by_themselves(
        self, store: SessionStore
    ) -> None:
        """For reading the messages later as they were; of the others their run says so."""
        session_id = session_with_turn(store)
        store.undo(session_id)
        assert store.snapshot(session_id).undone == {}
        saved = SessionState(id=new_id(), messages=(user("a"), user("b")))
        store.save(saved, timedelta())
        store.undo(saved.id)
        (message,) = [one for one in store.messages(saved.id, view="all").items if one.undone_at]
        undone = {message.seq: (message.undone_at, message.undone_after)}
        assert store.snapshot(saved.id).undone == undone

    def test_a_long_session_is_exported_to_the_last_line(self, store: SessionStore) -> None:
        """No line is lost where one page ends and the next begins."""
        lines = saved(store, *(user(str(number)) for number in range(LONG_COUNT)))
        assert [line["content"] for line in lines] == [str(n) for n in range(LONG_COUNT)]

    def test_summaries_are_not_exported(self, store: SessionStore) -> None:
        """The export is the originals."""
        summary = NewMessage(role="system", content="in short", kind="summary", covers=(1, 1))
        assert saved(store, user("a"), summary) == [{"role": "user", "content": "a"}]
