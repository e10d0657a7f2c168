"""Processes die in an upgrade and in a restore; `upgrade_points` finds out where they can."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from state_store.testing import Scale, StoreAddress
from state_store.testing.own_process import run_in_own_process

if TYPE_CHECKING:
    from types import ModuleType

SCALE = Scale.from_environment()
# Of the starts that follow a death, how many effects more are died at in the long run.
AGAIN = {
    "real": 0.2,
    "family": 0.13,
    "opened": 0.06,
    "put back": 0.03,
    "restored": 0.15,
    "an older one restored": 0.1,
}
UPGRADE_KINDS = {"backup", "checkpoint", "close", "committed,", "fcntl.flock", "open"} | {
    *("os.fsync", "os.link", "os.remove", "os.rename", "os.write", "statement")
}


@pytest.fixture
def upgrade_points(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the job's module, which other processes can import too."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    return importlib.import_module("upgrade_points")


@pytest.mark.timeout(1800 if SCALE.long else 120)
@pytest.mark.parametrize("scenario", AGAIN)
def test_a_death_at_any_effect_leaves_the_old_or_the_new(
    upgrade_points: ModuleType, tmp_path: Path, scenario: str
) -> None:
    """And so does a death in the start that follows; the next start goes through (C10).

    A sample takes a few; a long run takes all, and a share of those in the starts.
    """
    counted: dict[str, Any] = run_in_own_process(
        upgrade_points.die_everywhere,
        [StoreAddress(factory="unused", location=str(tmp_path / "trials"))],
        timeout_s=1800,
        scenario=scenario,
        chances=1.0 if SCALE.long else 0.02,
        again=AGAIN[scenario] if SCALE.long else 0.01,
        seed=SCALE.seed,
    )
    print(counted)  # noqa: T201 - what `pytest -rP` shows of a long run
    assert counted["effects"] > 40
    assert set(counted["kinds"]) >= UPGRADE_KINDS - {"os.link"}
    assert not SCALE.long or counted["deaths"] == counted["effects"]


def test_a_death_between_a_change_of_a_table_and_its_version_is_undone(
    upgrade_points: ModuleType, tmp_path: Path
) -> None:
    """C10: at every statement; the second start succeeds, all rows are there, and one backup is."""
    counted = run_in_own_process(
        upgrade_points.die_everywhere,
        [StoreAddress(factory="unused", location=str(tmp_path / "trials"))],
        timeout_s=120,
        scenario="real",
        chances=1.0,
        again=0.0,
        seed=SCALE.seed,
        kind="statement",
    )
    assert counted["deaths"] > 8
    assert counted["states"] == {"old": counted["deaths"]}
