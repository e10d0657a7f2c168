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

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessions_api.providers.base import ModelMessage

_DATA_URL = re.compile(r"data:(?P<media>[^;,]*)(?P<options>(?:;[^;,]*)*),(?P<data>.*)", re.DOTALL)
_MEDIA_NAMES = ("media_type", "mime_type", "mimeType")


def blocks_of(message: ModelMessage) -> list[dict[str, Any]]:
    """Return the content of *message*: its parts, or else its text; nothing when it is blank."""
    if not message.parts:
        return text_blocks(message.content)
    blocks = [_block(part) for part in message.parts]
    if not any(block.get("type") == "text" for block in blocks):
        blocks = text_blocks(message.content) + blocks
    return [block for block in blocks if block.get("type") != "text" or _said(block.get("text"))]


def text_blocks(text: str | None) -> list[dict[str, Any]]:
    """Return *text* as a list of at most one block."""
    return [{"type": "text", "text": text}] if _said(text) else []


def _said(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip())


def _block(part: Mapping[str, Any]) -> dict[str, Any]:
    match part.get("type"):
        case "image_url" | "input_image":
            image = part.get("image_url")
            address = image.get("url") if isinstance(image, dict) else image
            if isinstance(address, str):
                return {"type": "image", "source": _source(address)}
        case "image" if isinstance(part.get("data"), str) and "source" not in part:
            return {"type": "image", "source": _given_source(part)}
        case "file":
            match part.get("file"):
                case {"file_data": str(data), **others}:
                    title = {"title": others["filename"]} if others.get("filename") else {}
                    return {"type": "document", "source": _source(data), **title}
    return dict(part)


def _given_source(part: Mapping[str, Any]) -> dict[str, Any]:
    data = part["data"]
    if _DATA_URL.fullmatch(data):
        return _source(data)
    media = next((part[name] for name in _MEDIA_NAMES if part.get(name)), "image/png")
    return {"type": "base64", "media_type": media, "data": data}


def _source(address: str) -> dict[str, Any]:
    found = _DATA_URL.fullmatch(address)
    if found is None:
        return {"type": "url", "url": address}
    data = found["data"]
    if not found["options"].lower().endswith(";base64"):
        data = b64encode(unquote_to_bytes(data)).decode("ascii")
    return {"type": "base64", "media_type": found["media"].lower(), "data": data}
