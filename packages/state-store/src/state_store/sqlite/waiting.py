"""How a writer waits for the write lock of others, and lets others have it.

SQLite does not queue: whoever asks in the instant the lock is free gets it. A writer that asks
again right after its commit therefore wins against all that sleep, for seconds on end. Two rules
make it a fair lottery without a queue on disk; `docs/adr/0007` has the figures.

- Waiters sleep for a short random time, however long they have waited. A growing one would make
  those who waited longest ask least often, and a fixed one keeps them in step.
- Whoever has met another writer lately, and has had the lock again and again for a while, sleeps
  once like a waiter before it asks again.

Invariant: no sleep is longer than `SLICE_S`, and Python does it, so that Ctrl-C is seen at once;
a writer that meets nobody never sleeps.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import apsw

SLICE_S = 0.004
STREAK_S = 0.020  # how long a writer may go on by itself: several short commits, or one long one
RIVALRY_S = 1.0  # how long after meeting another writer it is taken to be there still


class Waiting:
    """One connection's waiting. For the thread that holds the connection, like the connection."""

    def __init__(self) -> None:
        self._met_at = float("-inf")
        self._streak_began = float("-inf")

    def wait_up_to(self, connection: apsw.Connection, timeout_ms: int) -> None:
        """Let *connection* wait for any lock up to *timeout_ms* from now on."""
        deadline = 0.0

        def busy(attempt: int) -> bool:
            nonlocal deadline
            now = time.monotonic()
            if attempt == 0:
                deadline = now + timeout_ms / 1000
            self._met_at = now
            self._sleep()
            return now < deadline

        connection.set_busy_handler(busy)

    def let_others_pass(self) -> None:
        """Sleep a slice if others may be waiting and this writer has gone on for long enough."""
        now = time.monotonic()
        if now - self._met_at < RIVALRY_S and now - self._streak_began > STREAK_S:
            self._sleep()

    def _sleep(self) -> None:
        # Not the module `random`, whose import costs a good part of this package's.
        time.sleep(os.urandom(1)[0] / 255 * SLICE_S)
        self._streak_began = time.monotonic()
