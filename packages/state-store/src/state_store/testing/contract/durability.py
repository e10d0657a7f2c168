"""What a store that can be opened again promises on top: to others, and to those after it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from state_store.errors import RunNotPending, SessionBusy, SessionWasDeleted
from state_store.testing.contract.basis import Contract, OpenStore
from state_store.testing.contract.runs import WRITES_TO_A_RUN
from state_store.testing.turns import begin, calling, contents, session_with_turn, turn

if TYPE_CHECKING:
    from state_store.protocol import SessionStore


def everything(store: SessionStore, session_id: str) -> tuple[object, ...]:
    """Return all that a store says about a session."""
    return (
        store.get_session(session_id),
        store.messages(session_id, view="all"),
        store.runs(session_id),
        store.tool_executions(session_id),
        list(store.export_messages(session_id)),
    )


class DurableStoreContract(Contract):
    """Committed is committed, for everybody."""

    def test_what_was_committed_is_there_when_opened_again(self, open_store: OpenStore) -> None:
        """Sessions, messages, runs, tools and tombstones, unchanged."""
        with closing(open_store()) as store:
            kept, deleted = session_with_turn(store), session_with_turn(store)
            store.delete(deleted)
            before = everything(store, kept)
        with closing(open_store()) as store:
            assert everything(store, kept) == before
            assert [one.id for one in store.list().items] == [kept]
            with pytest.raises(SessionWasDeleted):
                store.create_session(session_id=deleted)

    def test_a_second_store_sees_each_commit(
        self, store: SessionStore, open_store: OpenStore
    ) -> None:
        """At once, and no transaction of the one hides it from the other."""
        with closing(open_store()) as second:
            session_id = store.create_session().id
            for number in range(3):
                turn(store, session_id, f"from the first {number}")
                assert contents(second, session_id)[-2:] == [f"from the first {number}", "answer"]
                turn(second, session_id, f"from the second {number}")
                assert contents(store, session_id)[-2:] == [f"from the second {number}", "answer"]
            second.delete(session_id)
            with pytest.raises(SessionWasDeleted):
                store.get_session(session_id)

    def test_the_run_of_a_live_store_is_not_touched_by_another(
        self, store: SessionStore, open_store: OpenStore
    ) -> None:
        """Opening, recovering, beginning and deleting leave it pending (C05)."""
        session_id = store.create_session().id
        run = begin(store, session_id)
        with closing(open_store()) as second:
            assert second.recover() == ()
            assert second.get_run(run.id) == run
            with pytest.raises(SessionBusy):
                begin(second, session_id)
            with pytest.raises(SessionBusy):
                second.delete(session_id)
        assert store.get_run(run.id) == run

    @pytest.mark.parametrize("name", sorted(WRITES_TO_A_RUN))
    def test_a_run_takes_no_write_from_a_store_that_did_not_begin_it(
        self, store: SessionStore, open_store: OpenStore, name: str
    ) -> None:
        """The guard asks for the owner and not only for the status."""
        session_id = store.create_session().id
        run = begin(store, session_id)
        store.start_tools(run.id, calling("c1"), ["safe"])
        before = everything(store, session_id)
        with closing(open_store()) as second:
            with pytest.raises(RunNotPending):
                WRITES_TO_A_RUN[name](second, run.id)
            assert everything(second, session_id) == before

    def test_a_run_that_was_pending_at_close_is_interrupted_at_the_next_open(
        self, open_store: OpenStore
    ) -> None:
        """Its input stays, its tools become unknown, and a second time changes nothing (C05)."""
        with closing(open_store()) as store:
            session_id = store.create_session().id
            run = begin(store, session_id, "asked")
            store.start_tools(run.id, calling("c1"), ["unsafe"])
        with closing(open_store()) as store:
            recovered = store.get_run(run.id)
            assert (recovered.status, recovered.error_type) == ("failed", "interrupted")
            assert recovered.finished_at is not None
            assert contents(store, session_id) == ["asked", None]
            assert [one.outcome for one in store.tool_executions(session_id)] == ["unknown"]
            session = store.get_session(session_id)
            assert (session.status, session.usage_complete) == ("failed", False)
            before = everything(store, session_id)
            assert store.recover() == ()
            assert everything(store, session_id) == before
        with closing(open_store()) as store:
            assert everything(store, session_id) == before
            turn(store, session_id, "again")
