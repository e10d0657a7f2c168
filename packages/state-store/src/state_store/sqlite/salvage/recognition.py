"""All rows that are left in a damaged database, each with the table that it belongs to.

First come the rows that the trees of the tables lead to, then those of every other page that is
one of a tree: inner pages and the schema itself may be lost, and the rows below them are not. To
which table such a row belongs is told by the number and the types of its columns and by the rules
for their values; for rows in a tree too, since a page may lie in the place of another.

Only whole pages that say of themselves that they belong to a tree are looked at. The text of a
message, whatever it imitates, cannot become a row: a page that carries text begins with the
number of another page, or zero.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from state_store.sqlite.salvage.stored_rows import Broken, TreePage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from state_store.findings import RefusalReason
    from state_store.sqlite.salvage.pages import PageImage
    from state_store.sqlite.salvage.stored_rows import StoredRow, Values
    from state_store.sqlite.values import Table

Row = dict[str, Any]
_SCHEMA_ROOT = 1
_SCHEMA_COLUMN_COUNT = 5

# What may be unknown in a row without making it say something else. The times of a session, which
# it has to have, are found again by whoever saves the row. Only in a row that lies on one page:
# when it goes on on others, a wrong value may mean that these are of another row.
MENDABLE: Mapping[str, frozenset[str]] = {
    "sessions": frozenset(
        {"model_config", "parameters", "metadata", "archived_at", "created_at", "updated_at"}
    ),
    "messages": frozenset({"created_at", "imported_at"}),
}
# What is counted again from the rows anyway.
_COUNTED: Mapping[str, frozenset[str]] = {
    "sessions": frozenset({"message_count", "total_tokens", "usage_complete", "inherited_tokens"})
}


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A row of *table*, or the reason why what stands there is none.

    `is_mended`: what could not be read in it is None now, and nothing else was changed.
    """

    table: str
    row: Row
    is_mended: bool = False
    refused: RefusalReason | None = None


