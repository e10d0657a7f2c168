"""The contracts about processes over both faces, and engines with a guard removed that fail them.

A long run: ``STATE_STORE_LONG=1 pytest -s tests/test_processes.py``; see `Scale` for the counts.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from state_store.testing import (
    ConcurrencyContract,
    CrashContract,
    JobFailed,
    NewAddress,
    Scale,
    StoreAddress,
    sqlite_engine,
)
from state_store.testing.crowding import begin_at_once, open_at_once, recover_at_once
from state_store.testing.killing import kill_writers
from state_store.testing.own_process import run_in_own_process

if TYPE_CHECKING:
    from collections.abc import Callable

ENGINE = sqlite_engine.__name__
LONG = Scale.from_environment().long
pytestmark = pytest.mark.timeout(3600 if LONG else 120)


@pytest.fixture
def make_address(tmp_path: Path) -> Callable[[str], StoreAddress]:
    """Return what makes the address of a new store that *factory* opens."""
    numbers = itertools.count()

    def make(factory: str) -> StoreAddress:
        return StoreAddress(
            factory=factory,
            location=str(tmp_path / f"store-{next(numbers)}" / "state.sqlite3"),
            inspection=f"{ENGINE}:inspect",
        )

    return make


class TestProcesses(ConcurrencyContract, CrashContract):
    """`SqliteStore`."""

    @pytest.fixture
    def new_address(self, make_address: Callable[[str], StoreAddress]) -> NewAddress:
        """Give a database of its own each time."""
        return lambda: make_address(f"{ENGINE}:open_store")


class TestAsyncProcesses(ConcurrencyContract, CrashContract):
    """`AsyncSqliteStore`, always by the sample: it is the same core."""

    @pytest.fixture
    def new_address(self, make_address: Callable[[str], StoreAddress]) -> NewAddress:
        """Give a database of its own each time."""
        return lambda: make_address(f"{ENGINE}:open_async_store")

    @pytest.fixture
    def scale(self) -> Scale:
        """Return a small one."""
        return Scale(
            seed=Scale.from_environment().seed,
            kill_count=32,
            crowd_kill_count=20,
            owner_count=16,
            opener_rounds=1,
            opener_count=16,
        )


@pytest.mark.parametrize(
    ("engine", "job", "parameters", "complaint"),
    [
        (
            "acknowledging_before_commit",
            kill_writers,
            {"kill_count": 40, "writer_count": 1, "seed": 1},
            "lost",
        ),
        (
            "committing_by_halves",
            kill_writers,
            {"kill_count": 60, "writer_count": 1, "seed": 1},
            "Error",
        ),
        (
            "probing_exclusively",
            recover_at_once,
            {
                "owner_count": 24,
                "killed_count": 12,
                "stopped_count": 2,
                "recoverer_count": 16,
                "seed": 1,
            },
            "was missed",
        ),
        (
            "judging_stopped_owners_dead",
            recover_at_once,
            {
                "owner_count": 8,
                "killed_count": 2,
                "stopped_count": 2,
                "recoverer_count": 4,
                "seed": 1,
            },
            "not what was dead",
        ),
        (
            "recovering_without_a_guard",
            recover_at_once,
            {
                "owner_count": 24,
                "killed_count": 24,
                "stopped_count": 0,
                "recoverer_count": 16,
                "seed": 1,
            },
            "recovered twice",
        ),
        ("beginning_without_judging", begin_at_once, {"rival_count": 4}, "busy"),
        ("creating_in_place", open_at_once, {"opener_count": 32}, "Error"),
    ],
)
def test_an_engine_without_its_guard_fails_the_contract(
    make_address: Callable[[str], StoreAddress],
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    job: Callable[..., dict[str, Any]],
    parameters: dict[str, int],
    complaint: str,
) -> None:
    """What the crowd and the kills are for: each of them finds what it is meant to find."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    addresses = [make_address(f"broken_engines:{engine}") for _ in range(3)]
    with pytest.raises(JobFailed, match=complaint):
        run_in_own_process(job, addresses, timeout_s=100, **parameters)
