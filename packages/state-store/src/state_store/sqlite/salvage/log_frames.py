"""The commits in a write-ahead log that nobody has open, read without SQLite.

Invariant: a page is taken from the log only when its frame and all frames before it carry the
log's salts and the running checksum, and a commit follows: what a crash cut off, or a restart of
the log left behind, was never acknowledged and is not read.

Source: SQLite documentation, "Database File Format", section 4 ("The Write-Ahead Log").
"""

from __future__ import annotations

import struct
import sys
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import BinaryIO

_HEADER_SIZE = 32
FRAME_HEADER_SIZE = 24
_MAGIC = 0x377F0682  # and one more when the checksums are of big-endian words
_FORMAT = 3007000
_WORD = 1 << 32


@dataclass(frozen=True, slots=True)
class Frames:
    """Where the log holds the newest committed image of each page.

    `offsets` go from a page's number to its image in the file. `page_count` is the size of the
    database after the last commit, None when there is no commit. `is_cut`: frames that belong to
    this log follow the last commit, or it is not a log at all.
    """

    page_size: int | None = None
    offsets: dict[int, int] = field(default_factory=dict)
    page_count: int | None = None
    is_cut: bool = False


def read_frames(file: BinaryIO) -> Frames:
    """Read the log in *file* up to its last valid commit."""
    header = _read(file, _HEADER_SIZE)
    if len(header) < _HEADER_SIZE:
        return Frames(is_cut=bool(header))
    magic, version, page_size, _, *salts = struct.unpack(">6I", header[:24])
    swapped = (magic == _MAGIC) != (sys.byteorder == "little")
    sums = _checksum((0, 0), header[:24], swapped=swapped)
    if (
        magic not in {_MAGIC, _MAGIC + 1}
        or version != _FORMAT
        or sums != struct.unpack(">2I", header[24:])
    ):
        return Frames(is_cut=True)
    return _frames(file, page_size, salts, sums, swapped=swapped)


def _frames(
    file: BinaryIO, page_size: int, salts: list[int], sums: tuple[int, int], *, swapped: bool
) -> Frames:
    committed: dict[int, int] = {}
    waiting: dict[int, int] = {}
    page_count = None
    offset = _HEADER_SIZE
    is_cut = False
    while frame := _read(file, FRAME_HEADER_SIZE + page_size):
        if len(frame) < FRAME_HEADER_SIZE + page_size:
            is_cut = True
            break
        number, size_after, *rest = struct.unpack(">6I", frame[:FRAME_HEADER_SIZE])
        if rest[:2] != salts:
            break  # from before the log began anew, and checkpointed long ago
        sums = _checksum(sums, frame[:8], swapped=swapped)
        sums = _checksum(sums, frame[FRAME_HEADER_SIZE:], swapped=swapped)
        if sums != tuple(rest[2:]):
            is_cut = True
            break
        waiting[number] = offset + FRAME_HEADER_SIZE
        offset += len(frame)
        if size_after:
            committed |= waiting
            waiting.clear()
            page_count = size_after
    return Frames(page_size, committed, page_count, is_cut or bool(waiting))


def _read(file: BinaryIO, size: int) -> bytes:
    """Return the next bytes; where the disk cannot read them the log is cut like at its end."""
    try:
        return file.read(size)
    except OSError:
        return b"\0"


def _checksum(sums: tuple[int, int], data: bytes, *, swapped: bool) -> tuple[int, int]:
    words = array("I", data)
    if swapped:
        words.byteswap()
    first, second = sums
    for index in range(0, len(words), 2):
        first = (first + words[index] + second) % _WORD
        second = (second + words[index + 1] + first) % _WORD
    return first, second
