from __future__ import annotations

import os
import random
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from state_store import Maintenance, SqliteStore, StoreInUse
from state_store.sqlite import gate
from state_store.sqlite.beside import gate_of
from state_store.sqlite.gate import alone, enter
from state_store.sqlite.place import Place
from state_store.testing import Scale
from state_store.testing.turns import session_with_turn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    OpenDisk = Callable[..., SqliteStore]
    Tend = Callable[..., Maintenance]
    RunPython = Callable[..., str]
    StartPython = Callable[..., Any]  # a Program of conftest.py

LONG = os.environ.get("STATE_STORE_LONG") == "1"
SCALE = Scale.from_environment()


@pytest.fixture
def place(path: Path, workspace_id: str) -> Place:
    """Return the place of the test's store, with a time-out that a test can wait for."""
    path.parent.mkdir()
    return Place.at(path, workspace_id=workspace_id, busy_timeout_ms=50)


def is_in_use(place: Place) -> bool:
    """Say whether somebody is in the store."""
    try:
        with alone(place, "compact"):
            return False
    except StoreInUse:
        return True


def test_who_is_in_the_store_keeps_it_in_use_and_many_may_be(place: Place) -> None:
    """Until the last has left; leaving twice lets go of nobody else's."""
    first, second = enter(place, creating=True), enter(place, creating=True)
    assert is_in_use(place)
    first.close()
    first.close()
    assert is_in_use(place)
    second.close()
    assert not is_in_use(place)


