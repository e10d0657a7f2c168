"""Signals that strike in the midst of a line: handled after it, and none is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from run_journal import Entry, Journal, StoreOpened, Uninterrupted
from run_journal.sink import Sink

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import SimpleNamespace


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """Ctrl-C raises, also where the tests run in the background of a shell that ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_just_after_the_lock_is_taken_costs_no_later_line(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between taking the lock and knowing it must not hold every later line up."""
    entered = Sink._entered

    def interrupted(self: Sink) -> object:
        entered(self)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Sink, "_entered", interrupted)
        with pytest.raises(KeyboardInterrupt):
            journal.write(StoreOpened())
    assert journal.write(StoreOpened()) is not None
    assert journal.failed_count == 0


@pytest.mark.parametrize("where", ["private lock", "append"])
def test_ctrl_c_waits_until_the_line_is_written(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Struck in the middle of a write it is raised after it, and no lock stays taken."""
    place = "_entered" if where == "private lock" else "_append"
    original = getattr(Sink, place)

    def struck(self: Sink, *arguments: object) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0)  # where a handler would run
        return original(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Sink, place, struck)
        with pytest.raises(KeyboardInterrupt):
            journal.write(StoreOpened())
    assert journal.write(StoreOpened()) is not None
    assert journal.failed_count == 0
    assert [entry.seq for entry in journal.read(None) if isinstance(entry, Entry)] == [1, 2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _strike(*numbers: int) -> None:
    for number in numbers:
        os.kill(os.getpid(), number)
        time.sleep(0)  # where a handler would run


def test_signals_that_came_during_a_line_are_handled_after_it_in_their_order() -> None:
    """Nothing is swallowed, also when contexts are nested."""
    came: list[int] = []
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP)}
    try:
        for one in before:
            signal.signal(one, lambda number, _frame: came.append(number))
        with Uninterrupted(), Uninterrupted():
            _strike(signal.SIGTERM, signal.SIGHUP, signal.SIGTERM)
            assert came == []
        assert came == [signal.SIGTERM, signal.SIGHUP, signal.SIGTERM]
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def test_a_handler_that_raises_costs_no_later_one() -> None:
    """Ctrl-C and then a termination in one line: both are handled, though the first raises."""
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: came.append(number))
    try:
        with pytest.raises(KeyboardInterrupt), Uninterrupted():
            _strike(signal.SIGINT, signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert came == [signal.SIGTERM]


def test_a_time_limit_that_strikes_in_a_line_is_not_swallowed(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `TimeoutError` is an `OSError`, which a write takes for a failure of its own."""
    original = Sink._append

    def struck(self: Sink, *arguments: Any) -> object:
        _strike(signal.SIGALRM)
        return original(self, *arguments)

    def limit(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, limit)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Sink, "_append", struck)
            with pytest.raises(TimeoutError):
                journal.write(StoreOpened())
    finally:
        signal.signal(signal.SIGALRM, before)
    assert journal.failed_count == 0
    assert journal.verify(None).line_count == 1


def test_an_interpreter_that_may_set_no_handlers_writes_without_holding_signals_back(
    tmp_path: Path, ids: SimpleNamespace
) -> None:
    """A web server may run us in a second interpreter of its process (PEP 554, mod_wsgi)."""
    inner = (
        "import sys\n"
        f"sys.path[:] = {sys.path!r}\n"
        "import pathlib, run_journal\n"
        f"directory = pathlib.Path({str(tmp_path)!r})\n"
        f"journal = run_journal.Journal(directory, workspace_id={ids.workspace!r})\n"
        "assert journal.write(run_journal.StoreOpened())\n"
    )
    code = (
        "import sys\n"
        "try:\n"
        "    import _interpreters as interpreters\n"
        "    one = interpreters.create('legacy')\n"
        "    failure = interpreters.exec(one, sys.argv[1])\n"
        "except ImportError:\n"
        "    import _xxsubinterpreters as interpreters\n"
        "    one = interpreters.create(isolated=False)\n"
        "    failure = interpreters.run_string(one, sys.argv[1])\n"
        "interpreters.destroy(one)\n"
        "sys.exit(str(failure) if failure else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, inner], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "workspace.jsonl").read_bytes().count(b"\n") == 1
