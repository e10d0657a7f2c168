from __future__ import annotations

import signal
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from state_store import (
    NewSession,
    RunNotFound,
    SessionState,
    SessionWasDeleted,
    SqliteStore,
    StoreUnavailable,
    new_id,
    to_text,
)
from state_store.sqlite import policy
from state_store.testing.disk import FAULTS, FailingDisk
from state_store.testing.turns import (
    USAGE,
    assistant,
    begin,
    calling,
    complete,
    contents,
    result,
    turn,
    user,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    import apsw

    OpenDisk = Callable[..., SqliteStore]
    RunPython = Callable[..., str]
    StartPython = Callable[..., subprocess.Popen[str]]

MARKER = "Marker-51b7e0d2"
# Looked at by another process: one that has the database open must not open its files.
LOOK = f"""
found = [one.name for one in path.parent.rglob("*") if one.is_file()
         and b"{MARKER}" in one.read_bytes()]
say(*sorted(found))
"""
READ_UNTIL_TOLD = """
store = open_store(writing=False)
with store._database.read() as connection:
    connection.execute("SELECT count(*) FROM sessions").fetchall()
    say("reading")
    sys.stdin.readline()
say("done")
sys.stdin.readline()
"""


@pytest.fixture
def look(run_python: RunPython) -> Callable[[], set[str]]:
    """Return what tells which files have the marker in their bytes."""
    return lambda: set(run_python(LOOK).split())


def marked_session(store: SqliteStore) -> str:
    """Return a session that has the marker wherever text can be, in pages of every kind."""
    settings = NewSession(
        title=MARKER,
        system_prompt=MARKER * 50,
        metadata={MARKER: MARKER},
        parameters={"p": MARKER},
        model_id=MARKER,
    )
    session_id = store.create_session(settings).id
    for number in range(12):
        run = begin(store, session_id, f"{MARKER} {number} " * 600)
        seq = store.start_tools(run.id, calling(MARKER), ["safe"]).seq
        seen = result(MARKER, f"{MARKER} " * number)
        store.finish_tool(run.id, call_seq=seq, call_index=0, outcome="ok", message=seen)
        complete(store, run)
    return session_id


def told(process: subprocess.Popen[str], *, first: bool = False) -> str:
    """Let *process* go on, unless it is to speak *first*, and return the next line it prints."""
    assert process.stdin is not None
    assert process.stdout is not None
    if not first:
        process.stdin.write("\n")
        process.stdin.flush()
    return process.stdout.readline().strip()


def test_what_was_deleted_is_gone_from_the_bytes_open_and_closed(
    open_disk: OpenDisk, path: Path, look: Callable[[], set[str]]
) -> None:
    """Also what an update had replaced before; another session stays as it was (C41)."""
    store, other = open_disk(), open_disk()
    kept = store.create_session().id
    turn(store, kept)
    session_id = marked_session(store)
    store._database.checkpoint()
    turn(store, session_id, MARKER * 100)
    store.update_session(session_id, {"title": "short", "system_prompt": None})
    assert other.list().items
    assert look() == {path.name, f"{path.name}-wal"}
    assert store.delete(session_id).erased
    assert look() == set()
    turn(other, kept)
    other.close()
    store.close()
    assert look() == set()
    with open_disk() as again:
        assert contents(again, kept) == ["question", "answer"] * 2


@pytest.mark.parametrize("level", ["OFF", "FAST"])
def test_a_weaker_secure_delete_leaves_the_bytes(
    open_disk: OpenDisk,
    look: Callable[[], set[str]],
    monkeypatch: pytest.MonkeyPatch,
    level: str,
) -> None:
    """The control: what the test above would find without the rule that it tests."""

    def overwrite_less(connection: apsw.Connection, path: Path) -> None:
        connection.pragma("secure_delete", level)

    rules = [
        overwrite_less if rule is policy.overwrite_deleted else rule for rule in policy.WRITING
    ]
    monkeypatch.setattr(policy, "WRITING", tuple(rules))
    store = open_disk()
    assert store.delete(marked_session(store)).erased
    assert look()


def test_a_reader_keeps_the_bytes_until_it_is_done_and_the_next_write_removes_them(
    open_disk: OpenDisk, start_python: StartPython, path: Path, look: Callable[[], set[str]]
) -> None:
    """The answer says so; nobody finds the session meanwhile (C41)."""
    store = open_disk(busy_timeout_ms=100)
    kept = store.create_session().id
    session_id = marked_session(store)
    reader = start_python(READ_UNTIL_TOLD)
    assert told(reader, first=True) == "reading"
    deleted = store.delete(session_id)
    assert not deleted.erased
    assert look(), "the reader held nothing back: the test tests nothing"
    with pytest.raises(SessionWasDeleted):
        store.messages(session_id)
    turn(store, kept)  # while it reads still: neither an error nor a wait
    assert told(reader) == "done"
    turn(store, kept)
    assert look() == set()


def test_a_reader_keeps_the_bytes_and_the_close_removes_them(
    open_disk: OpenDisk, start_python: StartPython, look: Callable[[], set[str]]
) -> None:
    """Although the reader has the database open still (C41)."""
    store = open_disk(busy_timeout_ms=100)
    session_id = marked_session(store)
    reader = start_python(READ_UNTIL_TOLD)
    assert told(reader, first=True) == "reading"
    assert not store.delete(session_id).erased
    assert told(reader) == "done"
    assert look()
    store.close()
    assert look() == set()


def test_a_delete_of_which_the_checkpoint_fails_is_a_delete(
    open_disk: OpenDisk, tmp_path: Path, look: Callable[[], set[str]]
) -> None:
    """It is committed and so raises nothing; it says that the bytes are there still (C41)."""
    store = open_disk()
    kept = store.create_session().id
    store.close()
    unfinished = 0
    for at in range(10):
        with FailingDisk(tmp_path, FAULTS["sync"], at=at) as disk:
            disk.heal()
            store = open_disk()
            session_id = marked_session(store)
            disk.hurt()
            try:
                deleted = store.delete(session_id)
            except StoreUnavailable:
                assert store.get_session(session_id).id == session_id
                deleted = store.delete(session_id)
            disk.heal()
            unfinished += not deleted.erased
            turn(store, kept)
            assert look() == set(), at
            store.close()
    assert unfinished


def test_a_late_writer_of_a_deleted_session_is_refused(open_disk: OpenDisk) -> None:
    """By every method that could bring it back, with the tombstone's word (C41)."""
    store, late = open_disk(), open_disk()
    session_id = marked_session(store)
    state = late.load(session_id)
    run_id = late.runs(session_id).items[-1].id
    deleted = store.delete(session_id)
    attempts: list[Callable[[], object]] = [
        lambda: late.begin_run(session_id, user(), run_id=new_id()),
        lambda: late.begin_run(session_id, user(), run_id=new_id(), create=NewSession()),
        lambda: late.create_session(session_id=session_id),
        lambda: late.save(state, timedelta(0)),
        lambda: late.save(SessionState(id=session_id, messages=()), timedelta(0)),
        lambda: late.update_session(session_id, {"title": "back"}),
        lambda: late.archive_session(session_id, archived=True),
        lambda: late.close_session(session_id, spent=timedelta(1)),
        lambda: late.delete(session_id),
        lambda: late.load(session_id),
        lambda: late.get_session(session_id),
        lambda: list(late.export_messages(session_id)),
    ]
    for attempt in attempts:
        with pytest.raises(SessionWasDeleted) as refused:
            attempt()
        assert refused.value.deleted_at == to_text(deleted.deleted_at)
    for write in (
        lambda: late.complete_run(run_id, assistant(MARKER), usage=USAGE),
        lambda: late.fail_run(run_id, "cancelled", usage=USAGE),
        lambda: late.start_tools(run_id, calling("a"), ["safe"]),
    ):
        with pytest.raises(RunNotFound):
            write()
    assert late.list().items == ()


def test_an_owner_that_wakes_up_after_its_session_was_deleted_writes_nothing(
    open_disk: OpenDisk, start_python: StartPython, path: Path, look: Callable[[], set[str]]
) -> None:
    """It was stopped and taken for dead; its late answer is dropped, bytes and all (C41)."""
    sleeper = start_python(
        f"""
store = open_store()
session_id = store.create_session().id
run = begin(store, session_id)
say(session_id)
sys.stdin.readline()
try:
    complete(store, run, "{MARKER}")
except RunNotFound as error:
    say("refused", error.run_id == run.id)
store.close()
"""
    )
    session_id = told(sleeper, first=True)
    sleeper.send_signal(signal.SIGSTOP)
    (lock,) = (path.parent / "owners").iterdir()
    lock.unlink()  # what makes it look dead
    store = open_disk()
    assert [run.session_id for run in store.recovered] == [session_id]
    assert store.delete(session_id).erased
    sleeper.send_signal(signal.SIGCONT)
    assert told(sleeper) == "refused True"
    sleeper.wait()
    assert look() == set()
