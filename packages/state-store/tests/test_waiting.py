from __future__ import annotations

import signal
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from state_store.sqlite import waiting

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from state_store import SqliteStore

    OpenDisk = Callable[..., SqliteStore]
    RunPython = Callable[..., str]
    StartPython = Callable[..., subprocess.Popen[str]]

# Commits take 4 ms, as on a slower disk, and whoever has just committed asks again at once.
WRITE_AT_ONCE = """
ready, go = os.pipe()
open_store().close()
shares = []
for number in range(4):
    reading, report = os.pipe()
    if os.fork() == 0:
        os.close(go)
        store = open_store()
        store._database._connection.set_commit_hook(lambda: time.sleep(0.004) or False)
        session_id, count = store.create_session().id, 0
        os.read(ready, 1)
        end = time.monotonic() + 1.2
        while time.monotonic() < end:
            store.update_session(session_id, {"duration_ms": count})
            count += 1
        os.write(report, str(count).encode())
        os._exit(0)
    os.close(report)
    shares.append(reading)
time.sleep(0.2)
os.close(go)
say(*(os.read(share, 100).decode() for share in shares))
for _ in shares:
    assert os.wait()[1] == 0
"""


def line_of(process: subprocess.Popen[str]) -> str:
    """Return the next line that *process* prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_writers_that_never_pause_get_their_shares(run_python: RunPython) -> None:
    """Nobody is starved by the one that asks again right after its commit.

    A busy machine can starve one for once; who is always first starves the others every time.
    """
    tries = []
    for _ in range(3):
        tries.append(sorted(int(word) for word in run_python(WRITE_AT_ONCE).split()))
        if tries[-1][0] * 5 > tries[-1][-1]:
            return
    pytest.fail(f"in none of {tries} everybody had a share")


def test_a_writer_that_meets_nobody_never_sleeps(run_python: RunPython) -> None:
    """Being fair costs nothing when there is nobody to be fair to."""
    said = run_python(
        """
sleeps = []
time.sleep = sleeps.append
store = open_store()
session_id = store.create_session().id
end = time.monotonic() + 2 * 0.02
while time.monotonic() < end:
    turn(store, session_id)
store.close()
say(len(sleeps))
"""
    )
    assert said.strip() == "0"


def test_a_writer_that_met_another_lets_it_pass_when_it_has_gone_on_for_a_while(
    open_disk: OpenDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once in a streak, for a second after the meeting, and at most a slice long."""
    store, other = open_disk(busy_timeout_ms=0), open_disk()
    session_id = store.create_session().id
    slept: list[float] = []
    now = time.monotonic()  # stands still but for what is said here, however slow the disk is
    monkeypatch.setattr(waiting, "time", SimpleNamespace(sleep=slept.append, monotonic=lambda: now))
    with other._database.write(), pytest.raises(TimeoutError):
        store.update_session(session_id, {"title": "x"})
    met = len(slept)
    assert met
    now += 2 * waiting.STREAK_S
    store.update_session(session_id, {"title": "x"})
    store.update_session(session_id, {"title": "y"})
    assert len(slept) == met + 1
    now += waiting.RIVALRY_S
    store.update_session(session_id, {"title": "z"})
    assert len(slept) == met + 1
    assert all(0 <= one <= waiting.SLICE_S for one in slept)


def test_ctrl_c_ends_a_process_that_waits_at_once(
    start_python: StartPython, open_disk: OpenDisk
) -> None:
    """Long before its time-out, and nothing is written."""
    store = open_disk()
    with store._database.write():
        waiter = start_python(
            "store = open_store(busy_timeout_ms=3_600_000)\nsay('waiting')\nstore.create_session()"
        )
        assert line_of(waiter) == "waiting"
        time.sleep(0.05)
        waiter.send_signal(signal.SIGINT)
        assert waiter.wait(timeout=100) == -signal.SIGINT
    assert store.list().items == ()
