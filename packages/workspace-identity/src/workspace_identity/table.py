"""The decision table as data: fourteen rows, and what follows from each.

It is the one place that says which verdict a row gives, what becomes of the marker and of the
history, and whether people are told. `decide` takes all of that from here, and the table in
`docs/identity.md` is `rendered_table()`, so that what is written down is what happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Verdict(StrEnum):
    """What a directory turned out to be."""

    REFUSED = "refused"
    KNOWN = "known"
    HEALED = "healed"
    NEW = "new"
    FOREIGN = "foreign"
    ADOPTED = "adopted"
    MOVED = "moved"
    COPIED = "copied"
    RESTORED = "restored"
    UNMARKED = "unmarked"


class MarkerFate(StrEnum):
    """What becomes of the marker; the text is what the document says."""

    UNTOUCHED = "untouched"
    KEPT = "kept"
    REWRITTEN = "rewritten from the record"
    NEW = "a new id"
    NONE = "none written"


class HistoryFate(StrEnum):
    """Which history the directory gets; the text is what the document says."""

    CLOSED = "none is opened"
    KEPT = "kept"
    MOVED = "kept, its path updated"
    EMPTY = "empty"
    BESIDE = "empty; the original keeps its own"
    WHILE_IN_PLACE = "kept while path and place hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row. `found` is the condition in words; `notice` says whether people are told."""

    number: int
    found: str
    verdict: Verdict
    marker: MarkerFate
    history: HistoryFate
    notice: bool = False

    @property
    def writes_marker(self) -> bool:
        """Whether the row needs a marker to be written."""
        return self.marker in (MarkerFate.REWRITTEN, MarkerFate.NEW)

    @property
    def writes_record(self) -> bool:
        """Whether the row changes the registry, and so belongs into its history."""
        return self.verdict not in (Verdict.KNOWN, Verdict.REFUSED)


_ROWS: Final = (
    Row(
        number=1,
        found="the directory is `/`, is or contains the state home, or lies among the state that "
        "is kept there; or `.tinyagent` or the marker is a link, no plain file, or another user's; "
        "or the marker cannot be read and no record has this path and place",
        verdict=Verdict.REFUSED,
        marker=MarkerFate.UNTOUCHED,
        history=HistoryFate.CLOSED,
    ),
    Row(
        number=2,
        found="a record has this path and this place, and the marker holds its id",
        verdict=Verdict.KNOWN,
        marker=MarkerFate.KEPT,
        history=HistoryFate.KEPT,
    ),
    Row(
        number=3,
        found="a record has this path and this place; the marker is missing, damaged, unreadable "
        "or holds another id",
        verdict=Verdict.HEALED,
        marker=MarkerFate.REWRITTEN,
        history=HistoryFate.KEPT,
        notice=True,
    ),
    Row(
        number=4,
        found="the marker is missing or damaged, and no record has this path and place",
        verdict=Verdict.NEW,
        marker=MarkerFate.NEW,
        history=HistoryFate.EMPTY,
    ),
    Row(
        number=5,
        found="nobody here knows the marker's id, and git tracks the marker",
        verdict=Verdict.FOREIGN,
        marker=MarkerFate.NEW,
        history=HistoryFate.EMPTY,
        notice=True,
    ),
    Row(
        number=6,
        found="nobody here knows the marker's id, and git does not track the marker",
        verdict=Verdict.ADOPTED,
        marker=MarkerFate.KEPT,
        history=HistoryFate.EMPTY,
    ),
    Row(
        number=7,
        found="the recorded place, under another path, and the recorded path leads to it too (a "
        "link, a bind mount, upper and lower case)",
        verdict=Verdict.KNOWN,
        marker=MarkerFate.KEPT,
        history=HistoryFate.KEPT,
    ),
    Row(
        number=8,
        found="the recorded place, under another path",
        verdict=Verdict.MOVED,
        marker=MarkerFate.KEPT,
        history=HistoryFate.MOVED,
    ),
    Row(
        number=9,
        found="the recorded path still is the recorded place",
        verdict=Verdict.COPIED,
        marker=MarkerFate.NEW,
        history=HistoryFate.EMPTY,
    ),
    Row(
        number=10,
        found="another directory stands at the recorded path, and its marker holds the same id",
        verdict=Verdict.COPIED,
        marker=MarkerFate.NEW,
        history=HistoryFate.EMPTY,
    ),
    Row(
        number=11,
        found="this is the recorded path, but another place (restored, cloned anew, synchronised)",
        verdict=Verdict.RESTORED,
        marker=MarkerFate.KEPT,
        history=HistoryFate.KEPT,
        notice=True,
    ),
    Row(
        number=12,
        found="the recorded path cannot be judged (no permission, an I/O error, no answer in time, "
        "a disk that is not mounted)",
        verdict=Verdict.COPIED,
        marker=MarkerFate.NEW,
        history=HistoryFate.BESIDE,
        notice=True,
    ),
    Row(
        number=13,
        found="the recorded path is gone, or is another project now",
        verdict=Verdict.MOVED,
        marker=MarkerFate.KEPT,
        history=HistoryFate.MOVED,
        notice=True,
    ),
    Row(
        number=14,
        found="a row above needs a marker to be written, and the directory is read-only",
        verdict=Verdict.UNMARKED,
        marker=MarkerFate.NONE,
        history=HistoryFate.WHILE_IN_PLACE,
    ),
)

TABLE: Final = {row.number: row for row in _ROWS}


def rendered_table() -> str:
    """Return the table as Markdown, one line a row, ending in a newline."""
    lines = ["| # | what is found | verdict | marker | history |", "|---|---|---|---|---|"]
    for row in TABLE.values():
        verdict = f"`{row.verdict}`" + (", with a notice" if row.notice else "")
        cells = (str(row.number), row.found, verdict, str(row.marker), str(row.history))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
