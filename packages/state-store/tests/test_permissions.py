from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import apsw
import pytest

from state_store import SqliteStore
from state_store.sqlite import frozen
from state_store.sqlite.beside import at_rest, log_of
from state_store.testing.turns import contents, session_with_turn, turn

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    OpenDisk = Callable[..., SqliteStore]
    RunPython = Callable[..., str]
    StartPython = Callable[..., subprocess.Popen[str]]

STRANGER = 65534
NO_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
# What the stranger is told about reading and about writing: "read" or "written", or the path that
# hinders it. "" is the directory, "-wal" the log; the second table is of a store whose writer was
# killed, so that its last turn is in the log alone.
CLEAN = {
    "database 0444": ("read", "state.sqlite3"),
    "database 0000": ("state.sqlite3", "state.sqlite3"),
    "directory 0555": ("read", ""),
    "directory 0000": ("", ""),
    "owner root": ("read", "state.sqlite3"),
    "owner root, private": ("", ""),
}
LEFT = {
    "database 0444": ("read", "state.sqlite3"),
    "log 0444": ("read", "state.sqlite3-wal"),
    "log 0000": ("state.sqlite3-wal", "state.sqlite3-wal"),
    "index 0444": ("read", "state.sqlite3-shm"),
    "directory 0555": ("read", ""),
    "directory 0555, index gone": ("", ""),
    "owner root": ("read", "state.sqlite3"),
}
PROGRAM = """
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
for writing in (False, True):
    try:
        with open_store(writing=writing) as store:
            (session,) = store.list().items
            said = [one.content for one in store.messages(session.id).items]
            assert said == ["question", "answer"] * int(sys.argv[3]), said
            if writing:
                turn(store, session.id)
        say("written" if writing else "read")
    except StateStoreError as error:
        say(type(error).__name__, "|", error.path, "|", error, "|", error.hint)
"""


def restrict(path: Path, what: str) -> None:
    """Take the rights away that *what* says, from a stranger who owns all the rest."""
    everything = [path.parent, *path.parent.rglob("*")]
    for one in everything:
        os.chown(one, STRANGER, STRANGER)
    name, _, rest = what.partition(" ")
    if name == "owner":
        for one in everything:
            os.chown(one, 0, 0)
            if "private" not in rest:
                one.chmod(0o755 if one.is_dir() else 0o644)
        return
    names = {"database": path, "directory": path.parent}
    names |= {"log": log_of(path), "index": path.with_name(f"{path.name}-shm")}
    if "index gone" in rest:
        names["index"].unlink()
    if name == "directory":
        shutil.rmtree(path.parent / "owners")
    names[name].chmod(int(rest[:4], 8))


def let_in(path: Path) -> bool:
    """Let a stranger reach the test's directory; say whether he could already."""
    could = True
    for directory in path.parents[1:]:
        mode = directory.stat().st_mode
        if str(directory) != directory.anchor and mode & 0o001 == 0:
            directory.chmod(mode | 0o111)
            could = False
    return could


def told_to_a_stranger(run_python: RunPython, path: Path, turn_count: int) -> list[str]:
    """Return what the program prints; again if another test run closed the way meanwhile."""
    let_in(path)
    lines = run_python(PROGRAM, str(turn_count)).splitlines()
    return lines if let_in(path) else told_to_a_stranger(run_python, path, turn_count)


def require_said(line: str, expected: str, path: Path) -> None:
    """Check that a stranger was told the exact path and a fix that loses nothing."""
    if expected in ("read", "written"):
        assert line == expected
        return
    kind, blocked, message, hint = line.split(" | ")
    assert kind == "StoreUnavailable", line
    assert blocked == str(path.parent / expected if expected else path.parent), line
    assert blocked in message
    assert "chmod" in hint or "chown" in hint, line
    assert "delete" not in hint.replace("never delete the -wal", ""), line


