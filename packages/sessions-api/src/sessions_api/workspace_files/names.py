r"""File names as text that a model can read on one line, and write back.

A name may hold any byte but NUL and the slash: a newline, an escape sequence for a terminal, bytes
that are no UTF-8. Owns one form for each name and the way back: a backslash is doubled, each byte
of what cannot be printed is `\xNN`. Invariant: `named(shown(name)) == name` for every name.
"""

from __future__ import annotations

import os
import re

SHOWN_LIMIT = 200

_ESCAPE = re.compile(r"(\\\\|\\x[0-9a-fA-F]{2})")


def shown(name: str) -> str:
    """Return *name*, as the operating system's calls give it, in its printable form."""
    text = os.fsencode(name).decode("utf-8", "surrogateescape")
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(map(_shown_character, text))


def shown_briefly(name: str) -> str:
    """Return the printable form of *name* in quotes for a message, cut when it is very long."""
    text = shown(name)
    return f"'{text if len(text) <= SHOWN_LIMIT else text[:SHOWN_LIMIT] + '…'}'"


def named(text: str) -> str:
    """Return the name whose printable form is *text*; a backslash that escapes nothing stays."""
    pieces = _ESCAPE.split(text)
    found = b"".join(
        _unescaped(piece) if index % 2 else piece.encode("utf-8", "surrogateescape")
        for index, piece in enumerate(pieces)
    )
    return os.fsdecode(found)


def _shown_character(character: str) -> str:
    if character == "\\":
        return r"\\"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def _unescaped(escape: str) -> bytes:
    return b"\\" if escape == r"\\" else bytes.fromhex(escape[2:])
