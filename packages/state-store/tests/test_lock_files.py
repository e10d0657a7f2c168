"""The two lock files beside a database: what they may be, and what they tell; see `gate`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from state_store import Maintenance, SqliteStore, StoreInUse, StoreUnavailable
from state_store.sqlite import gate
from state_store.sqlite.beside import at_rest, gate_of, presence_of
from state_store.testing.turns import session_with_turn

if TYPE_CHECKING:
    from collections.abc import Callable

    OpenDisk = Callable[..., SqliteStore]
    RunPython = Callable[..., str]
    StartPython = Callable[..., Any]  # a Program of conftest.py

STRANGER = 65534
TELLS_LOCKS = pytest.mark.skipif(
    not Path("/proc/locks").exists(), reason="only Linux tells who holds a lock"
)
NO_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


@NO_ROOT
@pytest.mark.parametrize("what", ["private", "not there", "directory closed"])
def test_a_reader_without_permission_on_the_locks_reads_all_the_same(
    open_disk: OpenDisk, path: Path, run_as_stranger: RunPython, what: str
) -> None:
    """It is then not waited for: SQLite's own locks keep what it reads whole (C14)."""
    with open_disk() as store:
        session_with_turn(store)
    path.parent.chmod(0o777)
    path.chmod(0o644)
    if what == "directory closed":
        path.parent.chmod(0o755)
    if what == "private":
        assert gate_of(path).stat().st_mode & 0o777 == 0o600
    else:
        gate_of(path).unlink()
        presence_of(path).unlink()
    said = run_as_stranger("with open_store(writing=False) as store: say(len(store.list().items))")
    assert said == "1\n"
    assert gate_of(path).exists() == (what == "private")


@NO_ROOT
def test_a_lock_that_may_not_be_opened_is_named(
    open_disk: OpenDisk, path: Path, run_as_stranger: RunPython
) -> None:
    """With its fix, to one who has to hold it: a chown of the database would not help (C14)."""
    open_disk().close()
    for one in (path.parent, *path.parent.rglob("*")):
        os.chown(one, STRANGER, STRANGER)
    os.chown(presence_of(path), 0, 0)
    said = run_as_stranger(
        """
for call in (open_store, tend().compact, tend().back_up):
    try:
        call()
    except StoreUnavailable as error:
        say(error.path, "|", error.hint)
"""
    ).splitlines()
    assert len(said) == 3
    for line in said:
        blocked, hint = line.split(" | ")
        assert blocked == str(presence_of(path))
        assert str(presence_of(path)) in hint
        assert "chown" in hint


@pytest.mark.parametrize("make", [Path.mkdir, lambda lock: lock.symlink_to("elsewhere")])
@pytest.mark.parametrize("lock_of", [gate_of, presence_of])
def test_a_lock_that_is_no_file_is_named_and_not_followed(
    open_disk: OpenDisk,
    path: Path,
    make: Callable[[Path], None],
    lock_of: Callable[[Path], Path],
) -> None:
    """A message that names the database would send people to the wrong file."""
    path.parent.mkdir()
    make(lock_of(path))
    with pytest.raises(StoreUnavailable) as refused:
        open_disk()
    assert refused.value.path == str(lock_of(path))
    assert not path.exists()
    assert not path.with_name("elsewhere").exists()


def test_a_lock_that_is_a_fifo_is_not_waited_for(open_disk: OpenDisk, path: Path) -> None:
    """It can be locked like a file."""
    path.parent.mkdir()
    os.mkfifo(gate_of(path))
    open_disk()


@TELLS_LOCKS
def test_one_who_was_stopped_while_alone_is_named(
    start_python: StartPython, open_disk: OpenDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wrote down nothing; the system knows who has the lock."""
    open_disk().close()
    stopped = start_python(
        """
def stop(*_):
    say("alone")
    sys.stdin.readline()
tend(progress=stop).compact()
"""
    )
    assert stopped.line() == "alone"
    monkeypatch.setattr(gate, "PASSING_TIMEOUT_MS", 30)
    with pytest.raises(StoreInUse, match=f"pid {stopped.pid} on "):
        open_disk()


def test_the_locks_are_never_removed_and_hold_nothing(open_disk: OpenDisk, path: Path) -> None:
    """Their locks are of the inode: after a removal two would be in who do not see each other."""
    open_disk().close()
    inodes = [gate_of(path).stat().st_ino, presence_of(path).stat().st_ino]
    for _ in range(2):
        open_disk().close()
        Maintenance(path, workspace_id="any").backups()
    assert [gate_of(path).stat().st_ino, presence_of(path).stat().st_ino] == inodes
    assert gate_of(path).stat().st_size == presence_of(path).stat().st_size == 0
    assert at_rest(path) <= {one.name for one in path.parent.iterdir()}
