"""Text, images and files of a message as OpenAI's two APIs write them.

Owns the translation of parts and no I/O. Invariant: a part that is the API's own already, and one
of a kind that is not known here, pass through as they are; no text is invented.

Must not: fetch anything.
Source: OpenAI API reference, "Create chat completion" and "Create a model response".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sessions_api.providers.message_parts import Document, Image, known

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHAT = ("text", "image_url", "input_audio", "file")
_RESPONSES = ("input_text", "input_image", "input_file")


def chat_part(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return *part* as chat completions take it from a user."""
    if part.get("type") in _CHAT:
        return dict(part)
    match known(part):
        case str(text):
            return {"type": "text", "text": text}
        case Image(address):
            return {"type": "image_url", "image_url": {"url": address}}
        case Document(address, title) if address.startswith("data:"):
            return {"type": "file", "file": {"filename": title or "file", "file_data": address}}
    return dict(part)


def responses_part(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return *part* as the Responses API takes it from a user or in a tool's output."""
    if part.get("type") in _RESPONSES and not isinstance(part.get("image_url"), dict):
        return dict(part)
    match known(part):
        case str(text):
            return {"type": "input_text", "text": text}
        case Image(address):
            return {"type": "input_image", "detail": "auto", "image_url": address}
        case Document(address, title) if address.startswith("data:"):
            return {"type": "input_file", "filename": title or "file", "file_data": address}
        case Document(address, _):
            return {"type": "input_file", "file_url": address}
    return dict(part)
