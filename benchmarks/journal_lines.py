"""Measure what a journal line costs, from one session to a thousand.

    uv run python benchmarks/journal_lines.py
    uv run python benchmarks/journal_lines.py --rounds 20 --sessions 1 1000
    uv run python benchmarks/journal_lines.py --cpu       # where other programs are at work
    uv run python benchmarks/journal_lines.py --open 16   # fewer files than sessions

A line is an event made anew, checked, encoded, searched for four live secrets and for key shapes,
sent through loguru, chained and appended under the lock, with signals held back meanwhile. The
floor writes as many bytes with one `write` each, to as many files, through as many descriptors,
and does nothing else. Journal and floor take turns within a round, so that a loaded machine is
loaded for both; shown are the median over the rounds and the median of the rounds' ratios.

`in turn` goes to another session with every line, `in runs` stays with one for twelve lines, as a
run does. With more sessions than open files each change opens and closes one: `--open 16`. By
default a journal keeps a quarter of what the system lets a process open, 1,024 at most.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING

from run_journal import FinishReason, Id, Journal, ProviderResponded, Uninterrupted, id_of, name_of
from run_journal.descriptors import usual_max_open

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WORKSPACE_ID = "11111111-2222-4333-8444-555555555555"
RUN_ID = id_of("019b7d2e-0000-7000-8000-00000000000a")
RUN_LINES = 12
# Invented, and put together here so that scanners of repositories see none.
SECRETS = tuple(f"sk-{'made-up'}-{number:032d}" for number in range(4))
ORDERS = {"in turn": 1, "in runs": RUN_LINES}


@dataclass(kw_only=True)
class Result:
    """Microseconds a line, one figure a round."""

    journal: list[float] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)


def event_of(session_id: Id) -> ProviderResponded:
    """Return an event of ordinary size: its line has about 560 bytes."""
    return ProviderResponded(
        session_id=session_id,
        run_id=RUN_ID,
        provider=name_of("openai"),
        model=name_of("gpt-4o-mini"),
        attempt=1,
        http_status=200,
        finish_reason=FinishReason("stop"),
        tool_call_count=0,
        response_bytes=1234,
        input_tokens=1234,
        output_tokens=567,
    )


def order(sessions: list[Id], stay: int, count: int) -> Iterator[Id]:
    """Yield *count* sessions, each *stay* times before the next one."""
    return islice((one for one in cycle(sessions) for _ in range(stay)), count)


class Floor:
    """Append ready lines; the oldest descriptor makes room for a new one."""

    def __init__(self, directory: Path, line: bytes, *, max_open: int) -> None:
        self._directory = directory
        self._line = line
        self._max_open = max_open
        self._open: OrderedDict[str, int] = OrderedDict()

    def write(self, session_id: str) -> None:
        """Append the line to a session's file."""
        descriptor = self._open.get(session_id)
        if descriptor is None:
            while len(self._open) >= self._max_open:
                os.close(self._open.popitem(last=False)[1])
            path = self._directory / session_id
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            self._open[session_id] = descriptor
        else:
            self._open.move_to_end(session_id)
        os.write(descriptor, self._line)

    def close(self) -> None:
        """Close all files."""
        for descriptor in self._open.values():
            os.close(descriptor)


class Stopwatch:
    """Measure by the clock on the wall, or by the time that the process was at work."""

    def __init__(self, *, cpu: bool) -> None:
        self._now = time.process_time if cpu else time.perf_counter

    def microseconds(
        self, write: Callable[[Id], object], sessions: Iterator[Id], count: int
    ) -> float:
        """Return what a line costs."""
        began = self._now()
        for session_id in sessions:
            write(session_id)
        return (self._now() - began) / count * 1e6


def measure(
    watch: Stopwatch,
    session_count: int,
    stay: int,
    *,
    rounds: int,
    count: int,
    max_open: int | None = None,
) -> Result:
    """Measure one number of sessions in one order."""
    result = Result()
    sessions = [id_of(str(uuid.UUID(int=number, version=4))) for number in range(session_count)]
    with (
        tempfile.TemporaryDirectory() as folder,
        Journal(
            Path(folder) / "journal",
            workspace_id=WORKSPACE_ID,
            secrets=lambda: SECRETS,
            max_open_files=max_open,
        ) as journal,
    ):

        def write(session_id: Id) -> None:
            journal.write(event_of(session_id), duration_ms=41)

        write(sessions[0])
        line = journal.path_for(sessions[0]).read_bytes()
        (Path(folder) / "floor").mkdir()
        floor = Floor(Path(folder) / "floor", line, max_open=max_open or usual_max_open())
        for one in (write, floor.write):  # every file is there before anything is measured
            watch.microseconds(one, iter(sessions), session_count)
        for _ in range(rounds):
            result.journal.append(watch.microseconds(write, order(sessions, stay, count), count))
            result.floor.append(
                watch.microseconds(floor.write, order(sessions, stay, count), count)
            )
        floor.close()
        if journal.failed_count or journal.tripped_count:
            raise SystemExit("Lines were lost or stopped: this measures nothing.")
    return result


def parts(watch: Stopwatch) -> Iterator[tuple[str, float]]:
    """Yield what two parts of a line cost alone: making the event, and holding signals back."""

    def hold(_: Id) -> None:
        with Uninterrupted():
            pass

    count = 20_000
    one = id_of(str(uuid.UUID(int=1, version=4)))
    for name, part in (("making the event", event_of), ("holding signals back", hold)):
        yield name, min(watch.microseconds(part, order([one], 1, count), count) for _ in range(3))


def main() -> None:
    """Measure and print a table."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--lines", type=int, default=3000, help="lines a round")
    options.add_argument("--cpu", action="store_true", help="count the time at work alone")
    options.add_argument("--open", type=int, help="files that stay open; as many as usual")
    options.add_argument("--sessions", type=int, nargs="+", default=[1, 10, 100, 1000])
    asked = options.parse_args()
    watch = Stopwatch(cpu=asked.cpu)
    print(f"{'order':8} {'sessions':>8} {'us a line':>10} {'lowest':>8} {'floor':>7} {'ratio':>6}")
    for name, stay in ORDERS.items():
        for session_count in asked.sessions:
            result = measure(
                watch,
                session_count,
                stay,
                rounds=asked.rounds,
                count=asked.lines,
                max_open=asked.open,
            )
            ratio = statistics.median(
                mine / base for mine, base in zip(result.journal, result.floor, strict=True)
            )
            print(
                f"{name:8} {session_count:8} {statistics.median(result.journal):10.1f}"
                f" {min(result.journal):8.1f} {statistics.median(result.floor):7.1f} {ratio:6.1f}"
            )
    for name, cost in parts(watch):
        print(f"of which {name}: {cost:.1f} us")


if __name__ == "__main__":
    main()
