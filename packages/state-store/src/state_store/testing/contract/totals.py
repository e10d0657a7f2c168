"""Totals: what runs used, of one session and of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from state_store.clock import new_id
from state_store.records import Usage
from state_store.testing.contract.basis import Contract
from state_store.testing.turns import assistant, begin, turn, user

if TYPE_CHECKING:
    from state_store.protocol import SessionStore


def used(
    store: SessionStore, session_id: str, usage: Usage, *, model: str, cost: float | None = None
) -> None:
    """Complete a run with *model*."""
    run, _ = store.begin_run(session_id, user(), run_id=new_id(), provider="p", model=model)
    store.complete_run(run.id, assistant(), usage=usage, cost=cost)


class TotalsContract(Contract):
    """Sums say what is known, and how much is not."""

    def test_totals_are_of_a_session_or_of_all(self, store: SessionStore) -> None:
        """By model too, in order of provider and model; the parts add up to the whole."""
        one, other = store.create_session().id, store.create_session().id
        full = Usage(input_tokens=10, output_tokens=5, cached_input_tokens=4, reasoning_tokens=2)
        used(store, one, full, model="m2", cost=0.5)
        used(store, one, Usage(input_tokens=1), model="m1")
        used(store, other, full, model="m2", cost=0.25)
        of_one = store.totals(one)
        assert (of_one.input_tokens, of_one.output_tokens, of_one.total_tokens) == (11, 5, 16)
        assert (of_one.cached_input_tokens, of_one.reasoning_tokens) == (4, 2)
        assert (of_one.cost, of_one.run_count) == (0.5, 2)
        assert (of_one.unreported_count, of_one.unpriced_count) == (1, 1)
        assert [(part.provider, part.model) for part in of_one.by_model] == [
            ("p", "m1"),
            ("p", "m2"),
        ]
        of_all = store.totals()
        assert (of_all.total_tokens, of_all.cost, of_all.run_count) == (31, 0.75, 3)
        assert [part.total_tokens for part in of_all.by_model] == [1, 30]
        assert of_one.total_tokens == store.get_session(one).total_tokens

    def test_nothing_used_is_zero_and_no_price(self, store: SessionStore) -> None:
        """Neither of an empty store nor of an empty session is the cost known."""
        for totals in (store.totals(), store.totals(store.create_session().id)):
            assert (totals.total_tokens, totals.cost, totals.run_count) == (0, None, 0)
            assert totals.by_model == ()

    def test_failed_and_undone_runs_have_used_what_they_used(self, store: SessionStore) -> None:
        """One under way has not been counted yet."""
        session_id = store.create_session().id
        turn(store, session_id)
        run = begin(store, session_id)
        assert store.totals(session_id).run_count == 1
        store.fail_run(run.id, "provider.error", usage=Usage(input_tokens=7, output_tokens=0))
        store.undo(session_id, 2)
        assert store.totals(session_id).total_tokens == 22

    def test_c40_the_usage_of_a_deleted_session_goes_with_it(self, store: SessionStore) -> None:
        """Totals speak of what is stored."""
        one, other = store.create_session().id, store.create_session().id
        turn(store, one)
        turn(store, other)
        store.delete(one)
        assert store.totals().total_tokens == 15
