"""A disk on which one operation fails, or every one of a kind from some point on.

Invariant: the same code on the same data meets the same operations in the same order, so that
counting up from 0 until nothing fired lets every operation fail once.

apsw raises what a VFS method raised even where SQLite itself passes over the error: for the
checkpoint after a COMMIT, and at close. So on this disk, unlike on a real one, a call that raised
may have committed.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import apsw

from state_store.testing.disk.watched import Kind, Operation, ShortWrite, WatchedDisk

if TYPE_CHECKING:
    from pathlib import Path

_NAMES: frozenset[Kind] = frozenset({"create", "mkdir", "link", "rename", "unlink"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong: operations of *kinds* fail with *code* (SQLite's) and *number* (errno).

    *lasting*: all of them do from then on, until the disk is healed; else one does.
    """

    kinds: frozenset[Kind]
    code: int = apsw.SQLITE_IOERR
    number: int = errno.EIO
    lasting: bool = False
    short: bool = False


FAULTS = {
    "read": Fault(kinds=frozenset({"read"}), code=apsw.SQLITE_IOERR_READ),
    "write": Fault(kinds=frozenset({"write"}), code=apsw.SQLITE_IOERR_WRITE),
    "short write": Fault(kinds=frozenset({"write"}), code=apsw.SQLITE_IOERR_WRITE, short=True),
    "sync": Fault(kinds=frozenset({"sync", "sync_directory"}), code=apsw.SQLITE_IOERR_FSYNC),
    "open": Fault(kinds=frozenset({"open"}), code=apsw.SQLITE_CANTOPEN, number=errno.EMFILE),
    "truncate": Fault(kinds=frozenset({"truncate"}), code=apsw.SQLITE_IOERR_TRUNCATE),
    "delete": Fault(kinds=frozenset({"delete"}), code=apsw.SQLITE_IOERR_DELETE),
    "names": Fault(kinds=_NAMES),
    "full": Fault(
        kinds=frozenset({"write", "create", "mkdir", "link"}),
        code=apsw.SQLITE_FULL,
        number=errno.ENOSPC,
        lasting=True,
    ),
    "full for a moment": Fault(
        kinds=frozenset({"write", "create", "mkdir", "link"}),
        code=apsw.SQLITE_FULL,
        number=errno.ENOSPC,
        short=True,
    ),
}


class FailingDisk(WatchedDisk):
    """Lets operation number *at*, from 0, of those that *fault* is about fail below *directory*.

    `fired` holds the operations that failed.
    """

    def __init__(self, directory: Path, fault: Fault, *, at: int) -> None:
        super().__init__(directory)
        self.fired: list[Operation] = []
        self._fault = fault
        self._left = at
        self._is_whole = False

    def heal(self) -> None:
        """Let everything succeed from now on."""
        self._is_whole = True

    def hurt(self) -> None:
        """Go on counting, and failing, after `heal`."""
        self._is_whole = False

    def before(self, operation: Operation) -> None:
        """Raise for the chosen operation."""
        fault = self._fault
        if self._is_whole or operation.kind not in fault.kinds:
            return
        if self._left > 0:
            self._left -= 1
            return
        if self.fired and not fault.lasting:
            return
        self.fired.append(operation)
        if operation.kind in _NAMES or operation.kind == "sync_directory":
            raise OSError(fault.number, os.strerror(fault.number))
        error = apsw.exception_for(fault.code)
        if fault.short and operation.kind == "write":
            raise ShortWrite(len(operation.content) // 2, error)
        raise error
