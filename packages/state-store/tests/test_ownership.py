from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from state_store import (
    Run,
    RunNotPending,
    SessionBusy,
    SqliteStore,
    new_id,
    utc_now,
)
from state_store.sqlite import ownership
from state_store.testing.turns import begin, calling, complete, contents, turn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    OpenDisk = Callable[..., SqliteStore]
    RunPython = Callable[..., str]
    StartPython = Callable[..., Any]  # a Program of conftest.py

DIES_IN_A_RUN = """
store = open_store()
run = begin(store, store.create_session().id, "asked")
call = ToolCall(id="c1", name="look", arguments="{}")
store.start_tools(run.id, NewMessage(role="assistant", tool_calls=(call,)), ["unsafe"])
say(run.id)
os.kill(os.getpid(), signal.SIGKILL)
"""
LIVES_IN_A_RUN = """
store = open_store()
run = begin(store, store.create_session().id, "asked")
say(run.id)
sys.stdin.readline()
try:
    complete(store, run)
    say("completed")
except RunNotPending as error:
    say("refused", error.status)
"""


def dead_run(start_python: StartPython) -> str:
    """Return the id of a run whose process was killed in the middle of a tool."""
    process = start_python(DIES_IN_A_RUN)
    run_id: str = process.line()
    assert process.wait() == -signal.SIGKILL
    return run_id


def locks(path: Path) -> set[str]:
    """Return the names of the owners' files."""
    return {one.name for one in (path.parent / "owners").iterdir()}


def forge(path: Path, content: bytes = b"", owner_id: str | None = None) -> Path:
    """Make a file that looks like an owner's, held by nobody."""
    directory = path.parent / "owners"
    directory.mkdir(parents=True, exist_ok=True)
    forged = directory / f"{owner_id or uuid.uuid4()}.lock"
    forged.write_bytes(content)
    return forged


def test_a_killed_processs_run_is_interrupted_by_the_next_opener(
    start_python: StartPython, open_disk: OpenDisk, path: Path
) -> None:
    """With finish time and reason, its tool unknown, its owner's file gone (C05)."""
    run_id = dead_run(start_python)
    (dead_owner,) = locks(path)
    store = open_disk()
    (recovered,) = store.recovered
    assert recovered == store.get_run(run_id)
    assert (recovered.status, recovered.error_type) == ("failed", "interrupted")
    assert recovered.finished_at is not None
    assert contents(store, recovered.session_id) == ["asked", None]
    assert [one.outcome for one in store.tool_executions(recovered.session_id)] == ["unknown"]
    session = store.get_session(recovered.session_id)
    assert (session.status, session.usage_complete) == ("failed", False)
    assert dead_owner not in locks(path)


def test_recovering_twice_changes_nothing(start_python: StartPython, open_disk: OpenDisk) -> None:
    """By the same store or the next one (C05)."""
    run_id = dead_run(start_python)
    first = open_disk()
    before = first.get_run(run_id), first.get_session(first.recovered[0].session_id)
    assert first.recover() == ()
    second = open_disk()
    assert second.recovered == ()
    assert (second.get_run(run_id), second.get_session(before[1].id)) == before


def test_a_reader_shows_a_dead_owners_run_and_writes_nothing(
    start_python: StartPython, open_disk: OpenDisk, path: Path
) -> None:
    """As stale in `get_run` and `runs`; the next writer makes it so (C05)."""
    run_id = dead_run(start_python)
    before = locks(path)
    reader = open_disk(writing=False)
    run = reader.get_run(run_id)
    assert (run.status, run.stale) == ("pending", True)
    assert [one.stale for one in reader.runs(run.session_id).items] == [True]
    assert reader.recovered == ()
    assert locks(path) == before
    assert open_disk().recovered[0].id == run_id
    assert reader.get_run(run_id).stale is False


def test_a_live_owners_run_is_untouched_while_a_dead_ones_is_recovered(
    start_python: StartPython, open_disk: OpenDisk
) -> None:
    """Only the dead one's, however often one looks (C05)."""
    living = start_python(LIVES_IN_A_RUN)
    live_id, dead_id = living.line(), dead_run(start_python)
    store = open_disk()
    assert [run.id for run in store.recovered] == [dead_id]
    live = store.get_run(live_id)
    assert (live.status, live.stale) == ("pending", False)
    with pytest.raises(SessionBusy) as busy:
        begin(store, live.session_id)
    assert (busy.value.pid, busy.value.host) == (living.pid, socket.gethostname())
    living.go_on()
    assert living.line() == "completed"
    assert store.get_run(live_id).status == "completed"


