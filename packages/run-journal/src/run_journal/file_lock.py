"""The lock between processes that write one journal file.

Owns taking and giving back an advisory lock on an open file. Invariant: waiting has an end, so
that a process which was stopped while it held the lock costs others a line and never hangs them.
The lock is that of the open file: it ends with the process that holds it, and does not keep
apart those who share one descriptor, threads or a forked child.

Source: flock(2).
"""

from __future__ import annotations

import fcntl
import time

_FIRST_PAUSE_S = 0.00005
_LONGEST_PAUSE_S = 0.002


def lock(fd: int, *, timeout_s: float) -> bool:
    """Take the lock of the open file *fd*; return whether that worked within *timeout_s*."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _wait(fd, deadline=time.monotonic() + timeout_s)
    return True


def unlock(fd: int) -> None:
    """Give the lock back."""
    fcntl.flock(fd, fcntl.LOCK_UN)


def _wait(fd: int, *, deadline: float) -> bool:
    pause_s = _FIRST_PAUSE_S
    while time.monotonic() < deadline:
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        return True
    return False
