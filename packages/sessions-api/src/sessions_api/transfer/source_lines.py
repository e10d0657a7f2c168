"""What is imported, as lines with their numbers, wherever it comes from.

Owns the source while it is read: a path is opened, everything that cannot be read twice goes into
a temporary file without a name, which only this process can read and which is gone with it.
Invariant: a line is never longer than `LONGEST_LINE`, so that no source fills the memory.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sessions_api.errors import ArgumentTypeInvalid, ImportInvalid
from sessions_api.transfer.strict_json import Unfit

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_LINE = 256 * 1024 * 1024
_PIECE = 1024 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Source = str | os.PathLike[str] | bytes | IO[bytes] | Iterable[bytes]


class SourceLines:
    """The lines of a source, one after the other; `number` is that of the last one given."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self.name = name
        self.number = 0
        self._kept: bytes | None = None

    def next(self) -> bytes | None:
        """Return the next line with its newline, None at the end."""
        if self._kept is not None:
            line, self._kept = self._kept, None
        else:
            line = self._file.readline(LONGEST_LINE + 1)
        if not line:
            return None
        self.number += 1
        if len(line) > LONGEST_LINE:
            raise self.invalid(f"it is longer than {LONGEST_LINE} bytes")
        if self.number == 1:
            return line.removeprefix(_BYTE_ORDER_MARK)
        return line

    def put_back(self, line: bytes) -> None:
        """Make *line*, the last one that was given, the next one again."""
        self._kept = line
        self.number -= 1

    @property
    def place(self) -> tuple[int, int]:
        """Where the next line begins, for `go_to`."""
        kept = 0 if self._kept is None else len(self._kept)
        return self._file.tell() - kept, self.number

    @property
    def byte_count(self) -> int:
        """How much has been read."""
        return self._file.tell()

    def go_to(self, place: tuple[int, int]) -> None:
        """Go on at a place that was told before."""
        self._kept = None
        offset, self.number = place
        self._file.seek(offset)

    @contextmanager
    def strict(self) -> Iterator[None]:
        """Say of whatever the block finds unfit on which line it is."""
        try:
            yield
        except Unfit as unfit:
            raise self.invalid(str(unfit)) from None

    def invalid(
        self, reason: str, *, line: int | None = None, hint: str | None = None
    ) -> ImportInvalid:
        """Return the error that says what is wrong with the last line that was given, or *line*."""
        return ImportInvalid(
            self.name, line=self.number if line is None else line, reason=reason, hint=hint
        )


@contextmanager
def source_lines(source: Source) -> Iterator[tuple[SourceLines, int]]:
    """Open *source*; its lines and how many bytes they are."""
    if isinstance(source, str | os.PathLike):
        with Path(source).open("rb") as file:
            if file.seekable():
                yield SourceLines(file, str(source)), os.fstat(file.fileno()).st_size
            else:
                yield from _spooled(iter(lambda: file.read(_PIECE), b""), str(source))
    elif isinstance(source, bytes | bytearray | memoryview):
        yield SourceLines(io.BytesIO(source), "the given bytes"), len(source)
    elif callable(read := getattr(source, "read", None)):
        yield from _spooled(
            iter(lambda: read(_PIECE), b""), str(getattr(source, "name", "the given file"))
        )
    elif isinstance(source, Iterable):
        yield from _spooled(source, "the given bytes")
    else:
        raise _not_bytes(source)


def _spooled(pieces: Iterable[Any], name: str) -> Iterator[tuple[SourceLines, int]]:
    with tempfile.TemporaryFile() as file:  # without a name, so that a crash leaves nothing
        for piece in pieces:
            if not isinstance(piece, bytes | bytearray | memoryview):
                raise _not_bytes(piece)
            file.write(piece)
        size = file.tell()
        file.seek(0)
        yield SourceLines(file, name), size


def _not_bytes(found: object) -> ArgumentTypeInvalid:
    return ArgumentTypeInvalid(
        "source",
        wanted="a path, bytes, a binary file or bytes in pieces",
        found=type(found).__name__,
    )