def test_a_begin_recovers_a_dead_owners_run_in_place(
    start_python: StartPython, open_disk: OpenDisk
) -> None:
    """A store that was open already need not be opened again."""
    store = open_disk()
    run_id = dead_run(start_python)
    session_id = store.get_run(run_id).session_id
    turn(store, session_id, "again")
    recovered = store.get_run(run_id)
    assert (recovered.status, recovered.error_type) == ("failed", "interrupted")
    assert contents(store, session_id) == ["asked", None, "again", "answer"]


def test_sixteen_recoverers_at_once_agree(
    start_python: StartPython, run_python: RunPython, open_disk: OpenDisk
) -> None:
    """Each dead run is recovered once, by one of them; the live one by none (C05)."""
    living = start_python(LIVES_IN_A_RUN)
    live_id = living.line()
    run_python(
        """
for _ in range(8):
    if os.fork() == 0:
        store = open_store()
        begin(store, store.create_session().id)
        os.kill(os.getpid(), signal.SIGKILL)
for _ in range(8):
    os.wait()
"""
    )
    said = run_python(
        """
ready, go = os.pipe()
for _ in range(16):
    if os.fork() == 0:
        os.close(go)
        os.read(ready, 1)
        store = open_store()
        os.write(1, "".join(f"{run.id}\\n" for run in store.recovered).encode())
        store.recover()
        store.close()
        os._exit(0)
os.close(go)
assert all(os.wait()[1] == 0 for _ in range(16))
"""
    ).split()
    assert len(said) <= 8
    assert len(set(said)) == len(said)
    store = open_disk()
    assert store.recovered == ()
    runs = [run for one in store.list(limit=None).items for run in store.runs(one.id).items]
    assert len(runs) == 9
    by_id = {run.id: run for run in runs}
    assert by_id.pop(live_id).status == "pending"
    assert {(run.status, run.error_type) for run in by_id.values()} == {("failed", "interrupted")}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\xff garbage",
        b"[" * 100_000,
        b'{"pid": "no number", "host": 7}',
        b"[1, 2]",
        json.dumps({"pid": 1, "host": "here"}).encode(),
        json.dumps({"pid": os.getpid()}).encode(),
    ],
    ids=["empty", "garbage", "deep", "wrong types", "list", "pid 1", "own pid"],
)
def test_an_owners_file_that_says_anything_is_judged_by_its_lock(
    open_disk: OpenDisk, path: Path, start_python: StartPython, content: bytes
) -> None:
    """A pid in a file proves nothing, and garbage is no crash (C31)."""
    run_id = dead_run(start_python)
    (name,) = locks(path)
    dead_file = path.parent / "owners" / name
    dead_file.write_bytes(content)
    assert ownership.probe(dead_file.parent, dead_file.stem) == "dead"
    assert isinstance(ownership.facts_of(dead_file.parent, dead_file.stem), ownership.OwnerFacts)
    assert [run.id for run in open_disk().recovered] == [run_id]


def test_a_live_owner_whose_file_is_garbled_is_respected(open_disk: OpenDisk, path: Path) -> None:
    """Its lock counts; only the facts for people are missing (C31)."""
    first, second = open_disk(), open_disk()
    run = begin(first, first.create_session().id)
    (path.parent / "owners" / f"{run.owner}.lock").write_bytes(b"[" * 100_000)
    with pytest.raises(SessionBusy, match="cannot be identified") as busy:
        begin(second, run.session_id)
    assert (busy.value.pid, busy.value.host) == (None, None)


def test_an_owner_that_cannot_be_judged_is_left_alone(
    open_disk: OpenDisk, start_python: StartPython, path: Path
) -> None:
    """A link in place of the file; an owner's name that is no UUID (C31)."""
    store = open_disk()
    run = begin(store, store.create_session().id)
    for strange in ("../../elsewhere", "no-uuid", str(uuid.uuid4()).upper()):
        assert ownership.probe(path.parent / "owners", strange) == "unknown"
        assert ownership.facts_of(path.parent / "owners", strange) == ownership.OwnerFacts()
    link = path.parent / "owners" / f"{uuid.uuid4()}.lock"
    link.symlink_to(path)
    assert ownership.probe(link.parent, link.stem) == "unknown"
    with store._database.write() as connection:
        connection.execute("UPDATE runs SET owner = ?", (link.stem,))
    other = open_disk()
    assert other.recovered == ()
    with pytest.raises(SessionBusy):
        begin(other, run.session_id)
    assert other.get_run(run.id).status == "pending"
    assert link.is_symlink()


