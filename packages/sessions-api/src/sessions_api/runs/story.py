"""What the journal is told about one run.

Owns the translation of a run's steps into journal events. Invariant: facts alone, never text; a
line that could not be written is counted and the run goes on. `head` is where the session's file
stood after this run's last line; the run row keeps it, so that a cut tail shows.

Without a journal (nothing is kept of an ephemeral conversation) every call does nothing.
"""

from __future__ import annotations

import time
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypedDict

import run_journal as journal_events
from run_journal import (
    ErrorType,
    EventInvalid,
    FinishReason,
    Phase,
    ReplayPolicy,
    ToolOutcome,
    Uninterrupted,
    id_of,
    name_of,
    stack_of,
    type_names_of,
)
from sessions_api.error_types import error_type_of, retryable
from sessions_api.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from run_journal import Event, Id, Journal, Name
    from sessions_api.providers.base import ModelReply, ModelRequest
    from sessions_api.runs.machine import ToolResult
    from sessions_api.runs.plan import RunPlan
    from state_store import Message, Run
    from state_store import ReplayPolicy as StoredPolicy

P = ParamSpec("P")
MAX_HTTP_STATUS = 999  # what the journal takes; a user's provider may say anything


class _WhichRun(TypedDict):
    session_id: Id
    run_id: Id


class _WhichModel(TypedDict):
    provider: Name
    model: Name | None


def _never_failing(
    tell: Callable[Concatenate[RunStory, P], None],
) -> Callable[Concatenate[RunStory, P], None]:
    """Let a refused fact cost its line and not the run, and let Ctrl-C wait until it is told.

    Between a line on the disk and `head`, which says where it is, nothing may strike: the run row
    keeps `head`, and a line behind it that the row does not expect looks like tampering.
    """

    @wraps(tell)
    def tell_or_count(story: RunStory, /, *args: P.args, **kwargs: P.kwargs) -> None:
        with Uninterrupted():
            try:
                tell(story, *args, **kwargs)
            except EventInvalid:
                story.lost_count += 1

    return tell_or_count


class RunStory:
    """The journal lines of one run, in the order in which its steps were committed."""

    def __init__(self, journal: Journal | None, plan: RunPlan) -> None:
        self._journal = journal
        self._plan = plan
        self._attempt = 0
        self._asked_at = 0.0
        self._ended = False
        self.head: tuple[int, str] | None = None
        self.lost_count = 0

    def _tell(self, event: Event, *, duration_ms: int | None = None) -> None:
        if self._journal is None:
            return
        head = self._journal.write(event, duration_ms=duration_ms)
        if head is None:
            self.lost_count += 1
        else:
            self.head = (head.seq, head.chain)

    @_never_failing
    def started(self, run: Run, *, created: bool) -> None:
        """Tell that the input and the pending run are committed, and the session if it is new."""
        plan = self._plan
        if created:
            self._tell(
                journal_events.SessionCreated(session_id=id_of(run.session_id), **self._asked())
            )
        self._tell(
            journal_events.RunStarted(
                **self._run(),
                **self._asked(),
                retry_of=None if plan.retry_of is None else id_of(plan.retry_of),
                message_bytes=_bytes(plan.text),
            )
        )

    @_never_failing
    def requested(self, request: ModelRequest) -> None:
        """Tell that a request is about to be sent."""
        self._attempt += 1
        self._asked_at = time.monotonic()
        self._tell(
            journal_events.ProviderRequested(
                **self._run(),
                **self._asked(),
                attempt=self._attempt,
                message_count=len(request.messages),
                tool_count=len(request.tools),
            )
        )

    @_never_failing
    def responded(self, reply: ModelReply) -> None:
        """Tell that a whole reply arrived; nothing of it is committed yet."""
        usage, said = reply.usage, reply.finish_reason
        self._tell(
            journal_events.ProviderResponded(
                **self._run(),
                **self._asked(),
                attempt=self._attempt,
                finish_reason=None if said is None else FinishReason(said),
                tool_call_count=len(reply.tool_calls),
                response_bytes=_bytes(reply.content),
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cached_input_tokens=usage.cached_input_tokens,
                reasoning_tokens=usage.reasoning_tokens,
            ),
            duration_ms=self._since_asked(),
        )

    @_never_failing
    def provider_failed(self, error: Exception) -> None:
        """Tell that a request brought no usable reply."""
        self._tell(
            journal_events.ProviderFailed(
                **self._run(),
                **self._asked(),
                attempt=self._attempt,
                error_type=ErrorType(error_type_of(error)),
                http_status=_http_status(error),
                retryable=retryable(error),
                exception_types=type_names_of(error),
                stack=stack_of(error),
            ),
            duration_ms=self._since_asked(),
        )

    @_never_failing
    def tools_started(self, message: Message, policies: Sequence[StoredPolicy]) -> None:
        """Tell that the calls which *message* carries are committed as started."""
        calls = message.tool_calls or ()
        for index, (call, policy) in enumerate(zip(calls, policies, strict=True)):
            self._tell(
                journal_events.ToolStarted(
                    **self._run(),
                    tool=name_of(call.name),
                    call_seq=message.seq,
                    call_index=index,
                    replay=ReplayPolicy(policy),
                    argument_bytes=_bytes(call.arguments),
                )
            )

    @_never_failing
    def tool_finished(self, result: ToolResult, call_seq: int) -> None:
        """Tell that one result is committed."""
        self._tell(
            journal_events.ToolFinished(
                **self._run(),
                tool=name_of(result.call.name),
                outcome=ToolOutcome(result.outcome),
                call_seq=call_seq,
                call_index=result.index,
                result_bytes=_bytes(result.content),
                error_type=None if result.error_type is None else ErrorType(result.error_type),
            ),
            duration_ms=result.duration_ms,
        )

    @_never_failing
    def ended(self, run: Run, failure: BaseException | None, *, duration_ms: int) -> None:
        """Tell that the run's end is committed; its last line, and told once."""
        if self._ended or run.status == "pending":
            return
        self._ended = True
        usage = run.usage
        if run.status == "completed":
            self._tell(
                journal_events.RunCompleted(
                    **self._run(),
                    input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens,
                    cached_input_tokens=usage.cached_input_tokens,
                    reasoning_tokens=usage.reasoning_tokens,
                ),
                duration_ms=duration_ms,
            )
            return
        self._tell(
            journal_events.RunFailed(
                **self._run(),
                phase=Phase.COMMIT,
                error_type=ErrorType(run.error_type or ErrorType.INTERNAL),
                http_status=None if failure is None else _http_status(failure),
                exception_types=() if failure is None else type_names_of(failure),
                stack=() if failure is None else stack_of(failure),
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cached_input_tokens=usage.cached_input_tokens,
                reasoning_tokens=usage.reasoning_tokens,
            ),
            duration_ms=duration_ms,
        )

    def _run(self) -> _WhichRun:
        return {"session_id": id_of(self._plan.session_id), "run_id": id_of(self._plan.run_id)}

    def _asked(self) -> _WhichModel:
        model = self._plan.model
        return {
            "provider": name_of(self._plan.provider),
            "model": None if model is None else name_of(model),
        }

    def _since_asked(self) -> int:
        return round((time.monotonic() - self._asked_at) * 1000)


def _bytes(text: str | None) -> int:
    return len(text.encode("utf-8", "replace")) if text else 0


def _http_status(error: BaseException) -> int | None:
    status = error.status if isinstance(error, ProviderError) else None
    return status if type(status) is int and 0 <= status <= MAX_HTTP_STATUS else None
