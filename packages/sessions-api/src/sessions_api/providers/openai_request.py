"""What is sent: a `ModelRequest` as the body of a chat-completions request.

Owns the outgoing half of the wire format and no I/O. Invariant: the same request always becomes
the same body, and every tool result carries the id of the call that it answers, whatever the
ids were when they came. Fields that one service invented go back to that service and model only;
another one would refuse them.

What the format has no place for is sent where it has one: an image in a tool's result follows the
results as the user's, and a role that is not the format's is the user's. Images of an assistant or
system message have none and are left out of the request.

Must not: import the `openai` package, or put a key anywhere.
Source: OpenAI API reference, "Create chat completion", and the reasoning and tool-call
extensions that compatible services document.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sessions_api.providers.kept import pack, unpack
from sessions_api.providers.message_parts import known, parts_of, text_of
from sessions_api.providers.openai_parts import chat_part
from sessions_api.providers.wire_names import WireIds, legal_name, role_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessions_api.providers.base import ModelMessage, ModelRequest, ToolSpec

HOME = "https://api.openai.com/v1"

_KEPT = "openai"
# What the request itself says is not a parameter; a session that was imported from elsewhere
# may carry these among its settings.
_RESERVED = frozenset({"model", "messages", "tools", "stream"})
_LEGAL_ID = re.compile(r"\S{1,40}")
_LEGAL_AUTHOR = re.compile(r"[^\s<|\\/>]{1,64}")


def request_body(
    request: ModelRequest, *, endpoint: str = HOME, stream: bool = False
) -> dict[str, Any]:
    """Return the JSON object to post to `chat/completions`.

    The system prompt comes first, then the messages in order. `request.parameters` are passed on
    by their own names; one that is None leaves the field out, so `{"stream_options": None}` helps
    with a service that knows no such field. *endpoint* and the model decide whose extra fields
    are sent back.
    """
    body: dict[str, Any] = {"model": request.model, "messages": _messages(request, endpoint)}
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
    if stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    for name, value in request.parameters.items():
        if name in _RESERVED or (name == "stream_options" and not stream):
            continue
        if value is None:
            body.pop(name, None)
        else:
            body[name] = value
    return body


def pack_provider_data(
    *,
    endpoint: str,
    model: str,
    reasoning_field: str | None,
    message: Mapping[str, Any],
    tool_calls: list[dict[str, Any]],
) -> str | None:
    """Return the JSON text that `request_body` later unpacks; None when there is nothing to keep.

    *message* and *tool_calls* are the fields beyond the standard ones, the latter one object a
    call. Reasoning is only owed back together with tool calls.
    """
    kept: dict[str, Any] = {}
    if message:
        kept["message"] = dict(message)
    if any(tool_calls):
        kept["tool_calls"] = tool_calls
    if reasoning_field is not None and tool_calls:
        kept["reasoning_field"] = reasoning_field
    return pack(_KEPT, endpoint=endpoint, model=model, **kept) if kept else None


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {
        "name": spec.name,
        "description": spec.description,
        "parameters": dict(spec.parameters),
    }
    return {"type": "function", "function": function}


def _messages(request: ModelRequest, endpoint: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if request.system_prompt:
        messages.append({"role": "system", "content": request.system_prompt})
    ids = WireIds(_LEGAL_ID)
    shown: list[dict[str, Any]] = []  # by tools; must not stand between their results
    for message in request.messages:
        if message.role != "tool" and shown:
            messages.append({"role": "user", "content": shown})
            shown = []
        wire = _message(message, ids)
        if message.role == "tool":
            shown += [chat_part(one) for one in message.parts or () if not _is_text(one)]
        _add_extras(wire, message, endpoint, str(request.model))
        messages.append(wire)
    if shown:
        messages.append({"role": "user", "content": shown})
    return messages


def _message(message: ModelMessage, ids: WireIds) -> dict[str, Any]:
    role = role_of(message)
    wire: dict[str, Any] = {"role": role, "content": _content(message, role)}
    if message.name and (role == "tool" or _LEGAL_AUTHOR.fullmatch(message.name)):
        wire["name"] = legal_name(message.name) if role == "tool" else message.name
    if role == "tool":
        wire["tool_call_id"] = ids.answered_by(message)
    if role == "assistant" and message.tool_calls:
        wire["tool_calls"] = [
            {
                "id": wire_id,
                "type": "function",
                # Strict services parse the arguments and refuse empty text.
                "function": {"name": legal_name(call.name), "arguments": call.arguments or "{}"},
            }
            for call, wire_id in zip(message.tool_calls, ids.of_calls(message), strict=True)
        ]
    return wire


def _content(message: ModelMessage, role: str) -> str | list[dict[str, Any]] | None:
    if message.parts and role == "user":
        return [chat_part(part) for part in parts_of(message)]
    if message.parts and all(_is_text(part) for part in message.parts):
        return [chat_part(part) for part in message.parts]
    text = text_of(message)
    if text is None and not (role == "assistant" and message.tool_calls):
        return ""  # null is legal only beside tool calls
    return text


def _is_text(part: Mapping[str, Any]) -> bool:
    return isinstance(known(part), str)


def _add_extras(wire: dict[str, Any], message: ModelMessage, endpoint: str, model: str) -> None:
    kept = unpack(_KEPT, message, endpoint=endpoint, model=model)
    extras = kept.get("message")
    if isinstance(extras, dict):
        for name, value in extras.items():
            wire.setdefault(name, value)
    field = kept.get("reasoning_field")
    if isinstance(field, str) and message.reasoning_content is not None:
        wire.setdefault(field, message.reasoning_content)
    call_extras = kept.get("tool_calls")
    calls = wire.get("tool_calls")
    if isinstance(call_extras, list) and calls and len(call_extras) == len(calls):
        for call, extra in zip(calls, call_extras, strict=True):
            if isinstance(extra, dict):
                for name, value in extra.items():
                    call.setdefault(name, value)
