"""What comes back: one response, whole or as events of a stream, as deltas and a `ModelReply`.

Owns the incoming half of the wire format and no I/O. Invariant: a response and a stream that say
the same thing become the same reply; its items keep their order and every field, also those of
kinds that are not known here; arguments are the exact text that came.

Must not: import the `openai` package, or let content into an error.
Source: OpenAI API reference, "The response object" and "Streaming events" of the Responses API;
of a stream it names the finished item as the one whose encrypted reasoning is whole.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sessions_api.providers.answer_reading import (
    AnswerCutShort,
    AnswerMalformed,
    FailureReported,
    count_in,
    http_status,
    list_in,
    object_in,
    text_in,
    tokens_in,
)
from sessions_api.providers.base import Delta, ModelReply, ReasoningDelta, TextDelta
from sessions_api.providers.responses_request import pack_provider_data, said_in
from state_store import ToolCall, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

# An error of a response has a code and no status; this is the status it has elsewhere. What is not
# here and is no status either may work the next time.
_STATUS_OF_CODE = {
    "server_error": 500,
    "vector_store_timeout": 504,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "invalid_api_key": 401,
    "model_not_found": 404,
    "context_length_exceeded": 400,
    "invalid_prompt": 400,
    "data_residency_mismatch": 400,
    "bio_policy": 400,
    "misalignment_policy_violation": 400,
}
_TEXTS = ("response.output_text.delta", "response.refusal.delta")
_THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_FINISHED = ("completed", "incomplete", "failed")


class Answer:
    """Collects one answer, a whole response or the events of a stream; see `wire_format`."""

    def __init__(self, *, endpoint: str, model: str) -> None:
        self._origin = {"endpoint": endpoint, "model": model}
        self._response: Mapping[str, Any] | None = None
        self._done: dict[int, Mapping[str, Any]] = {}
        self._showing: dict[type, object] = {}  # the paragraph that the last delta belonged to

    def feed_whole(self, content: bytes) -> None:
        """Take a whole response; raise `AnswerMalformed` or `FailureReported`."""
        response = object_in(json.loads(content), "the answer")
        if response.get("output") is None and not response.get("error"):
            raise AnswerMalformed("it has no output")
        self._end(response)

    def feed_event(self, payload: object) -> list[Delta]:
        """Take an event of a stream and return the new pieces; errors as in `feed_whole`.

        Events of other types say nothing that the finished items do not say.
        """
        event = object_in(payload, "an event of the stream")
        kind = event.get("type")
        if kind == "error" or event.get("error"):
            raise FailureReported(error_status(event.get("error") or event))
        if kind in _ENDS:
            self._end(object_in(event.get("response"), "the response"))
        elif kind == "response.output_item.done":
            item = object_in(event.get("item"), "an item of the output")
            self._done[_index(event, "output_index")] = item
        elif kind in _TEXTS:
            return self._piece(TextDelta, event, _index(event, "output_index"))
        elif kind in _THOUGHTS:
            part = event.get("summary_index", event.get("content_index"))
            return self._piece(ReasoningDelta, event, (kind, event.get("output_index"), part))
        return []

    def reply(self, *, streamed: bool) -> ModelReply:
        """Return the answer. A stream without a last event raises `AnswerCutShort`."""
        del streamed  # a whole response says by itself whether it has ended
        response = self._response
        if response is None or response.get("status", "completed") not in _FINISHED:
            raise AnswerCutShort
        items = self._items(response)
        calls = tuple(_call(item) for item in items if item["type"] == "function_call")
        thoughts = [
            text for item in items if item["type"] == "reasoning" for text in _thoughts(item)
        ]
        return ModelReply(
            content=said_in(items),
            reasoning_content="\n\n".join(thoughts) or None,
            tool_calls=calls,
            usage=_usage(response.get("usage")),
            finish_reason=_finish_reason(response, calls),
            provider_data=pack_provider_data(**self._origin, output=items),
        )

    def _end(self, response: Mapping[str, Any]) -> None:
        if response.get("error") or response.get("status") == "failed":
            raise FailureReported(error_status(response.get("error")))
        self._response = response

    def _piece(
        self, delta: type[Delta], event: Mapping[str, Any], paragraph: object
    ) -> list[Delta]:
        """Return the text of *event*, and before it the space that sets its paragraph apart."""
        text = text_in(event.get("delta"), "a delta")
        if not text:
            return []
        before = self._showing.get(delta, paragraph)
        self._showing[delta] = paragraph
        return [delta(text=text)] if before == paragraph else [delta(text="\n\n"), delta(text=text)]

    def _items(self, response: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        last = dict(enumerate(list_in(response.get("output"), "the items of the output")))
        found = {**last, **self._done}
        items = [object_in(found[at], "an item of the output") for at in sorted(found)]
        for item in items:
            _look_at(item)
        return items


def error_status(error: object) -> int | None:
    """Return the HTTP status that an *error* has elsewhere, by its code; None for one unknown."""
    code = error.get("code") if isinstance(error, dict) else None
    if not isinstance(code, str):
        return http_status(code)
    return _STATUS_OF_CODE.get(code) or (400 if "image" in code else http_status(code))


def _index(event: Mapping[str, Any], name: str) -> int:
    index = count_in(event.get(name))
    if index is None:
        raise AnswerMalformed("an event names no item")
    return index


def _look_at(item: Mapping[str, Any]) -> None:
    match text_in(item.get("type"), "an item's type"):
        case None:
            raise AnswerMalformed("an item has no type")
        case "message":
            for part in list_in(item.get("content"), "the parts of a message"):
                fields = object_in(part, "a part of a message")
                text_in(fields.get("text", fields.get("refusal")), "a part's text")


def _thoughts(item: Mapping[str, Any]) -> list[str]:
    """Return the paragraphs of an item of reasoning: its summary, and the reasoning itself."""
    parts = [
        *list_in(item.get("summary"), "the parts of a summary"),
        *list_in(item.get("content"), "the parts of the reasoning"),
    ]
    texts = [text_in(object_in(part, "a thought").get("text"), "a thought") for part in parts]
    return [text for text in texts if text]


def _call(item: Mapping[str, Any]) -> ToolCall:
    name = text_in(item.get("name"), "a tool's name")
    if not name:
        raise AnswerMalformed("a tool call names no tool")
    return ToolCall(
        id=text_in(item.get("call_id"), "a tool call's id") or "",
        name=name,
        arguments=text_in(item.get("arguments"), "a tool call's arguments") or "",
    )


def _finish_reason(response: Mapping[str, Any], calls: tuple[ToolCall, ...]) -> str:
    """Return why the model stopped, in the words of chat completions: this API has none."""
    if response.get("status") == "incomplete":
        details = response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        said = text_in(reason, "the reason") or "incomplete"
        return "length" if said == "max_output_tokens" else said
    return "tool_calls" if calls else "stop"


def _usage(usage: object) -> Usage:
    return Usage(
        input_tokens=tokens_in(usage, "input_tokens"),
        output_tokens=tokens_in(usage, "output_tokens"),
        cached_input_tokens=tokens_in(usage, "cached_tokens", "input_tokens_details"),
        reasoning_tokens=tokens_in(usage, "reasoning_tokens", "output_tokens_details"),
    )
