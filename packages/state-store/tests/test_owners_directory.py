from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import threading
import uuid
from typing import TYPE_CHECKING

import pytest

from state_store import SessionBusy, SqliteStore, utc_now
from state_store.sqlite import ownership
from state_store.testing.contract.runs import WRITES_TO_A_RUN
from state_store.testing.turns import begin, turn

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    OpenDisk = Callable[..., SqliteStore]
    RunPython = Callable[..., str]
    StartPython = Callable[..., subprocess.Popen[str]]

pytestmark = pytest.mark.timeout(120)  # what hangs on a FIFO hangs for ever


@pytest.fixture
def owners(open_disk: OpenDisk, path: Path) -> Path:
    """Return the owners' directory of a store that was closed."""
    open_disk().close()
    return path.parent / "owners"


def unfinished(owners: Path, owner_id: str | None = None) -> Path:
    """Return where a claim with this id is made, before it has its name."""
    return owners / f".{owner_id or uuid.uuid4()}.new"


def test_what_a_crashed_claim_left_is_swept_by_the_next_opener(
    owners: Path, open_disk: OpenDisk
) -> None:
    """An owner's file without a name belongs to nobody when nobody holds it."""
    left = unfinished(owners)
    left.write_bytes(b'{"pid"')
    open_disk()
    assert not left.exists()


def test_a_claim_that_is_being_made_is_not_swept(owners: Path, open_disk: OpenDisk) -> None:
    """It is locked before it has its name."""
    seen: list[Path] = []

    def clock() -> object:  # read while the claim is half made
        if threading.current_thread() is threading.main_thread() and not seen:
            seen.extend(owners.glob(".*.new"))
            opener = threading.Thread(target=lambda: open_disk().close())
            opener.start()
            opener.join()
            assert seen[0].exists()
        return utc_now()

    owner = ownership.Owner.claim(owners, clock=clock)  # type: ignore[arg-type]  # a clock that opens a store
    assert len(seen) == 1
    assert (owners / f"{owner.id}.lock").exists()
    owner.release(keep_file=False)


def test_claims_succeed_however_eagerly_others_sweep(owners: Path) -> None:
    """Met in the instant before it is locked, a claim is made anew."""
    done = threading.Event()

    def sweep() -> None:
        while not done.is_set():
            ownership.remove_unfinished(owners)

    sweepers = [threading.Thread(target=sweep) for _ in range(2)]
    for sweeper in sweepers:
        sweeper.start()
    try:
        for _ in range(200):
            owner = ownership.Owner.claim(owners, clock=utc_now)
            assert ownership.probe(owners, owner.id) == "alive"
            owner.release(keep_file=False)
    finally:
        done.set()
        for sweeper in sweepers:
            sweeper.join()
    assert list(owners.iterdir()) == []


@pytest.mark.parametrize("instant", ["before it is locked", "before it has its name"])
def test_a_claim_that_was_swept_is_made_anew(
    owners: Path, monkeypatch: pytest.MonkeyPatch, instant: str
) -> None:
    """The two instants in which a sweep can meet it."""
    swept: list[Path] = []

    def flock(descriptor: int, operation: int) -> None:
        if not swept and operation & fcntl.LOCK_EX:
            (found,) = owners.glob(".*.new")
            swept.append(found)
            found.unlink()
            if instant == "before it is locked":
                raise BlockingIOError
        real_flock(descriptor, operation)

    real_flock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", flock)
    owner = ownership.Owner.claim(owners, clock=utc_now)
    assert len(swept) == 1
    assert ownership.probe(owners, owner.id) == "alive"
    owner.release(keep_file=False)


def test_what_is_not_ours_in_the_owners_directory_is_no_crash_and_no_hang(
    owners: Path, open_disk: OpenDisk, path: Path
) -> None:
    """FIFOs, links, directories and other people's files, named like ours or not (C31)."""
    os.mkfifo(owners / f"{uuid.uuid4()}.lock")
    os.mkfifo(owners / "fifo.lock")
    os.mkfifo(unfinished(owners))
    for name in (f"{uuid.uuid4()}.lock", "directory.lock", unfinished(owners).name):
        (owners / name).mkdir()
    kept = [owners / name for name in ("notes", ".notes.new", "notes.lock")]
    for one in kept:
        one.write_text("mine")
    links = [owners / f"{uuid.uuid4()}.lock", unfinished(owners), owners / "link.lock"]
    for link in links:
        link.symlink_to(path)
    dangling = owners / f"{uuid.uuid4()}.lock"
    dangling.symlink_to(owners / "nowhere")
    store = open_disk()
    turn(store, store.create_session().id)
    assert [one.read_text() for one in kept] == ["mine"] * 3
    assert all(link.is_symlink() for link in (*links, dangling))
    assert store.recover() == ()


