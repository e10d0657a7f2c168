"""What the Messages API refuses in a request, as the documentation has it: pure functions.

Source: Claude API reference, "Messages"; guides "Tool use", "Extended thinking" and "Vision".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from wire_rules import NAME, fits, is_legal_tool, is_text, unsendable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CLAUDE_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_IMAGES = {"image/jpeg", "image/png", "image/gif", "image/webp"}


def anthropic_problems(body: Any) -> list[str]:
    """Return what the Messages API refuses in *body*."""
    return list(_claude(body)) + unsendable(body)


def _claude(body: Any) -> Iterator[str]:
    if not is_text(body.get("model")):
        yield "no model"
    if type(body.get("max_tokens")) is not int or body["max_tokens"] < 1:
        yield "no max_tokens"
    system = body.get("system", [])
    if system != [] and not _is_said(system):
        yield "system is blank, or holds something other than text"
    for tool in body.get("tools", []):
        if not is_legal_tool({**tool, "parameters": tool.get("input_schema")}):
            yield "a tool is not legal"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "no messages"
        return
    waiting: list[str] = []
    called: set[str] = set()
    for at, message in enumerate(messages):
        where = f"messages[{at}]"
        role, content = message.get("role"), message.get("content")
        if role not in {"user", "assistant"} or message.keys() != {"role", "content"}:
            yield f"{where} is nobody's turn"
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(blocks, list) or not blocks:
            yield f"{where} is empty"
            continue
        yield from _results(where, blocks, waiting)
        waiting = [block.get("id") for block in blocks if block.get("type") == "tool_use"]
        if len({*waiting} - called) != len(waiting):
            yield f"{where} has the id of another call"
        called.update(waiting)
        for block in blocks:
            yield from (f"{where} {problem}" for problem in _claude_block(role, block))
        if blocks[-1].get("type") in {"thinking", "redacted_thinking"}:
            yield f"{where} ends with thinking"  # told by an error message
    if waiting:
        yield f"{len(waiting)} calls at the end have no result"


def _results(where: str, blocks: list[Any], waiting: list[str]) -> Iterator[str]:
    """Yield what is wrong with the results that have to come first after the calls *waiting*."""
    kinds = [block.get("type") for block in blocks]
    found = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
    if sorted(found, key=str) != sorted(waiting, key=str):
        yield f"{where} does not answer each call of the turn before it once"
    if "tool_result" in kinds[len(found) :]:
        yield f"{where} has a result behind something else"


def _claude_block(role: str, block: Mapping[str, Any]) -> Iterator[str]:
    kind = block.get("type")
    if kind in {"image", "document", "tool_result"} and role != "user":
        yield f"has a block of type {kind!r} of the assistant"
    if kind in {"thinking", "redacted_thinking", "tool_use"} and role != "assistant":
        yield f"has a block of type {kind!r} of the user"
    match kind:
        case "text" if not _is_said(block.get("text")):
            yield "has a blank text"
        case "image" if not _legal_source(block.get("source")):
            yield "has an image that is none"
        case "tool_use":
            if not fits(_CLAUDE_ID, block.get("id")) or not fits(NAME, block.get("name")):
                yield "has a call with an illegal id or name"
            if not isinstance(block.get("input"), dict):
                yield "has a call whose input is no object"
        case "tool_result":
            content = block.get("content", [])
            for one in content if isinstance(content, list) else []:
                yield from _claude_block("user", one)
        case "thinking" if not (is_text(block.get("signature")) and "thinking" in block):
            yield "has thinking without a signature"
        case "redacted_thinking" if not is_text(block.get("data")):
            yield "has redacted thinking without data"
        case None | "image_url" | "input_text" | "input_image" | "input_file" | "file":
            yield f"has a block of type {kind!r}"


def _legal_source(source: Any) -> bool:
    match source:
        case {"type": "base64", "media_type": media, "data": str()}:
            return media in _IMAGES
        case {"type": "url", "url": str(address)}:
            return address.startswith(("http:", "https:"))
        case {"type": "file", "file_id": str()}:
            return True
    return False


def _is_said(text: Any) -> bool:
    if isinstance(text, list):
        return all(one.get("type") == "text" and _is_said(one.get("text")) for one in text)
    return isinstance(text, str) and bool(text.strip())
