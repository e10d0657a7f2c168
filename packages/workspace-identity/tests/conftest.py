"""What every test needs: homes inside `tmp_path`, no powers of root, and no hurry."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

# A limit on the time of one example fails on a busy machine and finds nothing; every test has a
# time-out anyway.
settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.load_profile("unhurried")

# Test folders are not packages, so what the tests share is found by its folder.
sys.path.insert(0, str(Path(__file__).parent))

if TYPE_CHECKING:
    from collections.abc import Iterator

_CAPABILITY_VERSION = 0x20080522
_SYSTEM_CALLS = {"x86_64": (125, 126), "aarch64": (90, 91)}  # capget, capset


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a state home that does not exist yet; the environment names it."""
    home = tmp_path / "state-home"
    monkeypatch.setenv("HOME", str(tmp_path / "user-home"))
    monkeypatch.setenv("TINYAGENT_STATE_HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    return home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return an empty project directory."""
    made = tmp_path / "project"
    made.mkdir()
    return made


class Mounts:
    """Mounts of a test, undone when it ends, the last one first."""

    def __init__(self) -> None:
        self._targets: list[Path] = []

    def tmpfs(self, target: Path, options: str = "size=16m") -> None:
        """Mount an empty filesystem at *target*, which is made if it is missing."""
        self._mount(target, "-t", "tmpfs", "-o", options, "none")

    def bind(self, source: Path, target: Path, *, read_only: bool = False) -> None:
        """Let *target* show the directory *source* as well."""
        self._mount(target, "--bind", str(source))
        if read_only:
            self._run("mount", "-o", "remount,bind,ro", str(target))

    def unmount(self, target: Path) -> None:
        """Take the mount at *target* away."""
        self._run("umount", str(target))
        self._targets.remove(target)

    def unmount_all(self) -> None:
        """Take away what is mounted still, at once even where it is in use."""
        while self._targets:
            self._run("umount", "--lazy", str(self._targets.pop()))

    def _mount(self, target: Path, *arguments: str) -> None:
        target.mkdir(exist_ok=True)
        self._run("mount", *arguments, str(target))
        self._targets.append(target)

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode and command[0] == "mount":
            reason = done.stderr.partition("\n")[0].rpartition(": ")[2]
            pytest.skip(f"this system does not let the test mount: {reason}")
        assert done.returncode == 0, done.stderr


@pytest.fixture
def mounts() -> Iterator[Mounts]:
    """Mount filesystems for a test; skips where only root of another machine could."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting needs root on Linux")
    made = Mounts()
    try:
        yield made
    finally:
        made.unmount_all()


@pytest.fixture
def as_plain_user() -> Iterator[None]:
    """Make file permissions count in this thread although the tests may run as root."""
    with _without_capabilities():
        yield


@contextlib.contextmanager
def _without_capabilities() -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    numbers = _SYSTEM_CALLS.get(os.uname().machine)
    if numbers is None:
        pytest.skip("runs as root on a machine whose capability calls this test does not know")
    read, write = numbers
    call = ctypes.CDLL(None, use_errno=True).syscall
    header = ctypes.create_string_buffer(struct.pack("<Ii", _CAPABILITY_VERSION, 0), 8)
    kept = ctypes.create_string_buffer(24)
    assert call(read, header, kept) == 0
    words = list(struct.unpack("<6I", kept.raw))
    words[0] = words[3] = 0  # effective, both halves; the permitted ones stay and come back
    none = ctypes.create_string_buffer(struct.pack("<6I", *words), 24)
    assert call(write, header, none) == 0
    try:
        yield
    finally:
        assert call(write, header, kept) == 0
