"""Measure how long one of several writers waits, by the way in which they wait.

    uv run python benchmarks/writer_fairness.py --rounds 5
    uv run python benchmarks/writer_fairness.py --rounds 5 --commit-ms 4     # as on a slower disk

Processes write turns (two transactions each) to one store as fast as they can. The ways take turns
within a round, so that a loaded machine is loaded for all of them. Shown for each: turns a second,
also as a ratio to the floor (as many processes, raw apsw, SQLite's own waiting, the same rows in
the same transactions), how long a caller waited for an acknowledged write, and how unequal the
processes' shares were. `one` is the floor of a single process, to which nobody is in the way.

Results and what was decided by them: docs/adr/0007-fair-writers.md.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import apsw

from state_store import NewMessage, SqliteStore, Usage, new_id

WORKSPACE_ID = "11111111-2222-4333-8444-555555555555"
QUESTION, ANSWER = "q" * 500, "a" * 1000
TIMEOUT_S = 5.0
Turn = Callable[[], None]


@dataclass(kw_only=True)
class Result:
    """What the rounds of one way gave; waits in seconds, shares as turns of one process."""

    rates: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    shares: list[int] = field(default_factory=list)


def by_sqlite(store: SqliteStore, path: Path) -> None:
    """Wait as SQLite's own time-out does: Ctrl-C is seen when it is over."""
    _replace(store, path, lambda connection: connection.set_busy_timeout(int(TIMEOUT_S * 1000)))


def backing_off(store: SqliteStore, path: Path) -> None:
    """Sleep 1, 2, 4 … 25 ms."""
    _replace(store, path, partial(_sleeping, lambda n: min(0.001 * 2 ** min(n, 5), 0.025)))


def fixed(store: SqliteStore, path: Path) -> None:
    """Sleep 1 ms each time."""
    _replace(store, path, partial(_sleeping, lambda _: 0.001))


def at_random(store: SqliteStore, path: Path) -> None:
    """Sleep up to 2 ms each time."""
    _replace(store, path, partial(_sleeping, lambda _: os.urandom(1)[0] / 255 * 0.002))


def never_passing(store: SqliteStore, path: Path) -> None:
    """Leave the store as it is, but for letting others pass."""
    del path
    store._database._waiting.let_others_pass = lambda: None  # type: ignore[method-assign]  # the point


def lock_file(store: SqliteStore, path: Path) -> None:
    """Hold a lock file around the transaction; ask for it every 1 ms."""
    _replace(store, path, partial(_sleeping, lambda _: 0.001), partial(_locked, poll_s=0.001))


def lock_file_blocking(store: SqliteStore, path: Path) -> None:
    """Hold a lock file around the transaction; sleep in the kernel for it, without a time-out."""
    _replace(store, path, partial(_sleeping, lambda _: 0.001), partial(_locked, poll_s=None))


def shipped(store: SqliteStore, path: Path) -> None:
    """Leave the store as it is."""


WAYS = {
    way.__name__: way
    for way in (
        by_sqlite,
        backing_off,
        fixed,
        at_random,
        never_passing,
        lock_file,
        lock_file_blocking,
        shipped,
    )
}


def _replace(
    store: SqliteStore,
    path: Path,
    install: Callable[[apsw.Connection], None],
    around: Callable[[int], Iterator[None]] | None = None,
) -> None:
    """Put another way of waiting into *store*; a benchmark may look inside."""
    database = store._database
    install(database._connection)
    database._waiting.let_others_pass = lambda: None  # type: ignore[method-assign]  # that is the point
    if around is None:
        return
    descriptor = os.open(f"{path}.turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    write = database.write

    @contextmanager
    def write_in_turn() -> Iterator[apsw.Connection]:
        with contextmanager(around)(descriptor), write() as connection:
            yield connection

    database.write = write_in_turn  # type: ignore[method-assign]  # as above


def _sleeping(delay: Callable[[int], float], connection: apsw.Connection) -> None:
    deadline = 0.0

    def busy(attempt: int) -> bool:
        nonlocal deadline
        if attempt == 0:
            deadline = time.monotonic() + TIMEOUT_S
        time.sleep(delay(attempt))
        return time.monotonic() < deadline

    connection.set_busy_handler(busy)


def _locked(descriptor: int, *, poll_s: float | None) -> Iterator[None]:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (fcntl.LOCK_NB if poll_s else 0))
            break
        except BlockingIOError:
            time.sleep(poll_s or 0)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def store_writes(
    path: Path, way: Callable[[SqliteStore, Path], None], commit_s: float
) -> list[Turn]:
    """Return the two writes of a turn through the store."""
    store = SqliteStore.open(path, workspace_id=WORKSPACE_ID)
    session_id = store.create_session().id
    way(store, path)
    _slow_down(store._database._connection, commit_s)
    question = NewMessage(role="user", content=QUESTION)
    answer = NewMessage(role="assistant", content=ANSWER)
    begun: list[str] = []

    def begin() -> None:
        begun.append(new_id())
        store.begin_run(session_id, question, run_id=begun[-1])

    def complete() -> None:
        store.complete_run(begun[-1], answer, usage=Usage())

    return [begin, complete]


