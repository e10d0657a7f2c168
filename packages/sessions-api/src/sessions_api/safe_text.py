"""Stored text on its way to people: no power over a terminal, and one line where one is meant.

Owns what may be printed of text that others wrote. Invariant: of all control characters only
newline and tab pass; the others, and those that turn the direction of writing, become visible
escapes. The stored text and every JSON output stay exact.
"""

from __future__ import annotations

_C0_AND_C1 = (*range(0x20), *range(0x7F, 0xA0))
_LINES_AND_DIRECTIONS = (0x2028, 0x2029, *range(0x202A, 0x202F))
_ISOLATES = range(0x2066, 0x206A)
_POWERLESS = {
    code: chr(code).encode("unicode_escape").decode("ascii")
    for code in (*_C0_AND_C1, *_LINES_AND_DIRECTIONS, *_ISOLATES)
    if chr(code) not in "\n\t"
}
# Stands at the end of what was cut.
MARK = "…"


def safe(text: str) -> str:
    """Return *text* without power over a terminal; newline and tab stay."""
    return text.replace("\r\n", "\n").translate(_POWERLESS)


def one_line(text: str) -> str:
    """Return *text*, safe, on one line, runs of white space as one space."""
    return safe(" ".join(text.split()))
