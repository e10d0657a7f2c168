"""Measure how long whoever changes a store's files waits for a stream of short readers.

Sixteen processes open the store, stay for a few milliseconds and leave, again and again. One asks
to be alone: through the gate, as the package does it, and without it, asking for the presence
only. Interleaved rounds; waits in milliseconds, cut off at five seconds.

    uv run python benchmarks/closing_the_gate.py --rounds 10
"""

from __future__ import annotations

import argparse
import fcntl
import multiprocessing
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from state_store.sqlite import gate
from state_store.sqlite.beside import presence_of
from state_store.sqlite.held import Held
from state_store.sqlite.place import Place

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

READER_COUNT = 16
STAY_S = 0.005
CUT_OFF_MS = 5_000


def main() -> None:
    """Run the rounds and print what each way waited."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as directory:
        place = Place.at(
            Path(directory) / "state.sqlite3", workspace_id="w", busy_timeout_ms=CUT_OFF_MS
        )
        waits: dict[str, list[float]] = {"through the gate": [], "without it": []}
        for _ in range(rounds):
            waits["through the gate"].append(_waited(place, gated=True))
            waits["without it"].append(_waited(place, gated=False))
    for way, found in waits.items():
        print(f"{way}: median {statistics.median(found):.0f} ms, worst {max(found):.0f} ms")


def _waited(place: Place, *, gated: bool) -> float:
    context = multiprocessing.get_context("fork")
    over = context.Event()
    readers = [
        context.Process(target=_come_and_go, args=(place, over)) for _ in range(READER_COUNT)
    ]
    for reader in readers:
        reader.start()
    time.sleep(0.3)
    began = time.monotonic()
    with ExitStack() as leaving:
        if gated:
            leaving.enter_context(gate.alone(place, "upgrade"))
        else:
            leaving.callback(_ask_for_presence_alone(place).release)
        waited = (time.monotonic() - began) * 1000
    over.set()
    for reader in readers:
        reader.join()
    return waited


def _come_and_go(place: Place, over: Event) -> None:
    while not over.is_set():
        presence = gate.enter(place, creating=True)
        time.sleep(STAY_S)
        presence.close()


def _ask_for_presence_alone(place: Place) -> Held:
    held = Held(os.open(presence_of(place.path), os.O_RDONLY | os.O_CREAT, 0o600))
    deadline = time.monotonic() + CUT_OFF_MS / 1000
    while time.monotonic() < deadline:
        try:
            held.lock(fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.002)
        else:
            break
    return held


if __name__ == "__main__":
    main()
