"""What a store promises to many processes that use it at once.

Every test lets a crowd go in one instant; `state_store.testing.crowding` has the crowds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from state_store.testing.contract.processes import JOB_TIMEOUT_S, NewAddress, ProcessContract
from state_store.testing.crowding import begin_at_once, open_at_once, recover_at_once
from state_store.testing.own_process import run_in_own_process

if TYPE_CHECKING:
    from state_store.testing.scale import Scale


class ConcurrencyContract(ProcessContract):
    """The store comes into being once, and whose run is whose is judged rightly."""

    def test_processes_that_open_a_new_store_at_once_make_one(
        self, new_address: NewAddress, scale: Scale
    ) -> None:
        """The session and the turn of every one of them are in it (C01)."""
        addresses = [new_address() for _ in range(scale.opener_rounds)]
        counted = run_in_own_process(
            open_at_once, addresses, timeout_s=JOB_TIMEOUT_S, opener_count=scale.opener_count
        )
        print(counted)  # noqa: T201 - what `pytest -s` shows of a long run
        assert counted["stores"] == scale.opener_rounds

    def test_dead_owners_runs_are_recovered_once_and_live_ones_are_not_touched(
        self, new_address: NewAddress, scale: Scale
    ) -> None:
        """Sixteen recover at once; half of the owners are dead, an eighth is stopped (C05)."""
        addresses = [new_address() for _ in range(scale.owner_rounds)]
        counted = run_in_own_process(
            recover_at_once,
            addresses,
            timeout_s=JOB_TIMEOUT_S,
            owner_count=scale.owner_count,
            killed_count=scale.owner_count // 2,
            stopped_count=scale.owner_count // 8,
            recoverer_count=16,
            seed=scale.seed,
        )
        print(counted)  # noqa: T201 - as above
        assert counted["runs"] == scale.owner_rounds * scale.owner_count
        assert counted["recovered"] == counted["dead"] == counted["runs"] // 2

    def test_of_many_that_begin_where_a_dead_owner_left_its_run_one_does(
        self, new_address: NewAddress
    ) -> None:
        """It recovers the run in place; the others are told that the session is busy (C29)."""
        run_in_own_process(begin_at_once, [new_address()], timeout_s=JOB_TIMEOUT_S, rival_count=8)