class Survey:
    """Goes over all pages once. Afterwards it knows which of them are damaged."""

    def __init__(
        self, image: PageImage, tables: Mapping[str, Table], *, least: Mapping[str, int]
    ) -> None:
        """Look for rows of *tables*, of which older rows may have *least* columns."""
        self._image = image
        self._tables = tables
        self._least = least
        self._roots: dict[str, int] = {}
        self._forget()
        for values in self._values_below(_SCHEMA_ROOT):
            match values:
                case ("table", str(name), _, int(root), _):
                    self._roots[name] = root
        self._forget()

    def _forget(self) -> None:
        self._seen = bytearray(self._image.page_count + 1)
        self._used = bytearray(self._image.page_count + 1)
        self._damaged: set[int] = set()

    def values_in(self, name: str) -> list[Values]:
        """Return the rows that the tree of *name*, a small table, leads to, whatever they hold."""
        root = self._roots.get(name)
        return [] if root is None else self._values_below(root)

    def numbers_in(self, name: str) -> list[int]:
        """Return the numbers of the rows that the tree of *name* leads to; for small tables."""
        root = self._roots.get(name)
        rows = [] if root is None else self._below(root)
        return [row.number for row in rows if row.number is not None]

    def _values_below(self, root: int) -> list[Values]:
        return [row.values for row in self._below(root) if row.values is not None]

    def _below(self, root: int) -> list[StoredRow]:
        return [row for page in self._walk(root) for row in page.rows(self._note_use)]

    @property
    def damaged_page_count(self) -> int:
        """How many pages are not what has to be in their place; known once all rows were read."""
        free = self._free_pages()
        lost = {
            number
            for number in range(1, self._image.page_count + 1)
            if not self._seen[number] and not self._used[number] and number not in free
        }
        return len(self._damaged | lost)

    def _free_pages(self) -> set[int]:
        """Return the pages that the list of free ones names, as far as it can be read."""
        free: set[int] = set()
        trunk = int.from_bytes(self._image.header()[32:36], "big")
        while 0 < trunk <= self._image.page_count and trunk not in free:
            free.add(trunk)
            page = self._image.page(trunk)
            count = min(int.from_bytes(page[4:8], "big"), len(page) // 4 - 2)
            free.update(
                int.from_bytes(page[at : at + 4], "big") for at in range(8, 8 + 4 * count, 4)
            )
            trunk = int.from_bytes(page[:4], "big")
        return free

    def rows_in(self, name: str) -> Iterator[FoundRow]:
        """Yield the rows that the tree of the table *name* leads to."""
        root = self._roots.get(name)
        if root is not None:
            for page in self._walk(root):
                yield from self._rows_on(page, hint=name)

    def rows_elsewhere(self) -> Iterator[FoundRow]:
        """Yield the rows of all pages that no tree has led to."""
        for number in range(1, self._image.page_count + 1):
            if self._seen[number] or self._used[number]:
                continue
            with suppress(Broken):
                page = TreePage(self._image, number)
                self._seen[number] = True
                yield from self._rows_on(page, hint=None)

    def rows_on_pages(self, numbers: Iterable[int]) -> Iterator[FoundRow]:
        """Yield the rows of those of the pages *numbers* that belong to a tree."""
        for number in numbers:
            with suppress(Broken):
                yield from self._rows_on(TreePage(self._image, number), hint=None)

    def _walk(self, root: int) -> Iterator[TreePage]:
        """Yield the pages of one tree, in order, as far as they can be reached."""
        waiting = [root]
        while waiting:
            number = waiting.pop()
            if not 0 < number <= self._image.page_count:
                self._damaged.add(number)
                continue
            if self._seen[number]:
                continue
            try:
                page = TreePage(self._image, number)
            except Broken:
                self._damaged.add(number)
                continue
            self._seen[number] = True
            yield page
            waiting += reversed(page.children())

    def _rows_on(self, page: TreePage, *, hint: str | None) -> Iterator[FoundRow]:
        if hint is not None and page.is_index != self._tables[hint].has_rows_in_index:
            self._damaged.add(page.number)  # it lies in the place of another
            hint = None
        for stored in page.rows(self._note_use):
            found = self._recognise(stored, is_index=page.is_index, hint=hint)
            if found is None:
                continue
            if found.refused is not None:
                self._damaged.add(page.number)
            yield found

    def _note_use(self, number: int) -> None:
        self._used[number] = True

    def _recognise(self, stored: StoredRow, *, is_index: bool, hint: str | None) -> FoundRow | None:
        values = stored.values
        if values is None:
            return FoundRow(hint, {}, refused="broken") if hint is not None else None
        fitting = [
            table
            for table in self._tables.values()
            if table.has_rows_in_index == is_index
            and self._least[table.name] <= len(values) <= len(table.columns)
        ]
        best: FoundRow | None = None
        for table in fitting:
            found = _judged(table, stored, values)
            if found.refused is None:
                return found
            if best is None or table.name == hint:
                best = found
        if best is None and hint is not None:
            return FoundRow(hint, {}, refused="impossible")
        # Few columns fit anything: what no tree has led to may be a row of SQLite's own.
        return best if hint is not None or len(values) > _SCHEMA_COLUMN_COUNT else None


def _judged(table: Table, stored: StoredRow, values: Values) -> FoundRow:
    row: Row = {}
    for column, value in zip(table.columns, values, strict=False):
        if column.name == table.key:
            if value is not None:
                return FoundRow(table.name, {}, refused="impossible")
            row[column.name] = stored.number
        elif column.type == "REAL" and isinstance(value, int):
            row[column.name] = float(value)  # SQLite keeps whole numbers short
        else:
            row[column.name] = value
    wrong = set(table.wrong_columns(row))
    counted = wrong & _COUNTED.get(table.name, frozenset())
    mended = wrong & MENDABLE.get(table.name, frozenset())
    if wrong - counted - mended or (wrong and not stored.is_on_one_page):
        return FoundRow(table.name, row, refused="impossible")
    for name in counted:
        row[name] = 0
    for name in mended:
        row[name] = None
    return FoundRow(table.name, row, is_mended=bool(wrong))
