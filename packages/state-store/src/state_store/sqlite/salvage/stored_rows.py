"""From a page of a tree to the rows on it: cells, their overflow, their records.

Invariant: a row is read whole or not at all. Sizes have to agree to the byte (of the record, its
header, and the chain of overflow pages to its very last link), so that a cut or broken row is told
from a stored one and no part of it is taken for the whole. Every cell is judged by itself: one that
is broken does not hide its neighbours.

Must not: know which tables there are, or judge what the values mean.

Source: SQLite documentation, "Database File Format", sections 1.6 and 2.1.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from state_store.sqlite.salvage.pages import (
    DATABASE_HEADER_SIZE,
    INDEX_INTERIOR,
    INDEX_LEAF,
    TABLE_INTERIOR,
    TABLE_LEAF,
    TREE_PAGES,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from state_store.sqlite.salvage.pages import PageImage

Values = tuple[int | float | bytes | str | None, ...]
_INTEGER_SIZES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_FLOAT, _ZERO, _ONE, _FIRST_BLOB = 7, 8, 9, 12
_VARINT_MAX = 9


class Broken(ValueError):
    """A page, cell or record does not hold together. `page` is where that was seen."""

    def __init__(self, page: int) -> None:
        super().__init__(page)
        self.page = page


@dataclass(frozen=True, slots=True)
class StoredRow:
    """One row as it stands on a page; `values` is None when it is broken.

    Text is bytes in `values` where it is no UTF-8. `number` is the rowid, None in an index.
    `is_on_one_page`: it needs no other page than the one it was found on.
    """

    number: int | None
    values: Values | None
    is_on_one_page: bool = True


class TreePage:
    """One page of a tree, or Broken when it cannot be one."""

    def __init__(self, image: PageImage, number: int) -> None:
        self.number = number
        self._image = image
        self._data = image.page(number)
        self._start = DATABASE_HEADER_SIZE if number == 1 else 0
        header = self._data[self._start : self._start + 12]
        if len(header) < 12 or header[0] not in TREE_PAGES:  # noqa: PLR2004 - its size in an interior page
            raise Broken(number)
        self.kind = header[0]
        self._is_interior = self.kind in {TABLE_INTERIOR, INDEX_INTERIOR}
        self._right = int.from_bytes(header[8:12], "big") if self._is_interior else None
        self._pointers = self._cell_pointers(int.from_bytes(header[3:5], "big"))

    def _cell_pointers(self, count: int) -> tuple[int, ...]:
        begin = self._start + (12 if self._is_interior else 8)
        end = begin + 2 * count
        if end > self._image.page_size:
            raise Broken(self.number)
        data = self._data[begin:end]
        return struct.unpack(f">{len(data) // 2}H", data[: len(data) // 2 * 2])

    @property
    def has_rows(self) -> bool:
        """Whether its cells carry records: all but the inner pages of a table do."""
        return self.kind != TABLE_INTERIOR

    @property
    def is_index(self) -> bool:
        """Whether it is a page of an index, or of a table whose rows are kept in one."""
        return self.kind in {INDEX_INTERIOR, INDEX_LEAF}

    def children(self) -> tuple[int, ...]:
        """Return the pages below it, in order; some may not be there."""
        if self._right is None:
            return ()
        numbers = (int.from_bytes(self._data[at : at + 4], "big") for at in self._pointers)
        return (*numbers, self._right)

    def rows(self, note_overflow: Callable[[int], None]) -> Iterator[StoredRow]:
        """Yield the rows in order, broken ones too, and report each overflow page they use."""
        if not self.has_rows:
            return
        for at in self._pointers:
            number, values, is_on_one_page = None, None, True
            with suppress(Broken):
                size, begin = self._varint(at + 4 if self.kind == INDEX_INTERIOR else at)
                if self.kind == TABLE_LEAF:
                    number, begin = self._varint(begin)
                payload, is_on_one_page = self._payload(begin, size, note_overflow)
                values = _values_of(payload, self.number)
            yield StoredRow(number, values, is_on_one_page)

    def _varint(self, at: int) -> tuple[int, int]:
        return _varint(self._data, at, self.number)

    def _payload(
        self, begin: int, size: int, note_overflow: Callable[[int], None]
    ) -> tuple[bytes, bool]:
        usable = self._image.page_size
        if not 0 < size <= usable * self._image.page_count:
            raise Broken(self.number)
        local = _local_size(size, usable, is_index=self.is_index)
        payload = self._data[begin : begin + local]
        if len(payload) < local:
            raise Broken(self.number)
        if local == size:
            return payload, True
        link = self._data[begin + local : begin + local + 4]
        if len(link) < 4:  # noqa: PLR2004 - the size of a page's number
            raise Broken(self.number)
        pieces = [payload]
        _follow(self._image, int.from_bytes(link, "big"), size - local, pieces, note_overflow)
        return b"".join(pieces), False


def _follow(
    image: PageImage,
    number: int,
    size: int,
    pieces: list[bytes],
    note_overflow: Callable[[int], None],
) -> None:
    """Add the *size* bytes of the chain of overflow pages that begins at *number*.

    The chain has to end where the row does: one that leads into another row mostly betrays itself.
    """
    room = image.page_size - 4
    while size:
        if not 1 < number <= image.page_count:
            raise Broken(number)
        page = image.page(number)
        piece = page[4 : 4 + min(size, room)]
        if len(piece) < min(size, room):
            raise Broken(number)
        note_overflow(number)
        pieces.append(piece)
        size -= len(piece)
        following = int.from_bytes(page[:4], "big")
        if (following == 0) != (size == 0):
            raise Broken(number)
        number = following


def _local_size(size: int, usable: int, *, is_index: bool) -> int:
    """Return how many bytes of a payload lie on the page of the tree itself."""
    most = (usable - 12) * 64 // 255 - 23 if is_index else usable - 35
    if size <= most:
        return size
    least = (usable - 12) * 32 // 255 - 23
    wanted = least + (size - least) % (usable - 4)
    return wanted if wanted <= most else least


def _varint(data: bytes, at: int, page: int) -> tuple[int, int]:
    """Return the number at *at*, signed like every number in SQLite, and where it ends."""
    value = 0
    for count, byte in enumerate(data[at : at + _VARINT_MAX], start=1):
        if count == _VARINT_MAX:
            value = value << 8 | byte
            return value - (1 << 64) if value >> 63 else value, at + count
        value = value << 7 | byte & 0x7F
        if byte < 0x80:  # noqa: PLR2004 - the bit that says there is more
            return value, at + count
    raise Broken(page)


def _values_of(payload: bytes, page: int) -> Values:
    header_size, at = _varint(payload, 0, page)
    if not at <= header_size <= len(payload):
        raise Broken(page)
    values = []
    position = header_size
    while at < header_size:
        kind = payload[at]
        if kind < 0x80:  # noqa: PLR2004 - most are one byte, and there are many
            at += 1
        else:
            kind, at = _varint(payload, at, page)
        size = _size_of(kind, page)
        values.append(_value(kind, payload[position : position + size]))
        position += size
    if at != header_size or position != len(payload):
        raise Broken(page)
    return tuple(values)


def _size_of(kind: int, page: int) -> int:
    if kind >= _FIRST_BLOB:
        return (kind - _FIRST_BLOB) // 2
    if kind in _INTEGER_SIZES:
        return _INTEGER_SIZES[kind]
    if kind == _FLOAT:
        return 8
    if kind in {0, _ZERO, _ONE}:
        return 0
    raise Broken(page)


def _value(kind: int, data: bytes) -> int | float | bytes | str | None:
    if kind >= _FIRST_BLOB:
        if kind % 2 == 0:
            return data
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data
    if kind == 0:
        return None
    if kind == _FLOAT:
        return float(struct.unpack(">d", data)[0]) if len(data) == 8 else None  # noqa: PLR2004 - its size
    if kind in {_ZERO, _ONE}:
        return kind - _ZERO
    return int.from_bytes(data, "big", signed=True)
