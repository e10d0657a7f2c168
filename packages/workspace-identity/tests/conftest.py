"""What every test needs: state home and user home inside `tmp_path`, and no powers of root."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
