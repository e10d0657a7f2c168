"""A process is killed at every step of a write and of a repair, whole and half-way through."""

from __future__ import annotations

import multiprocessing
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from run_journal import Entry, Journal, RunStarted, SessionRenamed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import SimpleNamespace

FORK = multiprocessing.get_context("fork")
# What changes a disk. Each is a step that a kill can come before, and a write one that it can cut.
STEPS = ("open", "write", "ftruncate", "fchmod", "mkdir", "chmod", "lseek")
TORN = b'{"v":1,"seq":2,"ts":"2026-' + b"x" * 700  # longer than the line that reports it


def _write_and_die(directory: Path, ids: SimpleNamespace, at: int, share: float) -> None:
    """Write a line, but be killed at the step number *at*, after *share* of what it writes."""
    count = 0

    def dying(step: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count == at:
                if name == "write":
                    fd, data = arguments
                    step(fd, data[: int(len(data) * share)])
                os.kill(os.getpid(), signal.SIGKILL)
            return step(*arguments, **named)

        return call

    journal = Journal(directory, workspace_id=ids.workspace)
    for name in STEPS:
        setattr(os, name, dying(getattr(os, name), name))
    journal.write(SessionRenamed(session_id=ids.session))
    os._exit(0)


@pytest.mark.parametrize("start", ["nothing", "good lines", "a torn tail"])
def test_a_kill_at_any_step_costs_its_line_at_most(
    tmp_path: Path, ids: SimpleNamespace, start: str
) -> None:
    """C30: before each step, and in the middle of each write, of the line and of the repair.

    The next write repairs what was left: all lines are good, those from before are there, and
    the torn bytes are there too. At most one tail is set aside for each process that died, and
    each is reported once.
    """
    kill_count = 0
    for at in range(1, 100):
        survived = False
        for share in (0.0, 0.1, 0.5, 0.9, 1.0):
            directory = tmp_path / f"{at}-{share}"
            before = _started(directory, ids, start)
            victim = FORK.Process(target=_write_and_die, args=(directory, ids, at, share))
            victim.start()
            victim.join()
            survived = victim.exitcode == 0
            kill_count += victim.exitcode == -signal.SIGKILL
            _require_good(directory, ids, before, start=start)
            if survived:
                break
        if survived:
            break
    assert kill_count >= {"nothing": 15, "good lines": 10, "a torn tail": 25}[start]


def _started(directory: Path, ids: SimpleNamespace, start: str) -> list[bytes]:
    if start == "nothing":
        return []
    with Journal(directory, workspace_id=ids.workspace) as journal:
        journal.write(RunStarted(session_id=ids.session, run_id=ids.run))
        path = journal.path_for(ids.session)
    lines = path.read_bytes().splitlines()
    if start == "a torn tail":
        with path.open("ab") as file:
            file.write(TORN)
    return lines


def _require_good(
    directory: Path, ids: SimpleNamespace, before: list[bytes], *, start: str
) -> None:
    with Journal(directory, workspace_id=ids.workspace) as journal:
        head = journal.write(SessionRenamed(session_id=ids.session))
        assert head is not None
        assert journal.verify(ids.session).ok
        items = list(journal.read(ids.session))
    assert all(isinstance(item, Entry) for item in items)
    entries = [item for item in items if isinstance(item, Entry)]
    assert [entry.line for entry in entries[: len(before)]] == before
    assert entries[-1].head == head
    repaired = [entry for entry in entries if entry.event == "journal.repaired"]
    asides = {path.name: path.read_bytes() for path in directory.glob("*.torn-*")}
    told = {entry.fields["set_aside"]: entry.fields["torn_bytes"] for entry in repaired}
    assert told == {name: len(torn) for name, torn in asides.items()}
    assert len(repaired) == len(told) <= 1 + (start == "a torn tail")
    if start == "a torn tail":
        assert TORN in asides.values()
