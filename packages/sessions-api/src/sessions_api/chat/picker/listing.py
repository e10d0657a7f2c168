"""The picker's rows as they come in, and those that the filter leaves.

Invariants: each session is there once, in the order in which it came; a row fits when its title,
handle or workspace holds every word of the filter, whatever the case, the width or the form of its
letters (Unicode NFKC), so that CJK words are found without spaces around them; the row that is
marked stays marked while it fits.

A hundred thousand rows are filtered by looking through one text a row, and a filter that grows by
a letter looks only at what the shorter one had left.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sessions_api.showing.listing import handle, shown_title

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sessions_api.chat.picker.places import Place
    from state_store import SessionSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A session in the picker; `looked_in` is where the filter looks for its words."""

    session: SessionSummary
    place: Place
    looked_in: str


class Listing:
    """All rows, those that fit, and which of these is marked."""

    def __init__(self) -> None:
        self.query = ""
        self.all_known = False
        self._rows: list[Row] = []
        self._ids: set[str] = set()
        self.fitting = self._rows
        self._marked = 0

    @property
    def count(self) -> int:
        """How many sessions are known so far."""
        return len(self._rows)

    @property
    def marked(self) -> Row | None:
        """The row that Enter takes."""
        return self.fitting[self._marked] if self.fitting else None

    @property
    def marked_index(self) -> int:
        """Its place among those that fit."""
        return self._marked

    def add(self, place: Place, sessions: Iterable[SessionSummary]) -> None:
        """Add the sessions of a page. One that changed meanwhile comes twice and is kept once."""
        new = [_row(place, one) for one in sessions if one.id not in self._ids]
        self._ids.update(row.session.id for row in new)
        self._rows.extend(new)
        if self.fitting is not self._rows:
            self.fitting.extend(_fitting(new, self.query))

    def filter(self, query: str) -> None:
        """Leave the rows that fit *query*."""
        narrower = _folded(query).startswith(_folded(self.query))
        self.query = query
        self._show(self.fitting if narrower else self._rows, mark=self.marked)

    def move(self, by: int) -> None:
        """Mark another row, *by* so many further down."""
        self._marked = max(0, min(self._marked + by, len(self.fitting) - 1))

    def renamed(self, row: Row, title: str) -> None:
        """Show *title* as the one of *row*."""
        changed = _row(row.place, replace(row.session, title=title))
        self._rows = [changed if one is row else one for one in self._rows]
        self._show(self._rows, mark=changed)

    def remove(self, row: Row) -> None:
        """Take *row* out, and mark the one behind it."""
        self._rows = [one for one in self._rows if one is not row]
        place = self._marked
        self._show(self._rows, mark=None)
        self.move(place)

    def _show(self, among: list[Row], *, mark: Row | None) -> None:
        self.fitting = _fitting(among, self.query) if _words(self.query) else self._rows
        self._marked = next((n for n, row in enumerate(self.fitting) if row is mark), 0)


def _row(place: Place, session: SessionSummary) -> Row:
    parts = (handle(session.id), shown_title(session.title), workspace_name(place.root))
    return Row(session=session, place=place, looked_in=_folded(" ".join(parts)))


def workspace_name(root: Path | None) -> str:
    """Return what another workspace is called in a row."""
    return "" if root is None else root.name or str(root)


def _fitting(rows: list[Row], query: str) -> list[Row]:
    first, *others = _words(query) or [""]
    left = [row for row in rows if first in row.looked_in]
    for word in others:
        left = [row for row in left if word in row.looked_in]
    return left


def _words(query: str) -> list[str]:
    return _folded(query).split()


def _folded(text: str) -> str:
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
