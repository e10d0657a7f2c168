"""A clock that a test can predict.

The contract suite hands it to stores in place of the system's. Invariant: each reading is one
step after the one before; a step of zero is a clock that stands still.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta


class SteppingClock:
    """A `Clock` that starts at *now* and goes one *step* on with every reading. Thread-safe."""

    def __init__(
        self,
        now: datetime = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        *,
        step: timedelta = timedelta(seconds=1),
    ) -> None:
        self.now = now
        self.step = step
        self._lock = threading.Lock()

    def __call__(self) -> datetime:
        """Return the current reading and go on by one step."""
        with self._lock:
            reading = self.now
            self.now = reading + self.step
        return reading
