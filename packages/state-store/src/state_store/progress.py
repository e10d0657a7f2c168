"""How long work tells what it is at."""

from __future__ import annotations

from collections.abc import Callable

# What is being done, how much of it is done, and of how much: 0 and 0 where it cannot be known.
# Called often, from the thread that works; what it raises ends the work in good order.
Progress = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """Tell nobody."""
    del what, done, total