@NO_ROOT
@pytest.mark.parametrize("what", CLEAN)
def test_a_stranger_reads_what_can_be_read_and_is_told_what_hinders_the_rest(
    open_disk: OpenDisk, run_python: RunPython, path: Path, what: str
) -> None:
    """Nothing is in the log; the bytes stay as they are (C14)."""
    with open_disk() as store:
        session_with_turn(store)
    before = path.read_bytes()
    restrict(path, what)
    read, written = told_to_a_stranger(run_python, path, 1)
    require_said(read, CLEAN[what][0], path)
    require_said(written, CLEAN[what][1], path)
    assert path.read_bytes() == before


@NO_ROOT
@pytest.mark.parametrize("what", LEFT)
def test_a_stranger_loses_nothing_that_is_in_the_log(
    open_disk: OpenDisk, run_python: RunPython, path: Path, what: str
) -> None:
    """A writer was killed. Reading gives all of it or an error, never what came before (C14)."""
    with open_disk() as store:
        session_id = session_with_turn(store)
    run_python("turn(open_store(), sys.argv[3]); os._exit(0)", session_id)
    assert log_of(path).stat().st_size > 0
    restrict(path, what)
    read, written = told_to_a_stranger(run_python, path, 2)
    require_said(read, LEFT[what][0], path)
    require_said(written, LEFT[what][1], path)
    with open_disk() as store:
        assert contents(store, session_id) == ["question", "answer"] * 2


@NO_ROOT
@pytest.mark.parametrize("still_writing", [True, False])
def test_what_was_read_without_a_log_is_discarded_when_somebody_writes(
    open_disk: OpenDisk,
    start_python: StartPython,
    path: Path,
    *,
    still_writing: bool,
) -> None:
    """A log has appeared since, or has come and gone: an error and no old answer (C14)."""
    with open_disk() as store:
        session_id = session_with_turn(store)
    restrict(path, "owner root")
    let_in(path)
    reader = start_python(
        """
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with open_store(writing=False) as store:
    say(len(store.list().items))
    sys.stdin.readline()
    try:
        say(len(store.messages(sys.argv[3]).items))
    except StoreUnavailable as error:
        say(error, error.hint)
with open_store(writing=False) as store:
    say(len(store.messages(sys.argv[3]).items))
""",
        session_id,
    )
    assert reader.stdout is not None
    assert reader.stdin is not None
    assert reader.stdout.readline() == "1\n"
    store = open_disk()
    turn(store, session_id)
    if not still_writing:
        store.close()
    reader.stdin.write("\n")
    reader.stdin.flush()
    assert "began to write it while it was read. Open it again" in reader.stdout.readline()
    assert reader.stdout.readline() == "4\n"


def test_a_database_is_read_as_it_stands_only_while_it_has_no_log(
    open_disk: OpenDisk, path: Path
) -> None:
    """What is in a log would be missing without a word."""
    store = open_disk()
    turn(store, store.create_session().id)
    assert frozen.take(path) is None
    store.close()
    assert frozen.take(path) is not None
    assert frozen.take(path.with_name("none")) is None


def test_the_name_of_a_frozen_database_may_hold_anything(
    tmp_path: Path, workspace_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite takes it as a URI then."""
    path = tmp_path / "a? #b%41&c" / "state.sqlite3"
    with SqliteStore.open(path, workspace_id=workspace_id) as store:
        session_id = session_with_turn(store)
    refusing = apsw.Connection

    def connect(name: str, *, flags: int) -> apsw.Connection:
        if not name.startswith("file:"):
            raise apsw.CantOpenError
        return refusing(name, flags=flags)

    monkeypatch.setattr(apsw, "Connection", connect)
    with SqliteStore.open(path, workspace_id=workspace_id, writing=False) as reader:
        assert contents(reader, session_id) == ["question", "answer"]
    assert {one.name for one in path.parent.iterdir()} == {*at_rest(path), "owners"}
