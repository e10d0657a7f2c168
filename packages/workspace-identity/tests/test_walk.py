"""Random walks of directories that are made, moved, copied, restored, harmed and opened."""

from __future__ import annotations

import random
import shutil
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from scale import LONG, SEED, SEQUENCE_COUNT, STEP_COUNT
from walk import World

if TYPE_CHECKING:
    from pathlib import Path

SHARE_COUNT = 4
REACHED = {2, 3, 4, 6, 8, 9, 10, 11, 13}  # the others need git, mounts or other users


@pytest.mark.timeout(3600 if LONG else 120)
@pytest.mark.parametrize("share", range(SHARE_COUNT))
def test_a_random_walk_never_shares_or_loses_a_history(tmp_path: Path, share: int) -> None:
    """C21, C22: every decision is the model's; no two living directories share a history.

    A failure carries the seed, the sequence and its steps as a note.
    """
    rows: Counter[int] = Counter()
    for number in range(share, SEQUENCE_COUNT, SHARE_COUNT):
        root = tmp_path / str(number)
        root.mkdir()
        world = World(root, random.Random(f"{SEED}-{number}"))
        try:
            world.walk(STEP_COUNT)
        except Exception as error:
            error.add_note("\n".join([f"seed {SEED}, sequence {number}", *world.story]))
            raise
        rows.update(world.rows)
        shutil.rmtree(root)
    counts = dict(sorted(rows.items()))
    sys.stdout.write(f"seed {SEED}, share {share}: {rows.total()} opens, of each row {counts}\n")
    assert set(rows) <= REACHED
    assert set(rows) == REACHED or not LONG
