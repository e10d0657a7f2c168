"""What a run tells its caller while it goes on, and what it is in the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sessions_api.providers.base import ReasoningDelta, TextDelta
from state_store import (  # noqa: TC001 - public record types resolve at run time
    Message,
    ToolCall,
    ToolOutcome,
    Usage,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A completed run. `messages` are those that it stored, in order of seq, the input first.

    `text` is the final answer, "" when the model answered without text. `cost` is in USD, None
    when no price is known.
    """

    run_id: str
    session_id: str
    status: Literal["completed"]
    text: str
    messages: tuple[Message, ...]
    usage: Usage
    cost: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    """A call is about to run; its start is committed. `index` is its place among its siblings."""

    index: int
    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished:
    """A call has ended and its result is committed. `content` is what the model will read."""

    index: int
    call: ToolCall
    outcome: ToolOutcome
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
    """The last event of a completed run; a run that fails raises `RunFailed` instead."""

    result: RunResult


RunEvent = TextDelta | ReasoningDelta | ToolStarted | ToolFinished | RunFinished
