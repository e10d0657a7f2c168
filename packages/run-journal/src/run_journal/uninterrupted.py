"""Keeping Ctrl-C out of a line that is being written.

A signal handler that raises can strike inside loguru's lock or ours, which then stays taken: every
later line is lost, or waits for ever. Invariant: between entering and leaving, the handlers of the
signals that stop a program do not run; those that came run when it is over, in their order, so
nothing is swallowed and the delay is that of one line.

Only the main interpreter's main thread runs Python's signal handlers, so elsewhere this does
nothing. Handlers that are not Python's (ignored, the system's own) are left alone.

Source: Python documentation, `signal`, "Note on signal handlers and exceptions".
"""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack, suppress
from functools import cache
from typing import TYPE_CHECKING, Self

try:
    # What `signal` wraps, without its conversion to enumerations: on Python 3.11 that raises and
    # catches an error each time, 8 microseconds for every line.
    from _signal import getsignal  # type: ignore[import-not-found] # CPython's own, without stubs
    from _signal import signal as set_handler
except ImportError:
    from signal import getsignal
    from signal import signal as set_handler

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    Handler = Callable[[int, FrameType | None], object]

# SIGALRM as well: a time limit raises in its handler, often a TimeoutError, which is an OSError
# and would be taken for a lock that was held too long.
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM")
STOPPING = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))


@cache
def _may_set_handlers() -> bool:
    """Whether this is the main interpreter; a web server may run us in another one."""
    try:
        with suppress(TypeError):  # no handler at all: refused before anything is set
            set_handler(signal.SIGINT, None)
    except ValueError:
        return False
    return True


def _is_ours(handler: object) -> bool:
    """Whether an outer context holds the signal already, so that an inner one has nothing to do."""
    return isinstance(getattr(handler, "__self__", None), Uninterrupted)


class Uninterrupted:
    """A context in which a stopping signal waits; may be nested. Use each object once."""

    __slots__ = ("_came", "_handlers")

    def __init__(self) -> None:
        self._came: list[int] = []
        self._handlers: dict[int, Handler] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread() and _may_set_handlers():
            try:
                for number in STOPPING:
                    handler = getsignal(number)
                    if callable(handler) and not _is_ours(handler):
                        self._handlers[number] = handler
                        set_handler(number, self._note)
            except BaseException:  # a handler struck before it was replaced
                self._restore()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        handlers = dict(self._handlers)
        self._restore()
        if self._came:
            with ExitStack() as rest:  # one that raises, as that of Ctrl-C does, costs no other
                for number in reversed(self._came):
                    rest.callback(handlers[number], number, None)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._came.append(number)

    def _restore(self) -> None:
        try:
            while self._handlers:
                number = next(iter(self._handlers))
                set_handler(number, self._handlers[number])
                del self._handlers[number]
        except BaseException:  # a handler struck as soon as it was back
            self._restore()
            raise
