"""Opening journal files for append, and keeping a few of them open.

Owns how a file comes to exist and which descriptors live. Invariant: a descriptor handed out
belongs to a regular file that was opened by its own name (no symlink is followed), was not
waited for (a FIFO cannot hang us), is closed on exec, and is 0600 in a directory that, if made
here, was 0700 from its first moment. At most `max_open` are open; the least recently used one is
closed first.

Must not: lock, read or write. Not thread-safe: `Sink` calls it under its own lock.
"""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from run_journal.errors import JournalMissing, JournalUnavailable

if TYPE_CHECKING:
    from pathlib import Path

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700

_APPEND = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


def make_directory(directory: Path) -> None:
    """Make *directory* and its missing parents, each 0700 whatever the umask."""
    if directory.is_dir():
        return
    make_directory(directory.parent)
    with suppress(FileExistsError):
        directory.mkdir(mode=DIRECTORY_MODE)
        # The umask can only have taken rights away from us.
        directory.chmod(DIRECTORY_MODE)


def open_for_append(path: Path, *, create: bool) -> int:
    """Return a new descriptor of the regular file *path*, readable, at mode 0600.

    Raises `JournalMissing` (only without *create*), `JournalUnavailable` for what is no regular
    file, and `OSError` as the system gives it.
    """
    flags = _APPEND | (os.O_CREAT if create else 0)
    try:
        fd = os.open(path, flags, FILE_MODE)
    except FileNotFoundError:
        if not create:
            raise JournalMissing(path) from None
        make_directory(path.parent)
        fd = os.open(path, flags, FILE_MODE)
    try:
        _require_private_file(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _require_private_file(fd: int, path: Path) -> None:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise JournalUnavailable(
            path,
            reason="it is no regular file",
            hint="Remove what stands there; the next event makes a new journal.",
        )
    if stat.S_IMODE(status.st_mode) != FILE_MODE:
        os.fchmod(fd, FILE_MODE)


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A journal file that is open for append."""

    path: Path
    fd: int


class Descriptors:
    """The open journal files of one process, by file name."""

    __slots__ = ("_directory", "_max_open", "_open")

    def __init__(self, directory: Path, *, max_open: int) -> None:
        self._directory = directory
        self._max_open = max_open
        self._open: OrderedDict[str, OpenFile] = OrderedDict()

    def get(self, file_name: str) -> OpenFile:
        """Return *file_name*, opening and creating it as needed."""
        file = self._open.get(file_name)
        if file is not None:
            self._open.move_to_end(file_name)
            return file
        while len(self._open) >= self._max_open:
            _, oldest = self._open.popitem(last=False)
            os.close(oldest.fd)
        path = self._directory / file_name
        file = OpenFile(path, open_for_append(path, create=True))
        self._open[file_name] = file
        return file

    def drop(self, file_name: str) -> None:
        """Close *file_name*, if it is open."""
        file = self._open.pop(file_name, None)
        if file is not None:
            os.close(file.fd)

    def close(self) -> None:
        """Close all of them."""
        while self._open:
            _, file = self._open.popitem()
            os.close(file.fd)
