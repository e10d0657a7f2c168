"""Who may be in the store at one time: many who work in it, or one who changes its files.

Two lock files beside the database. Whoever opens it passes the *gate* (shared, for an instant) and
holds the *presence* shared for as long as it is open. Whoever upgrades, restores or rebuilds it
closes the gate (exclusive), so that nobody new comes in, and waits to have the presence alone.
Without the gate short readers, one after another, would keep such a one out for ever.

Invariants: a shared lock is never made an exclusive one, which `flock` does by letting go first;
a time-out changes nothing; the files are never removed, because their locks are of the inode.
Source: flock(2).
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from state_store.errors import Holder, StoreInUse, Work
from state_store.sqlite import ownership
from state_store.sqlite.beside import gate_of, presence_of
from state_store.sqlite.faults import unavailable
from state_store.sqlite.held import Held, pids_that_lock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from state_store.sqlite.place import Place

# An upgrade of a large database takes its time, and whoever starts meanwhile has to wait for it.
PASSING_TIMEOUT_MS = 60_000
_POLL_S = 0.004
# What keeps the lock file itself from being opened, and not what is around it.
_OF_THE_LOCK = frozenset({errno.EACCES, errno.EPERM, errno.ELOOP, errno.EISDIR, errno.ENXIO})


class _NoLock(Exception):
    """A reader may not make or open the lock file."""


class Presence:
    """That somebody has the store open. Void in a forked child; empty where there is no lock."""

    def __init__(self, held: Held | None) -> None:
        self._held = held

    def close(self) -> None:
        """Leave the store. Doing it twice does nothing."""
        if self._held is not None:
            self._held.release()


def enter(place: Place, *, creating: bool) -> Presence:
    """Come in beside others, after whoever is changing the files.

    Without *creating*, for a reader, missing lock files are not made and forbidden ones left alone:
    it then holds nothing, and whoever changes the files does not wait for it. StoreInUse when the
    gate stays closed.
    """
    with ExitStack() as passing:
        try:
            gate = _open(gate_of(place.path), place, creating=creating)
            passing.callback(gate.release)
            _wait_for(gate, gate_of(place.path), place, "open", PASSING_TIMEOUT_MS)
            presence = _open(presence_of(place.path), place, creating=creating)
            _wait_for(presence, presence_of(place.path), place, "open", PASSING_TIMEOUT_MS)
        except _NoLock:
            return Presence(None)
        return Presence(presence)


@contextmanager
def alone(place: Place, work: Work) -> Iterator[None]:
    """Be the only one in the store while the block runs.

    StoreInUse, with nothing changed, when somebody still has it open after the busy time-out.
    """
    with closed(place, work), emptied(place, work):
        yield


@contextmanager
def closed(place: Place, work: Work) -> Iterator[None]:
    """Let nobody in, and nobody else change the files, while the block runs."""
    with _held(gate_of(place.path), place, work, PASSING_TIMEOUT_MS):
        yield


@contextmanager
def emptied(place: Place, work: Work) -> Iterator[None]:
    """Wait until all have left while the gate is closed. StoreInUse when they do not."""
    with _held(presence_of(place.path), place, work, place.busy_timeout_ms):
        yield


@contextmanager
def _held(lock: Path, place: Place, work: Work, timeout_ms: int) -> Iterator[None]:
    held = _open(lock, place, creating=True)
    try:
        _wait_for(held, lock, place, work, timeout_ms)
        yield
    finally:
        held.release()


def _open(lock: Path, place: Place, *, creating: bool) -> Held:
    # Reading is enough for a lock, also where this user may not write.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return Held(os.open(lock, flags | (os.O_CREAT if creating else 0), 0o600))
    except OSError as error:
        if not creating and isinstance(error, PermissionError | FileNotFoundError):
            raise _NoLock from error
        raise unavailable(lock if error.errno in _OF_THE_LOCK else place.path, error) from error


def _wait_for(held: Held, lock: Path, place: Place, work: Work, timeout_ms: int) -> None:
    """Get the lock, shared for who opens; poll, so that Ctrl-C is seen and it can time out."""
    mode = fcntl.LOCK_SH if work == "open" else fcntl.LOCK_EX
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        try:
            held.lock(mode | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        except OSError as error:
            raise unavailable(place.path, error) from error
        else:
            return
        if time.monotonic() > deadline:
            raise StoreInUse(place.path, work=work, holders=_holders(lock, place))
        time.sleep(os.urandom(1)[0] / 255 * _POLL_S)


def _holders(lock: Path, place: Place) -> tuple[Holder, ...]:
    """Return who has the store open, for people: writers wrote it down, of others the pid alone."""
    writers = [(one.pid, one.host, one.since) for one in ownership.living(place.owners_dir)]
    known = {pid for pid, *_ in writers}
    others = [(pid, socket.gethostname(), None) for pid in pids_that_lock(lock) if pid not in known]
    return (*writers, *others)
