"""Many processes at an old database; `upgrade_crowds` has what each of them does."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from state_store.testing import Scale, StoreAddress
from state_store.testing.own_process import run_in_own_process

if TYPE_CHECKING:
    from types import ModuleType

SCALE = Scale.from_environment()
STARTER_COUNT, ROUNDS = (64, 8) if SCALE.long else (16, 1)


@pytest.fixture
def crowds(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module of the jobs, which other processes can import too."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    return importlib.import_module("upgrade_crowds")


def addresses(tmp_path: Path, count: int = 1) -> list[StoreAddress]:
    """Return where *count* stores are going to be."""
    return [
        StoreAddress(factory="unused", location=str(tmp_path / str(number) / "state.sqlite3"))
        for number in range(count)
    ]


@pytest.mark.timeout(600)
def test_of_many_starters_one_upgrades_and_all_go_to_work(
    crowds: ModuleType, tmp_path: Path
) -> None:
    """One migration, one backup; who has started stays, and keeps nobody from starting."""
    counted = run_in_own_process(
        crowds.start_at_once,
        addresses(tmp_path, ROUNDS),
        timeout_s=600,
        starter_count=STARTER_COUNT,
    )
    print(counted)  # noqa: T201 - for `pytest -rP`
    assert counted == {
        "stores": ROUNDS,
        "starters": STARTER_COUNT * ROUNDS,
        "upgrades": ROUNDS,
        "backups": ROUNDS,
    }


def test_an_older_program_at_work_is_named_and_nothing_is_changed(
    crowds: ModuleType, tmp_path: Path
) -> None:
    """When it has gone the upgrade goes through."""
    told = run_in_own_process(crowds.upgrade_beside_another, addresses(tmp_path), timeout_s=60)
    assert told["work"] == "upgrade"
    assert "Nothing was changed" in told["hint"]


def test_readers_that_come_and_go_do_not_keep_an_upgrade_out(
    crowds: ModuleType, tmp_path: Path
) -> None:
    """Sixteen of them, without a pause: the gate keeps new ones out while the last ones leave."""
    counted = run_in_own_process(
        crowds.upgrade_among_readers, addresses(tmp_path), timeout_s=100, reader_count=16
    )
    print(counted)  # noqa: T201 - for `pytest -rP`
    assert counted["readings"] >= 16
