"""The contracts about processes over both faces, and engines with a guard removed that fail them.

A long run: ``STATE_STORE_LONG=1 pytest -s tests/test_processes.py``; see `Scale` for the counts.
"""

from __future__ import annotations

import itertools
import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from state_store.sqlite.beside import at_rest
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

    def test_processes_that_open_a_new_store_at_once_make_one(
        self, new_address: NewAddress, scale: Scale
    ) -> None:
        """And of one file, with as many owners as openers, the losers leave nothing (C01)."""
        made: list[Path] = []

        def noted_address() -> StoreAddress:
            address = new_address()
            made.append(Path(address.location))
            return address

        super().test_processes_that_open_a_new_store_at_once_make_one(noted_address, scale)
        assert len(made) == scale.opener_rounds
        for path in made:
            assert {one.name for one in path.parent.iterdir()} == {*at_rest(path), "owners"}
            with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as found:
                owner_count = found.execute("SELECT count(DISTINCT owner) FROM runs").get
            assert owner_count == scale.opener_count


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


CONTROL_TRIES = 8
KILLS = {"kill_count": 60, "writer_count": 1, "seed": 1}
OWNERS = {
    "owner_count": 24,
    "killed_count": 12,
    "stopped_count": 2,
    "recoverer_count": 16,
    "seed": 1,
}
# Engine, job, its counts, and what is found.
CONTROLS: list[tuple[str, Callable[..., dict[str, Any]], dict[str, int], str]] = [
    ("acknowledging_before_commit", kill_writers, KILLS, "lost"),
    ("committing_by_halves", kill_writers, KILLS, "half: |RunExists"),
    ("probing_exclusively", recover_at_once, OWNERS, "was missed"),
    ("judging_stopped_owners_dead", recover_at_once, OWNERS, "not what was dead"),
    ("recovering_without_a_guard", recover_at_once, OWNERS, "recovered twice"),
    ("beginning_without_judging", begin_at_once, {"rival_count": 4}, "'begun', 'begun'"),
    (
        "creating_in_place",
        open_at_once,
        {"opener_count": 32},
        "StoreDamaged|StoreForeign|BusyError",
    ),
]


@pytest.mark.parametrize("control", CONTROLS, ids=[control[0] for control in CONTROLS])
def test_an_engine_without_its_guard_fails_the_contract(
    make_address: Callable[[str], StoreAddress],
    monkeypatch: pytest.MonkeyPatch,
    control: tuple[str, Callable[..., dict[str, Any]], dict[str, int], str],
) -> None:
    """What the crowd and the kills are for: each of them finds what it is meant to find.

    When they meet is the machine's affair, so a control has several tries to be found out.
    """
    engine, job, counts, complaint = control
    monkeypatch.syspath_prepend(Path(__file__).parent)
    found = []
    for _ in range(CONTROL_TRIES):
        addresses = [make_address(f"broken_engines:{engine}") for _ in range(3)]
        try:
            run_in_own_process(job, addresses, timeout_s=100, **counts)
        except JobFailed as failure:
            found.append(str(failure))
            if re.search(complaint, found[-1]):
                return
    pytest.fail(f"nobody complained of {complaint}, but of {found}")
