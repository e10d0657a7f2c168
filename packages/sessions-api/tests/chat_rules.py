"""What chat completions refuse in a request, as the documentation has it: pure functions.

Source: OpenAI API reference, "Create chat completion"; guide "Function calling".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from wire_rules import NAME, fits, is_address, is_legal_tool, is_text, unsendable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_AUTHOR = re.compile(r"[^\s<|\\/>]{1,64}")  # told by an error message
_CHAT_FIELDS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "refusal", "tool_calls", "audio"},
    "tool": {"role", "content", "tool_call_id", "name"},
}
_LONGEST_CHAT_ID = 40  # told by an error message


def openai_chat_problems(body: Any, *, extensions: bool = True) -> list[str]:
    """Return what chat completions refuse in *body*.

    *extensions* allows fields that compatible services add to messages and calls.
    """
    return list(_chat(body, extensions=extensions)) + unsendable(body)


def _chat(body: Any, *, extensions: bool) -> Iterator[str]:
    if not is_text(body.get("model")):
        yield "no model"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "no messages"
        return
    if "stream_options" in body and not body.get("stream"):
        yield "stream_options without stream"
    for tool in body.get("tools", []):
        if tool.get("type") != "function" or not is_legal_tool(tool.get("function", {})):
            yield "a tool is not legal"
    waiting: list[str] = []
    for at, message in enumerate(messages):
        where = f"messages[{at}]"
        role = message.get("role")
        if role not in _CHAT_FIELDS:
            yield f"{where} has the role {role!r}"
            continue
        if not extensions and (others := message.keys() - _CHAT_FIELDS[role]):
            yield f"{where} has the fields {sorted(others)}"
        if "name" in message and not fits(_AUTHOR, message["name"]):
            yield f"{where} has a name that is none"
        yield from _chat_content(where, message)
        if role == "tool":
            if message.get("tool_call_id") in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                yield f"{where} answers no call before it"
            continue
        if waiting:
            yield f"{where} stands before the results of {len(waiting)} calls"
        waiting = []
        if "tool_calls" in message:
            waiting = [call.get("id") for call in message["tool_calls"]]
            yield from _chat_calls(where, message, extensions=extensions)
    if waiting:
        yield f"{len(waiting)} calls at the end have no result"


def _chat_content(where: str, message: Mapping[str, Any]) -> Iterator[str]:
    role, content = message["role"], message.get("content")
    if isinstance(content, str):
        return
    if content is None:
        if role != "assistant" or not message.get("tool_calls"):
            yield f"{where} has no content"
        return
    if not isinstance(content, list) or not content:
        yield f"{where} has content that is neither text nor parts"
        return
    legal = {"assistant": ("text", "refusal"), "user": ("text", "image_url", "input_audio", "file")}
    for part in content:
        kind = part.get("type")
        if kind not in legal.get(role, ("text",)):
            yield f"{where} has a part of type {kind!r}"
        elif kind == "text" and not isinstance(part.get("text"), str):
            yield f"{where} has a text that is none"
        elif kind == "image_url" and not is_address((part.get("image_url") or {}).get("url")):
            yield f"{where} has an image without an address"
        elif kind == "file" and not (part.get("file") or {}).keys() & {"file_data", "file_id"}:
            yield f"{where} has a file without data"


def _chat_calls(where: str, message: Mapping[str, Any], *, extensions: bool) -> Iterator[str]:
    calls = message["tool_calls"]
    if message["role"] != "assistant" or not isinstance(calls, list) or not calls:
        yield f"{where} has calls that are none"
        return
    ids = [call.get("id") for call in calls]
    if len({*ids}) != len(ids):
        yield f"{where} has two calls of one id"
    for call in calls:
        function = call.get("function", {})
        if not (is_text(call.get("id")) and len(call["id"]) <= _LONGEST_CHAT_ID):
            yield f"{where} has a call with an illegal id"
        if call.get("type") != "function" or not fits(NAME, function.get("name")):
            yield f"{where} has a call of no function"
        if not is_text(function.get("arguments")):
            yield f"{where} has a call without arguments"
        if not extensions and call.keys() - {"id", "type", "function"}:
            yield f"{where} has a call with other fields"