def test_foreign_files_among_the_owners_are_no_crash(open_disk: OpenDisk, path: Path) -> None:
    """Stale ones of dead owners go; what is not ours by name stays (C31)."""
    stale = forge(path), forge(path, b"garbage")
    foreign = path.parent / "owners" / "notes.lock"
    foreign.write_text("mine")
    (path.parent / "owners" / f"{uuid.uuid4()}.lock").mkdir()
    store = open_disk()
    assert not any(one.exists() for one in stale)
    assert foreign.read_text() == "mine"
    turn(store, store.create_session().id)


def test_a_stopped_owner_is_alive(start_python: StartPython, open_disk: OpenDisk) -> None:
    """A suspended process, or laptop, loses nothing."""
    process = start_python(LIVES_IN_A_RUN)
    run_id: str = process.line()
    process.send_signal(signal.SIGSTOP)
    store = open_disk()
    assert store.recovered == ()
    assert store.get_run(run_id).stale is False
    process.send_signal(signal.SIGCONT)
    process.go_on()
    assert process.line() == "completed"


def test_an_owner_taken_for_dead_that_wakes_up_changes_nothing(
    start_python: StartPython, open_disk: OpenDisk, path: Path
) -> None:
    """Its file was removed by hand while it slept; the guard of its finish holds."""
    process = start_python(LIVES_IN_A_RUN)
    run_id: str = process.line()
    process.send_signal(signal.SIGSTOP)
    for name in locks(path):
        (path.parent / "owners" / name).unlink()
    store = open_disk()
    assert [run.id for run in store.recovered] == [run_id]
    before = store.get_run(run_id), store.get_session(store.recovered[0].session_id)
    process.send_signal(signal.SIGCONT)
    process.go_on()
    assert process.line() == "refused failed"
    assert (store.get_run(run_id), store.get_session(before[1].id)) == before
    assert contents(store, before[1].id) == ["asked"]


def test_two_stores_of_one_process_are_two_owners(open_disk: OpenDisk) -> None:
    """A process does not judge itself dead, and its other store is a stranger."""
    first, second = open_disk(), open_disk()
    run = begin(first, first.create_session().id)
    assert second.recover() == ()
    with pytest.raises(RunNotPending):
        complete(second, run)
    complete(first, run)


def test_a_run_left_pending_keeps_its_owners_file_until_it_is_recovered(
    open_disk: OpenDisk, path: Path
) -> None:
    """So that people can still see whose it was; then the file goes."""
    first = open_disk()
    run = begin(first, first.create_session().id)
    first.start_tools(run.id, calling("c1"), ["safe"])
    first.close()
    assert locks(path) == {f"{run.owner}.lock"}
    facts = ownership.facts_of(path.parent / "owners", run.owner)
    assert (facts.pid, facts.host) == (os.getpid(), socket.gethostname())
    second = open_disk()
    assert [one.id for one in second.recovered] == [run.id]
    second.close()
    assert locks(path) == set()


def test_an_owner_is_locked_before_it_has_its_name(tmp_path: Path) -> None:
    """Nobody ever finds an owner's file that its owner does not hold."""
    seen: list[ownership.Liveness] = []

    def looking_clock() -> object:
        seen.extend(
            ownership.probe(tmp_path, one.name.strip(".").removesuffix(".new"))
            for one in tmp_path.iterdir()
        )
        assert not list(tmp_path.glob("*.lock"))
        return utc_now()

    owner = ownership.Owner.claim(tmp_path, clock=looking_clock)  # type: ignore[arg-type]  # a clock that looks around
    assert ownership.probe(tmp_path, owner.id) == "alive"
    owner.release(keep_file=False)
    owner.release(keep_file=False)
    assert ownership.probe(tmp_path, owner.id) == "dead"
    assert list(tmp_path.iterdir()) == []


def test_probers_of_a_dead_owner_do_not_see_one_another(tmp_path: Path) -> None:
    """Each asks for a shared lock: one that is in the act does not make the owner look alive."""
    dead = tmp_path / f"{uuid.uuid4()}.lock"
    dead.write_bytes(b"")
    with dead.open("rb") as probing:
        fcntl.flock(probing, fcntl.LOCK_SH)
        assert ownership.probe(tmp_path, dead.stem) == "dead"


def test_an_unknown_owner_is_dead_when_its_file_is_gone(tmp_path: Path) -> None:
    """An owner that ended properly took its file with it."""
    assert ownership.probe(tmp_path, str(uuid.uuid4())) == "dead"
    assert ownership.probe(tmp_path, new_id()) == "dead"
    assert Run.__dataclass_fields__["stale"].default is False
