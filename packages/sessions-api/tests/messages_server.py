"""The service of `wire_server`, speaking Anthropic's Messages API.

Owns that wire format as a service speaks it, whole and as events. A turn means what it means
there, but for `message`, which adds fields to the message: a `content` in it is the blocks as they
are sent, in place of `text` and `tool_calls`. `chunks` replaces the events of a stream; a piece
that is a text is sent as it is.
Source: Claude API reference, "Messages", "Streaming messages" and "Errors".
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from messages_rules import anthropic_problems
from wire_server import Turn, WireServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PIECE = 5  # characters of a tool's input or of a thought in one event
# The field of a block that grows by deltas, and the delta's type and field.
_GROWING = {
    "text": ("text", "text_delta", "text"),
    "thinking": ("thinking", "thinking_delta", "thinking"),
    "tool_use": ("input", "input_json_delta", "partial_json"),
    "server_tool_use": ("input", "input_json_delta", "partial_json"),
}


class MessagesServer(WireServer):
    """The service. `base_url` has no version in it, as Anthropic's own has none."""

    @property
    def base_url(self) -> str:
        """Where clients should be pointed."""
        return super().base_url.removesuffix("/v1")

    def problems_in(self, body: Any) -> list[str]:
        """Return the rules that a request breaks."""
        return anthropic_problems(body)

    def whole(self, turn: Turn) -> str:
        """Return the turn as a whole message; a tool's input is the exact text of the turn."""
        return _text_of(_message(turn, _blocks(turn)))

    def events(self, turn: Turn, body: Any) -> list[str]:
        """Return the turn as events: words, pieces of thoughts and of inputs, then the end."""
        del body  # usage comes unasked
        return [
            one if isinstance(one, str) else f"event: {one['type']}\ndata: {json.dumps(one)}\n\n"
            for one in (_events(turn) if turn.chunks is None else turn.chunks)
        ]

    def failure(self, turn: Turn, key: str) -> Any:
        """Return the body of an error."""
        message = f"The scripted error {turn.status}; you sent {key}"
        return {"type": "error", "error": {"type": "scripted_error", "message": message}}


def _text_of(message: Mapping[str, Any]) -> str:
    inputs: list[str] = []
    blocks = []
    for block in message["content"]:
        if isinstance(block.get("input"), str):
            blocks.append({**block, "input": f"input {len(inputs)} goes here"})
            inputs.append(block["input"])
        else:
            blocks.append(block)
    text = json.dumps({**message, "content": blocks})
    return re.sub(r'"input (\d+) goes here"', lambda found: inputs[int(found[1])], text)


def _message(turn: Turn, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": blocks,
        "stop_reason": turn.finish_reason or ("tool_use" if turn.tool_calls else "end_turn"),
        "stop_sequence": None,
        **({} if turn.usage is None else {"usage": turn.usage}),
        **{name: value for name, value in turn.message.items() if name != "content"},
    }


def _blocks(turn: Turn) -> list[dict[str, Any]]:
    """Return the blocks of the turn; the input of a scripted call is a text."""
    if "content" in turn.message:
        return [dict(block) for block in turn.message["content"]]
    blocks: list[dict[str, Any]] = []
    if turn.text is not None:
        blocks.append({"type": "text", "text": turn.text})
    for call in turn.tool_calls:
        others = {name: value for name, value in call.items() if name != "arguments"}
        blocks.append({"type": "tool_use", **others, "input": call["arguments"]})
    return blocks


def _events(turn: Turn) -> Iterator[dict[str, Any]]:
    message = _message(turn, [])
    usage = message.pop("usage", None)
    start = {**message, "stop_reason": None}
    if usage is not None:
        start["usage"] = {**usage, "output_tokens": 1} if isinstance(usage, dict) else usage
    total = {"output_tokens": usage.get("output_tokens")} if isinstance(usage, dict) else usage
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(_blocks(turn)):
        yield from _block_events(index, block)
    if turn.ends_early:
        return
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    counted = {} if usage is None else {"usage": total}
    yield {"type": "message_delta", "delta": delta, **counted}
    yield {"type": "message_stop"}


def _block_events(index: int, block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    def delta(**fields: Any) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": fields}

    start = dict(block)
    deltas: list[dict[str, Any]] = []
    if block["type"] in _GROWING:
        field, kind, piece = _GROWING[block["type"]]
        value = start[field]
        text = value if isinstance(value, str) else json.dumps(value)
        start[field] = {} if field == "input" else ""
        deltas += [delta(type=kind, **{piece: one}) for one in _pieces(block["type"], text)]
    if block["type"] == "thinking" and "signature" in block:
        start["signature"] = ""
        deltas.append(delta(type="signature_delta", signature=block["signature"]))
    if block["type"] == "text" and block.get("citations"):
        start["citations"] = []
        deltas += [delta(type="citations_delta", citation=one) for one in block["citations"]]
    yield {"type": "content_block_start", "index": index, "content_block": start}
    yield from deltas
    yield {"type": "content_block_stop", "index": index}


def _pieces(kind: str, text: str) -> list[str]:
    if kind == "text":
        return re.findall(r"\s*\S+|\s+$", text)
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