def floor_writes(path: Path, commit_s: float) -> list[Turn]:
    """Return the same rows in the same transactions as nothing but statements."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(int(TIMEOUT_S * 1000))
    for setting in ("journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"PRAGMA {setting}")
    _slow_down(connection, commit_s)
    session_id = new_id()
    connection.execute(
        "INSERT INTO sessions (id, title_source, show_reasoning, status, created_at, updated_at)"
        " VALUES (?, 'auto', 0, 'idle', '', '')",
        (session_id,),
    )
    begun: list[tuple[str, int]] = []

    def write(*statements: tuple[str, tuple[object, ...]]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        for statement, values in statements:
            connection.execute(statement, values)
        connection.execute("COMMIT")

    add = (
        "INSERT INTO messages (session_id, seq, run_id, role, content, kind)"
        " VALUES (?, ?, ?, ?, ?, 'original')"
    )
    count = "UPDATE sessions SET message_count = ? WHERE id = ?"

    def begin() -> None:
        run_id, seq = new_id(), 2 * len(begun) + 1
        begun.append((run_id, seq))
        write(
            (
                (
                    "INSERT INTO runs (id, session_id, first_seq, status, started_at, owner)"
                    " VALUES (?, ?, ?, 'pending', '', '')"
                ),
                (run_id, session_id, seq),
            ),
            (add, (session_id, seq, run_id, "user", QUESTION)),
            (count, (seq, session_id)),
        )

    def complete() -> None:
        run_id, seq = begun[-1]
        write(
            (add, (session_id, seq + 1, run_id, "assistant", ANSWER)),
            ("UPDATE runs SET status = 'completed', finished_at = '' WHERE id = ?", (run_id,)),
            (count, (seq + 1, session_id)),
        )

    return [begin, complete]


def _slow_down(connection: apsw.Connection, commit_s: float) -> None:
    """Let each commit take *commit_s* longer, with the lock held, as a slower disk does."""

    def on_commit() -> bool:
        time.sleep(commit_s)
        return False

    if commit_s:
        connection.set_commit_hook(on_commit)


def measure(
    make_writes: Callable[[Path], list[Turn]], process_count: int, seconds: float, result: Result
) -> None:
    """Add one round to *result*."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "state.sqlite3"
        SqliteStore.open(path, workspace_id=WORKSPACE_ID).close()
        ready, go = os.pipe()
        answers = []
        for _ in range(process_count):
            reading, writing = os.pipe()
            if os.fork() == 0:
                os.close(go)
                _work(make_writes(path), ready, seconds, writing)
            os.close(writing)
            answers.append(reading)
        time.sleep(0.3)
        os.close(ready)
        os.close(go)
        waits = []
        for answer in answers:
            with os.fdopen(answer) as file:
                waits.append(json.load(file))
        for _ in range(process_count):
            os.wait()
    result.shares += [len(one) // 2 for one in waits]
    result.waits += [wait for one in waits for wait in one]
    result.rates.append(sum(map(len, waits)) / 2 / seconds)


def _work(writes: list[Turn], ready: int, seconds: float, answer: int) -> None:
    waits: list[float] = []
    os.read(ready, 1)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for write in writes:
            began = time.monotonic()
            write()
            waits.append(time.monotonic() - began)
    with os.fdopen(answer, "w") as file:
        json.dump(waits, file)
    os._exit(0)


def main() -> None:
    """Measure and print a table."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=2.0)
    options.add_argument("--processes", type=int, default=8)
    options.add_argument("--commit-ms", type=float, default=0.0)
    options.add_argument("ways", nargs="*", default=list(WAYS), metavar="way")
    asked = options.parse_args()
    commit_s = asked.commit_ms / 1000
    one, floor, results = Result(), Result(), {name: Result() for name in asked.ways}
    for _ in range(asked.rounds):
        measure(partial(floor_writes, commit_s=commit_s), 1, asked.seconds, one)
        measure(partial(floor_writes, commit_s=commit_s), asked.processes, asked.seconds, floor)
        for name, result in results.items():
            make = partial(store_writes, way=WAYS[name], commit_s=commit_s)
            measure(make, asked.processes, asked.seconds, result)
    print(
        f"{'way':20} {'turns/s':>8} {'x floor':>8} {'p50 ms':>8} {'p99 ms':>8} {'worst':>8}  shares"
    )
    for name, result in {"one": one, "floor": floor, **results}.items():
        ratio = statistics.median(
            mine / base for mine, base in zip(result.rates, floor.rates, strict=True)
        )
        waits = sorted(result.waits)
        times = [1000 * waits[int(len(waits) * at)] for at in (0.5, 0.99)] + [1000 * waits[-1]]
        print(
            f"{name:20} {statistics.median(result.rates):8.0f} {ratio:8.2f}"
            f" {times[0]:8.1f} {times[1]:8.1f} {times[2]:8.1f}"
            f"  {min(result.shares)} to {max(result.shares)}"
        )


if __name__ == "__main__":
    main()
