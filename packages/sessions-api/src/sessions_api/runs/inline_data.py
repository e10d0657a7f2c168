"""Images and other files that lie inside a message as base64, and what may stand in their place.

Owns how such data is recognised, whatever the form of a part, and the text that says what was
there. Invariant: pure; a stub names the type and the size of what it replaces, and nothing of it.
What anybody may have written is never taken for data, and the address of an image is none.

Source: RFC 2397, "The data URL scheme"; RFC 4648, "Base 64 Encoding".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sessions_api.providers.message_parts import known

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MIN_INLINE_CHARACTERS = 4096  # what is shorter would save less than it costs the model

_PREFIX = r"(?:data:[^,\s\"]{0,200};base64,)?"
# In a part the beginning tells: it may be broken into lines, and megabytes are not read through.
_BEGINS_INLINE = re.compile(_PREFIX + r"[A-Za-z0-9+/_=\r\n-]{1024}")
# In text only what has no break at all, for there are texts of one word a line.
_RUN = re.compile(r"(?<![A-Za-z0-9+/_-])" + _PREFIX + r"[A-Za-z0-9+/_-]{4096,}={0,2}")
_DATA_URL_TYPE = re.compile(r"data:([\w.+-]{1,60}/[\w.+-]{1,60})[;,]")
_TYPE_NAME = re.compile(r"[\w.+-]{1,60}(?:/[\w.+-]{1,60})?")
_TYPE_FIELDS = ("media_type", "mime_type", "mimeType", "format", "type")


def is_inline(text: str) -> bool:
    """Whether *text*, which stands in a part, is data in base64 that is worth leaving out."""
    return len(text) >= MIN_INLINE_CHARACTERS and _BEGINS_INLINE.match(text) is not None


def stub_of_part(part: Mapping[str, Any]) -> str | None:
    """Return what may stand for *part* of a message; None when it is text, or an address."""
    if isinstance(known(part), str):
        return None
    data, holder = max(_texts(part), key=lambda found: len(found[0]), default=("", part))
    if not is_inline(data):
        return None
    return _stub(data, _media_type(data, holder) or _media_type("", part) or "data")


def without_data(text: str) -> str:
    """Return *text* with a stub for each long run of base64 in it."""
    if len(text) < MIN_INLINE_CHARACTERS:
        return text
    return _RUN.sub(lambda found: _stub(found[0], _media_type(found[0], {}) or "data"), text)


def _stub(data: str, media_type: str) -> str:
    in_base64 = len(data) - (data.find(",") + 1) - data.count("=", len(data) - 2)
    byte_count = in_base64 * 3 // 4
    return f"[{media_type}, {byte_count} bytes: left out, the request would be too large]"


def _texts(value: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each text of *value* beside the object that holds it."""
    waiting: list[tuple[object, Mapping[str, Any]]] = [(value, value)]
    while waiting:
        one, holder = waiting.pop()
        match one:
            case str():
                yield one, holder
            case dict():
                waiting += [(inner, one) for inner in one.values()]
            case list() | tuple():
                waiting += [(inner, holder) for inner in one]


def _media_type(data: str, holder: Mapping[str, Any]) -> str | None:
    if found := _DATA_URL_TYPE.match(data):
        return found[1].lower()
    given = [holder.get(name) for name in _TYPE_FIELDS]
    return next((one for one in given if isinstance(one, str) and _TYPE_NAME.fullmatch(one)), None)
