"""Text of others where people read it: nothing in it acts, everything in it shows.

Invariant: controls, and characters that turn the direction of writing against its reader, become
visible escapes; marks that right-to-left scripts need stay, and so do newline and tab.

Source: Unicode Standard Annex 9 (explicit formatting characters), CVE-2021-42574.
"""

from __future__ import annotations

import re

_TURNING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_SEPARATORS = (0x2028, 0x2029)
_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_SURROGATES = range(0xD800, 0xE000)
_NONCHARACTERS = (0xFFFE, 0xFFFF)
_VISIBLE = {
    code: chr(code).encode("unicode_escape").decode("ascii")
    for code in (*_CONTROLS, *_SEPARATORS, *_TURNING, *_NONCHARACTERS)
    if chr(code) not in "\n\t"
} | {code: f"\\u{code:04x}" for code in _SURROGATES}
# Nearly no text has any, and looking for them is ten times faster than translating.
_ACTING = re.compile(f"[{re.escape(''.join(map(chr, _VISIBLE)))}]")


def visible(text: str) -> str:
    """Return *text* with visible escapes for what would act; lines end with newlines alone."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.translate(_VISIBLE) if _ACTING.search(text) else text


def on_one_line(text: str) -> str:
    """Return *text*, visible, on one line."""
    return " ".join(visible(text).split())
