from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from state_store import SqliteStore, StoreBusy
from state_store.sqlite.beside import at_rest
from state_store.sqlite.schema import SCHEMA
from state_store.testing.turns import contents, turn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    OpenDisk = Callable[..., SqliteStore]
    RunPython = Callable[..., str]
    StartPython = Callable[..., Any]  # a Program of conftest.py

HOLDS_THE_WRITE_LOCK = """
store = open_store()
with store._database.write():
    say("holding")
    sys.stdin.readline()
"""
# Forked from one process that has opened nothing: they start in the same instant.
OPEN_AT_ONCE = """
count = int(sys.argv[3])
ready, go = os.pipe()
for number in range(count):
    if os.fork() == 0:
        os.close(go)
        os.read(ready, 1)
        store = open_store()
        run = begin(store, new_id(), f"from {number}", create=NewSession())
        complete(store, run)
        store.close()
        os._exit(0)
os.close(go)
say([os.wait()[1] for _ in range(count)])
"""


@pytest.mark.parametrize(("count", "repeats"), [(16, 3), (32, 1)])
def test_processes_that_open_a_new_store_at_once_make_one(
    run_python: RunPython, path: Path, workspace_id: str, count: int, repeats: int
) -> None:
    """One file, one schema row, every session of every process (C01)."""
    for number in range(repeats):
        fresh = path.parent / str(number) / path.name
        said = run_python(
            f"path = path.parent / '{number}' / path.name\n{OPEN_AT_ONCE}", str(count)
        )
        assert said.strip() == str([0] * count)
        assert {one.name for one in fresh.parent.rglob("*")} == {*at_rest(path), "owners"}
        with SqliteStore.open(fresh, workspace_id=workspace_id) as store:
            sessions = store.list(limit=None).items
            assert len(sessions) == count
            assert all(len(contents(store, one.id)) == 2 for one in sessions)
        connection = apsw.Connection(str(fresh))
        assert connection.execute("SELECT count(*) FROM schema_version").get == SCHEMA.version
        assert connection.execute("SELECT count(*) FROM store").get == 1
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        connection.close()


def test_twenty_threads_that_open_a_new_store_at_once_make_one(
    path: Path, workspace_id: str
) -> None:
    """Opening is single-flight between threads too (C02)."""
    start = threading.Barrier(20)

    def open_and_turn(_: int) -> str:
        start.wait()
        with SqliteStore.open(path, workspace_id=workspace_id) as store:
            session_id = store.create_session().id
            turn(store, session_id)
            return session_id

    with ThreadPoolExecutor(20) as threads:
        ids = set(threads.map(open_and_turn, range(20)))
    with SqliteStore.open(path, workspace_id=workspace_id) as store:
        assert {one.id for one in store.list(limit=None).items} == ids


def test_a_second_writer_waits_for_the_first(
    start_python: StartPython, open_disk: OpenDisk
) -> None:
    """And then writes."""
    store = open_disk()
    holder = start_python(HOLDS_THE_WRITE_LOCK)
    assert holder.line() == "holding"
    released: list[float] = []

    def release() -> None:
        released.append(time.monotonic())
        holder.go_on()

    threading.Timer(0.15, release).start()
    store.create_session()
    assert time.monotonic() > released[0]


def test_a_writer_gives_up_after_its_time_out(
    start_python: StartPython, open_disk: OpenDisk, path: Path
) -> None:
    """With a typed error, nothing written, and a store that goes on."""
    store = open_disk(busy_timeout_ms=100)
    holder = start_python(HOLDS_THE_WRITE_LOCK)
    assert holder.line() == "holding"
    began = time.monotonic()
    with pytest.raises(StoreBusy) as busy:
        store.create_session()
    assert time.monotonic() - began > 0.09
    assert (busy.value.path, busy.value.waited_ms) == (str(path), 100)
    holder.go_on()
    assert holder.wait() == 0
    session = store.create_session()
    assert [one.id for one in store.list().items] == [session.id]


def test_readers_answer_while_a_writer_holds_the_lock(
    start_python: StartPython, open_disk: OpenDisk
) -> None:
    """An open one and one that opens now; neither waits (C14 and C05, the reading half)."""
    writer = open_disk(busy_timeout_ms=0)
    turn(writer, writer.create_session().id)
    holder = start_python(HOLDS_THE_WRITE_LOCK)
    assert holder.line() == "holding"
    assert len(writer.list().items) == 1
    reader = open_disk(writing=False, busy_timeout_ms=0)
    (summary,) = reader.list().items
    assert contents(reader, summary.id) == ["question", "answer"]


def test_opening_for_writing_does_not_wait_when_there_is_nothing_to_recover(
    start_python: StartPython, open_disk: OpenDisk
) -> None:
    """It takes the write lock only for a dead owner's run."""
    holder = start_python(HOLDS_THE_WRITE_LOCK)
    assert holder.line() == "holding"
    assert open_disk(busy_timeout_ms=0).recovered == ()


