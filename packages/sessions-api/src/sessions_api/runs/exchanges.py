"""A history as exchanges: a user's message and all that answers it, whole.

Owns where one exchange ends and the next begins, and the check of what a caller selects. Invariant:
no boundary lies between a tool call and its result, so any selection of whole exchanges is a legal
conversation. A history is paired before it is split; what is appended to it is split by itself, and
both give the same exchanges, because a run begins with the user's message.

Must not: choose. Which exchanges are sent is the caller's decision.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from sessions_api.errors import SelectionInvalid
from sessions_api.providers.base import ModelMessage  # noqa: TC001 - public records resolve at run time
from sessions_api.runs.inline_data import is_inline
from sessions_api.runs.replay import paired, to_model

if TYPE_CHECKING:
    from collections.abc import Collection

    from state_store import Message

# The braces, quotes and field names around one message or one call, generously.
_FRAME_BYTES = 128


@dataclass(frozen=True, eq=False, kw_only=True)
class Exchange:
    """A user's message and all that answers it, in order: what `Agent(select=…)` chooses from.

    A summary that stands in for older messages (`is_summary`) is an exchange by itself, and so is
    what comes before the first user's message or behind a summary. There is always a message;
    `place` is where it is in the history, from 0. Two are equal only if they are the same object,
    however much they look alike.
    """

    messages: tuple[ModelMessage, ...]
    is_summary: bool = False
    place: int = 0

    @cached_property
    def byte_count(self) -> int:
        """About how many bytes of a request it takes, rather too many than too few."""
        return sum(map(message_bytes, self.messages))


Select = Callable[[tuple[Exchange, ...]], Iterable[Exchange]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Past:
    """What came before a run: its exchanges and, ready to be sent, their messages."""

    exchanges: tuple[Exchange, ...] = ()
    messages: tuple[ModelMessage, ...] = ()

    @classmethod
    def of(cls, exchanges: Iterable[Exchange]) -> Past:
        """Return what consists of *exchanges*."""
        given = tuple(exchanges)
        return cls(
            exchanges=given,
            messages=tuple(chain.from_iterable(one.messages for one in given)),
        )

    @cached_property
    def byte_count(self) -> int:
        """About how many bytes of a request it takes."""
        return sum(one.byte_count for one in self.exchanges)

    def then(self, messages: Iterable[ModelMessage]) -> Past:
        """Return this followed by *messages*, which are whole, paired, and begin an exchange.

        This is a whole history, not what was selected of one.
        """
        added = Past.of(_split(messages, (), first=len(self.exchanges)))
        longer = Past(
            exchanges=self.exchanges + added.exchanges, messages=self.messages + added.messages
        )
        if "byte_count" in vars(self):  # once it was asked for, counting what is new is enough
            vars(longer)["byte_count"] = self.byte_count + added.byte_count
        return longer


def past_of(rows: Iterable[Message]) -> Past:
    """Return the history that *rows*, those which replay sends, make."""
    models = [(row, to_model(row)) for row in rows]
    summaries = {id(model) for row, model in models if row.kind != "original"}
    return Past.of(_split(paired(model for _, model in models), summaries))


def _split(
    messages: Iterable[ModelMessage], summaries: Collection[int], *, first: int = 0
) -> list[Exchange]:
    groups: list[list[ModelMessage]] = []
    begins = True
    for message in messages:
        is_summary = id(message) in summaries
        if begins or is_summary or message.role == "user":
            groups.append([])
        groups[-1].append(message)
        begins = is_summary
    return [
        Exchange(messages=tuple(group), is_summary=id(group[0]) in summaries, place=place)
        for place, group in enumerate(groups, first)
    ]


def selected(select: Select, given: tuple[Exchange, ...]) -> tuple[Exchange, ...]:
    """Return what *select* chooses of *given*; SelectionInvalid unless that can be sent."""
    try:
        answer: Any = select(given)
        chosen: tuple[Any, ...] | None = tuple(answer) if isinstance(answer, Iterable) else None
    except Exception as error:
        raise SelectionInvalid(f"it raised {type(error).__name__}") from error
    if chosen is None:
        raise SelectionInvalid(f"it returned {type(answer).__name__}, and no exchanges")
    if chosen is given:  # all of them, as `exchanges[-100:]` is of fewer; nothing is walked through
        return given
    last = -1
    for one in chosen:
        is_given = isinstance(one, Exchange) and one.place < len(given) and given[one.place] is one
        if not is_given:
            raise SelectionInvalid("it returned something that is none of the exchanges it got")
        if one.place <= last:
            raise SelectionInvalid("it returned an exchange twice, or not in their order")
        last = one.place
    return chosen


def message_bytes(message: ModelMessage) -> int:
    """Return about how many bytes of a request *message* takes, rather too many than too few."""
    calls = message.tool_calls or ()
    texts = [
        message.content,
        message.reasoning_content,
        message.tool_call_id,
        message.name,
        message.provider_data,
    ]
    for call in calls:
        texts += [call.id, call.name, call.arguments]
    said = sum(json_bytes(text) for text in texts if text)
    return said + json_bytes(message.parts or ()) + _FRAME_BYTES * (1 + len(calls))


def json_bytes(value: object) -> int:
    """Return about how long *value* is as JSON. Data that lies inline is not looked through."""
    match value:
        case str():
            return len(value) + 2 if is_inline(value) else len(json.dumps(value))
        case dict():
            return 2 + sum(json_bytes(key) + json_bytes(one) + 4 for key, one in value.items())
        case list() | tuple():
            return 2 + sum(json_bytes(one) + 2 for one in value)
        case _:
            return len(str(value))
