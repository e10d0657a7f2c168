"""Checking one session: whatever the store's own methods made, nothing is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from state_store.clock import new_id
from state_store.errors import SessionNotFound
from state_store.testing.contract.basis import Contract
from state_store.testing.turns import USAGE, assistant, begin, calling, result, turn, user

if TYPE_CHECKING:
    from state_store.protocol import SessionStore


class CheckingContract(Contract):
    """`check_session` finds contradictions, and none where there are none."""

    def test_nothing_is_wrong_with_what_a_store_has_made(self, store: SessionStore) -> None:
        """Tools, failures, retries, undone turns, summaries, forks, and a run under way."""
        session_id = store.create_session().id
        assert store.check_session(session_id) == ()
        turn(store, session_id)
        run = begin(store, session_id)
        seq = store.start_tools(run.id, calling("", ""), ["safe", "unsafe"]).seq
        assert store.check_session(session_id) == ()
        for index in (1, 0):
            store.finish_tool(
                run.id, call_seq=seq, call_index=index, outcome="ok", message=result("")
            )
        store.complete_run(run.id, assistant(), usage=USAGE, cost=0.25)
        failed = begin(store, session_id)
        store.start_tools(failed.id, calling("a"), ["safe"])
        store.fail_run(failed.id, "provider.timeout", usage=USAGE)
        again, _ = store.begin_run(session_id, user(), run_id=new_id(), retry_of=failed.id)
        store.complete_run(again.id, assistant(), usage=USAGE)
        store.undo(session_id)
        store.summarize(session_id, "in short", through=2)
        fork = store.fork_session(session_id)
        for one in (session_id, fork.id):
            assert store.check_session(one) == ()

    def test_a_session_that_is_not_there_is_not_well(self, store: SessionStore) -> None:
        """Nothing found would say that it is."""
        with pytest.raises(SessionNotFound):
            store.check_session(new_id())
