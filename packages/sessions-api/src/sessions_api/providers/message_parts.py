"""What a part of a message is, whichever service's words it is written in.

Owns the reading of parts: text, pictures and documents as chat completions, the Responses API, the
Messages API and plain records write them. Invariant: nothing is invented and nothing fetched; a
part of another kind is None here, and each wire format sends it as it is.

Must not: know how any of them is sent.
Source: OpenAI API reference, "Create chat completion" and "Create a model response"; Claude API
reference, "Vision" and "PDF support"; RFC 2397, "The data URL scheme".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessions_api.providers.base import ModelMessage

_TEXTS = ("text", "input_text", "output_text")
_MEDIA_NAMES = ("media_type", "mime_type", "mimeType")


@dataclass(frozen=True, slots=True)
class Image:
    """A picture at `address`, which may be a data URL."""

    address: str


@dataclass(frozen=True, slots=True)
class Document:
    """A file at `address`, which may be a data URL, and what it is called."""

    address: str
    title: str | None


def known(part: Mapping[str, Any]) -> str | Image | Document | None:
    """Return what *part* is: a text, a picture or a document; None for any other kind."""
    match dict(part):
        case {"type": str(kind), "text": str(text)} if kind in _TEXTS:
            return text
        case {"type": "image_url" | "input_image", "image_url": {"url": str(address)}}:
            return Image(address)
        case {"type": "image_url" | "input_image", "image_url": str(address)}:
            return Image(address)
        case {"type": "image", "source": source}:
            found = _address(source)
            return None if found is None else Image(found)
        case {"type": "image", "data": str(data)}:
            media = next((part[name] for name in _MEDIA_NAMES if part.get(name)), "image/png")
            return Image(_data_url(data, media))
        case {"type": "document", "source": source}:
            found = _address(source)
            return None if found is None else Document(found, part.get("title"))
        case {"type": "file", "file": {"file_data": str(data)}}:
            return Document(_data_url(data, "application/pdf"), part["file"].get("filename"))
        case {"type": "input_file", "file_data": str(data)}:
            return Document(_data_url(data, "application/pdf"), part.get("filename"))
        case {"type": "input_file", "file_url": str(address)}:
            return Document(address, part.get("filename"))
    return None


def parts_of(message: ModelMessage) -> list[Mapping[str, Any]]:
    """Return the parts of *message*, its text before them where none of them says it."""
    parts = list(message.parts or ())
    if message.content and not any(part.get("type") in _TEXTS for part in parts):
        parts.insert(0, {"type": "text", "text": message.content})
    return parts


def text_of(message: ModelMessage) -> str | None:
    """Return what *message* says, for places that take nothing but text."""
    if message.content is not None or not message.parts:
        return message.content
    return "".join(text for part in message.parts if isinstance(text := known(part), str))


def _address(source: object) -> str | None:
    match source:
        case {"type": "base64", "media_type": media, "data": str(data)}:
            return _data_url(data, media)
        case {"type": "url", "url": str(address)}:
            return address
    return None


def _data_url(data: str, media: object) -> str:
    return data if data.startswith(("data:", "http:", "https:")) else f"data:{media};base64,{data}"
