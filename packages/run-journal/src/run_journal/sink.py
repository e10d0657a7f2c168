"""The one sink: it takes a finished line's body to its file, in order, whole, and chained.

Owns the lock between processes and the append. Invariant: under the file's lock the tail is
read, the line is sealed after it and written with one `write`, so `seq` has no gap and the chain
no break however many processes write. A line that could not be written whole leaves nothing
behind if that can be helped, and is counted. A file that was deleted while we held it is not
brought back to life: its session is gone.

Threads: one at a time, by loguru's handler lock and our own. Fork: a child opens its own
descriptors, because `flock` belongs to the open file and a shared one excludes nobody.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from run_journal.descriptors import Descriptors, OpenFile, open_for_append
from run_journal.errors import JournalBusy, JournalMissing, JournalUnavailable
from run_journal.file_lock import lock, unlock
from run_journal.lines import Head, seal
from run_journal.tail import TORN_INFIX, overwrite_tail, read_tail, set_aside

if TYPE_CHECKING:
    from pathlib import Path

    import loguru

DELIVERY_KEY = "run_journal_delivery"


@dataclass(slots=True, kw_only=True)
class Delivery:
    """Travels with a line through loguru: where it goes and, afterwards, where it stands."""

    file_name: str
    session_id: str | None
    head: Head | None = None


RepairBody = Callable[[str | None, int, str], str]
"""(session id, torn bytes, name of the file set aside) -> body of `journal.repaired`."""


class _Process:
    """What belongs to one process and must not be shared over a fork."""

    __slots__ = ("counts_lock", "descriptors", "in_use", "lock")

    def __init__(self, directory: Path, max_open: int) -> None:
        # Ctrl-C can strike when the lock is taken and nobody knows it yet. A plain lock would then
        # be held for ever; this one lets its thread in again, and `in_use` keeps a signal handler
        # that writes inside a write out.
        self.lock = threading.RLock()
        self.in_use = False
        self.counts_lock = threading.RLock()
        self.descriptors = Descriptors(directory, max_open=max_open)


class Sink:
    """Routes lines to the files of one directory. `repaired_count` counts tails set aside."""

    def __init__(
        self, directory: Path, *, max_open: int, lock_timeout_s: float, repair_body: RepairBody
    ) -> None:
        self._directory = directory
        self._max_open = max_open
        self._lock_timeout_s = lock_timeout_s
        self._repair_body = repair_body
        self._processes: dict[int, _Process] = {}
        self.repaired_count = 0

    def write(self, message: loguru.Message) -> None:
        """Append the line that *message* carries. Called by loguru alone.

        Raises `OSError`, `JournalUnavailable` or `JournalBusy` when it could not.
        """
        delivery: Delivery = message.record["extra"][DELIVERY_KEY]
        body = message[:-1].encode("ascii")
        process = self._entered()
        was_in_use = process.in_use
        try:
            self._use(process)
            file = process.descriptors.get(delivery.file_name)
            self._lock(file)
            try:
                delivery.head = self._append(file, body, delivery.session_id)
            finally:
                unlock(file.fd)
        except JournalUnavailable:
            process.descriptors.drop(delivery.file_name)
            raise
        finally:
            process.in_use = was_in_use
            process.lock.release()

    def delete(self, file_name: str) -> bool:
        """Remove *file_name* and what was set aside from it; return whether it was there.

        Raises `JournalBusy` or `OSError` when it could not; asking again goes on where it
        stopped.
        """
        process = self._entered()
        was_in_use = process.in_use
        try:
            self._use(process)
            process.descriptors.drop(file_name)
            return self._remove(self._directory / file_name)
        finally:
            process.in_use = was_in_use
            process.lock.release()

    def close(self) -> None:
        """Close this process's descriptors."""
        process = self._entered()
        was_in_use = process.in_use
        try:
            self._use(process)
            process.descriptors.close()
        finally:
            process.in_use = was_in_use
            process.lock.release()

    def _entered(self) -> _Process:
        """Return what belongs to this process, with its lock held."""
        process = self._own()
        # With a time limit, so that a signal handler that writes inside a write cannot hang.
        if not process.lock.acquire(timeout=self._lock_timeout_s):
            raise JournalBusy(self._directory, timeout_s=self._lock_timeout_s)
        return process

    def _use(self, process: _Process) -> None:
        if process.in_use:
            raise JournalBusy(self._directory, timeout_s=0)
        process.in_use = True

    def counting(self) -> threading.RLock:
        """Return the lock under which this process's counts change."""
        return self._own().counts_lock

    def _own(self) -> _Process:
        pid = os.getpid()
        process = self._processes.get(pid)
        if process is None:
            for parent in tuple(self._processes):
                inherited = self._processes.pop(parent, None)
                if inherited is not None:
                    inherited.descriptors.close()
            process = self._processes.setdefault(pid, _Process(self._directory, self._max_open))
        return process

    def _lock(self, file: OpenFile) -> None:
        if not lock(file.fd, timeout_s=self._lock_timeout_s):
            raise JournalBusy(file.path, timeout_s=self._lock_timeout_s)

    def _remove(self, path: Path) -> bool:
        try:
            file = OpenFile(path, open_for_append(path, create=False))
        except JournalMissing:
            self._remove_set_aside(path)
            return False
        except OSError:
            # A symlink, a FIFO or a directory: there is no journal to lock.
            path.unlink()
            self._remove_set_aside(path)
            return True
        try:
            self._lock(file)
            path.unlink(missing_ok=True)
            self._remove_set_aside(path)
        finally:
            os.close(file.fd)
        return True

    def _remove_set_aside(self, path: Path) -> None:
        for aside in self._directory.glob(f"{path.name}{TORN_INFIX}*"):
            aside.unlink(missing_ok=True)

    def _append(self, file: OpenFile, body: bytes, session_id: str | None) -> Head:
        status = os.fstat(file.fd)
        if status.st_nlink == 0:
            raise JournalUnavailable(
                file.path,
                reason="it was deleted while it was open",
                hint="Nothing is written for a deleted session.",
            )
        size = status.st_size
        tail = read_tail(file, size)
        head = tail.head
        if tail.end < size:
            name = set_aside(file, start=tail.end, end=size, seq=head.seq + 1)
            report = self._repair_body(session_id, size - tail.end, name).encode("ascii")
            line, head = seal(report, after=head)
            overwrite_tail(file, line, start=tail.end)
            self.repaired_count += 1
            size = tail.end + len(line)
        line, head = seal(body, after=head)
        if os.write(file.fd, line) < len(line):
            os.ftruncate(file.fd, size)
            raise JournalUnavailable(
                file.path,
                reason="a line could only be written in part",
                hint="Free some disk space.",
            )
        return head
