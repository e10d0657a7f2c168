"""The run as a state machine: which step comes next, and nothing else.

Owns the order of steps: the input and a pending run are committed before the provider is asked;
an assistant message with tool calls and the starts of those calls before a tool runs; each result
after its tool; the answer and the completed run together. Invariant: pure. It performs nothing,
reads no clock, and knows neither store nor provider; it is told what happened (an event) and
says what to do (an effect). An event that the state does not expect is a programming error.

Commits are `Begin`, `StartTools`, `KeepResult`, `Complete` and `Fail`; what leaves the process is
`AskProvider` and `CallTools`. `RunMachine.TRANSITIONS` is the whole of it; `docs/run.md` shows it
as people read it, in the words of the methods' docstrings.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from state_store import ToolCall, ToolOutcome, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sessions_api.providers.base import ModelMessage, ModelReply, ModelRequest

MAX_PROVIDER_CALLS = 100
# A service that refuses reads and writes nothing. Any other call that breaks may have used tokens.
_REFUSALS = frozenset({"provider.auth", "provider.rate_limit"})


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

    `error_type` is None unless the outcome is not "ok". `parts` are images and the like beside it.
    """

    index: int
    call: ToolCall
    content: str
    outcome: ToolOutcome
    parts: tuple[Mapping[str, Any], ...] | None = None
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
    """The run is pending; *request* is the first one, the new input last."""

    request: ModelRequest


@dataclass(frozen=True, slots=True)
class Replied:
    """The provider answered."""

    reply: ModelReply


@dataclass(frozen=True, slots=True)
class ToolsStarted:
    """The starts of the calls are committed; *message* is the assistant's as it is stored."""

    message: ModelMessage


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """One tool has ended."""

    result: ToolResult


@dataclass(frozen=True, slots=True)
class ResultKept:
    """The result of the call at *index* is committed; *message* is it as it is stored."""

    index: int
    message: ModelMessage


@dataclass(frozen=True, slots=True)
class Ended:
    """The run's end is committed."""


@dataclass(frozen=True, slots=True)
class Broke:
    """What was asked for failed; *error_type* is stable."""

    error_type: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """Somebody ended the run, whatever it was at: a cancellation, Ctrl-C, the agent's end."""

    error_type: str


Event = Begun | Replied | ToolsStarted | ToolReturned | ResultKept | Ended | Broke | Stopped


# --- the machine ------------------------------------------------------------------------------


