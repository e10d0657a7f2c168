"""The offline provider: lets every feature be tried with no key, no network and no model.

Owns a deterministic answer to any request. Invariant: the same request gets the same reply, and
each reply says that no model was asked. It shows instead that the history arrived: how often the
user has written, and what came last. A message that begins with "count words:" makes it ask for
the tool `word_count`, so that a tool call can be seen as well.

Must not: import anything beyond the standard library, or pretend to have understood a word.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from sessions_api.providers.base import (
    Delta,
    ModelMessage,
    ModelReply,
    ModelRequest,
    OwnTool,
    TextDelta,
    ToolSpec,
)
from state_store import ToolCall, Usage

if TYPE_CHECKING:
    from collections.abc import Iterator

_ASKS_FOR_COUNT = "count words:"
_HONEST = "No model was asked: this is the offline provider."
_SHOWN_CHARACTERS = 60


def word_count(text: str) -> int:
    """Count the words of a text, separated by white space."""
    return len(text.split())


# Described by hand: the usual way imports pydantic, which costs more than all of an offline run.
WORD_COUNT: Final = OwnTool(
    function=word_count,
    spec=ToolSpec(
        name=word_count.__name__,
        description="Count the words of a text, separated by white space.",
        parameters={
            "additionalProperties": False,
            "properties": {"text": {"title": "Text", "type": "string"}},
            "required": ["text"],
            "type": "object",
        },
    ),
)


class OfflineProvider:
    """Answers without a model, at once, the same way each time. It can stream.

    Usage follows a stated rule, so that totals can be checked by hand: a token is a word between
    white space. Input is the words of the system prompt and of all messages' content, output
    those of the answer and of a tool call's arguments; nothing is cached and nothing reasoned.

    Any number of threads may use one.
    """

    name: Final = "offline"
    endpoint: Final = None
    default_model: Final = "offline"
    own_tools: Final = (WORD_COUNT,)

    def reply(self, request: ModelRequest) -> ModelReply:
        """Answer *request*; never fails."""
        call = _wanted_call(request)
        content = None if call else _answer(request)
        output = call.arguments if call else content or ""
        return ModelReply(
            content=content,
            tool_calls=(call,) if call else (),
            usage=Usage(
                input_tokens=_input_tokens(request),
                output_tokens=word_count(output),
                cached_input_tokens=0,
                reasoning_tokens=0,
            ),
            finish_reason="tool_calls" if call else "stop",
        )

    def stream(self, request: ModelRequest) -> Iterator[Delta | ModelReply]:
        """Yield the answer word by word, each with the white space after it, then the reply."""
        reply = self.reply(request)
        for word in re.findall(r"\S+\s*|\s+", reply.content or ""):
            yield TextDelta(text=word)
        yield reply

    def close(self) -> None:
        """Do nothing; there is nothing to let go."""


def _wanted_call(request: ModelRequest) -> ToolCall | None:
    last = request.messages[-1] if request.messages else None
    if last is None or last.role != "user" or not _asks_for_count(last):
        return None
    if all(tool.name != word_count.__name__ for tool in request.tools):
        return None
    text = (last.content or "").lstrip()[len(_ASKS_FOR_COUNT) :].strip()
    earlier_count = sum(len(message.tool_calls or ()) for message in request.messages)
    return ToolCall(
        id=f"offline-{earlier_count + 1}",
        name=word_count.__name__,
        arguments=json.dumps({"text": text}, ensure_ascii=False),
    )


def _asks_for_count(message: ModelMessage) -> bool:
    return (message.content or "").lstrip().lower().startswith(_ASKS_FOR_COUNT)


def _answer(request: ModelRequest) -> str:
    lines = [_HONEST]
    last = request.messages[-1] if request.messages else None
    if last is not None and last.role == "tool":
        lines.append(f"The tool {last.name or word_count.__name__} answered: {_shown(last)}.")
    elif last is not None and last.role == "user" and _asks_for_count(last):
        lines.append(f"Counting words takes the tool {word_count.__name__}, which is not offered.")
    said = [message for message in request.messages if message.role == "user"]
    if not said:
        lines.append("You have not written anything yet.")
    elif len(said) == 1:
        lines.append(f"You have written once: {_shown(said[-1])}.")
    else:
        lines.append(
            f"You have written {len(said)} times; last: {_shown(said[-1])}, "
            f"before that: {_shown(said[-2])}."
        )
    return " ".join(lines)


def _shown(message: ModelMessage) -> str:
    text = " ".join((message.content or "").split())
    if not text:
        return "something other than text" if message.parts else "nothing"
    if len(text) > _SHOWN_CHARACTERS:
        text = text[: _SHOWN_CHARACTERS - 1].rstrip() + "…"
    return f"“{text}”"


def _input_tokens(request: ModelRequest) -> int:
    texts = [request.system_prompt, *(message.content for message in request.messages)]
    return sum(word_count(text) for text in texts if text)
