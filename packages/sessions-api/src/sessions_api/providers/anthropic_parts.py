"""Text, images and files of a message as blocks of the Messages API.

Owns the translation of parts and no I/O. Invariant: a block that is the API's own already, and a
part of a kind that is not known here, pass through as they are; no text is invented, and blank
text, which the API refuses, is left out.

Must not: fetch anything; an image that is an address stays one.
Source: Claude API reference, "Vision" and "PDF support"; RFC 2397, "The data URL scheme".
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from sessions_api.providers.message_parts import Document, Image, known, parts_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessions_api.providers.base import ModelMessage

_DATA_URL = re.compile(r"data:(?P<media>[^;,]*)(?P<options>(?:;[^;,]*)*),(?P<data>.*)", re.DOTALL)
_OWN = ("text", "document")


def blocks_of(message: ModelMessage) -> list[dict[str, Any]]:
    """Return the content of *message*: its parts, or else its text; nothing when it is blank."""
    blocks = [_block(part) for part in parts_of(message)]
    return [block for block in blocks if block.get("type") != "text" or _said(block.get("text"))]


def said_blocks(message: ModelMessage) -> list[dict[str, Any]]:
    """Return the text of *message*, for turns in which no image or file may stand."""
    return text_blocks(text_of(message))


def text_blocks(text: str | None) -> list[dict[str, Any]]:
    """Return *text* as a list of at most one block."""
    return [{"type": "text", "text": text}] if _said(text) else []


def _said(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip())


def _block(part: Mapping[str, Any]) -> dict[str, Any]:
    if part.get("type") in _OWN or (part.get("type") == "image" and "source" in part):
        return dict(part)
    match known(part):
        case str(text):
            return {"type": "text", "text": text}
        case Image(address):
            return {"type": "image", "source": _source(address)}
        case Document(address, title):
            named = {"title": title} if title else {}
            return {"type": "document", "source": _source(address), **named}
    return dict(part)


def _source(address: str) -> dict[str, Any]:
    found = _DATA_URL.fullmatch(address)
    if found is None:
        return {"type": "url", "url": address}
    data = found["data"]
    if not found["options"].lower().endswith(";base64"):
        data = b64encode(unquote_to_bytes(data)).decode("ascii")
    return {"type": "base64", "media_type": found["media"].lower(), "data": data}
