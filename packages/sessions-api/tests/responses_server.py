"""The service of `wire_server`, speaking OpenAI's Responses API.

Owns that wire format as a service speaks it, whole and as events. A turn means what it means
there, but for `message`, which adds fields to the response: an `output` in it is the items as they
are sent, in place of `text` and `tool_calls`. `chunks` replaces the events of a stream.

As the real one it keeps nothing of a conversation, and still knows its own: an item with an id has
to be one that it gave out, and reasoning has to be what it was.
Source: OpenAI API reference, "The response object" and "Streaming events".
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from responses_rules import openai_responses_problems
from wire_server import Turn, WireServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PIECE = 5  # characters of a call's arguments or of a thought in one event


class ResponsesServer(WireServer):
    """The service."""

    def __init__(self, *turns: Turn, **options: Any) -> None:
        super().__init__(*turns, **options)
        self._given: dict[str, Mapping[str, Any]] = {}

    def remember(self, *items: Mapping[str, Any]) -> None:
        """Take *items* as given out earlier."""
        self._given |= {item["id"]: item for item in items if item.get("id")}

    def problems_in(self, body: Any) -> list[str]:
        """Return the rules that a request breaks."""
        problems = openai_responses_problems(body, known_ids=self._given)
        for item in body["input"] if not problems else ():
            given = self._given.get(item.get("id", ""), item)
            if item.get("type") != "function_call" and item != given:
                problems.append("an item is not as it was given")
        return problems

    def whole(self, turn: Turn) -> str:
        """Return the turn as a whole response."""
        return json.dumps(self._response(turn))

    def events(self, turn: Turn, body: Any) -> list[str]:
        """Return the turn as events: of each item its beginning, pieces and end, then the whole."""
        del body  # usage comes unasked
        events = list(self._events(turn)) if turn.chunks is None else turn.chunks
        return [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events]

    def _response(self, turn: Turn) -> dict[str, Any]:
        others = {name: value for name, value in turn.message.items() if name != "output"}
        reason = turn.finish_reason
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "status": "incomplete" if reason else "completed",
            "error": None,
            "incomplete_details": {"reason": reason} if reason else None,
            "model": "scripted",
            "output": self._output(turn),
            "usage": turn.usage,
            **others,
        }

    def _output(self, turn: Turn) -> list[dict[str, Any]]:
        number = len(self._given)
        if "output" in turn.message:
            items = [dict(item) for item in turn.message["output"]]
        else:
            items = [] if turn.text is None else [message_item(f"msg_{number}", turn.text)]
            for position, call in enumerate(turn.tool_calls):
                fields = {key: value for key, value in call.items() if key != "id"}
                own = {"id": f"fc_{number}_{position}", "type": "function_call", **fields}
                items.append({**own, "call_id": call["id"], "status": "completed"})
        self.remember(*items)
        return items

    def _events(self, turn: Turn) -> Iterator[dict[str, Any]]:
        response = self._response(turn)
        begun = {**response, "status": "in_progress", "output": [], "usage": None}
        yield {"type": "response.created", "response": begun}
        yield {"type": "response.in_progress", "response": begun}
        for index, item in enumerate(response["output"]):
            yield from _item_events(index, item)
        if not turn.ends_early:
            yield {"type": f"response.{response['status']}", "response": response}


def message_item(own_id: str, text: str) -> dict[str, Any]:
    """Return a message of the model as the service sends it."""
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    fields = {"id": own_id, "type": "message", "status": "completed", "role": "assistant"}
    return {**fields, "content": [part]}


def _item_events(index: int, item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    def event(kind: str, **fields: Any) -> dict[str, Any]:
        named = {"type": f"response.{kind}", "item_id": item.get("id"), "output_index": index}
        return {**named, **fields}

    begun = {**item, "status": "in_progress"}
    match item["type"]:
        case "message":
            begun["content"] = []
        case "reasoning":
            begun |= {"summary": [], "encrypted_content": "incomplete"}
        case "function_call":
            begun["arguments"] = ""
    yield event("output_item.added", item=begun)
    match item["type"]:
        case "message":
            for at, part in enumerate(item["content"]):
                kind = "output_text" if part["type"] == "output_text" else "refusal"
                text = part.get("text", part.get("refusal"))
                for word in re.findall(r"\s*\S+|\s+$", text):
                    yield event(f"{kind}.delta", content_index=at, delta=word)
                yield event(f"{kind}.done", content_index=at, text=text)
        case "reasoning":
            for at, part in enumerate(item.get("summary") or ()):
                yield event("reasoning_summary_part.added", summary_index=at)
                for piece in _pieces(part["text"]):
                    kind = "reasoning_summary_text.delta"
                    yield event(kind, summary_index=at, delta=piece)
            for at, part in enumerate(item.get("content") or ()):
                for piece in _pieces(part["text"]):
                    yield event("reasoning_text.delta", content_index=at, delta=piece)
        case "function_call":
            for piece in _pieces(item["arguments"]):
                yield event("function_call_arguments.delta", delta=piece)
    yield event("output_item.done", item=item)


def _pieces(text: str) -> list[str]:
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
