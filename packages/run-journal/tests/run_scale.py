"""How much is run: a sample, or the counts that the README states.

`RUN_JOURNAL_LONG=1` asks for the whole, `RUN_JOURNAL_SEED` for the same chances again. A sample
runs the same code as the whole. `pytest -rP` shows what was counted.
"""

from __future__ import annotations

import os
import sys

LONG = os.environ.get("RUN_JOURNAL_LONG", "0") not in ("", "0")
SEED = int(os.environ.get("RUN_JOURNAL_SEED", "6"))

CROWD_LINES = 100_000 if LONG else 3_200
KILLS = 2_000 if LONG else 40
GOOD_COUNT = 1_000 if LONG else 250
FAULT_COUNT = 200 if LONG else 90
LONG_TIMEOUT_S = 1_200


def tell(counted: str) -> None:
    """Say what a test that passed has counted, and with which seed."""
    sys.stdout.write(f"seed {SEED}: {counted}\n")
