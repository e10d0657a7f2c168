from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from state_store import SqliteStore

    OpenDisk = Callable[..., SqliteStore]
    RunPython = Callable[..., str]
    StartPython = Callable[..., Any]  # a Program of conftest.py


def test_a_forked_child_does_not_keep_a_dead_owner_alive(
    start_python: StartPython, open_disk: OpenDisk
) -> None:
    """It inherits no lock, however long it lives."""
    process = start_python(
        """
store = open_store()
run = begin(store, store.create_session().id)
reading, writing = os.pipe()
if os.fork() == 0:
    os.write(writing, b"x")  # by now it has let go of what it inherited
    sys.stdin.readline()
    os._exit(0)
os.read(reading, 1)
say(run.id)
os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    run_id = process.line()
    assert process.wait() == -signal.SIGKILL
    assert [run.id for run in open_disk().recovered] == [run_id]
    process.go_on()


def test_a_forked_child_cannot_use_the_store_and_the_parent_can(run_python: RunPython) -> None:
    """Every use is refused, closing does nothing, and the parent's runs stay its own."""
    said = run_python(
        """
store = open_store()
session_id = store.create_session().id
run = begin(store, session_id)
child = os.fork()
if child == 0:
    for use in (store.list, store.create_session, store.recover, lambda: complete(store, run)):
        try:
            use()
        except StoreForked as error:
            assert (error.opened_by, error.used_by) == (os.getppid(), os.getpid())
            say("refused")
    store.close()
    own = open_store()
    say(own.get_run(run.id).stale, own.recovered)
    own.close()
    sys.exit(0)  # with all that a normal exit destroys
assert os.waitpid(child, 0)[1] == 0
complete(store, run)
say(store.get_run(run.id).status)
store.close()
"""
    ).splitlines()
    assert said == ["refused"] * 4 + ["False ()", "completed"]


def test_a_forked_child_leaves_the_log_of_its_dead_parent_alone(
    run_python: RunPython, open_disk: OpenDisk, path: Path
) -> None:
    """Its copy of the connection goes without a checkpoint: others may hold the files by now."""
    run_python(
        """
parent = os.getpid()
store = open_store()
store.create_session()
if os.fork() == 0:
    while os.getppid() == parent:
        time.sleep(0.001)
    sys.exit(0)  # with all that a normal exit destroys
os._exit(0)
"""
    )
    assert path.with_name(f"{path.name}-wal").stat().st_size > 0
    assert len(open_disk().list().items) == 1


def test_a_fork_while_another_thread_writes_does_not_block_the_child(
    run_python: RunPython,
) -> None:
    """The lock that the other thread held is never asked for in the child."""
    said = run_python(
        """
import threading
store = open_store()
inside, leave = threading.Event(), threading.Event()
def hold():
    with store._database.write():
        inside.set()
        leave.wait()
thread = threading.Thread(target=hold)
thread.start()
inside.wait()
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads is what is tested
child = os.fork()
if child == 0:
    signal.alarm(60)
    try:
        store.list()
    except StoreForked:
        store.close()
        os.write(1, b"refused at once\\n")
    os._exit(0)
status = os.waitpid(child, 0)[1]
leave.set()
thread.join()
say(status)
"""
    )
    assert said.splitlines() == ["refused at once", "0"]


def test_an_asynchronous_store_in_a_forked_child_is_refused_at_once(
    run_python: RunPython,
) -> None:
    """Its thread is not there; waiting for it would never end."""
    said = run_python(
        """
import asyncio, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads is what is tested
store = asyncio.run(AsyncSqliteStore.open(path, workspace_id=workspace_id))
child = os.fork()
if child == 0:
    signal.alarm(60)
    try:
        asyncio.run(store.list())
    except StoreForked:
        asyncio.run(store.close())
        os.write(1, b"refused at once\\n")
    os._exit(0)
say(os.waitpid(child, 0)[1])
asyncio.run(store.close())
"""
    )
    assert said.splitlines() == ["refused at once", "0"]


def test_a_fork_waits_for_a_thread_that_is_inside(run_python: RunPython) -> None:
    """SQLite's own locks would stay locked in the child, whose first call would then hang."""
    said = run_python(
        """
import threading
from state_store.sqlite import database
database._FORK_PATIENCE_S = 60
store = open_store()
inside, left = threading.Event(), []
def write():
    with store._database.write():
        inside.set()
        time.sleep(0.2)
        left.append("left")
thread = threading.Thread(target=write)
thread.start()
inside.wait()
child = os.fork()
if child == 0:
    own = open_store()
    say(*left, len(own.list().items))
    own.close()
    os._exit(0)
os.waitpid(child, 0)
thread.join()
store.create_session()
say("goes on")
"""
    )
    assert said.splitlines() == ["left 0", "goes on"]
