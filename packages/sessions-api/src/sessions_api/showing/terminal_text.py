"""Text on a terminal: cut to fit, in aligned columns, in colours; and whether there is one.

What makes stored text harmless lies in `safe_text` and is passed on here. Widths are columns of a
terminal, not characters: an emoji or an ideograph takes two (Unicode Standard Annex 11).
"""

from __future__ import annotations

import os
import sys
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessions_api.safe_text import MARK, one_line, safe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "MARK",
    "Ink",
    "columns",
    "cut",
    "on_terminal",
    "one_line",
    "prints_on_terminal",
    "safe",
    "width",
]

_JOINER = "\u200d"
_SKIN_COLOURS = frozenset(map(chr, range(0x1F3FB, 0x1F400)))
_FLAG_LETTERS = frozenset(map(chr, range(0x1F1E6, 0x1F200)))


def width(text: str) -> int:
    """Return how many columns *text*, which is safe and on one line, takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - 15 ms, for text beyond ASCII alone

    return cell_len(text)


def cut(text: str, limit: int) -> str:
    """Return *text* in at most *limit* columns, with a mark where something was left out.

    Between two characters as people see them: no accent, skin colour or member of a family is cut
    off from what it belongs to.
    """
    if width(text) <= limit:
        return text
    kept, used = "", 0
    for letter in _letters(text, at_most=limit):
        used += width(letter)
        if used > limit - 1:
            break
        kept += letter
    return kept.rstrip() + MARK


def _letters(text: str, *, at_most: int) -> Iterator[str]:
    """Yield the first characters of *text* as people see them, *at_most* so many.

    What joins to the one before (Unicode Standard Annex 29, its rules for marks and emoji).
    """
    letter = ""
    for code_point in text:
        if letter and not _joins(letter, code_point):
            yield letter
            at_most -= 1
            if at_most == 0:
                return
            letter = ""
        letter += code_point
    yield letter


def _joins(letter: str, code_point: str) -> bool:
    if code_point in _FLAG_LETTERS:
        return letter in _FLAG_LETTERS
    return (
        letter.endswith(_JOINER)
        or code_point == _JOINER
        or code_point in _SKIN_COLOURS
        or unicodedata.category(code_point) in {"Mn", "Me", "Mc"}
    )


def columns(
    rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset(), gap: str = "  "
) -> list[str]:
    """Return *rows*, all of one length, as lines with aligned columns; *right* are flush right."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = []
        for place, (cell, wide) in enumerate(zip(row, widths, strict=True)):
            fill = " " * (wide - width(cell))
            cells.append(fill + cell if place in right else cell + fill)
        lines.append(gap.join(cells).rstrip())
    return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Ink:
    """Whether what is printed may be coloured, and how."""

    color: bool = False

    def bold(self, text: str) -> str:
        """Return *text* as a heading."""
        return f"\x1b[1m{text}\x1b[0m" if self.color else text

    def dim(self, text: str) -> str:
        """Return *text* as something of less weight."""
        return f"\x1b[2m{text}\x1b[0m" if self.color else text

    def alarm(self, text: str) -> str:
        """Return *text* as something that went wrong."""
        return f"\x1b[31m{text}\x1b[0m" if self.color else text


def prints_on_terminal(stream: object) -> bool:
    """Whether *stream* ends at a terminal; a closed one does not."""
    isatty = getattr(stream, "isatty", None)
    try:
        return bool(isatty and isatty())
    except ValueError:
        return False


def on_terminal() -> bool:
    """Whether a person can be asked: standard input and standard error are a terminal."""
    return prints_on_terminal(sys.stdin) and prints_on_terminal(sys.stderr)


def has_cursor() -> bool:
    """Whether the terminal takes orders to move its cursor; a dumb one prints them."""
    return os.environ.get("TERM", "dumb") not in {"", "dumb", "unknown"}
