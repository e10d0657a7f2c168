"""The one sink: it takes a finished line's body to its file, in order, whole, and chained.

Owns the lock between processes and the append. Invariant: under the file's lock the tail is
read, the line is sealed after it and written with one `write`, so `seq` has no gap and the chain
no break however many processes write. A line that could not be written whole leaves nothing
behind if that can be helped, and is counted. What does not stand under its name any more is not
written to, and the file of a deleted session is never brought back to life.

Threads: one at a time, by loguru's handler lock and our own. Fork: a child opens its own
descriptors, because `flock` belongs to the open file and a shared one excludes nobody.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from run_journal.delivery import DELIVERY_KEY
from run_journal.descriptors import (
    TOO_MANY_OPEN,
    Descriptors,
    open_for_append,
    usual_max_open,
)
from run_journal.errors import JournalBusy, JournalMissing, JournalUnavailable
from run_journal.file_lock import lock, unlock
from run_journal.file_names import TORN_INFIX
from run_journal.lines import Head, seal
from run_journal.tail import overwrite_tail, read_tail, set_aside

if TYPE_CHECKING:
    from pathlib import Path

    import loguru

    from run_journal.delivery import Delivery, RepairBody
    from run_journal.descriptors import OpenFile
    from run_journal.names import Id


class _Deleted(JournalUnavailable):
    """The file is that of a session that was deleted."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            path,
            reason="its session was deleted",
            hint="Nothing is written for a deleted session.",
        )


class _Process:
    """What belongs to one process and must not be shared over a fork."""

    __slots__ = ("counts_lock", "descriptors", "gone", "in_use", "lock")

    def __init__(self, directory: Path, max_open: int) -> None:
        # Ctrl-C can strike when the lock is taken and nobody knows it yet. A plain lock would then
        # be held for ever; this one lets its thread in again, and `in_use` keeps a signal handler
        # that writes inside a write out.
        self.lock = threading.RLock()
        self.in_use = False
        self.counts_lock = threading.RLock()
        self.descriptors = Descriptors(directory, max_open=max_open)
        self.gone: set[str] = set()  # the files of sessions that were deleted


class Sink:
    """Routes lines to the files of one directory. `repaired_count` counts tails set aside."""

    def __init__(
        self,
        directory: Path,
        *,
        max_open: int | None,
        lock_timeout_s: float,
        repair_body: RepairBody,
    ) -> None:
        self._directory = directory
        self._max_open = usual_max_open() if max_open is None else max_open
        self._lock_timeout_s = lock_timeout_s
        self._repair_body = repair_body
        self._processes: dict[int, _Process] = {}
        self.repaired_count = 0

    def write(self, message: loguru.Message) -> None:
        """Append the line that *message* carries. Called by loguru alone.

        Raises `OSError`, `JournalUnavailable` or `JournalBusy` when it could not.
        """
        delivery: Delivery = message.record["extra"][DELIVERY_KEY]
        body = message.encode("ascii")
        process = self._entered()
        was_in_use = process.in_use
        try:
            self._use(process)
            if delivery.file_name in process.gone:
                raise _Deleted(self._directory / delivery.file_name)
            file = process.descriptors.get(delivery.file_name)
            self._lock(file)
            try:
                delivery.head = self._append(file, body, delivery.session_id)
            finally:
                unlock(file.fd)
        except JournalUnavailable as error:
            process.descriptors.drop(delivery.file_name)
            if isinstance(error, _Deleted):
                process.gone.add(delivery.file_name)
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
            was_there = self._remove(self._directory / file_name)
            process.gone.add(file_name)
            return was_there
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
            process = self._processes.setdefault(pid, _Process(self._directory, self._max_open))
            for parent in self._processes.keys() - {pid}:
                inherited = self._processes.pop(parent, None)
                if inherited is not None:
                    inherited.descriptors.close()
        return process

    def _lock(self, file: OpenFile) -> None:
        if not lock(file.fd, timeout_s=self._lock_timeout_s):
            raise JournalBusy(file.path, timeout_s=self._lock_timeout_s)

    def _remove(self, path: Path) -> bool:
        try:
            file = open_for_append(str(path), create=False)
        except JournalMissing:
            self._remove_set_aside(path)
            return False
        except OSError as error:
            if error.errno in TOO_MANY_OPEN:
                raise
            # A symlink, a FIFO or a directory: there is no journal to lock.
            path.unlink()
            self._remove_set_aside(path)
            return True
        try:
            self._lock(file)
            path.unlink(missing_ok=True)
            if os.fstat(file.fd).st_nlink == 0:
                # Nameless and empty: so others who have it open know that this was no accident.
                os.ftruncate(file.fd, 0)
            self._remove_set_aside(path)
        finally:
            file.close()
        return True

    def _remove_set_aside(self, path: Path) -> None:
        for aside in self._directory.glob(f"{path.name}{TORN_INFIX}*"):
            aside.unlink(missing_ok=True)

    def _append(self, file: OpenFile, body: bytes, session_id: Id | None) -> Head:
        size = _size_under_its_name(file)
        if size == file.size:
            head = file.head  # all writers append, so nobody wrote behind our last line
        else:
            head, size = self._mended(file, size, session_id)
        line, head = seal(body, after=head)
        file.size = -1
        if os.write(file.fd, line) < len(line):
            os.ftruncate(file.fd, size)
            raise JournalUnavailable(
                file.path,
                reason="a line could only be written in part",
                hint="Free some disk space.",
            )
        file.size, file.head = size + len(line), head
        return head

    def _mended(self, file: OpenFile, size: int, session_id: Id | None) -> tuple[Head, int]:
        """Return the head and size of a file that others wrote to, without its torn tail."""
        tail = read_tail(file, size)
        if tail.end == size:
            return tail.head, size
        if os.fstat(file.fd).st_nlink > 1:
            raise JournalUnavailable(
                file.path,
                reason="its end is torn, and the file has another name, where it may be wanted",
                hint="Put a copy of it in its place; the next event repairs that.",
            )
        head, reports = tail.head, b""
        for aside in set_aside(file, start=tail.end, end=size, seq=head.seq + 1):
            body = self._repair_body(session_id, aside.byte_count, aside.name)
            line, head = seal(body.encode("ascii"), after=head)
            reports += line
        overwrite_tail(file, reports, start=tail.end)
        self.repaired_count += 1
        return head, tail.end + len(reports)


def _size_under_its_name(file: OpenFile) -> int:
    """Return the size of *file*; raise unless the path still leads to what is open here."""
    try:
        found = os.lstat(file.path_text)
        if (found.st_ino, found.st_dev) == file.identity:
            return found.st_size
    except FileNotFoundError:
        pass
    held = os.fstat(file.fd)
    if held.st_nlink == 0 and held.st_size == 0:
        raise _Deleted(file.path)
    raise JournalUnavailable(
        file.path,
        reason="it was removed or replaced while it was open",
        hint="The next event goes to what stands there then.",
    )
