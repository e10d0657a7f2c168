"""The registry's lock: one file in the state home, held across read, decide and write.

It belongs to an open file (flock), so it ends with the process that holds it, excludes threads of
one process as well as processes, and is never left stale. The pid in the file is for people only.
The file is never removed: a lock on a removed file excludes nobody.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from workspace_identity import system
from workspace_identity.directory import PRIVATE_FILE_MODE
from workspace_identity.errors import RegistryBusy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK_NAME = "registry.lock"
LOCK_TIMEOUT_S = 15.0

_FIRST_WAIT_S = 0.001
_LONGEST_WAIT_S = 0.05
_PID_BYTES = 20


@contextlib.contextmanager
def registry_lock(state_home: Path, *, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold the registry of *state_home*, which must exist. Raises RegistryBusy after *timeout_s*.

    Not reentrant: a thread that holds it and asks again waits for itself.
    """
    lock_path = state_home / LOCK_NAME
    flags = os.O_RDWR | os.O_CREAT | system.NOFOLLOW | system.CLOEXEC | system.BINARY
    descriptor = os.open(lock_path, flags, PRIVATE_FILE_MODE)
    try:
        with contextlib.suppress(OSError):  # against a umask that takes bits from the owner
            system.set_mode(descriptor, PRIVATE_FILE_MODE)
        _wait_for(descriptor, lock_path, timeout_s)
        try:
            _note_holder(descriptor)
            yield
        finally:
            # Explicitly, not by closing: a child forked meanwhile holds the same open file.
            system.unlock(descriptor)
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, lock_path: Path, timeout_s: float) -> None:
    started = time.monotonic()
    pause = _FIRST_WAIT_S
    while not system.try_lock(descriptor):
        waited = time.monotonic() - started
        if waited >= timeout_s:
            holder = _read_holder(descriptor)
            by = "another process" if holder is None else f"process {holder}"
            raise RegistryBusy(
                f"The workspace registry is held by {by}: waited {waited:.1f} s for {lock_path}.",
                hint="Wait for that process, or end it; the lock ends with it.",
                lock_path=lock_path,
                waited_s=waited,
                holder_pid=holder,
            )
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_WAIT_S)


def _note_holder(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # a full disk must not keep anybody out of the registry
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, f"{os.getpid():<{_PID_BYTES - 1}}\n".encode("ascii"))


def _read_holder(descriptor: int) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        os.lseek(descriptor, 0, os.SEEK_SET)
        return int(os.read(descriptor, _PID_BYTES))
    return None
