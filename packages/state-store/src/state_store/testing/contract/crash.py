"""What a durable store promises to those whose process is killed, at any instant.

Every test forks writers from a clean process, kills them, and compares the store with a ledger of
what they had been told. `state_store.testing.killing` has the workload and the comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from state_store.testing.contract.processes import JOB_TIMEOUT_S, NewAddress, ProcessContract
from state_store.testing.killing import KILLS_PER_STORE, kill_writers
from state_store.testing.own_process import run_in_own_process

if TYPE_CHECKING:
    from state_store.testing.scale import Scale

PARTS = 2  # so that two test workers can share a long run


class CrashContract(ProcessContract):
    """Nothing that was acknowledged is lost, and nothing is half there."""

    @pytest.mark.parametrize("part", range(PARTS))
    def test_a_kill_loses_nothing_that_was_acknowledged(
        self, new_address: NewAddress, scale: Scale, part: int
    ) -> None:
        """One writer, killed at random instants: every row of the ledger is there and whole."""
        self._kill(new_address, scale.seed + part, scale.kill_count // PARTS, writer_count=1)

    def test_a_kill_among_sixteen_writers_loses_nothing_that_was_acknowledged(
        self, new_address: NewAddress, scale: Scale
    ) -> None:
        """The others go on, recover the dead one's run, and no session ever has two pending."""
        self._kill(new_address, scale.seed, scale.crowd_kill_count, writer_count=16)

    def _kill(
        self, new_address: NewAddress, seed: int, kill_count: int, *, writer_count: int
    ) -> None:
        addresses = [new_address() for _ in range(max(1, kill_count // KILLS_PER_STORE))]
        counted = run_in_own_process(
            kill_writers,
            addresses,
            timeout_s=JOB_TIMEOUT_S,
            kill_count=kill_count,
            writer_count=writer_count,
            seed=seed,
        )
        print(counted)  # noqa: T201 - what `pytest -s` shows of a long run
        assert counted["kills"] == kill_count
        assert counted["interrupted"], "no kill struck a run: the test tests nothing"
        # On a busy machine a writer may not get further than its first one.
        assert counted["acknowledgements"] > kill_count // 4, "hardly anything was acknowledged"
