"""How many runs are generated: a sample, or all that the README's figures were measured with.

`SESSIONS_API_LONG=1` asks for all; `SESSIONS_API_SEED` repeats the chances of a run. A sample runs
the same code as the whole. `pytest -rP` shows what was counted.
"""

from __future__ import annotations

import os
import secrets
import sys

LONG = os.environ.get("SESSIONS_API_LONG", "0") not in ("", "0")
SEED = int(os.environ.get("SESSIONS_API_SEED") or secrets.randbits(32))

RUNS_PER_AGENT = 10
AGENTS_IN_MEMORY = 850 if LONG else 24
AGENTS_ON_DISK = 200 if LONG else 6
INTERRUPT_PAIRS = 1_000 if LONG else 60
SLOW_STREAMS = 100 if LONG else 4
VERIFIED_WORKSPACES = 60 if LONG else 2
SEEDED_FAULTS = 400 if LONG else 60
REPLAYED_HISTORIES = 10_000 if LONG else 150
LONG_TIMEOUT_S = 1_800


def tell(counted: str) -> None:
    """Say what a test that passed has counted, and with which seed."""
    sys.stdout.write(f"seed {SEED}: {counted}\n")
