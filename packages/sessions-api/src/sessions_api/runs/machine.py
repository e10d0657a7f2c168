"""The run as a state machine: which step comes next, and nothing else.

Owns the order of design: the input and a pending run are committed before the provider is asked;
an assistant message with tool calls and the starts of those calls before a tool runs; each result
after its tool; the answer and the completed run together. Invariant: pure. It performs nothing,
reads no clock, and knows neither store nor provider; it is told what happened (an event) and
says what to do (an effect). An event that the state does not expect is a programming error.

Commits are `Begin`, `StartTools`, `KeepResult`, `Complete` and `Fail`; what leaves the process is
`AskProvider` and `CallTools`. `TRANSITIONS` is the whole of it, as a table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from state_store import ToolCall, ToolOutcome, Usage

from sessions_api.providers.base import ModelMessage, ModelReply, ModelRequest

MAX_PROVIDER_CALLS = 100


class State(StrEnum):
    """Where a run is; it names the effect whose event is awaited."""

    NEW = "new"
    BEGINNING = "beginning"
    ASKING = "asking"
    STARTING_TOOLS = "starting tools"
    WORKING = "working"
    COMPLETING = "completing"
    FAILING = "failing"
    COMPLETED = "completed"
    FAILED = "failed"


# --- what to do -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begin:
    """Commit the user's message and a pending run."""


@dataclass(frozen=True, slots=True)
class AskProvider:
    """Send the request and report what comes back."""

    request: ModelRequest


@dataclass(frozen=True, slots=True)
class StartTools:
    """Commit the assistant message and the starts of its calls."""

    reply: ModelReply


@dataclass(frozen=True, slots=True)
class CallTools:
    """Run the calls, side by side, and report each as it ends."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """How one call ended: its place among the calls, the text for the model, the outcome.

    `error_type` is None unless the outcome is not "ok".
    """

    index: int
    call: ToolCall
    content: str
    outcome: ToolOutcome
    error_type: str | None = None
    duration_ms: int = 0


@dataclass(frozen=True, slots=True)
class KeepResult:
    """Commit one result."""

    result: ToolResult


@dataclass(frozen=True, slots=True)
class Complete:
    """Commit the answer and the completed run."""

    reply: ModelReply
    usage: Usage


@dataclass(frozen=True, slots=True)
class Fail:
    """Commit the run as failed."""

    error_type: str
    usage: Usage


Effect = Begin | AskProvider | StartTools | CallTools | KeepResult | Complete | Fail


# --- what happened ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begun:
    """The run is pending; *messages* are the request's, the new input last."""

    messages: tuple[ModelMessage, ...]


@dataclass(frozen=True, slots=True)
class Replied:
    """The provider answered."""

    reply: ModelReply


@dataclass(frozen=True, slots=True)
class ToolsStarted:
    """The starts of the calls are committed."""


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """One tool has ended."""

    result: ToolResult


@dataclass(frozen=True, slots=True)
class ResultKept:
    """One result is committed."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The run's end is committed."""


@dataclass(frozen=True, slots=True)
class Broke:
    """The effect that was asked for raised; *error_type* is stable."""

    error_type: str


Event = Begun | Replied | ToolsStarted | ToolReturned | ResultKept | Ended | Broke


# --- the machine ------------------------------------------------------------------------------


