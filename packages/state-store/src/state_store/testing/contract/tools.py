"""Tools within a run: starts with their message, results one by one, outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from state_store.errors import RunNotPending
from state_store.records import NewMessage, ToolCall
from state_store.testing.contract.basis import Contract
from state_store.testing.turns import USAGE, begin, calling, complete, contents, result

if TYPE_CHECKING:
    from state_store.protocol import SessionStore
    from state_store.records import ToolOutcome


class ToolsContract(Contract):
    """A crash between any two steps leaves what had happened."""

    def test_a_call_and_its_start_are_committed_together(self, store: SessionStore) -> None:
        """Every call of the message has its row, in call order."""
        session_id = store.create_session().id
        run = begin(store, session_id)
        message = store.start_tools(run.id, calling("c1", "c2"), ["safe", "unsafe"])
        assert store.messages(session_id).items[-1] == message
        assert [call.id for call in message.tool_calls or ()] == ["c1", "c2"]
        first, second = store.tool_executions(session_id)
        assert (first.run_id, first.session_id, first.name) == (run.id, session_id, "look")
        assert (first.call_seq, first.call_index, first.call_id) == (message.seq, 0, "c1")
        assert (second.call_seq, second.call_index, second.call_id) == (message.seq, 1, "c2")
        assert (first.replay, second.replay) == ("safe", "unsafe")
        assert (first.outcome, first.finished_at, first.result_seq) == (None, None, None)
        assert store.get_session(session_id).message_count == 2

    def test_results_are_stored_as_tools_finish_and_executions_by_call(
        self, store: SessionStore
    ) -> None:
        """Two orders, each exact."""
        session_id = store.create_session().id
        run = begin(store, session_id)
        seq = store.start_tools(run.id, calling("c1", "c2"), ["safe", "safe"]).seq
        late = store.finish_tool(
            run.id, call_seq=seq, call_index=1, outcome="error", message=result("c2", "two")
        )
        store.finish_tool(
            run.id, call_seq=seq, call_index=0, outcome="ok", message=result("c1", "one")
        )
        complete(store, run)
        assert contents(store, session_id) == ["question", None, "two", "one", "answer"]
        first, second = store.tool_executions(session_id)
        assert (first.outcome, second.outcome) == ("ok", "error")
        assert second.result_seq == late.seq
        assert first.finished_at is not None

    @pytest.mark.parametrize("policies", [[], ["safe"], ["safe", "safe", "safe"]])
    def test_calls_without_a_policy_each_are_refused(
        self, store: SessionStore, policies: list[str]
    ) -> None:
        """And nothing of the message is written."""
        session_id = store.create_session().id
        run = begin(store, session_id)
        with pytest.raises(ValueError, match="argument"):
            store.start_tools(run.id, calling("c1", "c2"), policies)  # type: ignore[arg-type]  # any text will do
        assert contents(store, session_id) == ["question"]
        assert store.tool_executions(session_id) == ()

    @pytest.mark.parametrize(("call_seq", "call_index"), [(2, 1), (1, 0), (99, 0)])
    def test_a_result_of_no_call_under_way_is_refused(
        self, store: SessionStore, call_seq: int, call_index: int
    ) -> None:
        """And its message is not written."""
        session_id = store.create_session().id
        run = begin(store, session_id)
        assert store.start_tools(run.id, calling("c1"), ["safe"]).seq == 2
        before = store.get_session(session_id)
        with pytest.raises(RunNotPending):
            store.finish_tool(
                run.id,
                call_seq=call_seq,
                call_index=call_index,
                outcome="ok",
                message=result("c1"),
            )
        assert store.get_session(session_id) == before
        assert store.messages(session_id).items[-1].role == "assistant"

    def test_a_call_finishes_once(self, store: SessionStore) -> None:
        """The second result is refused, the first one stays."""
        session_id = store.create_session().id
        run = begin(store, session_id)
        seq = store.start_tools(run.id, calling("c1"), ["safe"]).seq
        store.finish_tool(
            run.id, call_seq=seq, call_index=0, outcome="ok", message=result("c1", "first")
        )
        with pytest.raises(RunNotPending):
            store.finish_tool(
                run.id, call_seq=seq, call_index=0, outcome="error", message=result("c1", "second")
            )
        assert contents(store, session_id) == ["question", None, "first"]
        assert [one.outcome for one in store.tool_executions(session_id)] == ["ok"]

    @pytest.mark.parametrize("ending", ["completed", "failed"])
    def test_a_tool_still_under_way_when_its_run_ends_is_unknown(
        self, store: SessionStore, ending: str
    ) -> None:
        """Nobody knows what it did; what had finished keeps its outcome."""
        session_id = store.create_session().id
        run = begin(store, session_id)
        seq = store.start_tools(run.id, calling("c1", "c2"), ["safe", "unsafe"]).seq
        store.finish_tool(
            run.id, call_seq=seq, call_index=0, outcome="cancelled", message=result("c1")
        )
        if ending == "completed":
            complete(store, run)
        else:
            store.fail_run(run.id, "cancelled", usage=USAGE)
        first, second = store.tool_executions(session_id)
        assert (first.outcome, second.outcome) == ("cancelled", "unknown")
        assert second.finished_at is not None
        assert second.result_seq is None

    def test_a_failed_run_says_how_calls_without_a_result_have_ended(
        self, store: SessionStore
    ) -> None:
        """What is known of them is kept; what has ended stays, and the others are unknown."""
        session_id = store.create_session().id
        run = begin(store, session_id)
        seq = store.start_tools(run.id, calling("a", "b", "c"), ["safe", "unsafe", "safe"]).seq
        store.finish_tool(run.id, call_seq=seq, call_index=0, outcome="ok", message=result("a"))
        known: dict[tuple[int, int], ToolOutcome] = {
            (seq, 0): "error",
            (seq, 1): "cancelled",
            (seq + 1, 2): "ok",
        }
        store.fail_run(run.id, "cancelled", usage=USAGE, outcomes=known)
        executions = store.tool_executions(session_id)
        assert [one.outcome for one in executions] == ["ok", "cancelled", "unknown"]
        assert executions[1].finished_at is not None
        assert [one.result_seq is None for one in executions] == [False, True, True]

    def test_call_ids_may_be_empty_or_used_again(self, store: SessionStore) -> None:
        """Place identifies a call, its id does not."""
        session_id = store.create_session().id
        run = begin(store, session_id)
        for _ in range(2):
            seq = store.start_tools(run.id, calling("", ""), ["safe", "safe"]).seq
            for index in (0, 1):
                store.finish_tool(
                    run.id, call_seq=seq, call_index=index, outcome="ok", message=result("")
                )
        assert [one.outcome for one in store.tool_executions(session_id)] == ["ok"] * 4

    def test_the_arguments_of_a_call_are_the_exact_text(self, store: SessionStore) -> None:
        """Spaces, escapes, number forms and even text that is no JSON."""
        session_id = store.create_session().id
        run = begin(store, session_id)
        calls = tuple(
            ToolCall(id=str(index), name="look", arguments=arguments)
            for index, arguments in enumerate(
                ['{ "a" : 1.10 }', '{"a":"\\u00e9\\ud83d"}', '{"a":1,"a":2}', "{broken", "", "\0"]
            )
        )
        store.start_tools(
            run.id, NewMessage(role="assistant", tool_calls=calls), ["safe"] * len(calls)
        )
        assert store.messages(session_id).items[-1].tool_calls == calls