def test_one_who_is_alone_keeps_all_others_out(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who want to be in it, and those who want to be alone."""
    monkeypatch.setattr(gate, "PASSING_TIMEOUT_MS", 30)
    with alone(place, "restore"):
        for creating in (True, False):
            with pytest.raises(StoreInUse):
                enter(place, creating=creating)
        assert is_in_use(place)
    assert not is_in_use(place)


def test_a_time_out_changes_nothing(place: Place) -> None:
    """It names who is in the way, and leaves the lock of the one who waited behind nowhere."""
    presence = enter(place, creating=True)
    before = {one.name: one.stat().st_ino for one in place.path.parent.iterdir()}
    began = time.monotonic()
    with pytest.raises(StoreInUse) as refused, alone(place, "compact"):
        pytest.fail("it is not alone")
    assert time.monotonic() - began >= 0.05
    assert (refused.value.path, refused.value.work) == (str(place.path), "compact")
    assert {one.name: one.stat().st_ino for one in place.path.parent.iterdir()} == before
    enter(place, creating=True).close()
    presence.close()
    with alone(place, "compact"):
        pass


def test_a_holder_that_is_killed_frees_the_store_at_once(
    start_python: StartPython, place: Place
) -> None:
    """And one that is only stopped does not: it goes on when it is woken."""
    holder = start_python("store = open_store(); say('open'); sys.stdin.readline()")
    assert holder.line() == "open"
    holder.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)
    assert is_in_use(place)
    holder.kill()
    holder.wait()
    assert not is_in_use(place)


def test_a_stopped_process_that_wakes_up_is_still_in_its_store(
    start_python: StartPython, tend: Tend, place: Place
) -> None:
    """Nobody has changed the files beneath it meanwhile; it is named by its pid."""
    holder = start_python(
        """
store = open_store()
session_id = store.create_session().id
say("open")
sys.stdin.readline()
turn(store, session_id)
say(len(store.messages(session_id).items))
store.close()
"""
    )
    assert holder.line() == "open"
    holder.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)
    with pytest.raises(StoreInUse) as refused:
        tend(busy_timeout_ms=50).compact()
    assert [pid for pid, _, _ in refused.value.holders] == [holder.pid]
    holder.send_signal(signal.SIGCONT)
    holder.go_on()
    assert holder.line() == "2"
    assert holder.wait() == 0
    tend().compact()


def test_a_dead_parents_child_does_not_keep_the_store_in_use(
    start_python: StartPython, place: Place
) -> None:
    """It inherits no lock: neither of a store, nor of one who was alone, however long it lives."""
    parent = start_python(
        """
from state_store.sqlite.gate import alone
from state_store.sqlite.place import Place
store = open_store()
elsewhere = Place.at(path.with_name("other.sqlite3"), workspace_id=workspace_id)
reading, writing = os.pipe()
with alone(elsewhere, "compact"):
    child = os.fork()
    if child == 0:
        os.write(writing, b"x")  # by now it has let go of what it inherited
        sys.stdin.readline()
        os._exit(0)
    os.read(reading, 1)
    say("forked")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    assert parent.line() == "forked"
    assert parent.wait() == -signal.SIGKILL
    assert not is_in_use(place)
    other = place.path.with_name("other.sqlite3")
    assert not is_in_use(Place.at(other, workspace_id=place.workspace_id, busy_timeout_ms=50))
    parent.go_on()


def test_a_child_that_ends_takes_no_lock_from_its_parent(run_python: RunPython) -> None:
    """`flock` belongs to the open file: closing the child's copy must not let the parent's go."""
    said = run_python(
        """
store = open_store()
child = os.fork()
if child == 0:
    store.close()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
try:
    tend(busy_timeout_ms=20).compact()
except StoreInUse as error:
    say(error.holders[0][0] == os.getpid())
"""
    )
    assert said == "True\n"


def test_two_stores_of_one_process_are_two_that_are_in_it(open_disk: OpenDisk, tend: Tend) -> None:
    """Closing one, twice, does not let the other one's place go."""
    first, second = open_disk(), open_disk()
    first.close()
    first.close()
    with pytest.raises(StoreInUse) as refused:
        tend(busy_timeout_ms=20).compact()
    assert [pid for pid, _, _ in refused.value.holders] == [os.getpid()]
    second.close()
    tend().compact()


def test_a_store_that_was_forgotten_unclosed_is_left(open_disk: OpenDisk, path: Path) -> None:
    """Its lock goes with it: nobody waits for a lock without a holder."""
    place = Place.at(path, workspace_id="any", busy_timeout_ms=50)
    open_disk().close()
    presence = enter(place, creating=False)
    assert is_in_use(place)
    del presence
    assert not is_in_use(place)


@pytest.mark.parametrize("waiting", ["tend({}).compact()", "open_store({})"])
def test_ctrl_c_ends_one_who_waits_and_leaves_no_lock(
    start_python: StartPython, place: Place, waiting: str
) -> None:
    """At once, whether it waits to be alone or to come in."""
    presence = None if "open" in waiting else enter(place, creating=True)
    (place.path.parent / "owners").mkdir()
    closed = alone(place, "restore")
    if presence is None:
        closed.__enter__()
    else:
        place.path.write_bytes(b"something")
    waiter = start_python(
        f"""
try:
    say("waiting")
    {waiting.format("busy_timeout_ms=3_600_000")}
except KeyboardInterrupt:
    say("interrupted")
    sys.stdin.readline()
"""
    )
    assert waiter.line() == "waiting"
    time.sleep(0.1)
    waiter.send_signal(signal.SIGINT)
    assert waiter.line() == "interrupted", "or it waits for an hour"
    if presence is None:
        closed.__exit__(None, None, None)
    else:
        presence.close()
    assert not is_in_use(place)
    waiter.go_on()


def test_who_wants_in_waits_for_one_who_waits_to_be_alone_and_then_succeeds(
    start_python: StartPython, open_disk: OpenDisk, tend: Tend
) -> None:
    """Not for longer than that one's own time-out, and without an error."""
    store = open_disk()
    session_with_turn(store)
    waiter = start_python(
        """
say("waiting")
try:
    tend(busy_timeout_ms=600).compact()
except StoreInUse:
    say("in use")
"""
    )
    assert waiter.line() == "waiting"
    place = tend()._place
    deadline = time.monotonic() + 10
    while not is_gate_closed(place.path) and time.monotonic() < deadline:
        time.sleep(0.002)
    with open_disk(writing=False) as reader:
        assert not is_gate_closed(place.path), "it came in through a closed gate"
        assert len(reader.list().items) == 1
    assert waiter.line() == "in use"


def is_gate_closed(path: Path) -> bool:
    """Say whether somebody is alone, or waits to be."""
    import fcntl  # noqa: PLC0415 - only here

    descriptor = os.open(gate_of(path), os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_short_readers_one_after_another_do_not_keep_one_out_who_wants_to_be_alone(
    open_disk: OpenDisk, tend: Tend
) -> None:
    """The gate lets nobody new in while one waits, and afterwards they all go on."""
    open_disk().close()
    stop, counts = threading.Event(), [0] * 16

    def read_and_leave(number: int) -> None:
        while not (counts[number] and stop.is_set()):
            with open_disk(writing=False) as reader:
                reader.list()
            counts[number] += 1

    threads = [threading.Thread(target=read_and_leave, args=(one,)) for one in range(16)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20 if LONG else 3):
            tend(busy_timeout_ms=30_000).compact()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert all(counts)


@pytest.mark.timeout(3600 if LONG else 60)
def test_never_is_one_alone_while_another_is_in(
    start_python: StartPython, tend: Tend, path: Path, open_disk: OpenDisk
) -> None:
    """Eight processes come in and four want to be alone, all killed at random in between."""
    open_disk().close()
    source = random.Random(SCALE.seed)
    program = """
import random
from state_store.sqlite.gate import alone, enter
from state_store.sqlite.place import Place
source = random.Random(int(sys.argv[3]))
place = Place.at(path, workspace_id=workspace_id, busy_timeout_ms=2000)
inside = path.with_name("inside")
def is_living(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
say("ready")
while True:
    if sys.argv[4] == "alone":
        try:
            with alone(place, "compact"):
                for one in inside.iterdir():  # somebody who is in, or was killed there
                    deadline = time.monotonic() + 2
                    while is_living(one.name):
                        if time.monotonic() > deadline:
                            say("together with", one.name)
                            sys.exit(1)
                        time.sleep(0.01)
                    one.unlink(missing_ok=True)
                time.sleep(source.random() / 500)
        except StoreInUse:
            pass
        time.sleep(source.random() / 100)
    else:
        presence = enter(place, creating=True)
        (inside / str(os.getpid())).touch()
        time.sleep(source.random() / 500)
        (inside / str(os.getpid())).unlink()
        presence.close()
        time.sleep(source.random() / 200)
"""
    path.with_name("inside").mkdir()

    def start(kind: str) -> Any:
        process = start_python(program, str(source.getrandbits(32)), kind)
        assert process.line() == "ready"
        return process, kind

    crowd = [start(kind) for kind in ["alone"] * 4 + ["in"] * 8]
    for _ in range(60 if LONG else 4):
        time.sleep(source.uniform(0, 0.15))
        process, kind = crowd.pop(source.randrange(len(crowd)))
        assert process.poll() is None, process.line()
        process.kill()
        process.wait()
        crowd.append(start(kind))
    for process, _ in crowd:
        assert process.poll() is None, process.line()
        process.kill()
        process.wait()
    print({"seed": SCALE.seed, "kills": 60 if LONG else 4})  # noqa: T201 - what `pytest -s` shows
