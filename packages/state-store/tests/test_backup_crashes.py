"""Backups beside writers, and backups that die; `backing_up` does both in other processes."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from state_store.testing import Scale, StoreAddress
from state_store.testing.own_process import run_in_own_process
from state_store.testing.sqlite_engine import open_store

if TYPE_CHECKING:
    from types import ModuleType


SCALE = Scale.from_environment()
LONG = os.environ.get("STATE_STORE_LONG") == "1"
KINDS = {
    *("open", "backup", "statement", "close", "os.fsync", "os.link", "os.remove", "fcntl.flock"),
    "progress",
}


@pytest.fixture
def backing_up(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the jobs' module, which other processes can import too."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    return importlib.import_module("backing_up")


def address_at(path: Path) -> StoreAddress:
    """Return the address of a store at *path*."""
    factory = f"{open_store.__module__}:{open_store.__name__}"
    return StoreAddress(factory=factory, location=str(path))


@pytest.mark.timeout(3600 if LONG else 120)
def test_a_backup_beside_eight_writers_is_a_prefix_of_each(
    backing_up: ModuleType, path: Path
) -> None:
    """And nothing that they were told is lost afterwards. Two hundred backups in a long run."""
    counted = run_in_own_process(
        backing_up.back_up_beside_writers,
        [address_at(path)],
        timeout_s=3600,
        backup_count=200 if LONG else 10,
        writer_count=8,
        seed=SCALE.seed,
    )
    print(counted)  # noqa: T201 - what `pytest -s` shows of a long run
    assert counted["grew_meanwhile"] > 0, "nobody wrote meanwhile: the test tests nothing"


@pytest.mark.timeout(3600 if LONG else 120)
def test_a_backup_that_dies_at_any_effect_leaves_only_good_ones(
    backing_up: ModuleType, tmp_path: Path
) -> None:
    """What it was making has a temporary name, and whoever is alone next sweeps it.

    A sample takes every tenth effect, beginning somewhere; a long run takes all.
    """
    counted = run_in_own_process(
        backing_up.die_everywhere,
        [address_at(tmp_path / "lives")],
        timeout_s=3600,
        step=1 if LONG else 10,
        seed=SCALE.seed,
    )
    print(counted)  # noqa: T201 - what `pytest -s` shows of a long run
    assert set(counted["kinds"]) == KINDS


@pytest.mark.timeout(3600 if LONG else 120)
def test_a_backup_that_is_killed_at_any_instant_leaves_only_good_ones(
    backing_up: ModuleType, tmp_path: Path
) -> None:
    """Two hundred instants in a long run."""
    counted = run_in_own_process(
        backing_up.die_at_random,
        [address_at(tmp_path / "lives")],
        timeout_s=3600,
        kill_count=200 if LONG else 3,
        seed=SCALE.seed,
    )
    print(counted)  # noqa: T201 - what `pytest -s` shows of a long run
    # A few kills may all miss the short time that a backup takes.
    assert counted["in_the_middle"] > 0 or not LONG, "no kill met a backup: it tests nothing"


@pytest.mark.timeout(3600 if LONG else 120)
def test_ctrl_c_at_any_instant_leaves_nothing_of_a_backup(
    backing_up: ModuleType, tmp_path: Path
) -> None:
    """Nor a store that cannot be used. A hundred instants in a long run.

    Ctrl-C between two instructions of the tidying up may leave a hidden file, for whoever is alone
    next to sweep; hardly ever.
    """
    counted = run_in_own_process(
        backing_up.interrupt_at_random,
        [address_at(tmp_path / "lives")],
        timeout_s=3600,
        interrupt_count=100 if LONG else 3,
        seed=SCALE.seed,
    )
    print(counted)  # noqa: T201 - what `pytest -s` shows of a long run
    # A few may all come too late, or strike where Python passes over them.
    if LONG:
        assert counted["in_the_middle"] > 0
        assert counted["left"] + counted["unheard"] <= counted["interrupts"] // 20
