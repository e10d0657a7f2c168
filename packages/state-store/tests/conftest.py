"""What every test needs: a home of its own, the names of a workspace's store, other processes."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from state_store import Maintenance, SqliteStore
from state_store.sqlite.place import Place
from state_store.sqlite.salvage import salvage
from state_store.testing.family import Filled, old_database

if TYPE_CHECKING:
    from pathlib import Path

    from state_store.findings import SalvageReport

# A loaded machine is no fault of ours: a law is broken by what it says, not by how long it took.
settings.register_profile("laws", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("laws")

WORKSPACE_ID = "11111111-2222-4333-8444-555555555555"
# What every started program begins with: the store's names, and itself in one line.
PRELUDE = """
import os, pathlib, signal, sys, time
from state_store import *
path, workspace_id = pathlib.Path(sys.argv[1]), sys.argv[2]
def open_store(**options):
    return SqliteStore.open(path, workspace_id=workspace_id, **options)
def tend(**options):
    return Maintenance(path, workspace_id=workspace_id, **options)
def say(*words):
    print(*words, flush=True)
def begin(store, session_id, content="question", **options):
    return store.begin_run(
        session_id, NewMessage(role="user", content=content), run_id=new_id(), **options
    )[0]
def complete(store, run, content="answer"):
    message = NewMessage(role="assistant", content=content)
    return store.complete_run(run.id, message, usage=Usage(input_tokens=1, output_tokens=1))
def turn(store, session_id):
    complete(store, begin(store, session_id))
"""


class Program(subprocess.Popen[str]):
    """A program that a test talks with, a line at a time."""

    def line(self) -> str:
        """Return the next line that it prints."""
        assert self.stdout is not None
        return self.stdout.readline().strip()

    def go_on(self) -> None:
        """Let it read a line."""
        assert self.stdin is not None
        self.stdin.write("\n")
        self.stdin.flush()


STRANGER = 65534
BECOME_STRANGER = f"""
import unicodedata  # now: a stranger may have no way to the interpreter's own directories
if os.getuid() == 0:
    os.setgroups([]); os.setgid({STRANGER}); os.setuid({STRANGER})
"""
OpenDisk = Callable[..., SqliteStore]
Tend = Callable[..., Maintenance]
Resize = Callable[[int], None]
StartPython = Callable[..., "Program"]
RunPython = Callable[..., str]


@pytest.fixture(autouse=True)
def _nothing_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the real home out of reach, also of processes that a test starts."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("TINYAGENT_STATE_HOME", raising=False)


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_is_heard() -> None:
    """Hear it, and so do the programs that are started, where a shell began this in background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def workspace_id() -> str:
    """Return the id of the test's workspace."""
    return WORKSPACE_ID


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the test's database is going to be."""
    return tmp_path / "workspace" / "state.sqlite3"


@pytest.fixture
def open_disk(path: Path, workspace_id: str) -> Iterator[OpenDisk]:
    """Return what opens the test's database; all that it opened is closed after the test."""
    with ExitStack() as opened:

        def open_one(**options: Any) -> SqliteStore:
            options = {"workspace_id": workspace_id, **options}
            return opened.enter_context(SqliteStore.open(path, **options))

        yield open_one


@pytest.fixture
def tend(path: Path, workspace_id: str) -> Tend:
    """Return what gives the maintenance of the test's store."""

    def tend_one(at: Path = path, **options: Any) -> Maintenance:
        return Maintenance(at, **{"workspace_id": workspace_id, **options})

    return tend_one


@pytest.fixture
def old(path: Path, workspace_id: str) -> Filled:
    """Make a database of the first schema, with something of everything in it."""
    return old_database(path, workspace_id=workspace_id)


@pytest.fixture
def into(tmp_path: Path) -> Path:
    """Return where what is salvaged is going to be."""
    return tmp_path / "into.sqlite3"


@pytest.fixture
def save(path: Path, into: Path, workspace_id: str) -> Callable[..., SalvageReport]:
    """Return what salvages the test's database, at a time of its own."""

    def save_it(**options: Any) -> SalvageReport:
        now = datetime(2027, 1, 1, tzinfo=UTC)
        options = {"workspace_id": workspace_id, "clock": lambda: now, **options}
        return salvage(Place.at(path, **options), into)

    return save_it


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a directory that is a small disk of its own."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k,mode=700", "tmpfs", str(directory)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small disk needs to be root")
    yield directory
    subprocess.run(["umount", "-l", str(directory)], check=True)


@pytest.fixture
def resize(disk: Path) -> Resize:
    """Return what gives the disk another size, in KiB."""

    def change(size_kib: int) -> None:
        options = f"remount,size={size_kib}k"
        subprocess.run(["mount", "-o", options, str(disk)], check=True)

    return change


@pytest.fixture
def start_python(path: Path, workspace_id: str) -> Iterator[StartPython]:
    """Return what starts a program that knows the test's store; it ends with the test."""
    started: list[Program] = []

    def start(program: str, *arguments: str) -> Program:
        process = Program(
            [
                sys.executable,
                "-W",
                "error",
                "-c",
                PRELUDE + program,
                path,
                workspace_id,
                *arguments,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def run_python(start_python: StartPython) -> RunPython:
    """Return what runs such a program to its end and returns what it printed."""

    def run(program: str, *arguments: str) -> str:
        process = start_python(program, *arguments)
        output, _ = process.communicate()
        assert process.returncode == 0, output
        return output

    return run


@pytest.fixture
def run_as_stranger(run_python: RunPython, tmp_path: Path) -> RunPython:
    """Return what runs such a program as a user who is not root, whom the test's files are not."""

    def run(program: str, *arguments: str) -> str:
        let_in(tmp_path)
        try:
            output = run_python(BECOME_STRANGER + program, *arguments)
        except AssertionError:
            if let_in(tmp_path):
                raise
            return run(program, *arguments)
        return output if let_in(tmp_path) else run(program, *arguments)

    return run


def let_in(directory: Path) -> bool:
    """Let a stranger reach *directory*; False when another test run had closed the way."""
    could = True
    for one in (directory, *directory.parents[:-1]):
        mode = one.stat().st_mode
        if mode & 0o001 == 0:
            one.chmod(mode | 0o111)
            could = False
    return could
