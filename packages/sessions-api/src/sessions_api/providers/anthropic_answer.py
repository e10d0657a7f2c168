"""What comes back: one message, whole or as events of a stream, as deltas and a `ModelReply`.

Owns the incoming half of the wire format and no I/O. Invariant: a message and a stream that say
the same thing become the same reply; blocks keep their order and every field that came with them,
also those of kinds that are not known here; a tool's arguments are the exact text that came.

Must not: import the `anthropic` package, or let content into an error.
Source: Claude API reference, "Messages", "Streaming messages" and "Errors".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sessions_api.providers.answer_reading import (
    AnswerCutShort,
    AnswerMalformed,
    FailureReported,
    count_in,
    list_in,
    object_in,
    text_in,
    tokens_in,
)
from sessions_api.providers.anthropic_request import pack_provider_data
from sessions_api.providers.base import Delta, ModelReply, ReasoningDelta, TextDelta
from sessions_api.providers.exact_json import elements, members
from state_store import ToolCall, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

# An error inside a stream has a type and no status; this is the status it has outside of one.
_STATUS_OF_ERROR = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class Answer:
    """Collects one answer, a whole message or the events of a stream; see `wire_format`."""

    def __init__(self, *, endpoint: str, model: str) -> None:
        self._endpoint = endpoint
        self._model = model
        self._blocks: dict[int, _Block] = {}
        self._usage: dict[str, Any] = {}
        self._stop_reason: str | None = None

    def feed_whole(self, content: bytes) -> None:
        """Take a whole message as it came; raise `AnswerMalformed` or `FailureReported`."""
        text = content.decode("utf-8")
        message = object_in(json.loads(text), "the answer")
        _raise_reported(message)
        if message.get("content") is None:
            raise AnswerMalformed("it has no content")
        blocks = list_in(message["content"], "the blocks")
        exact = elements(dict(members(text))["content"])
        for index, (block, block_text) in enumerate(zip(blocks, exact, strict=True)):
            fields = object_in(block, "a block")
            self._blocks[index] = _Block(fields, input_text=dict(members(block_text)).get("input"))
        self._end(message)

    def feed_event(self, payload: object) -> list[Delta]:
        """Take an event of a stream and return the new pieces; errors as in `feed_whole`.

        Events of unknown types say nothing that belongs to the answer, as the API promises.
        """
        event = object_in(payload, "an event of the stream")
        _raise_reported(event)
        delta: Delta | None = None
        match event.get("type"):
            case "message_start":
                self._end(object_in(event.get("message"), "the message"))
                self._usage.pop("output_tokens", None)  # so far: only the end knows them all
            case "content_block_start":
                fields = object_in(event.get("content_block"), "a block")
                block = self._blocks[_index(event)] = _Block(fields)
                delta = block.opening
            case "content_block_delta":
                started = self._blocks.get(_index(event))
                if started is None:
                    raise AnswerMalformed("a delta belongs to no block")
                delta = started.add(object_in(event.get("delta"), "a delta"))
            case "message_delta":
                self._end(object_in(event.get("delta"), "the delta of the message"))
                self._count(event)
        return [] if delta is None or not delta.text else [delta]

    def reply(self, *, streamed: bool) -> ModelReply:
        """Return the answer. A stream without a stop reason raises `AnswerCutShort`."""
        if streamed and self._stop_reason is None:
            raise AnswerCutShort
        blocks = list(self._blocks.values())
        fields = [block.finished() for block in blocks]
        texts = [one["text"] for one in fields if one["type"] == "text"]
        return ModelReply(
            content="".join(texts) if texts else None,
            reasoning_content="".join(
                one["thinking"] for one in fields if one["type"] == "thinking"
            )
            or None,
            tool_calls=tuple(block.call() for block in blocks if block.kind == "tool_use"),
            usage=_usage(self._usage),
            cache_write_tokens=_cache_write_tokens(self._usage),
            finish_reason=self._stop_reason,
            provider_data=pack_provider_data(
                endpoint=self._endpoint, model=self._model, blocks=fields
            ),
        )

    def _end(self, message: Mapping[str, Any]) -> None:
        self._stop_reason = (
            text_in(message.get("stop_reason"), "the stop reason") or self._stop_reason
        )
        self._count(message)

    def _count(self, holder: Mapping[str, Any]) -> None:
        """Take the counts of *holder*: later ones are totals, and replace those before."""
        usage = holder.get("usage")
        if isinstance(usage, dict):
            self._usage |= {name: value for name, value in usage.items() if value is not None}


class _Block:
    """One block of the content, as it began and what deltas added to it."""

    def __init__(self, fields: Mapping[str, Any], *, input_text: str | None = None) -> None:
        self._fields = dict(fields)
        self._input_text = input_text
        self._pieces: dict[str, list[str]] = {}
        kind = text_in(fields.get("type"), "a block's type")
        if kind is None:
            raise AnswerMalformed("a block has no type")
        self.kind = kind

    @property
    def opening(self) -> Delta | None:
        """The piece that came with the block's start, usually an empty one."""
        return self._shown(self._fields)

    def add(self, delta: Mapping[str, Any]) -> Delta | None:
        match delta.get("type"):
            case "text_delta":
                self._grow("text", delta.get("text"))
            case "thinking_delta":
                self._grow("thinking", delta.get("thinking"))
            case "input_json_delta":
                self._grow("input", delta.get("partial_json"))
            case "signature_delta":
                self._fields["signature"] = text_in(delta.get("signature"), "a signature")
            case "citations_delta":
                before = list_in(self._fields.get("citations"), "the citations")
                self._fields["citations"] = [*before, delta.get("citation")]
            case _:  # of a kind of block that is not known here: text grows, all else is replaced
                for name, value in delta.items():
                    if isinstance(value, str) and name != "type":
                        self._grow(name, value)
                    elif value is not None and name != "type":
                        self._fields[name] = value
        return self._shown(delta)

    def finished(self) -> dict[str, Any]:
        """Return all fields of the block, those of a known kind looked at."""
        fields = dict(self._fields)
        for name, pieces in self._pieces.items():
            grown = "".join(pieces)
            if name == "input":
                fields[name] = _object_or_empty(grown) or fields[name]
            else:
                fields[name] = (text_in(fields[name], "a block's field") or "") + grown
        if self.kind in {"text", "thinking"} and not isinstance(fields.get(self.kind), str):
            raise AnswerMalformed("a block has no text")
        return fields

    def call(self) -> ToolCall:
        name = text_in(self._fields.get("name"), "a tool's name")
        if not name:
            raise AnswerMalformed("a tool call names no tool")
        return ToolCall(
            id=text_in(self._fields.get("id"), "a tool call's id") or "",
            name=name,
            arguments="".join(self._pieces.get("input", ())) or self._whole_arguments(),
        )

    def _whole_arguments(self) -> str:
        given = self._fields.get("input")
        if given is None:
            return "{}"
        value = object_in(given, "a tool call's input")
        return self._input_text or json.dumps(value, ensure_ascii=False)

    def _grow(self, name: str, piece: object) -> None:
        self._fields.setdefault(name, None)
        self._pieces.setdefault(name, []).append(text_in(piece, "a delta's piece") or "")

    def _shown(self, fields: Mapping[str, Any]) -> Delta | None:
        if self.kind not in {"text", "thinking"}:
            return None
        text = text_in(fields.get(self.kind), "a block's text") or ""
        return TextDelta(text=text) if self.kind == "text" else ReasoningDelta(text=text)