@dataclass(slots=True)
class RunMachine:
    """One run. Feed it `handle(event)` and perform the effects that it returns, in order."""

    request: ModelRequest
    state: State = State.NEW
    usage: Usage | None = None
    _reply: ModelReply = field(default_factory=ModelReply)
    _results: list[ToolResult] = field(default_factory=list)
    _kept_count: int = 0
    _provider_calls: int = 0

    def start(self) -> tuple[Effect, ...]:
        """Return the first effect."""
        self.state = State.BEGINNING
        return (Begin(),)

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Take one event and return what to do now; nothing when others are still awaited."""
        transition = TRANSITIONS.get((self.state, type(event)))
        if transition is None:
            raise AssertionError(f"a run that is {self.state} cannot take {type(event).__name__}")
        return transition(self, event)

    @property
    def total_usage(self) -> Usage:
        """The usage of all provider calls so far; unknown where any of them did not say."""
        return self.usage or Usage()

    def _begun(self, event: Begun) -> tuple[Effect, ...]:
        self.request = replace(self.request, messages=event.messages)
        return self._ask()

    def _ask(self) -> tuple[Effect, ...]:
        self._provider_calls += 1
        if self._provider_calls > MAX_PROVIDER_CALLS:
            return self._fail("provider.bad_response")
        self.state = State.ASKING
        return (AskProvider(self.request),)

    def _replied(self, event: Replied) -> tuple[Effect, ...]:
        reply = event.reply
        self.usage = reply.usage if self.usage is None else self.usage + reply.usage
        self._reply = reply
        if reply.tool_calls:
            self.state = State.STARTING_TOOLS
            return (StartTools(reply),)
        self.state = State.COMPLETING
        return (Complete(reply, self.total_usage),)

    def _tools_started(self, event: ToolsStarted) -> tuple[Effect, ...]:
        del event
        self._results = []
        self._kept_count = 0
        self.state = State.WORKING
        return (CallTools(self._reply.tool_calls),)

    def _tool_returned(self, event: ToolReturned) -> tuple[Effect, ...]:
        self._results.append(event.result)
        return (KeepResult(event.result),)

    def _result_kept(self, event: ResultKept) -> tuple[Effect, ...]:
        del event
        self._kept_count += 1
        if self._kept_count < len(self._reply.tool_calls):
            return ()
        in_call_order = sorted(self._results, key=lambda result: result.index)
        exchange = (
            as_message(self._reply),
            *(
                ModelMessage(
                    role="tool",
                    content=result.content,
                    tool_call_id=result.call.id,
                    name=result.call.name,
                )
                for result in in_call_order
            ),
        )
        self.request = replace(self.request, messages=(*self.request.messages, *exchange))
        return self._ask()

    def _completed(self, event: Ended) -> tuple[Effect, ...]:
        del event
        self.state = State.COMPLETED
        return ()

    def _failed(self, event: Ended | Broke) -> tuple[Effect, ...]:
        del event
        self.state = State.FAILED
        return ()

    def _broke(self, event: Broke) -> tuple[Effect, ...]:
        return self._fail(event.error_type)

    def _fail(self, error_type: str) -> tuple[Effect, ...]:
        self.state = State.FAILING
        return (Fail(error_type, self.total_usage),)


def as_message(reply: ModelReply) -> ModelMessage:
    """Return *reply* as the message that later requests carry."""
    return ModelMessage(
        role="assistant",
        content=reply.content,
        reasoning_content=reply.reasoning_content,
        tool_calls=reply.tool_calls or None,
        provider_data=reply.provider_data,
    )


TRANSITIONS: dict[tuple[State, type[Event]], Callable[[RunMachine, Any], tuple[Effect, ...]]] = {
    (State.BEGINNING, Begun): RunMachine._begun,
    (State.ASKING, Replied): RunMachine._replied,
    (State.STARTING_TOOLS, ToolsStarted): RunMachine._tools_started,
    (State.WORKING, ToolReturned): RunMachine._tool_returned,
    (State.WORKING, ResultKept): RunMachine._result_kept,
    (State.COMPLETING, Ended): RunMachine._completed,
    (State.FAILING, Ended): RunMachine._failed,
    # A failure that cannot be committed either: the next start finds the run as interrupted.
    (State.FAILING, Broke): RunMachine._failed,
    **{
        (state, Broke): RunMachine._broke
        for state in (
            State.BEGINNING,
            State.ASKING,
            State.STARTING_TOOLS,
            State.WORKING,
            State.COMPLETING,
        )
    },
}
