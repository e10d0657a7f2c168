"""Runs: the protocol step by step, its guards, and what it books on the session."""

from __future__ import annotations

import os
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from state_store.clock import new_id, to_text
from state_store.errors import RunNotFound, RunNotPending, SessionBusy
from state_store.records import NewMessage, NewSession, Usage
from state_store.testing.clocks import SteppingClock
from state_store.testing.contract.basis import Contract, OpenStore
from state_store.testing.turns import (
    USAGE,
    assistant,
    begin,
    calling,
    complete,
    contents,
    result,
    session_with_turn,
    turn,
    user,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from state_store.protocol import SessionStore

# A time without a zone is refused when the message is written, in the middle of a transaction.
UNSTORABLE = NewMessage(role="user", content="x", created_at=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point
WRITES_TO_A_RUN: dict[str, Callable[[SessionStore, str], Any]] = {
    "start_tools": lambda store, run_id: store.start_tools(run_id, calling("c1"), ["safe"]),
    "finish_tool": lambda store, run_id: store.finish_tool(
        run_id, call_seq=2, call_index=0, outcome="ok", message=result("c1")
    ),
    "complete_run": lambda store, run_id: store.complete_run(run_id, assistant(), usage=USAGE),
    "fail_run": lambda store, run_id: store.fail_run(run_id, "too_late", usage=USAGE),
}


class RunsContract(Contract):
    """A run leaves exactly what happened."""

    def test_changes_of_the_session_begin_with_the_run_or_not_at_all(
        self, store: SessionStore
    ) -> None:
        """A run that is refused leaves the session as it was."""
        session_id = session_with_turn(store)
        changes = {"provider": "other", "model_id": "m-2"}
        run, _ = store.begin_run(session_id, user(), run_id=new_id(), changes=changes)
        assert store.get_session(session_id).provider == "other"
        with pytest.raises(SessionBusy):
            store.begin_run(session_id, user(), run_id=new_id(), changes={"provider": "third"})
        store.fail_run(run.id, "cancelled", usage=run.usage)
        session = store.get_session(session_id)
        assert (session.provider, session.model_id) == ("other", "m-2")
        with pytest.raises(ValueError, match="no changeable field"):
            store.begin_run(session_id, user(), run_id=new_id(), changes={"id": "x"})

    def test_beginning_commits_the_input_and_a_pending_run(self, store: SessionStore) -> None:
        """Both are there before anybody is asked for an answer."""
        session_id, run_id = store.create_session().id, new_id()
        run, message = store.begin_run(
            session_id, user("hi"), run_id=run_id, provider="p", model="m", retry_of="earlier"
        )
        assert run == store.get_run(run_id)
        assert (run.id, run.session_id, run.status) == (run_id, session_id, "pending")
        assert (run.provider, run.model, run.retry_of) == ("p", "m", "earlier")
        assert (run.error_type, run.finished_at, run.stale) == (None, None, False)
        assert (run.usage, run.cost) == (Usage(), None)
        assert store.messages(session_id).items == (message,)
        assert (message.seq, message.run_id, message.content) == (run.first_seq, run_id, "hi")
        session = store.get_session(session_id)
        assert (session.status, session.message_count) == ("running", 1)

    def test_beginning_can_create_the_session_with_it(self, store: SessionStore) -> None:
        """So that no session without messages is left behind."""
        session_id = new_id()
        run, _ = store.begin_run(
            session_id,
            user(),
            run_id=new_id(),
            create=NewSession(provider="p", system_prompt="be brief"),
            auto_title="hello",
        )
        session = store.get_session(session_id)
        assert (session.provider, session.system_prompt) == ("p", "be brief")
        assert (session.title, session.status, run.first_seq) == ("hello", "running", 1)

    def test_a_beginning_that_fails_leaves_nothing(self, store: SessionStore) -> None:
        """Not the session, not the run, not the message."""
        session_id, run_id = new_id(), new_id()
        with pytest.raises(ValueError, match="zone"):
            store.begin_run(session_id, UNSTORABLE, run_id=run_id, create=NewSession())
        assert store.list().items == ()
        with pytest.raises(RunNotFound):
            store.get_run(run_id)
        store.begin_run(session_id, user(), run_id=run_id, create=NewSession())

    def test_completing_commits_the_answer_and_the_run(self, store: SessionStore) -> None:
        """In one transaction, with usage, cost and the journal's head."""
        session_id = store.create_session().id
        usage = Usage(input_tokens=3, output_tokens=4, cached_input_tokens=1, reasoning_tokens=2)
        run, message = store.complete_run(
            begin(store, session_id).id,
            assistant("hello"),
            usage=usage,
            cost=0.25,
            journal_head=(7, "chain"),
            journal_lost_count=2,
        )
        assert run == store.get_run(run.id)
        assert (run.status, run.error_type, run.usage, run.cost) == (
            "completed",
            None,
            usage,
            0.25,
        )
        assert (run.journal_head, run.journal_lost_count) == ((7, "chain"), 2)
        assert run.finished_at is not None
        assert store.messages(session_id).items[-1] == message
        assert (message.run_id, message.role) == (run.id, "assistant")
        session = store.get_session(session_id)
        assert (session.status, session.message_count) == ("idle", 2)
        assert (session.total_tokens, session.cost, session.usage_complete) == (7, 0.25, True)

    def test_a_completion_that_fails_leaves_the_run_pending(self, store: SessionStore) -> None:
        """It can still be completed, or failed."""
        session_id = store.create_session().id
        run = begin(store, session_id)
        before = store.get_session(session_id)
        with pytest.raises(ValueError, match="zone"):
            store.complete_run(run.id, UNSTORABLE, usage=USAGE)
        assert store.get_run(run.id) == run
        assert store.get_session(session_id) == before
        assert complete(store, run).status == "completed"

    def test_a_failed_run_keeps_its_input_and_makes_up_no_answer(self, store: SessionStore) -> None:
        """Its session can go on."""
        session_id = store.create_session().id
        run = begin(store, session_id, "asked")
        failed = store.fail_run(run.id, "provider.timeout", usage=Usage(input_tokens=1), cost=0.5)
        assert failed == store.get_run(run.id)
        assert (failed.status, failed.error_type) == ("failed", "provider.timeout")
        assert (failed.usage, failed.cost) == (Usage(input_tokens=1), 0.5)
        assert failed.finished_at is not None
        assert contents(store, session_id) == ["asked"]
        assert store.get_session(session_id).status == "failed"
        turn(store, session_id, "again")
        assert contents(store, session_id) == ["asked", "again", "answer"]
        assert store.get_session(session_id).status == "idle"

    def test_a_session_has_one_run_at_a_time(self, open_store: OpenStore) -> None:
        """A second one is refused at once, says whose the first is, and writes nothing (C29)."""
        with closing(open_store(clock=SteppingClock())) as store:
            session_id, other_id = store.create_session().id, store.create_session().id
            run = begin(store, session_id, "first")
            before = store.get_session(session_id)
            with pytest.raises(SessionBusy) as busy:
                begin(store, session_id, "second")
            assert busy.value.session_id == session_id
            assert (busy.value.pid, busy.value.since) == (os.getpid(), to_text(run.started_at))
            assert busy.value.host
            assert contents(store, session_id) == ["first"]
            assert store.get_session(session_id) == before
            turn(store, other_id)

    @pytest.mark.parametrize("name", sorted(WRITES_TO_A_RUN))
    @pytest.mark.parametrize("ending", ["completed", "failed"])
    def test_a_run_that_has_ended_takes_no_more_writes(
        self, store: SessionStore, name: str, ending: str
    ) -> None:
        """What comes late changes nothing."""
        session_id = store.create_session().id
        run = begin(store, session_id)
        store.start_tools(run.id, calling("c1"), ["safe"])
        if ending == "completed":
            complete(store, run)
        else:
            store.fail_run(run.id, "cancelled", usage=USAGE)
        before = (
            store.get_session(session_id),
            store.messages(session_id),
            store.runs(session_id),
            store.tool_executions(session_id),
        )
        with pytest.raises(RunNotPending) as late:
            WRITES_TO_A_RUN[name](store, run.id)
        assert (late.value.run_id, late.value.status) == (run.id, ending)
        assert before == (
            store.get_session(session_id),
            store.messages(session_id),
            store.runs(session_id),
            store.tool_executions(session_id),
        )

    def test_a_run_that_is_not_there_is_said_to_be_missing(self, store: SessionStore) -> None:
        """An unknown id is no late write."""
        session_with_turn(store)
        with pytest.raises(RunNotFound):
            store.get_run("nothing")
        for name, write in WRITES_TO_A_RUN.items():
            with pytest.raises(RunNotFound) as missing:
                pytest.fail(f"{name} answered {write(store, 'nothing')!r}")
            assert missing.value.run_id == "nothing"

    def test_totals_are_sums_over_the_runs(self, store: SessionStore) -> None:
        """Cached and reasoning tokens are parts, not more; no price is not a price of zero."""
        session_id = store.create_session().id
        for usage, cost in (
            (Usage(input_tokens=10, output_tokens=1, cached_input_tokens=9), None),
            (Usage(input_tokens=20, output_tokens=2, reasoning_tokens=2), 0.5),
            (Usage(input_tokens=30, output_tokens=3), 0.25),
        ):
            run = begin(store, session_id)
            store.complete_run(run.id, assistant(), usage=usage, cost=cost)
        session = store.get_session(session_id)
        assert (session.total_tokens, session.cost, session.usage_complete) == (66, 0.75, True)

    def test_a_session_without_prices_has_no_cost(self, store: SessionStore) -> None:
        """None, and not zero; a price of zero is zero."""
        session_id = session_with_turn(store)
        assert store.get_session(session_id).cost is None
        store.complete_run(begin(store, session_id).id, assistant(), usage=USAGE, cost=0.0)
        assert store.get_session(session_id).cost == 0.0

    @pytest.mark.parametrize(
        "usage", [Usage(), Usage(input_tokens=5), Usage(output_tokens=5)], ids=str
    )
    def test_a_run_without_usage_makes_the_totals_a_lower_bound(
        self, store: SessionStore, usage: Usage
    ) -> None:
        """And no later run makes them exact again."""
        session_id = store.create_session().id
        turn(store, session_id)
        complete(store, begin(store, session_id), usage)
        turn(store, session_id)
        session = store.get_session(session_id)
        assert session.usage_complete is False
        assert session.total_tokens == 30 + (usage.total_tokens or 0)

    def test_message_order_is_commit_order_whatever_the_clock_says(
        self, open_store: OpenStore
    ) -> None:
        """A clock that goes back changes times and never the order (C20)."""
        clock = SteppingClock()
        with closing(open_store(clock=clock)) as store:
            session_id = store.create_session().id
            for content in ("a", "b", "c"):
                clock.now = clock.now.replace(year=clock.now.year - 1)
                turn(store, session_id, content)
            assert contents(store, session_id) == ["a", "answer", "b", "answer", "c", "answer"]
            assert [one.seq for one in store.messages(session_id).items] == [1, 2, 3, 4, 5, 6]
            runs = store.runs(session_id).items
            assert [run.first_seq for run in runs] == [1, 3, 5]
            assert runs[0].started_at > runs[1].started_at > runs[2].started_at

    def test_recovering_leaves_a_live_stores_runs_alone(self, store: SessionStore) -> None:
        """Its own among them."""
        session_id = store.create_session().id
        run = begin(store, session_id)
        assert store.recover() == ()
        assert store.get_run(run.id) == run
