"""From the numbers that messages had to those that they get: 1, 2, 3 … in their order.

A copy leaves messages out, and an import may come with any numbers. Whatever points at a message
(a run's first one, a call, a result, the range of a summary) is moved with it. Invariant: a number
that two messages had leads nowhere.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property

_LARGEST = 1 << 53


class SameNumbers:
    """The numbers as they were: of a session with losses, in which each gap says something."""

    def add(self, old: int) -> int:
        """Take the next message, which had the number *old* and keeps it."""
        return old

    def exact(self, old: int) -> int | None:
        """Return the number, whether a message has it or has lost it; None if none can have it."""
        return old if 0 < old < _LARGEST else None

    first_from = last_to = exact


class Renumbering:
    """The old numbers in their new order. Ask when all of them were added."""

    def __init__(self) -> None:
        self._old: list[int] = []
        self._is_increasing = True

    def add(self, old: int) -> int:
        """Take the next message, which had the number *old*; return its new one."""
        self._is_increasing &= not self._old or old > self._old[-1]
        self._old.append(old)
        return len(self._old)

    def exact(self, old: int) -> int | None:
        """Return the new number of the message that had *old*."""
        if not self._is_increasing:
            return self._places.get(old)
        place = bisect_left(self._old, old)
        return place + 1 if place < len(self._old) and self._old[place] == old else None

    def first_from(self, old: int) -> int | None:
        """Return the new number of the first message that had *old* or a higher one."""
        if not self._is_increasing:
            return self._places.get(old)
        place = bisect_left(self._old, old)
        return place + 1 if place < len(self._old) else None

    def last_to(self, old: int) -> int | None:
        """Return the new number of the last message that had *old* or a lower one."""
        if not self._is_increasing:
            return self._places.get(old)
        return bisect_right(self._old, old) or None

    @cached_property
    def _places(self) -> dict[int, int | None]:
        places: dict[int, int | None] = {}
        for new, old in enumerate(self._old, start=1):
            places[old] = None if old in places else new
        return places