def test_ctrl_c_is_seen_at_once_while_waiting_for_the_lock(
    start_python: StartPython, open_disk: OpenDisk
) -> None:
    """Not after the whole time-out; and the store is usable afterwards."""
    open_disk()
    holder = start_python(HOLDS_THE_WRITE_LOCK)
    assert holder.line() == "holding"
    waiter = start_python(
        """
store = open_store(busy_timeout_ms=3_600_000)
try:
    say("waiting")
    store.create_session()
except KeyboardInterrupt:
    say("interrupted", store._database._connection.in_transaction, len(store.list().items))
sys.stdin.readline()
say(store.create_session().status)
"""
    )
    assert waiter.line() == "waiting"
    time.sleep(0.1)
    waiter.send_signal(signal.SIGINT)
    assert waiter.line() == "interrupted False 0", "or it waits for an hour"
    holder.go_on()
    assert holder.wait() == 0
    waiter.go_on()
    assert waiter.line() == "idle"


def test_an_interrupt_at_any_instant_leaves_a_store_that_works(run_python: RunPython) -> None:
    """Four hundred, microseconds apart: no open transaction, no half turn, no raw error."""
    said = run_python(
        """
import random
seed = random.SystemRandom().getrandbits(32)
source = random.Random(seed)
say("seed", seed)
store = open_store()
session_id = store.create_session().id
def interrupt(number, frame):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
struck, tries = 0, 0
while struck < 400:
    tries += 1
    run_id = new_id()
    try:
        signal.setitimer(signal.ITIMER_REAL, source.uniform(1e-6, 2.5e-3))
        begun = NewMessage(role="user", content="q")
        store.begin_run(session_id, begun, run_id=run_id)
        store.complete_run(run_id, NewMessage(role="assistant", content="a"), usage=Usage())
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        struck += 1
        # As a caller does it: still within the handler, with the traceback alive.
        try:
            if store.get_run(run_id).status == "pending":
                store.fail_run(run_id, "cancelled", usage=Usage())
        except RunNotFound:
            pass
runs = store.runs(session_id).items
messages = store.messages(session_id).items
assert not [run for run in runs if run.status == "pending"]
completed = [run for run in runs if run.status == "completed"]
assert len(messages) == len(runs) + len(completed), (len(messages), len(runs), len(completed))
assert store.get_session(session_id).message_count == len(messages)
say("struck", struck, "of", tries, "runs", len(runs), "completed", len(completed))
store.close()
"""
    )
    assert "struck 400" in said


def test_a_transaction_left_by_an_interrupt_is_ended_by_the_next_use(
    open_disk: OpenDisk,
) -> None:
    """Ctrl-C between BEGIN and the block leaves a suspended one as long as its traceback lives."""
    store = open_disk()
    database = store._database
    suspended = database.write()
    suspended.__enter__().execute("INSERT INTO tombstones VALUES ('x', 'y', 0, 0, NULL)")
    session_id = store.create_session().id
    with database.write() as connection:
        del suspended  # its late clean-up must not end this transaction
        assert connection.in_transaction
        connection.execute("INSERT INTO tombstones VALUES ('z', 'y', 0, 0, NULL)")
    with database.read() as connection:
        assert connection.execute("SELECT session_id FROM tombstones").fetchall() == [("z",)]
    assert [one.id for one in store.list().items] == [session_id]


def test_a_block_that_raises_leaves_nothing_and_no_transaction(open_disk: OpenDisk) -> None:
    """Between BEGIN and COMMIT any exception rolls back."""
    database = open_disk()._database

    def write_and_raise(error: type[BaseException]) -> None:
        with database.write() as connection:
            connection.execute("INSERT INTO tombstones VALUES ('x', 'y', 0, 0, NULL)")
            raise error

    for error in (ValueError, KeyboardInterrupt, SystemExit, apsw.SQLError):
        with pytest.raises(error):
            write_and_raise(error)
        assert not database._connection.in_transaction
    with database.read() as connection:
        assert connection.execute("SELECT count(*) FROM tombstones").get == 0


def test_a_commit_that_fails_is_rolled_back(open_disk: OpenDisk) -> None:
    """A deferred constraint speaks up only at COMMIT."""
    store = open_disk()
    session_id = store.create_session().id
    statement = (
        "INSERT INTO messages (session_id, role, seq, kind, run_id)"
        " VALUES (?, 'user', 1, 'original', 'no such run')"
    )
    with pytest.raises(apsw.ConstraintError), store._database.write() as connection:
        connection.execute(statement, (session_id,))
    assert not store._database._connection.in_transaction
    turn(store, session_id)
    assert contents(store, session_id) == ["question", "answer"]
