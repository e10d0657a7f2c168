"""What a provider gave, looked at before anything of it is used.

Owns the difference between an answer and something that only looks like one: types, the one reply
at the end of a stream, counts that are counts. Invariant: what passes can be stored as it is; what
does not raises `ProviderError` (`provider.bad_response`), with words for whoever wrote the provider
and nothing of what the model said.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from sessions_api.errors import ProviderError
from sessions_api.providers.base import Delta, ModelReply, ReasoningDelta, TextDelta
from state_store import ToolCall, Usage

MAX_COUNT = 2**30  # of one request; those of a run stay within what an import takes for one
_HINT = (
    "A provider returns a ModelReply from reply(); its stream() yields TextDelta and ReasoningDelta"
    " and, last and once, the ModelReply."
)
_TEXTS = ("content", "reasoning_content", "finish_reason", "provider_data")


class Answer:
    """One answer of the provider *name*, taken piece by piece or whole, then asked for once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._reply: ModelReply | None = None

    def take(self, piece: object) -> Delta | None:
        """Take one piece of a stream; return it if it is a delta."""
        if self._reply is not None:
            what = "a second ModelReply" if isinstance(piece, ModelReply) else _type(piece)
            raise self._bad(f"its stream went on with {what} after the ModelReply")
        if isinstance(piece, ModelReply):
            self._reply = piece
            return None
        if not isinstance(piece, TextDelta | ReasoningDelta):
            raise self._bad(f"its stream yielded {_type(piece)}")
        if not isinstance(piece.text, str):
            raise self._bad(f"a {_type(piece)} has {_type(piece.text)} as its text")
        return piece

    def take_whole(self, reply: object) -> None:
        """Take what `reply` returned."""
        if not isinstance(reply, ModelReply):
            what = f"it returned {_type(reply)} and no ModelReply"
            raise self._for_async_agent(what) if _is_asynchronous(reply) else self._bad(what)
        self._reply = reply

    def require_stream(self, pieces: object, *, asynchronous: bool) -> None:
        """Refuse what nobody can iterate over."""
        if hasattr(pieces, "__iter__") or (asynchronous and hasattr(pieces, "__aiter__")):
            return
        what = f"its stream() returned {_type(pieces)}"
        if _is_asynchronous(pieces) and not asynchronous:
            raise self._for_async_agent(what)
        raise self._bad(what)

    def whole(self) -> ModelReply:
        """Return the reply, with a usage of counts alone."""
        reply = self._reply
        if reply is None:
            raise self._bad("its stream ended without a ModelReply")
        for field in _TEXTS:
            if not isinstance(value := getattr(reply, field), str | None):
                raise self._bad(f"the {field} of its ModelReply is {_type(value)} and no text")
        if not isinstance(reply.tool_calls, tuple | list):
            raise self._bad(f"the tool_calls of its ModelReply are {_type(reply.tool_calls)}")
        for call in reply.tool_calls:
            if not isinstance(call, ToolCall):
                raise self._bad(f"a tool call of its ModelReply is {_type(call)} and no ToolCall")
            for field in ("id", "name", "arguments"):
                if not isinstance(value := getattr(call, field), str):
                    raise self._bad(f"the {field} of a ToolCall is {_type(value)} and no text")
        if not isinstance(reply.usage, Usage):
            raise self._bad(f"the usage of its ModelReply is {_type(reply.usage)} and no Usage")
        return replace(reply, tool_calls=tuple(reply.tool_calls), usage=_counts(reply.usage))

    def _for_async_agent(self, what: str) -> ProviderError:
        return self._bad(f"{what}: it is asynchronous", hint="Use it with AsyncAgent.")

    def _bad(self, what: str, *, hint: str = _HINT) -> ProviderError:
        return ProviderError(
            f"The provider {self._name!r} gave no answer that can be used: {what}.",
            error_type="provider.bad_response",
            hint=hint,
        )


def _is_asynchronous(given: object) -> bool:
    """Whether only an event loop can do something with it; a coroutine is closed."""
    if inspect.iscoroutine(given):
        given.close()
    return inspect.isawaitable(given) or hasattr(given, "__aiter__")


def _type(value: object) -> str:
    return type(value).__name__


def _counts(usage: Usage) -> Usage:
    """Return *usage* without odd numbers: one costs the number, not the run."""
    values: dict[str, Any] = {name: getattr(usage, name) for name in Usage.__dataclass_fields__}
    if all(value is None or _is_count(value) for value in values.values()):
        return usage
    return Usage(**{name: value if _is_count(value) else None for name, value in values.items()})


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT
