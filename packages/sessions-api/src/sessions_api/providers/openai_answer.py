"""What comes back: one chat completion, whole or in pieces, as deltas and a `ModelReply`.

Owns the incoming half of the wire format and no I/O. Invariant: a completion and a stream that
say the same thing become the same reply, and nothing is made up: a number that was not reported
is None, arguments are the exact text that came.

Must not: import the `openai` package, or let content into an error.
Source: OpenAI API reference, "The chat completion object" and "… chunk object", and the
reasoning and tool-call extensions that compatible services document.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sessions_api.providers.answer_reading import (
    AnswerCutShort,
    AnswerMalformed,
    FailureReported,
    http_status,
    list_in,
    object_in,
    text_in,
    tokens_in,
)
from sessions_api.providers.base import Delta, ModelReply, ReasoningDelta, TextDelta
from sessions_api.providers.openai_request import pack_provider_data
from state_store import ToolCall, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

_REASONING_FIELDS = ("reasoning_content", "reasoning")
_MESSAGE_FIELDS = frozenset(
    # The second line is for the reader of an answer only; services do not want it back.
    {"role", "content", "refusal", "tool_calls", "function_call", *_REASONING_FIELDS}
    | {"annotations", "audio"}
)
_CALL_FIELDS = frozenset({"id", "type", "index", "function"})


class Answer:
    """Collects one answer, a whole completion or the chunks of a stream; see `wire_format`."""

    def __init__(self, *, endpoint: str, model: str) -> None:
        self._origin = {"endpoint": endpoint, "model": model}
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._reasoning_field: str | None = None
        self._calls: list[_Call] = []
        self._extras: dict[str, Any] = {}
        self._usage = Usage()
        self._finish_reason: str | None = None

    def feed_whole(self, content: bytes) -> None:
        """Take a whole completion; raise `AnswerMalformed` or `FailureReported`."""
        choice = self._choice(object_in(json.loads(content), "the answer"))
        if choice is None:
            raise AnswerMalformed("it has no choices")
        self._take(object_in(choice.get("message"), "the message"), whole=True)

    def feed_event(self, payload: object) -> list[Delta]:
        """Take a chunk of a stream and return the new pieces; errors as in `feed_whole`."""
        choice = self._choice(object_in(payload, "a chunk of the stream"))
        if choice is None or choice.get("delta") is None:
            return []
        return self._take(object_in(choice["delta"], "a delta"), whole=False)

    def reply(self, *, streamed: bool) -> ModelReply:
        """Return the answer. A stream without a finish reason raises `AnswerCutShort`."""
        if streamed and self._finish_reason is None:
            raise AnswerCutShort
        calls = tuple(call.finished() for call in self._calls)
        return ModelReply(
            content="".join(self._text) if self._text else None,
            reasoning_content="".join(self._reasoning) or None,
            tool_calls=calls,
            usage=self._usage,
            finish_reason=self._finish_reason,
            provider_data=pack_provider_data(
                **self._origin,
                reasoning_field=self._reasoning_field,
                message=self._extras,
                tool_calls=[call.extras for call in self._calls],
            ),
        )

    def _choice(self, payload: Mapping[str, Any]) -> Mapping[str, Any] | None:
        _raise_reported(payload)
        if payload.get("usage") is not None:
            self._usage = _usage(payload["usage"])
        for item in list_in(payload.get("choices"), "the choices"):
            choice = object_in(item, "a choice")
            if choice.get("index") in (None, 0):
                _raise_reported(choice)
                self._finish_reason = (
                    text_in(choice.get("finish_reason"), "the finish reason") or self._finish_reason
                )
                return choice
        return None

    def _take(self, message: Mapping[str, Any], *, whole: bool) -> list[Delta]:
        deltas: list[Delta] = []
        for field in _REASONING_FIELDS:
            if reasoning := text_in(message.get(field), "the reasoning"):
                self._reasoning.append(reasoning)
                self._reasoning_field = field
                deltas.append(ReasoningDelta(text=reasoning))
                break  # some services send the same text under both names
        text = _content(message.get("content"))
        if text is None:
            text = text_in(message.get("refusal"), "the refusal")
        if text is not None:
            self._text.append(text)
            if text:
                deltas.append(TextDelta(text=text))
        for position, item in enumerate(list_in(message.get("tool_calls"), "the tool calls")):
            fragment = object_in(item, "a tool call")
            index = position if whole else fragment.get("index")
            self._call_for(index, fragment).add(fragment)
        _merge(self._extras, message, _MESSAGE_FIELDS)
        return deltas

    def _call_for(self, index: object, fragment: Mapping[str, Any]) -> _Call:
        """Find the call that a fragment continues, or begin one.

        Services that leave the index out, or send 0 for all, tell calls apart by their ids.
        """
        new_id = fragment.get("id")
        if index is None:
            call = self._calls[-1] if self._calls else None
            if call and not new_id and _function(fragment).get("name"):
                call = None
        else:
            call = next((call for call in reversed(self._calls) if call.index == index), None)
        if call is None or (new_id and call.id != new_id):
            call = _Call(index)
            self._calls.append(call)
        return call


class _Call:
    def __init__(self, index: object) -> None:
        self.index = index
        self.id = ""
        self.extras: dict[str, Any] = {}
        self._name = ""
        self._arguments: list[str] = []

    def add(self, fragment: Mapping[str, Any]) -> None:
        function = _function(fragment)
        self.id = self.id or text_in(fragment.get("id"), "a tool call's id") or ""
        self._name = self._name or text_in(function.get("name"), "a tool's name") or ""
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # not the format, but what some local servers send
            arguments = json.dumps(arguments)
        self._arguments.append(text_in(arguments, "a tool call's arguments") or "")
        _merge(self.extras, fragment, _CALL_FIELDS)

    def finished(self) -> ToolCall:
        if not self._name:
            raise AnswerMalformed("a tool call names no tool")
        return ToolCall(id=self.id, name=self._name, arguments="".join(self._arguments))


def _function(fragment: Mapping[str, Any]) -> Mapping[str, Any]:
    function = fragment.get("function")
    return {} if function is None else object_in(function, "a tool call's function")


def _merge(extras: dict[str, Any], piece: Mapping[str, Any], known: frozenset[str]) -> None:
    """Add the unknown fields of *piece*: text and lists grow, anything else is replaced."""
    for name, value in piece.items():
        if name in known or value is None:
            continue
        before: Any = extras.get(name)
        grows = type(before) is type(value) and isinstance(value, str | list)
        extras[name] = before + value if grows else value


def error_status(error: object) -> int | None:
    """Return the HTTP status that an *error* has as its code; None for any other code."""
    return http_status(error.get("code") if isinstance(error, dict) else None)


def _raise_reported(payload: Mapping[str, Any]) -> None:
    if error := payload.get("error"):
        raise FailureReported(error_status(error))


def _usage(usage: object) -> Usage:
    read, written = tokens_in(usage, "prompt_tokens"), tokens_in(usage, "completion_tokens")
    reasoned = tokens_in(usage, "reasoning_tokens", "completion_tokens_details")
    if reasoned and written is not None:
        # Some services count reasoning apart from the answer, and only their total shows it.
        apart = tokens_in(usage, "total_tokens") == (read or 0) + written + reasoned
        written += reasoned if apart else 0
    return Usage(
        input_tokens=read,
        output_tokens=written,
        cached_input_tokens=tokens_in(usage, "cached_tokens", "prompt_tokens_details"),
        reasoning_tokens=reasoned,
    )


def _content(content: object) -> str | None:
    if not isinstance(content, list):
        return text_in(content, "the content")
    parts = [object_in(part, "a part of the content") for part in content]
    return "".join(text_in(part.get("text"), "a part's text") or "" for part in parts)
