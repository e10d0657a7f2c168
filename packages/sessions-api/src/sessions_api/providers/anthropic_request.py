"""What is sent: a `ModelRequest` as the body of a request to the Messages API.

Owns the outgoing half of the wire format and no I/O. Invariant: the same request always becomes
the same body; blocks that the model sent (thinking with its signature, redacted thinking, kinds
that are not known here) go back byte for byte, in their order and place, to the endpoint and the
model that they came from. To any other, and where thinking has no signature, what was said and
called is sent without them; the stored message is not changed.

Must not: import the `anthropic` package, or put a key anywhere.
Source: Claude API reference, "Messages", "Extended thinking" and "Tool use".
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from sessions_api.providers.anthropic_parts import blocks_of, said_blocks, text_blocks
from sessions_api.providers.kept import pack, unpack
from sessions_api.providers.wire_names import WireIds, legal_name, role_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sessions_api.providers.base import ModelMessage, ModelRequest, ToolSpec

HOME = "https://api.anthropic.com"
DEFAULT_MAX_TOKENS = 8192  # the API wants a limit; what models still in service can all give

_KEPT = "anthropic"
# What the request itself says is not a parameter, and the last one is of another API; a session
# that was imported from elsewhere may carry these among its settings.
_RESERVED = frozenset({"model", "messages", "system", "tools", "stream", "stream_options"})
_THOUGHTS = ("thinking", "redacted_thinking")
_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def request_body(
    request: ModelRequest, *, endpoint: str = HOME, stream: bool = False
) -> dict[str, Any]:
    """Return the JSON object to post to `messages`.

    The system prompt and all system and developer messages, in order, become `system`, also those
    from the middle of the conversation: only the newest models take such a message in its place,
    and there is no telling which, while a user's turn would take its authority away. Messages of
    one side that follow one another become one turn, as the service itself would have it; one
    without content is left out. `request.parameters` are passed on by their own names, but for
    `max_completion_tokens` (max_tokens), `stop` (stop_sequences) and `reasoning_effort`
    (output_config.effort), which are other services' words; one that is None leaves the field out.
    """
    system, messages = _conversation(request, endpoint, str(request.model))
    body: dict[str, Any] = {"model": request.model, "max_tokens": None, "messages": messages}
    if system:
        only_prompt = len(system) == 1 and system[0].keys() == {"type", "text"}
        body["system"] = system[0]["text"] if only_prompt else system
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
    if stream:
        body["stream"] = True
    body |= _parameters(request.parameters)
    if body["max_tokens"] is None:
        body["max_tokens"] = DEFAULT_MAX_TOKENS + _thinking_budget(body.get("thinking"))
    return body


def pack_provider_data(
    *, endpoint: str, model: str, blocks: Sequence[Mapping[str, Any]]
) -> str | None:
    """Return the JSON text that `request_body` later unpacks; None when there is nothing to keep.

    A text followed by plain tool calls says all that its message says. A tool call's input is
    left to the message, which has its exact text.
    """
    if _is_plain(blocks):
        return None
    kept = [
        {**block, "input": None} if block["type"] == "tool_use" else dict(block) for block in blocks
    ]
    return pack(_KEPT, endpoint=endpoint, model=model, content=kept)


def _is_plain(blocks: Sequence[Mapping[str, Any]]) -> bool:
    plain = {"text": {"type", "text"}, "tool_use": {"type", "id", "name", "input"}}
    for position, block in enumerate(blocks):
        fields = {name for name, value in block.items() if value is not None}
        if not fields <= plain.get(block["type"], set()):
            return False
        if block["type"] == "text" and position > 0:
            return False
    return True


def _parameters(parameters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in parameters.items():
        if name in _RESERVED or value is None:
            continue
        match name:
            case "max_completion_tokens":
                yield "max_tokens", value
            case "stop":
                yield "stop_sequences", [value] if isinstance(value, str) else value
            case "reasoning_effort":
                if "output_config" not in parameters:
                    yield "output_config", {"effort": value}
            case _:
                yield name, value


def _thinking_budget(thinking: object) -> int:
    """Return how much of `max_tokens` is for thinking and must not be taken from the answer."""
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    return budget if isinstance(budget, int) else 0


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "description": spec.description,
        "input_schema": dict(spec.parameters),
    }


def _conversation(
    request: ModelRequest, endpoint: str, model: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    system = text_blocks(request.system_prompt)
    turns: list[dict[str, Any]] = []
    ids = WireIds(_LEGAL_ID)
    for message in request.messages:
        role = "user"
        match role_of(message):
            case "system" | "developer":
                system += said_blocks(message)
                continue
            case "assistant":
                role, blocks = "assistant", _said(message, endpoint, model, ids)
            case "tool":
                blocks = [_result(message, ids)]
            case _:
                blocks = blocks_of(message)
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    return system, turns


def _said(message: ModelMessage, endpoint: str, model: str, ids: WireIds) -> list[dict[str, Any]]:
    wire_ids = iter(ids.of_calls(message))
    calls = iter(message.tool_calls or ())
    kept = _kept(message, endpoint, model)
    if kept is None:
        kept = said_blocks(message)
        kept += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": None}
            for call in message.tool_calls or ()
        ]
    for block in kept:
        if block.get("type") == "tool_use":
            call = next(calls)
            own = {"id": next(wire_ids), "name": legal_name(call.name)}
            block |= {**own, "input": _input(call.arguments)}
    while kept and kept[-1].get("type") in _THOUGHTS:
        del kept[-1]  # the service refuses a turn that ends with thinking
    return kept


def _kept(message: ModelMessage, endpoint: str, model: str) -> list[dict[str, Any]] | None:
    """Return the blocks that the model sent, or None where the message itself is all there is.

    None also when the message has been changed since: then its text and its calls are what counts.
    """
    content = unpack(_KEPT, message, endpoint=endpoint, model=model).get("content")
    if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
        return None
    text = "".join(str(one.get("text")) for one in content if one.get("type") == "text")
    names = [one.get("name") for one in content if one.get("type") == "tool_use"]
    if text != (message.content or "") or names != [one.name for one in message.tool_calls or ()]:
        return None
    return [dict(one) for one in content if _may_return(one)]


def _may_return(block: Mapping[str, Any]) -> bool:
    match block.get("type"):
        case "thinking":
            return bool(block.get("signature"))
        case "redacted_thinking":
            return bool(block.get("data"))
        case "text":
            return bool(str(block.get("text")).strip())  # blank ones come, and are refused
        case _:
            return True


def _result(message: ModelMessage, ids: WireIds) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": ids.answered_by(message)}
    if message.parts:
        block["content"] = blocks_of(message)
    elif message.content:
        block["content"] = message.content
    return block


def _input(arguments: str) -> dict[str, Any]:
    """Return the arguments as the object that the API wants.

    Text that is none is wrapped as the API's documentation proposes, so that the model can see
    what it wrote.
    """
    if not arguments.strip():
        return {}
    try:
        value = json.loads(arguments, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"INVALID_JSON": arguments}


def _finite(text: str) -> float:
    """Return the number; ValueError for one that JSON could not carry back."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value
