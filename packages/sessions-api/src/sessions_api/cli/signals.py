"""Signals that end a command become an exception in the main thread, so that a run is cancelled.

Owns the handlers of SIGTERM and SIGHUP while a command runs; Ctrl-C is Python's own. Invariants:
the first signal counts and later ones wait until what it cancelled is committed; a signal that
was ignored when the process began (nohup) stays ignored; afterwards the handlers are as before.

Source: POSIX, "Signal Actions"; shells report 128 + the signal's number.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

INTERRUPTED = 128 + signal.SIGINT
_STOPPING = (signal.SIGTERM, signal.SIGHUP)


class Stopped(SystemExit):
    """The process was asked to end by a signal; `exit_code` is 128 and its number."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(128 + signal_number)
        self.exit_code = 128 + signal_number
        self.signal_name = signal.Signals(signal_number).name


def ignore_interrupts() -> None:
    """Ignore Ctrl-C for what is left of this process: its exit code is decided.

    Pressed while the interpreter shuts down it would end by the signal, in the middle of a line.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def signals_that_stop() -> Iterator[None]:
    """Raise `Stopped` for SIGTERM and SIGHUP inside the block; only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {one: signal.getsignal(one) for one in _STOPPING}
    ours = [one for one, handler in before.items() if handler == signal.SIG_DFL]

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        for one in ours:
            signal.signal(one, signal.SIG_IGN)
        raise Stopped(number)

    for one in ours:
        signal.signal(one, stop)
    try:
        yield
    finally:
        for one in ours:
            signal.signal(one, before[one])
