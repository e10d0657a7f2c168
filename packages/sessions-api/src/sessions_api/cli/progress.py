"""What long work is at: one line on standard error, for a person who waits.

Owns that line. Invariants: it comes after half a second, so that what is quick shows nothing, and
only where somebody looks; it is gone before anything else is written. A thread of its own draws it,
because one step of the work, rebuilding a database say, can take long without a word.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import suppress
from threading import Event, Thread
from typing import Self

PATIENCE_S = 0.5
_REDRAWN_EVERY_S = 0.1


class ProgressLine:
    """Told what is done, how much of it and of how much; it shows that if *shown*.

    Use it as a context manager around the work: the line is gone behind the block.
    """

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._at = ("", 0, 0)
        self._over = Event()
        self._thread: Thread | None = None

    def __call__(self, what: str, done: int, total: int) -> None:
        """Take in what the work is at."""
        self._at = (what, done, total)
        if self._shown and self._thread is None:
            self._thread = Thread(target=self._draw, daemon=True)
            self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _draw(self) -> None:
        drawn = 0
        over = self._over.wait(PATIENCE_S)
        while not over:
            columns_wide = shutil.get_terminal_size().columns - 1
            line = _line(*self._at)[:columns_wide]
            _write(f"\r{line:<{drawn}}")
            drawn = len(line)
            over = self._over.wait(_REDRAWN_EVERY_S)
        if drawn:
            _write(f"\r{'':<{drawn}}\r")


def _line(what: str, done: int, total: int) -> str:
    so_far = f" {100 * done // total} %" if total else ""
    return f"{what[:1].upper()}{what[1:]} …{so_far}"


def _write(text: str) -> None:
    with suppress(OSError, ValueError):  # a terminal that is gone ends no work
        sys.stderr.write(text)
        sys.stderr.flush()
