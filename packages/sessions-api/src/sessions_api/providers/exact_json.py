"""The exact text of values inside a JSON document: what a parser forgets about spaces and digits.

Owns a walk over text that `json.loads` has accepted already. Invariant: what comes back is a piece
of the document, character for character.

Must not: be given text that no parser has seen; it does not look for mistakes.
Source: RFC 8259, "JSON Grammar".
"""

from __future__ import annotations

import re
from json import JSONDecoder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SPACE = re.compile(r"[ \t\n\r]*")
_decode = JSONDecoder().raw_decode


def members(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and exact value of each member of the object *text*, in order."""
    at = _after_space(text, _after_space(text, 0) + 1)
    while text[at] != "}":
        name, at = _decode(text, at)
        start = _after_space(text, _after_space(text, at) + 1)  # behind the colon
        _, at = _decode(text, start)
        yield name, text[start:at]
        at = _after_separator(text, at)


def elements(text: str) -> Iterator[str]:
    """Yield the exact text of each element of the array *text*, in order."""
    at = _after_space(text, _after_space(text, 0) + 1)
    while text[at] != "]":
        start = at
        _, at = _decode(text, start)
        yield text[start:at]
        at = _after_separator(text, at)


def _after_separator(text: str, at: int) -> int:
    at = _after_space(text, at)
    return _after_space(text, at + 1) if text[at] == "," else at


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
