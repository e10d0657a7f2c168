"""Whose pending run is this? One lock file for each open store answers.

Invariant: while a store is open, its file `owners/<uuid>.lock` is locked by it, and was before
the store's first run row; when its process ends, however it ends, the system lets the lock go.
A prober asks for a *shared* lock without waiting: with exclusive probes two probers see each
other and call a dead owner alive. Got it, or the file is gone: dead. Would block: alive. Any
other answer: unknown, and the run is left alone.

`flock` and not `lockf`: POSIX record locks belong to the process, which would then judge its own
store dead, and closing any descriptor of the file drops them. The facts in the file (pid, host,
time) are for people; a pid is used again and proves nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from state_store.clock import Clock, to_text
from state_store.sqlite.held import Held

Liveness = Literal["alive", "dead", "unknown"]

# What is read of an owner's file, which may be anything by now.
_MAX_FACTS_BYTES = 4096
# Whatever lies there, a link is not followed and a FIFO is not waited for.
_LOOK = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
# A claim is made anew when somebody who clears away after a crash has met it half made.
_CLAIM_ATTEMPTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerFacts:
    """What an owner wrote about itself, for people; None where it cannot be read."""

    pid: int | None = None
    host: str | None = None
    since: str | None = None


class Owner:
    """This store's claim on the runs that it begins. Thread-safe; void in a forked child."""

    def __init__(self, owner_id: str, path: Path, descriptor: int) -> None:
        self.id = owner_id
        self._path = path
        self._held = Held(descriptor)

    @classmethod
    def claim(cls, directory: Path, *, clock: Clock) -> Owner:
        """Make and lock a new owner file in *directory*. OSError when that cannot be done."""
        for _ in range(_CLAIM_ATTEMPTS - 1):
            with contextlib.suppress(BlockingIOError, FileNotFoundError):
                return cls._claim(directory, clock=clock)
        return cls._claim(directory, clock=clock)

    @classmethod
    def _claim(cls, directory: Path, *, clock: Clock) -> Owner:
        owner_id = str(uuid.uuid4())
        path = directory / f"{owner_id}.lock"
        unnamed = directory / f".{owner_id}.new"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(unnamed, flags, 0o600)
        owner = cls(owner_id, path, descriptor)  # before it is locked: see `Held`
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            facts = {
                "pid": os.getpid(),
                "host": socket.gethostname(),
                "since": to_text(clock()),
                "boot_id": _boot_id(),
            }
            os.write(descriptor, json.dumps(facts).encode())
            unnamed.rename(path)
        except BaseException:
            unnamed.unlink(missing_ok=True)
            owner.release(keep_file=False)
            raise
        return owner

    def release(self, *, keep_file: bool) -> None:
        """Let the lock go. The file stays when a run of ours is pending still (*keep_file*)."""
        descriptor = self._held.take()
        if descriptor is None:
            return
        try:
            if not keep_file:
                with contextlib.suppress(OSError):  # then the next opener finds it unlocked
                    self._path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)


def probe(directory: Path, owner_id: str) -> Liveness:
    """Say whether the store *owner_id* is still open somewhere on this machine."""
    path = _path_of(directory, owner_id)
    if path is None:
        return "unknown"
    try:
        descriptor = os.open(path, _LOOK)
    except FileNotFoundError:
        return "dead"
    except OSError:
        return "unknown"
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return "alive" if error.errno in {errno.EWOULDBLOCK, errno.EACCES} else "unknown"
    else:
        return "dead"
    finally:
        os.close(descriptor)


def facts_of(directory: Path, owner_id: str) -> OwnerFacts:
    """Return what the owner wrote about itself; a garbled file gives empty facts."""
    path = _path_of(directory, owner_id)
    raw = None
    if path is not None:
        with (
            contextlib.suppress(OSError, ValueError, RecursionError),
            open(path, "rb", opener=_look) as file,
        ):
            raw = json.loads(file.read(_MAX_FACTS_BYTES))
    if not isinstance(raw, dict):
        return OwnerFacts()
    pid, host, since = raw.get("pid"), raw.get("host"), raw.get("since")
    return OwnerFacts(
        pid=pid if isinstance(pid, int) else None,
        host=host if isinstance(host, str) else None,
        since=since if isinstance(since, str) else None,
    )


def living(directory: Path) -> tuple[OwnerFacts, ...]:
    """Return what the owners that are alive wrote about themselves; for people."""
    names = sorted(path.stem for path in directory.glob("*.lock"))
    return tuple(facts_of(directory, one) for one in names if probe(directory, one) == "alive")


def remove_dead(directory: Path, owner_id: str) -> None:
    """Remove the file of an owner that was found dead and has no pending run left."""
    path = _path_of(directory, owner_id)
    if path is not None and probe(directory, owner_id) == "dead":
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def remove_unfinished(directory: Path) -> None:
    """Remove the files of claims that a crash cut off before they had their names.

    A claim that is being made is locked, or about to be: then the lock held here, or the file
    that is gone, makes its maker start over.
    """
    for path in directory.glob(".*.new"):
        if _path_of(directory, path.name[1:].removesuffix(".new")) is None:
            continue
        with contextlib.suppress(OSError):
            descriptor = os.open(path, _LOOK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
            finally:
                os.close(descriptor)


def _look(path: str, flags: int) -> int:
    del flags
    return os.open(path, _LOOK)


def _path_of(directory: Path, owner_id: str) -> Path | None:
    """Return the owner's path; None for an id that is no canonical UUID, and so no file name."""
    try:
        canonical = str(uuid.UUID(owner_id))
    except ValueError:
        return None
    return directory / f"{owner_id}.lock" if canonical == owner_id else None


def _boot_id() -> str | None:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return None
