"""Verifying by the hundred: no false alarm over good sessions, and seeded faults are found."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

import verified_sessions
from run_scale import LONG, LONG_TIMEOUT_S, SEED, SEEDED_FAULTS, VERIFIED_WORKSPACES, tell
from seeded_faults import FAULTS, Broken
from sessions_api.sessions import Sessions
from sessions_api.state import open_state, read_state
from sessions_api.verifying import verify

if TYPE_CHECKING:
    from sessions_api import Finding

PROCESSES = 4 if LONG else 3
ACTIONS = 45 if LONG else 20
# What a kill leaves, and what a history from elsewhere brings along. None of it is an error.
OF_KILLS = {"torn_tail", "run_end_missing", "undone_differs"}
OF_IMPORTS = {"result_missing", "result_surplus"}
FOUND_SHARE = 0.99


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again at once: nobody else is at work."""
    monkeypatch.setattr(verify, "RECHECK_S", 0.0)


def alarms(workspace: Path, state_home: Path) -> list[Finding]:
    """Verify all, recovered by whoever opens it for writing first; return what is no notice."""
    open_state(workspace, state_home=state_home).close()
    state = read_state(workspace, state_home=state_home)
    try:
        return [one for one in Sessions(state).verify_all().findings if one.severity != "notice"]
    finally:
        state.close()


def session_count(workspace: Path, state_home: Path) -> int:
    """Return how many sessions there are."""
    state = read_state(workspace, state_home=state_home)
    try:
        listed = (state.store.list(limit=None, archived=archived) for archived in (False, True))
        return sum(len(page.items) for page in listed)
    finally:
        state.close()


@pytest.mark.timeout(LONG_TIMEOUT_S)
def test_good_sessions_cause_no_alarm(tmp_path: Path) -> None:
    """Tools, failures, retries, forks, undo, summaries, imports, kills, several processes in turn.

    Where nobody was killed there is nothing but what imports brought along.
    """
    chance = Random(f"{SEED} good")
    program = [sys.executable, str(Path(verified_sessions.__file__))]
    sessions, kills, told = 0, 0, Counter[str]()
    for number in range(VERIFIED_WORKSPACES):
        workspace, home = tmp_path / f"ws{number}", tmp_path / f"home{number}"
        workspace.mkdir()
        killed = number % 2 == 1
        for turn in range(PROCESSES):
            seed, wait_ms = chance.randrange(10**9), chance.randint(5, 400) if killed else 0
            if turn % 2 and not killed:  # this process, for a change
                verified_sessions.work(workspace, home, seed, ACTIONS)
                continue
            arguments = [str(workspace), str(home), str(seed), str(ACTIONS), str(wait_ms)]
            done = subprocess.run([*program, *arguments], check=False, capture_output=True)
            assert done.returncode == 0 or (killed and done.returncode < 0), done.stderr.decode()
            kills += done.returncode < 0
        found = alarms(workspace, home)
        errors = [one for one in found if one.severity == "error"]
        assert errors == [], f"seed {SEED}, workspace {number}"
        kinds = {one.kind for one in found}
        assert kinds <= OF_IMPORTS | (OF_KILLS if killed else set()), (found, SEED, number)
        told.update(one.kind for one in found)
        sessions += session_count(workspace, home)
        shutil.rmtree(home)
    tell(f"{sessions} good sessions, {kills} kills, no false alarm; true warnings {dict(told)}")


@pytest.mark.timeout(LONG_TIMEOUT_S)
def test_seeded_faults_are_found(tmp_path: Path) -> None:
    """Each in a copy of a good workspace; what is found has to be about the broken session."""
    chance = Random(f"{SEED} faults")
    workspace, good = tmp_path / "ws", tmp_path / "good"
    workspace.mkdir()
    while not _is_rich(workspace, good):
        verified_sessions.work(workspace, good, chance.randrange(10**9), ACTIONS)
    before = {(one.kind, one.object, one.message) for one in alarms(workspace, good)}
    tried, missed = 0, Counter[str]()
    names = list(FAULTS)
    for number in range(SEEDED_FAULTS):
        name = names[number % len(names)]
        home = tmp_path / "home"
        shutil.copytree(good, home)
        (database,) = home.glob("workspaces/*/state.sqlite3")
        (journal_dir,) = home.glob("logs/*")
        session_id = FAULTS[name](Broken(database, journal_dir, chance))
        if session_id is not None:
            tried += 1
            state = read_state(workspace, state_home=home)
            try:
                found = Sessions(state).verify(session_id).findings
            finally:
                state.close()
            new = {(one.kind, one.object, one.message) for one in found if one.severity != "notice"}
            if not new - before:
                missed[name] += 1
        shutil.rmtree(home)
    assert tried >= len(FAULTS) * 0.8, f"seed {SEED}"
    assert sum(missed.values()) <= tried * (1 - FOUND_SHARE), (dict(missed), SEED)
    tell(f"{tried - sum(missed.values())} of {tried} faults found; missed {dict(missed)}")


def _is_rich(workspace: Path, home: Path) -> bool:
    """Say whether there is something of each kind that a fault needs."""
    if not home.exists():
        return False
    (database,) = home.glob("workspaces/*/state.sqlite3")
    broken = Broken(database, home, Random(0))
    needed = (
        ("messages", "kind = 'summary' AND covers_first IS NOT NULL"),
        ("runs", "status = 'failed' AND journal_seq IS NOT NULL"),
        ("runs", "status = 'completed' AND undone_at IS NOT NULL AND journal_seq IS NOT NULL"),
        ("sessions", "forked_from_seq IS NOT NULL"),
        ("tool_executions", "run_id IN (SELECT id FROM runs WHERE status = 'completed')"),
    )
    return all(broken.one(table, condition) is not None for table, condition in needed)
