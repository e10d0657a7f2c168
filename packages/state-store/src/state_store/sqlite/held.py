"""Descriptors that carry a lock for as long as something is open, and for this process alone.

Invariant: a forked child closes its copies at once. `flock` belongs to the open file and not to
the process, so a copy that a child inherited would keep the lock after its parent died.

Source: flock(2), proc(5).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import weakref
from pathlib import Path

_held: weakref.WeakSet[Held]


class Held:
    """One descriptor that holds a lock. Thread-safe; void in a forked child."""

    def __init__(self, descriptor: int) -> None:
        self._descriptors = [descriptor]  # `pop` gives it to one caller only
        _held.add(self)

    def lock(self, mode: int) -> None:
        """Ask for the lock in *mode*, as `fcntl.flock` does. For the one who made it."""
        fcntl.flock(self._descriptors[0], mode)

    def take(self) -> int | None:
        """Return the descriptor to the one caller that is going to close it; None to all others."""
        try:
            return self._descriptors.pop()
        except IndexError:
            return None

    def release(self) -> None:
        """Close the descriptor, and with it let the lock go. Doing it twice does nothing."""
        descriptor = self.take()
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        """Let go of what was never released, so that nobody waits for a lock without a holder."""
        self.release()


def pids_that_lock(lock: Path) -> tuple[int, ...]:
    """Return the processes that hold a lock on *lock*, for people; empty where nothing tells."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        facts = lock.stat()
        device = f"{os.major(facts.st_dev):02x}:{os.minor(facts.st_dev):02x}"
        told = Path("/proc/locks").read_text(encoding="ascii")
        # "1: FLOCK ADVISORY READ 4711 fe:00:815 0 EOF"; one who waits has an arrow before the kind.
        rows = [line.split() for line in told.splitlines()]
        file = f"{device}:{facts.st_ino}"
        found = {int(row[4]) for row in rows if row[1] == "FLOCK" and row[5] == file}
        return tuple(sorted(pid for pid in found if pid > 0))  # others are of another namespace
    return ()


# Which descriptors a forked child has to close is a fact of the process.
_held = weakref.WeakSet()


def _drop_all_in_child() -> None:
    for held in list(_held):
        with contextlib.suppress(OSError):
            held.release()


os.register_at_fork(after_in_child=_drop_all_in_child)
