"""How much of the long tests is run: a sample, or all that the README's figures were measured with.

`WORKSPACE_IDENTITY_LONG=1` asks for all; `WORKSPACE_IDENTITY_SEED` repeats the chances of a run.
Invariant: the sample runs the same code.
"""

from __future__ import annotations

import os
import secrets

LONG = os.environ.get("WORKSPACE_IDENTITY_LONG", "0") not in ("", "0")
SEED = int(os.environ.get("WORKSPACE_IDENTITY_SEED") or secrets.randbits(32))

PROCESS_COUNT = 64
ROUND_COUNT = 200 if LONG else 3
WORKSPACE_COUNT = 10_000 if LONG else 2_000
SEQUENCE_COUNT = 2_000 if LONG else 160
STEP_COUNT = 40 if LONG else 16