@pytest.mark.parametrize("kind", ["fifo", "link to a fifo", "directory"])
def test_a_strange_thing_in_place_of_an_owners_file_is_no_hang(
    owners: Path, open_disk: OpenDisk, kind: str
) -> None:
    """Neither when the run is judged nor when people are told whose it is (C31)."""
    store = open_disk()
    run = begin(store, store.create_session().id)
    strange = str(uuid.uuid4())
    place = owners / f"{strange}.lock"
    if kind == "directory":
        place.mkdir()
    elif kind == "fifo":
        os.mkfifo(place)
    else:
        os.mkfifo(owners / "fifo")
        place.symlink_to(owners / "fifo")
    with store._database.write() as connection:
        connection.execute("UPDATE runs SET owner = ?", (strange,))
    assert ownership.facts_of(owners, strange) == ownership.OwnerFacts()
    other = open_disk()
    with contextlib.suppress(SessionBusy):
        begin(other, run.session_id)
    assert other.get_run(run.id).error_type == (None if "link" in kind else "interrupted")


def test_an_owner_taken_for_dead_is_fenced_on_every_write(
    start_python: StartPython, open_disk: OpenDisk, path: Path
) -> None:
    """It slept while its file was removed by hand, and tries everything when it wakes up."""
    process = start_python(
        """
from state_store.testing.contract.runs import WRITES_TO_A_RUN
from state_store.testing.turns import calling
store = open_store()
run = begin(store, store.create_session().id, "asked")
store.start_tools(run.id, calling("c1"), ["unsafe"])
say(run.id)
sys.stdin.readline()
for name, write in sorted(WRITES_TO_A_RUN.items()):
    try:
        write(store, run.id)
        say(name, "passed")
    except RunNotPending as error:
        say(name, error.status)
store.close()
"""
    )
    assert process.stdout is not None
    assert process.stdin is not None
    run_id = process.stdout.readline().strip()
    process.send_signal(signal.SIGSTOP)
    for lock in (path.parent / "owners").iterdir():
        lock.unlink()
    store = open_disk()
    assert [run.id for run in store.recovered] == [run_id]
    session_id = store.recovered[0].session_id
    before = [
        store.get_run(run_id),
        store.get_session(session_id),
        store.messages(session_id, view="all"),
        store.tool_executions(session_id),
    ]
    process.send_signal(signal.SIGCONT)
    said, _ = process.communicate("\n", timeout=100)
    assert said.splitlines() == [f"{name} failed" for name in sorted(WRITES_TO_A_RUN)]
    assert process.returncode == 0
    assert [
        store.get_run(run_id),
        store.get_session(session_id),
        store.messages(session_id, view="all"),
        store.tool_executions(session_id),
    ] == before
    assert [one.outcome for one in store.tool_executions(session_id)] == ["unknown"]


def test_a_child_of_multiprocessing_leaves_its_parents_store_alone(run_python: RunPython) -> None:
    """It is refused, opens its own, and its exit closes nothing of the parent's."""
    said = run_python(
        """
import multiprocessing
store = open_store()
session_id = store.create_session().id
run = begin(store, session_id)
def child():
    try:
        complete(store, run)
    except StoreForked:
        say("refused")
    with open_store() as own:
        say(own.recovered, own.get_run(run.id).stale)
        try:
            begin(own, session_id)
        except SessionBusy as busy:
            say("busy", busy.pid == os.getppid())
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join()
say(process.exitcode, store.recover(), complete(store, run)[0].status)
store.close()
"""
    ).splitlines()
    assert said == ["refused", "() False", "busy True", "0 () completed"]


def test_a_fork_from_a_process_with_threads_keeps_no_dead_owner_alive(
    start_python: StartPython, open_disk: OpenDisk
) -> None:
    """Stores of other threads are let go in the child too, however long it lives."""
    process = start_python(
        """
import threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads is what is tested
began, stay = threading.Barrier(4), threading.Event()
def work():
    store = open_store()
    os.write(1, (begin(store, store.create_session().id).id + "\\n").encode())  # in one piece
    began.wait()
    stay.wait()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
began.wait()
reading, writing = os.pipe()
if os.fork() == 0:
    os.write(writing, b"forked")
    sys.stdin.readline()
    os._exit(0)
os.read(reading, 6)
os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    assert process.stdout is not None
    said = [process.stdout.readline().strip() for _ in range(3)]
    assert process.wait() == -signal.SIGKILL, (said, process.stdout.read())
    assert {run.id for run in open_disk().recovered} == set(said)