def _index(event: Mapping[str, Any]) -> int:
    index = count_in(event.get("index"))
    if index is None:
        raise AnswerMalformed("an event names no block")
    return index


def _object_or_empty(text: str) -> dict[str, Any]:
    """Return the object that *text* is; what the model did not finish is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def error_status(body: object) -> int | None:
    """Return the HTTP status that the error in *body* has elsewhere; None for one unknown."""
    error = body.get("error") if isinstance(body, dict) else None
    kind = error.get("type") if isinstance(error, dict) else None
    return _STATUS_OF_ERROR.get(kind) if isinstance(kind, str) else None


def _raise_reported(payload: Mapping[str, Any]) -> None:
    if payload.get("type") == "error" or payload.get("error"):
        raise FailureReported(error_status(payload))


def _usage(usage: Mapping[str, Any]) -> Usage:
    """Return the usage with all input counted as input: the API counts cached tokens apart."""
    fresh, read, written = (
        tokens_in(usage, name)
        for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    return Usage(
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        output_tokens=tokens_in(usage, "output_tokens"),
        cached_input_tokens=read,
        reasoning_tokens=tokens_in(usage, "thinking_tokens", "output_tokens_details"),
    )


def _cache_write_tokens(usage: Mapping[str, Any]) -> int | None:
    """Return what was written to a cache for five minutes; None if some was for an hour.

    That has a price of its own, which no list has.
    """
    if tokens_in(usage, "ephemeral_1h_input_tokens", "cache_creation"):
        return None
    return tokens_in(usage, "cache_creation_input_tokens") or 0
