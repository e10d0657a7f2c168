"""The end of a journal file: where the next line goes, and what to do with a torn one.

Owns finding the last good line and setting a torn tail aside. Invariant: bytes behind the last
newline are never glued to a new line and never thrown away; what is set aside is reported, each
file by the line whose number it bears; complete lines, good or damaged, are never changed. The
caller holds the file's lock, so what lies behind the last newline was left by a writer that died
or met a full disk.

Source: a single `write` is not safe against `kill -9`: part of the line may be on disk.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from run_journal.descriptors import FILE_MODE
from run_journal.errors import JournalUnavailable
from run_journal.file_names import TORN_INFIX
from run_journal.lines import EMPTY, FORMAT_VERSION, MAX_LINE_BYTES, Head, sealed_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from run_journal.descriptors import OpenFile

_COPY_BYTES = 65536
_ASIDE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_MAX_UNTOLD = 100


@dataclass(frozen=True, slots=True)
class Tail:
    """The last good line's head, and where the file's last complete line ends."""

    head: Head
    end: int


def read_tail(file: OpenFile, size: int) -> Tail:
    """Return the tail of a file of *size* bytes. Looks back past damaged lines if it must.

    Raises `JournalUnavailable` if a newer version of the format wrote the last line.
    """
    if size == 0:
        return Tail(EMPTY, 0)
    reach = MAX_LINE_BYTES
    while True:
        start = max(0, size - reach)
        window = os.pread(file.fd, size - start, start)
        end = window.rfind(b"\n")
        head = _last_good(window, end, whole=start == 0, path=file.path)
        if head is not None:
            return Tail(head, start + end + 1)
        reach *= 4


def _last_good(window: bytes, end: int, *, whole: bool, path: Path) -> Head | None:
    """Return the last good head before window[end]; None if that lies before the window."""
    while end > 0:
        begin = window.rfind(b"\n", 0, end) + 1
        if begin == 0 and not whole:
            return None
        sealed = sealed_at(window, begin, end)
        if sealed is not None:
            if sealed.version > FORMAT_VERSION:
                raise JournalUnavailable(
                    path,
                    reason=f"its last line has format version {sealed.version}",
                    hint=f"This version writes {FORMAT_VERSION}: upgrade run-journal.",
                )
            return sealed.head
        end = begin - 1
    return EMPTY if whole else None


@dataclass(frozen=True, slots=True)
class SetAside:
    """A torn end that stands in a file of its own, beside the journal."""

    name: str
    byte_count: int


def set_aside(file: OpenFile, *, start: int, end: int, seq: int) -> list[SetAside]:
    """Copy the bytes from *start* to *end* to a file beside *file*; return what is to be reported.

    The name holds the number of the line that reports the file, from *seq* on, so a copy that was
    killed half-way is finished in the same file. Other bytes under that name belong to a repair
    that was killed in the midst of its report, which is a torn end now, or to a line that somebody
    cut off: nobody is told of them any more. They are left alone and returned first, and the copy
    gets the number after theirs.
    """
    untold: list[SetAside] = []
    for number in range(seq, seq + _MAX_UNTOLD):
        name = f"{file.path.name}{TORN_INFIX}{number:06d}"
        aside = os.open(file.path.with_name(name), _ASIDE, FILE_MODE)
        try:
            if _begins_alike(aside, file.fd, start, end):
                os.fchmod(aside, FILE_MODE)
                os.ftruncate(aside, 0)
                for block in _blocks(file.fd, start, end):
                    _write_all(aside, block)
                return [*untold, SetAside(name, end - start)]
            untold.append(SetAside(name, os.fstat(aside).st_size))
        finally:
            os.close(aside)
    raise JournalUnavailable(
        file.path,
        reason="too many torn lines were set aside and never reported",
        hint="Something cuts this journal again and again: look for it, move the copies away.",
    )


def _begins_alike(aside: int, fd: int, start: int, end: int) -> bool:
    """Whether all that stands in *aside* is how the bytes from *start* to *end* of *fd* begin."""
    size = os.fstat(aside).st_size
    if size > end - start:
        return False
    there = _blocks(aside, 0, size)
    return all(
        mine == his for mine, his in zip(_blocks(fd, start, start + size), there, strict=True)
    )


def _blocks(fd: int, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        block = os.pread(fd, min(_COPY_BYTES, end - start), start)
        if not block:
            return
        yield block
        start += len(block)


def overwrite_tail(file: OpenFile, lines: bytes, *, start: int) -> None:
    """Put *lines* in the place of everything from *start* on.

    First the lines, then the cut: a kill in between leaves a reported repair and a shorter torn
    tail. A kill inside a line leaves a torn one, whose repair reports this one's copy as well.
    """
    fd = file.fd
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    # With O_APPEND even a positioned write goes to the end of the file.
    fcntl.fcntl(fd, fcntl.F_SETFL, flags & ~os.O_APPEND)
    try:
        os.lseek(fd, start, os.SEEK_SET)
        _write_all(fd, lines)
    finally:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags)
    os.ftruncate(fd, start + len(lines))


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