@dataclass(slots=True)
class RunMachine:
    """One run. Feed it `handle(event)` and perform the effects that it returns, in order."""

    request: ModelRequest
    state: State = State.NEW
    usage: Usage | None = None
    _calling: ModelMessage | None = None
    _results: dict[int, ModelMessage] = field(default_factory=dict)
    _provider_calls: int = 0

    def start(self) -> tuple[Effect, ...]:
        """Return the first effect."""
        self.state = State.BEGINNING
        return (Begin(),)

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Take one event and return what to do now; nothing when others are still awaited."""
        transition = self.TRANSITIONS.get((self.state, type(event)))
        if transition is None:
            raise AssertionError(f"a run that is {self.state} cannot take {type(event).__name__}")
        return transition(self, event)

    @property
    def total_usage(self) -> Usage:
        """The usage of all provider calls so far; unknown where any did not say, or broke."""
        return self.usage or Usage()

    def _begun(self, event: Begun) -> tuple[Effect, ...]:
        """`AskProvider`, *asking*."""
        self.request = event.request
        return self._ask()

    def _ask(self) -> tuple[Effect, ...]:
        self._provider_calls += 1
        if self._provider_calls > MAX_PROVIDER_CALLS:
            return self._fail("provider.bad_response")
        self.state = State.ASKING
        return (AskProvider(self.request),)

    def _replied(self, event: Replied) -> tuple[Effect, ...]:
        """`Complete`, *completing*.

        If the reply calls tools, `StartTools`, *starting tools*.
        """
        reply = event.reply
        self.usage = reply.usage if self.usage is None else self.usage + reply.usage
        if reply.tool_calls:
            self.state = State.STARTING_TOOLS
            return (StartTools(reply),)
        self.state = State.COMPLETING
        return (Complete(reply, self.total_usage),)

    def _tools_started(self, event: ToolsStarted) -> tuple[Effect, ...]:
        """`CallTools`, *working*."""
        self._calling = event.message
        self._results = {}
        self.state = State.WORKING
        return (CallTools(event.message.tool_calls or ()),)

    def _tool_returned(self, event: ToolReturned) -> tuple[Effect, ...]:
        """`KeepResult`, still *working*."""
        return (KeepResult(event.result),)

    def _result_kept(self, event: ResultKept) -> tuple[Effect, ...]:
        """Still *working*.

        If it was the last one, `AskProvider`, *asking*; after too many requests, `Fail`, *failing*.
        """
        self._results[event.index] = event.message
        if self._calling is None or len(self._results) < len(self._calling.tool_calls or ()):
            return ()
        in_call_order = [self._results[index] for index in sorted(self._results)]
        messages = (*self.request.messages, self._calling, *in_call_order)
        self.request = replace(self.request, messages=messages)
        return self._ask()

    def _completed(self, _: Ended) -> tuple[Effect, ...]:
        """*completed*."""
        self.state = State.COMPLETED
        return ()

    def _failed(self, _: Ended) -> tuple[Effect, ...]:
        """*failed*."""
        self.state = State.FAILED
        return ()

    def _unwritten(self, _: Broke) -> tuple[Effect, ...]:
        """*failed*; the row is pending until the end can be written."""
        self.state = State.FAILED
        return ()

    def _broke(self, event: Broke | Stopped) -> tuple[Effect, ...]:
        """`Fail`, *failing*."""
        if self.state is State.ASKING and event.error_type not in _REFUSALS:
            self.usage = Usage()
        return self._fail(event.error_type)

    def _fail(self, error_type: str) -> tuple[Effect, ...]:
        self.state = State.FAILING
        return (Fail(error_type, self.total_usage),)

    def _never_begun(self, _: Stopped) -> tuple[Effect, ...]:
        """*failed*; nothing was stored."""
        self.state = State.FAILED
        return ()

    def _late(self, _: Replied | ToolReturned | Broke | Stopped) -> tuple[Effect, ...]:
        """Nothing: it comes too late."""
        return ()

    TRANSITIONS: ClassVar[
        dict[tuple[State, type[Event]], Callable[[RunMachine, Any], tuple[Effect, ...]]]
    ] = {
        (State.NEW, Stopped): _never_begun,
        (State.BEGINNING, Begun): _begun,
        (State.BEGINNING, Broke): _broke,
        (State.BEGINNING, Stopped): _broke,
        (State.ASKING, Replied): _replied,
        (State.ASKING, Broke): _broke,
        (State.ASKING, Stopped): _broke,
        (State.STARTING_TOOLS, ToolsStarted): _tools_started,
        (State.STARTING_TOOLS, Broke): _broke,
        (State.STARTING_TOOLS, Stopped): _broke,
        (State.WORKING, ToolReturned): _tool_returned,
        (State.WORKING, ResultKept): _result_kept,
        (State.WORKING, Broke): _broke,
        (State.WORKING, Stopped): _broke,
        (State.COMPLETING, Ended): _completed,
        (State.COMPLETING, Broke): _broke,
        (State.COMPLETING, Stopped): _broke,
        (State.FAILING, Ended): _failed,
        (State.FAILING, Broke): _unwritten,
        (State.FAILING, Stopped): _broke,
        # Whoever was asked may answer when the run is over.
        (State.FAILING, Replied): _late,
        (State.FAILING, ToolReturned): _late,
        (State.FAILED, Replied): _late,
        (State.FAILED, ToolReturned): _late,
        (State.FAILED, Broke): _late,
        (State.FAILED, Stopped): _late,
        (State.COMPLETED, Stopped): _late,
    }
