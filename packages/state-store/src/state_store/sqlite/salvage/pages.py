"""The pages of a damaged database: the file, overlaid with the commits in its log.

Opens files that SQLite would refuse, with Python, which is allowed here alone, because nobody has
them open: closing a descriptor drops all locks that this process holds on the file. Whoever calls
this keeps everybody out meanwhile. Invariant: nothing is written, and no page is made up: one that
lies beyond the end of the file is as long as what is left of it.

The page size is asked of the pages themselves when the header may be damaged. This package writes
no reserved bytes at the end of pages and UTF-8 only.

Source: SQLite documentation, "Database File Format", sections 1.3 and 1.6.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Self

from state_store.sqlite.beside import log_of
from state_store.sqlite.salvage.log_frames import Frames, read_frames

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

MAGIC = b"SQLite format 3\0"
DATABASE_HEADER_SIZE = 100
TABLE_INTERIOR, TABLE_LEAF = 0x05, 0x0D
INDEX_INTERIOR, INDEX_LEAF = 0x02, 0x0A
TREE_PAGES = frozenset({TABLE_INTERIOR, TABLE_LEAF, INDEX_INTERIOR, INDEX_LEAF})
_USUAL_PAGE_SIZE = 4096
_PAGE_SIZES = tuple(1 << power for power in range(9, 17))
_SAMPLE_COUNT = 200


class PageImage:
    """The newest committed image of every page. Not thread-safe; a context manager."""

    def __init__(
        self, file: BinaryIO, log: BinaryIO | None, frames: Frames, page_size: int
    ) -> None:
        self._file = file
        self._log = log
        self._frames = frames
        self.page_size = page_size
        self.log_damaged = frames.is_cut
        in_file = -(-os.fstat(file.fileno()).st_size // page_size)
        # A log that ends too early, or a header that lies, must not hide pages that are there.
        self.page_count = max(in_file, frames.page_count or 0, *frames.offsets, 1)
        self._opened = ExitStack()

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the database at *path* and its log, which nobody has open. OSError as `open`."""
        with ExitStack() as opened:
            file = opened.enter_context(path.open("rb", buffering=0))
            log, frames = None, Frames()
            with suppress(FileNotFoundError):
                log = opened.enter_context(log_of(path).open("rb"))
                frames = read_frames(log)
            image = cls(file, log, frames, frames.page_size or _page_size_of(file))
            image._opened = opened.pop_all()
        return image

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def page(self, number: int) -> bytes:
        """Return page *number*, counted from 1.

        It is shorter, or empty, where the file has ended, and empty where the disk cannot read it.
        """
        offset = self._frames.offsets.get(number)
        file, at = self._file, (number - 1) * self.page_size
        if offset is not None and self._log is not None:
            file, at = self._log, offset
        return _read_at(file, self.page_size, at)

    def beneath_log(self) -> tuple[PageImage, tuple[int, ...]]:
        """Return the file as it is without its log, and the pages that differ then.

        For as long as this image is open.
        """
        pages = tuple(sorted(self._frames.offsets))
        return PageImage(self._file, None, Frames(), self.page_size), pages

    def header(self) -> bytes:
        """Return the header of the database; all zeros when it is damaged beyond its first word."""
        header = self.page(1)[:DATABASE_HEADER_SIZE]
        return header if header.startswith(MAGIC) else bytes(DATABASE_HEADER_SIZE)


def _read_at(file: BinaryIO, size: int, offset: int) -> bytes:
    with suppress(OSError):
        return os.pread(file.fileno(), size, offset)
    return b""


def _page_size_of(file: BinaryIO) -> int:
    """Return the size by which most pages make sense; what the header says wins a draw."""
    said = int.from_bytes(_read_at(file, 2, 16), "big")
    said = 1 << 16 if said == 1 else said
    preferred = [size for size in (said, _USUAL_PAGE_SIZE) if size in _PAGE_SIZES]
    return max([*preferred, *_PAGE_SIZES], key=lambda size: _sense(file, size))


def _sense(file: BinaryIO, page_size: int) -> int:
    page_count = os.fstat(file.fileno()).st_size // page_size
    step = max(1, page_count // _SAMPLE_COUNT)
    sample = (_read_at(file, page_size, index * page_size) for index in range(1, page_count, step))
    return page_size * sum(_is_packed(page) for page in sample)


def _is_packed(page: bytes) -> bool:
    """Say whether *page* is one of a tree whose cells end with the page and begin where it says."""
    if not page or page[0] not in TREE_PAGES:
        return False
    start = 12 if page[0] in {TABLE_INTERIOR, INDEX_INTERIOR} else 8
    count = int.from_bytes(page[3:5], "big")
    content = int.from_bytes(page[5:7], "big") or 1 << 16
    if not count or start + 2 * count > content:
        return False
    pointers = [
        int.from_bytes(page[at : at + 2], "big") for at in range(start, start + 2 * count, 2)
    ]
    return content <= min(pointers) and len(page) // 2 < max(pointers) < len(page)
