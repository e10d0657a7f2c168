"""What the package does where the system has less: Windows, and filesystems that tell less.

A pretended Windows is no Windows. These tests prove that no module needs what Windows lacks, and
that the code which goes by paths decides by the same table and refuses the same links. They prove
nothing about NTFS, about the real `msvcrt`, or about real junctions.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from workspace_identity import Verdict, open_workspace

if TYPE_CHECKING:
    from pathlib import Path

# Takes away what Windows has not and puts in what it has, then imports the package anew. Modules of
# the standard library come first: they must not believe in this Windows.
PRETEND = """
import ctypes, datetime, errno, fcntl, json, os, pathlib, shutil, stat, subprocess, sys, tempfile
import threading, time, types, uuid
from workspace_identity.place import _statx_birth_ns

real_flock, real_lstat, real_open = fcntl.flock, os.lstat, os.open
LINUX_DIRECTORY = os.O_PATH | os.O_NOFOLLOW

def locking(descriptor, mode, size):
    try:
        real_flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB if mode else fcntl.LOCK_UN)
    except BlockingIOError as error:
        raise PermissionError(errno.EACCES, "Permission denied") from error

def lstat(path, *, dir_fd=None):
    assert dir_fd is None
    real = real_lstat(path)
    names = [name for name in dir(real) if name.startswith("st_")]
    made = types.SimpleNamespace(**{name: getattr(real, name) for name in names})
    descriptor = real_open(path, LINUX_DIRECTORY)
    made.st_birthtime_ns = _statx_birth_ns(descriptor)
    os.close(descriptor)
    made.st_file_attributes = 0
    if stat.S_ISLNK(real.st_mode):
        made.st_file_attributes = stat.FILE_ATTRIBUTE_REPARSE_POINT
        if os.path.isdir(path):  # a junction says that it is a directory
            made.st_mode = stat.S_IFDIR | 0o777
    return made

for name in [name for name in sys.modules if name.startswith("workspace_identity")]:
    del sys.modules[name]
for name in ("O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_PATH"):
    delattr(os, name)
for name in ("fchmod", "geteuid", "getuid", "chown", "mkfifo", "uname"):
    delattr(os, name)
for name in ("fcntl", "pwd", "grp", "termios", "resource"):
    sys.modules[name] = None
sys.modules["msvcrt"] = types.SimpleNamespace(LK_NBLCK=1, LK_UNLCK=0, locking=locking)
os.O_BINARY = 0
shutil._use_fd_functions = False
os.supports_dir_fd, os.supports_effective_ids = set(), set()
os.lstat = lstat
sys.platform = "win32"
"""

IMPORT_ALL = """
import importlib, pkgutil, workspace_identity
for module in pkgutil.iter_modules(workspace_identity.__path__):
    importlib.import_module(f"workspace_identity.{module.name}")
from workspace_identity import system
assert not system.HAS_DIRECTORY_DESCRIPTORS and not system.NOFOLLOW
"""

DECIDE = """
from workspace_identity import *
from workspace_identity.lock import registry_lock
root = pathlib.Path(sys.argv[1], "windows")
home, a, b, c = root / "home", root / "a", root / "b", root / "c"
a.mkdir(parents=True)
def opened(path):
    return open_workspace(path, state_home=home)
def told(path):
    found = opened(path)
    return found.id, str(found.verdict)
