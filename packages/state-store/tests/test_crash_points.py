"""A process dies at each of its effects on the disk; `crash_points` finds out which these are."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from state_store.testing import Scale, StoreAddress
from state_store.testing.own_process import run_in_own_process

if TYPE_CHECKING:
    from types import ModuleType

PARTS = 4  # of a long run; a sample is one of twelve
SAMPLE_PARTS = 12
SCALE = Scale.from_environment()
KINDS = {
    *("os.mkdir", "os.link", "os.rename", "os.remove", "os.fsync", "os.write", "fcntl.flock"),
    *("open", "statement", "committed,", "acknowledge", "checkpoint", "close"),
}


@pytest.fixture
def crash_points(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the job's module, which other processes can import too."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    return importlib.import_module("crash_points")


@pytest.mark.timeout(3600 if SCALE.long else 120)
@pytest.mark.parametrize("part", range(PARTS if SCALE.long else 1))
def test_a_death_at_any_effect_leaves_whole_steps(
    crash_points: ModuleType, tmp_path: Path, part: int
) -> None:
    """In the life of a store, and again in the recovery from it (C05).

    A sample takes every twelfth effect, beginning somewhere; a long run takes all.
    """
    part_count = PARTS if SCALE.long else SAMPLE_PARTS
    if not SCALE.long:
        part = SCALE.seed % part_count
    address = StoreAddress(factory="unused", location=str(tmp_path / "lives"))
    counted: dict[str, Any] = run_in_own_process(
        crash_points.die_everywhere,
        [address],
        timeout_s=3600,
        chances=SCALE.chances,
        seed=SCALE.seed,
        part=part,
        part_count=part_count,
    )
    print(counted)  # noqa: T201 - what `pytest -s` shows of a long run
    assert counted["points"] > 100
    assert set(counted["kinds"]) == KINDS
