"""What is sent: a `ModelRequest` as the body of a chat-completions request.

Owns the outgoing half of the wire format and no I/O. Invariant: the same request always becomes
the same body, and every tool result carries the id of the call that it answers, whatever the
ids were when they came. Fields that one service invented go back to that service only; another
one would refuse them.

Must not: import the `openai` package, drop a message, or put a key anywhere.
Source: OpenAI API reference, "Create chat completion", and the reasoning and tool-call
extensions that compatible services document.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessions_api.providers.base import ModelMessage, ModelRequest, ToolSpec

# What the request itself says is not a parameter; a session that was imported from elsewhere
# may carry these among its settings.
_RESERVED = frozenset({"model", "messages", "tools", "stream"})


def request_body(
    request: ModelRequest, *, model: str, endpoint: str, stream: bool
) -> dict[str, Any]:
    """Return the JSON object to post to `chat/completions`.

    The system prompt comes first, then the messages in order. `request.parameters` are passed on
    by their own names; one that is None leaves the field out, so `{"stream_options": None}` helps
    with a service that knows no such field. *endpoint* decides whose extra fields are sent back.
    """
    body: dict[str, Any] = {"model": model, "messages": _messages(request, endpoint)}
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
    # ASCII, so that even half a surrogate pair survives a store that insists on UTF-8.
    return json.dumps({"openai": {"endpoint": endpoint, **kept}}) if kept else None


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
    ids = _WireIds()
    for message in request.messages:
        wire: dict[str, Any] = {"role": message.role, "content": _content(message)}
        if message.name:
            wire["name"] = message.name
        if message.role == "tool":
            wire["tool_call_id"] = ids.answered_by(message)
        if message.tool_calls:
            wire["tool_calls"] = [
                {
                    "id": wire_id,
                    "type": "function",
                    # Strict services parse the arguments and refuse empty text.
                    "function": {"name": call.name, "arguments": call.arguments or "{}"},
                }
                for call, wire_id in zip(message.tool_calls, ids.of_calls(message), strict=True)
            ]
        _add_extras(wire, message, endpoint)
        messages.append(wire)
    return messages


def _content(message: ModelMessage) -> str | list[dict[str, Any]] | None:
    if message.parts:
        parts = [dict(part) for part in message.parts]
        if message.content and not any(part.get("type") == "text" for part in parts):
            parts.insert(0, {"type": "text", "text": message.content})
        return parts
    if message.content is None and not message.tool_calls:
        return ""  # null is legal only beside tool calls
    return message.content


def _add_extras(wire: dict[str, Any], message: ModelMessage, endpoint: str) -> None:
    kept = _unpack(message.provider_data, endpoint)
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


def _unpack(provider_data: str | None, endpoint: str) -> dict[str, Any]:
    if provider_data is None:
        return {}
    try:
        data = json.loads(provider_data)
    except ValueError:
        return {}  # another provider's, in a form of its own
    kept = data.get("openai") if isinstance(data, dict) else None
    return kept if isinstance(kept, dict) and kept.get("endpoint") == endpoint else {}


class _WireIds:
    """Gives each call of a request an id that pairs it with its result.

    Services exist that send empty ids, or the same one twice; others refuse both. An id that
    already does its work stays as it is.
    """

    def __init__(self) -> None:
        self._made_count = 0
        self._open: list[tuple[str, str]] = []

    def of_calls(self, message: ModelMessage) -> list[str]:
        self._open = []
        seen: set[str] = set()
        for call in message.tool_calls or ():
            wire_id = self._made() if not call.id or call.id in seen else call.id
            seen.add(wire_id)
            self._open.append((call.id, wire_id))
        return [wire_id for _, wire_id in self._open]

    def answered_by(self, message: ModelMessage) -> str:
        wanted = message.tool_call_id or ""
        for position, (call_id, wire_id) in enumerate(self._open):
            if call_id == wanted:
                del self._open[position]
                return wire_id
        return wanted

    def _made(self) -> str:
        self._made_count += 1
        # Nine letters and digits: the narrowest form that a service is known to ask for.
        return f"call{self._made_count:05d}"
