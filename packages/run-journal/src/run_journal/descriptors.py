"""Opening journal files for append, and keeping a few of them open.

Owns how a file comes to exist and which descriptors live. Invariant: a descriptor handed out
belongs to a regular file that was opened by its own name (no symlink is followed), was not
waited for (a FIFO cannot hang us), is closed on exec, and is 0600 in a directory that, if made
here, was 0700 from its first moment. At most `max_open` are open, fewer after the process ran out
of descriptors; the least recently used one is closed first. Where that may be many, they have
numbers that `select` has no use for. One that others closed is neither used nor closed: its number
may be another file's.

Must not: lock, read or write. Not thread-safe: `Sink` calls it under its own lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import stat
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from run_journal.errors import JournalMissing, JournalUnavailable
from run_journal.lines import EMPTY

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700
TOO_MANY_OPEN = (errno.EMFILE, errno.ENFILE)
MAX_REMEMBERED = 4096  # closed files, some hundred bytes each

_MOST_OPEN = 1024
_MANY_OPEN = 256
_FIRST_ABOVE_SELECT = 1024
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


def usual_max_open() -> int:
    """Return how many files may stay open: a quarter of what this process may, 1,024 at most."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_OPEN if soft == resource.RLIM_INFINITY else max(1, min(soft // 4, _MOST_OPEN))


def make_directory(directory: Path) -> None:
    """Make *directory* and its missing parents, each 0700 whatever the umask."""
    if directory.is_dir():
        return
    make_directory(directory.parent)
    with suppress(FileExistsError):
        directory.mkdir(mode=DIRECTORY_MODE)
        # The umask can only have taken rights away from us.
        directory.chmod(DIRECTORY_MODE)


class OpenFile:
    """A journal file that is open for append; `identity` tells it from what may take its place.

    `size` and `head` say where the file stood when this process last wrote to it whole; nothing
    is known (size -1) before.
    """

    __slots__ = ("fd", "head", "identity", "path_text", "size")

    def __init__(self, path_text: str, fd: int, identity: tuple[int, int]) -> None:
        self.path_text = path_text
        self.fd = fd
        self.identity = identity
        self.size = -1
        self.head = EMPTY

    @property
    def path(self) -> Path:
        """Where it was opened."""
        return Path(self.path_text)

    def is_open(self) -> bool:
        """Whether the descriptor is this file's still.

        A program that becomes a daemon closes all descriptors, and the next file that anybody
        opens gets the same number: a line must not go there.
        """
        try:
            status = os.fstat(self.fd)
        except OSError:
            return False
        return (status.st_ino, status.st_dev) == self.identity

    def close(self) -> None:
        """Close the descriptor, unless it is another file's by now."""
        if self.is_open():
            os.close(self.fd)


def open_for_append(path_text: str, *, create: bool) -> OpenFile:
    """Return the regular file at *path_text*, newly opened, readable too, at mode 0600.

    Raises `JournalMissing` (only without *create*), `JournalUnavailable` for what is no regular
    file, and `OSError` as the system gives it.
    """
    flags = _APPEND | (os.O_CREAT if create else 0)
    try:
        fd = os.open(path_text, flags, FILE_MODE)
    except FileNotFoundError:
        if not create:
            raise JournalMissing(Path(path_text)) from None
        make_directory(Path(path_text).parent)
        fd = os.open(path_text, flags, FILE_MODE)
    try:
        return OpenFile(path_text, fd, _identity_of_private_file(fd, path_text))
    except BaseException:
        os.close(fd)
        raise


def _out_of_the_way(fd: int) -> int:
    """Return another number for *fd*, or itself where there is none.

    `select` takes no descriptor above 1,023, and the program that we are part of may use it.
    """
    try:
        above = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_ABOVE_SELECT)
    except OSError:
        return fd
    os.close(fd)
    return above


def _identity_of_private_file(fd: int, path_text: str) -> tuple[int, int]:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise JournalUnavailable(
            Path(path_text),
            reason="it is no regular file",
            hint="Remove what stands there; the next event makes a new journal.",
        )
    if stat.S_IMODE(status.st_mode) != FILE_MODE:
        os.fchmod(fd, FILE_MODE)
    return status.st_ino, status.st_dev


class Descriptors:
    """The journal files of one process, by file name: those that are open, and some that were.

    Of a file that was closed to make room it is remembered where it stood, so that coming back to
    it costs an `open` and no look at its end.
    """

    __slots__ = ("_closed", "_directory_text", "_max_open", "_open")

    def __init__(self, directory: Path, *, max_open: int) -> None:
        self._directory_text = str(directory)
        self._max_open = max_open
        self._open: OrderedDict[str, OpenFile] = OrderedDict()
        self._closed: OrderedDict[str, OpenFile] = OrderedDict()

    def get(self, file_name: str) -> OpenFile:
        """Return *file_name*, opening and creating it as needed."""
        file = self._open.get(file_name)
        if file is not None and file.is_open():
            self._open.move_to_end(file_name)
            return file
        self._open.pop(file_name, None)
        self._keep_at_most(self._max_open - 1)
        try:
            file = self._opened(file_name)
        except OSError as error:
            if error.errno not in TOO_MANY_OPEN or not self._open:
                raise
            # The program needs its descriptors for something else, so never as many again.
            self._max_open = max(1, len(self._open) // 2)
            self._keep_at_most(self._max_open - 1)
            file = self._opened(file_name)
        before = self._closed.pop(file_name, None)
        if before is not None and before.identity == file.identity:
            file.size, file.head = before.size, before.head
        self._open[file_name] = file
        return file

    def _opened(self, file_name: str) -> OpenFile:
        file = open_for_append(f"{self._directory_text}{os.sep}{file_name}", create=True)
        if self._max_open > _MANY_OPEN:
            file.fd = _out_of_the_way(file.fd)
        return file

    def _keep_at_most(self, count: int) -> None:
        while len(self._open) > count:
            name, oldest = self._open.popitem(last=False)
            oldest.close()
            self._closed[name] = oldest
        while len(self._closed) > MAX_REMEMBERED:
            self._closed.popitem(last=False)

    def drop(self, file_name: str) -> None:
        """Close *file_name*, if it is open, and forget it."""
        self._closed.pop(file_name, None)
        file = self._open.pop(file_name, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close and forget all of them."""
        self._closed.clear()
        while self._open:
            _, file = self._open.popitem()
            file.close()
