"""The one place where text is made storable.

Invariant: what passes is valid Unicode, and everything that was valid before is unchanged (NUL,
U+2028, bare CR and 20 MB lines included). A lone surrogate, which no encoding can carry, becomes
U+FFFD; a pair that was split in two becomes the character it means. The caller is told, so that
a message can say that it was repaired.

Must not: judge, trim, normalise or translate anything.
"""

from __future__ import annotations


def repair_text(text: str) -> str:
    """Return *text* as valid Unicode; the same object when it already is."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def repair_optional(text: str | None) -> str | None:
    """Return *text* as valid Unicode, and None as None."""
    return None if text is None else repair_text(text)
