"""What is sent: a `ModelRequest` as the body of a request to the Responses API.

Owns the outgoing half of the wire format and no I/O. Invariant: the same request always becomes
the same body; the items that the model sent (encrypted reasoning, messages, calls, kinds that are
not known here) go back byte for byte, in their order, before the outputs of their calls, to the
endpoint and the model that they came from. To any other, what was said and called is sent without
them; the stored message is not changed.

Must not: import the `openai` package, refer to anything that the service would have to have kept,
or put a key anywhere.
Source: OpenAI API reference, "Create a model response", and the guides "Conversation state" and
"Reasoning models".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sessions_api.providers.kept import pack, unpack
from sessions_api.providers.message_parts import parts_of, text_of
from sessions_api.providers.openai_parts import responses_part
from sessions_api.providers.openai_request import HOME
from sessions_api.providers.wire_names import WireIds, legal_name, role_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sessions_api.providers.base import ModelMessage, ModelRequest, ToolSpec

ENCRYPTED_REASONING = "reasoning.encrypted_content"

_KEPT = "openai-responses"
# What the request itself says is not a parameter, the service keeps no conversation that could be
# named, and the last one is of another API.
_RESERVED = frozenset(
    {"model", "input", "messages", "instructions", "tools", "stream"}
    | {"previous_response_id", "conversation", "stream_options"}
)
_OTHER_NAMES = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}
_LEGAL_ID = re.compile(r"\S{1,64}")
# Models that never reason; OpenAI refuses to be asked for their encrypted reasoning.
_NEVER_REASONS = re.compile(r"(?:.*[/:])?(?:gpt-3|gpt-4|chatgpt-).*|.*-chat(?:-latest)?")


def request_body(
    request: ModelRequest, *, endpoint: str = HOME, stream: bool = False
) -> dict[str, Any]:
    """Return the JSON object to post to `responses`.

    The system prompt becomes `instructions`, the messages items of `input` in order.
    `request.parameters` are passed on by their own names, but for `max_tokens` and
    `max_completion_tokens` (max_output_tokens) and `reasoning_effort` (reasoning.effort), which
    are the words of chat completions; one that is None leaves the field out, so `{"include":
    None}` helps with a service or model that has no encrypted reasoning.
    """
    model = str(request.model)
    body: dict[str, Any] = {"model": request.model, "input": _input(request, endpoint, model)}
    body["store"] = False
    if not _NEVER_REASONS.fullmatch(model):
        body["include"] = [ENCRYPTED_REASONING]
    if request.system_prompt:
        body["instructions"] = request.system_prompt
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
    if stream:
        body["stream"] = True
    for given, value in request.parameters.items():
        name = _OTHER_NAMES.get(given, given)
        if name in _RESERVED:
            continue
        if name == "reasoning_effort":
            if value is not None and "reasoning" not in request.parameters:
                body["reasoning"] = {"effort": value}
        elif value is None:
            body.pop(name, None)
        elif name == "include" and isinstance(value, list):
            body[name] = list(dict.fromkeys([*body.get(name, ()), *value]))
        else:
            body[name] = value
    return body


def pack_provider_data(
    *, endpoint: str, model: str, output: Sequence[Mapping[str, Any]]
) -> str | None:
    """Return the JSON text that `request_body` later unpacks; None when there is no output."""
    return pack(_KEPT, endpoint=endpoint, model=model, output=output) if output else None


def said_in(items: Sequence[Mapping[str, Any]]) -> str | None:
    """Return what the messages among *items* say, a refusal too; None where there is none.

    One message is a paragraph, whatever parts it has.
    """
    texts = [_text_of_content(item) for item in items if item.get("type") == "message"]
    said = [text for text in texts if text]
    return "\n\n".join(said) if said else ("" if texts else None)


def _text_of_content(item: Mapping[str, Any]) -> str:
    content = item.get("content")
    parts = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    texts = (one.get("text", one.get("refusal")) for one in parts)
    return "".join(text for text in texts if isinstance(text, str))


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": dict(spec.parameters),
        # The default here, unlike that of chat completions, would refuse optional arguments.
        "strict": False,
    }


def _input(request: ModelRequest, endpoint: str, model: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    ids = WireIds(_LEGAL_ID)
    sent_ids: set[object] = set()
    for message in request.messages:
        match role_of(message):
            case "assistant":
                kept = unpack(_KEPT, message, endpoint=endpoint, model=model).get("output")
                if isinstance(kept, list) and _is_of(message, kept):
                    items += _returned(kept, message, ids, sent_ids)
                else:
                    items += _said(message, ids)
            case "tool":
                items.append(_output(message, ids))
            case role:
                items.append({"role": role, "content": _content(message)})
    return items


def _is_of(message: ModelMessage, kept: list[Any]) -> bool:
    """Say whether *kept* is what the model sent as *message*, which may have been changed since."""
    if not all(isinstance(item, dict) for item in kept):
        return False
    names = [item.get("name") for item in kept if item.get("type") == "function_call"]
    called = [call.name for call in message.tool_calls or ()]
    return names == called and (said_in(kept) or "") == (message.content or "")


def _returned(
    kept: Sequence[Mapping[str, Any]], message: ModelMessage, ids: WireIds, sent_ids: set[object]
) -> list[dict[str, Any]]:
    """Return the items that the model sent, as they were.

    Without its reasoning the service takes no item that it knows by an id: where one piece of
    reasoning is not encrypted, or an id was sent before, neither reasoning nor ids go back.
    """
    own_ids = [item["id"] for item in kept if isinstance(item.get("id"), str)]
    whole = all(item.get("encrypted_content") for item in kept if item.get("type") == "reasoning")
    whole = whole and len({*own_ids}) == len(own_ids) and sent_ids.isdisjoint(own_ids)
    sent_ids.update(own_ids if whole else ())
    wire_ids = iter(ids.of_calls(message))
    calls = iter(message.tool_calls or ())
    items: list[dict[str, Any]] = []
    for one in kept:
        item = dict(one)
        if item.get("type") == "reasoning" and not whole:
            continue
        if item.get("type") == "function_call":
            call = next(calls)
            item |= {"call_id": next(wire_ids), "name": legal_name(call.name)}
            item |= {"arguments": call.arguments or "{}"}
        if item.get("type") in {"function_call", "message"} and not whole:
            item.pop("id", None)
        items.append(item)
    while items and items[-1].get("type") == "reasoning":
        del items[-1]  # the service refuses reasoning without what came of it
    return items


def _said(message: ModelMessage, ids: WireIds) -> list[dict[str, Any]]:
    text = text_of(message)
    items: list[dict[str, Any]] = [{"role": "assistant", "content": text}] if text else []
    for call, call_id in zip(message.tool_calls or (), ids.of_calls(message), strict=True):
        named = {"type": "function_call", "call_id": call_id, "name": legal_name(call.name)}
        items.append({**named, "arguments": call.arguments or "{}"})
    return items


def _output(message: ModelMessage, ids: WireIds) -> dict[str, Any]:
    call_id = ids.answered_by(message)
    return {"type": "function_call_output", "call_id": call_id, "output": _content(message)}


def _content(message: ModelMessage) -> str | list[dict[str, Any]]:
    if message.parts:
        return [responses_part(part) for part in parts_of(message)]
    return message.content or ""