first = opened(a)
assert first.verdict == "new", first
assert first.evidence.place.birth_ns
assert told(a) == (first.id, "known")
a.rename(b)
assert told(b) == (first.id, "moved")
shutil.copytree(b, c)
copied = opened(c)
assert copied.verdict == "copied" and copied.id != first.id
shutil.rmtree(c / ".tinyagent")
assert told(c) == (copied.id, "healed")
(c / ".tinyagent/workspace-id").write_bytes(first.id.upper().encode())
assert told(c) == (copied.id, "healed")
(c / ".tinyagent/workspace-id").write_bytes(copied.id.encode() + b"\\r\\n")
assert told(c) == (copied.id, "known")
shutil.rmtree(c)
shutil.copytree(b, c)
again = opened(c)
assert again.verdict == "copied" and again.id not in (first.id, copied.id)
assert {record.id for record in list_workspaces(state_home=home)} >= {first.id, copied.id}
forget(first.id, state_home=home)
assert opened(b).id != first.id
assert relink(first.id, b, state_home=home).id == first.id
assert told(b) == (first.id, "known")
(root / "d").mkdir()
with registry_lock(home):
    try:
        open_workspace(root / "d", state_home=home, lock_timeout_s=0.05)
    except RegistryBusy as error:
        assert error.lock_path == home / "registry.lock"
    else:
        raise AssertionError("not locked")
"""

REFUSE = """
from workspace_identity import *
root = pathlib.Path(sys.argv[1], "windows")
home, target = root / "home", root / "elsewhere"
target.mkdir(parents=True)
(target / "workspace-id").write_text("11111111-1111-4111-8111-111111111111\\n")
def link_for_file(project):
    (project / ".tinyagent").mkdir()
    (project / ".tinyagent/workspace-id").symlink_to(target / "workspace-id")
def dangling_link(project):
    (project / ".tinyagent").mkdir()
    (project / ".tinyagent/workspace-id").symlink_to(target / "nowhere")
def junction(project):
    (project / ".tinyagent").symlink_to(target)
def file_for_directory(project):
    (project / ".tinyagent").write_text("")
def directory_for_file(project):
    (project / ".tinyagent/workspace-id").mkdir(parents=True)
for number, prepare in enumerate(
    [link_for_file, dangling_link, junction, file_for_directory, directory_for_file]
):
    project = root / str(number)
    project.mkdir()
    prepare(project)
    try:
        opened = open_workspace(project, state_home=home)
    except UnsafeWorkspace:
        pass
    else:
        raise AssertionError((prepare, opened))
    assert not home.exists()
assert [path.name for path in target.iterdir()] == ["workspace-id"]
"""


@pytest.mark.skipif(sys.platform != "linux", reason="pretends to be Windows on Linux")
@pytest.mark.parametrize("what", [IMPORT_ALL, DECIDE, REFUSE], ids=["import", "decide", "refuse"])
def test_nothing_fails_for_want_of_what_windows_lacks(tmp_path: Path, what: str) -> None:
    """No descriptors of directories, no flock, no owners, no modes: the same decisions by path."""
    done = subprocess.run(
        [sys.executable, "-c", PRETEND + what, str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_without_a_time_of_birth_the_weaker_rule_holds(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inode and device stand in: moves and copies are told apart as before."""
    monkeypatch.setattr("workspace_identity.place._statx", lambda: None)
    monkeypatch.setattr("workspace_identity.place._birth_ns", lambda _descriptor, _status: None)
    first = open_workspace(project)
    assert first.evidence.place.birth_ns is None
    assert open_workspace(project).verdict is Verdict.KNOWN
    moved = project.rename(tmp_path / "moved")
    opened = open_workspace(moved)
    assert (opened.id, opened.verdict, opened.row) == (first.id, Verdict.MOVED, 8)
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", str(moved), str(copy)], check=True)
    assert open_workspace(copy).verdict is Verdict.COPIED


def test_a_time_of_birth_that_appears_later_changes_no_identity(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer kernel or C library tells more than the record has; the directory is known."""
    with monkeypatch.context() as older:
        older.setattr("workspace_identity.place._birth_ns", lambda _descriptor, _status: None)
        first = open_workspace(project)
    second = open_workspace(project)
    assert (second.id, second.verdict) == (first.id, Verdict.KNOWN)
    record = first.paths.record.read_text()
    assert '"birth_ns": null' not in record, "the record learns it"
