"""A line of a message around what was found in it.

Invariant: one line of plain text, of at most `MAX_LENGTH` characters, whatever the message holds;
the places of the matches are those in this line. Must not: mark anything; that is for whoever
shows it.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from state_store.sqlite.search.query import Query, Span

MAX_LENGTH = 160
_BEFORE = 50
_REACH = 2 * MAX_LENGTH  # how much of a text is looked at for further matches in the same line
_CUT = "…"
# Invisible characters that belong to the letters or emoji around them.
_JOINING = frozenset("\u200c\u200d\u00ad")
# Controls, spaces and line ends. What this Python's Unicode does not know yet is shown.
_BLANK = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"})
# Those that turn the direction of all that follows, on a terminal beyond this line too.
_TURNING = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def snippet(text: str, query: Query) -> tuple[str, tuple[Span, ...]]:
    """Return the line around the first match in *text*, and where in it matches are.

    The places are (first, end) in characters, in order and apart from one another.
    """
    spans = query.spans(text, reach=_REACH)
    first = spans[0][0] if spans else 0
    at = 0 if first <= _BEFORE else _after_space(text, first - _BEFORE, first)
    line = [_CUT] if at else []
    place_of: dict[int, int] = {}
    while at < len(text) and len(line) < MAX_LENGTH - 1:
        place_of[at] = len(line)
        char = text[at]
        at += 1
        if char in _JOINING or unicodedata.category(char) not in _BLANK:
            line.append(char)
        elif char not in _TURNING and line and line[-1] not in (" ", _CUT):
            line.append(" ")
    place_of[at] = end = len(line)
    line += [_CUT] if at < len(text) else []
    places = tuple(
        (place_of[begin], place_of.get(stop, end)) for begin, stop in spans if begin < at
    )
    return "".join(line).rstrip(" "), places


def _after_space(text: str, begin: int, end: int) -> int:
    """Return where the first word after *begin* begins, or *begin* when none does before *end*."""
    for at in range(begin, end):
        if text[at].isspace():
            return at + 1
    return begin
