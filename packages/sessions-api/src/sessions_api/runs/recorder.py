"""A run on its way: the machine's commits performed, in order, and told to the journal.

Owns the meeting of machine, store and journal, shared by both faces: drivers only talk to the
provider and run tools. Invariants: a journal line is written after its commit; the journal never
fails a run; after any exception the row decides how the run ended, never this object's memory.

Must not: wait for anything but the store, or keep a transaction open between two calls.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sessions_api.error_types import error_type_of, retryable
from sessions_api.errors import RunFailed
from sessions_api.providers.base import ModelMessage, ModelReply, ModelRequest
from sessions_api.runs.events import RunResult
from sessions_api.runs.machine import (
    AskProvider,
    Begin,
    Begun,
    Broke,
    CallTools,
    Complete,
    Effect,
    Ended,
    Event,
    Fail,
    KeepResult,
    Replied,
    ResultKept,
    RunMachine,
    StartTools,
    State,
    ToolsStarted,
)
from sessions_api.runs.prices import RunCost
from sessions_api.runs.replay import to_model
from sessions_api.runs.story import RunStory
from state_store import (
    Message,
    NewMessage,
    NewSession,
    Run,
    RunNotFound,
    RunNotPending,
    StateStoreError,
    Usage,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessions_api.errors import Saved
    from sessions_api.runs.history import History
    from sessions_api.runs.tools import Tool
    from sessions_api.sessions import Sessions
    from sessions_api.state import WorkspaceState

MAX_COUNT = 2**53  # whole in every JSON reader; the sum of a run's requests fits its column


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """What a run is about, decided before it begins.

    `create` is set when the session comes into being with this run; `changes` are made to one that
    is there already, when the run begins and not before.
    """

    session_id: str
    run_id: str
    text: str
    provider: str
    endpoint: str | None
    model: str | None
    system_prompt: str | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    tools: Mapping[str, Tool] = field(default_factory=dict)
    create: NewSession | None = None
    changes: Mapping[str, object] = field(default_factory=dict)
    auto_title: str | None = None
    retry_of: str | None = None


class RunRecorder:
    """One run. Call `start`, then `advance` or `broke` with what happened, until `ended`.

    Each call returns what is to be done outside (ask the provider, call tools), or None when
    there is nothing: other tools are still awaited, or the run has ended.
    """

    def __init__(
        self, state: WorkspaceState, plan: RunPlan, *, sessions: Sessions, history: History
    ) -> None:
        self.plan = plan
        self._state = state
        self._sessions = sessions
        self._history = history
        self._before: tuple[ModelMessage, ...] = ()
        self._revision = 0
        self._store = state.store
        self._story = RunStory(state.story.journal if state.story else None, plan)
        self._machine = RunMachine(
            ModelRequest(
                model=plan.model,
                system_prompt=plan.system_prompt,
                tools=tuple(tool.spec for tool in plan.tools.values()),
                parameters=dict(plan.parameters),
            )
        )
        self._messages: list[Message] = []
        self._call_seq = 0
        self._run: Run | None = None
        self._cost: RunCost | None = None
        self._failure: BaseException | None = None
        self._aborted = False
        self._began = time.monotonic()

    @property
    def ended(self) -> bool:
        """Whether nothing more happens in this run."""
        return self._aborted or self._machine.state in {State.COMPLETED, State.FAILED}

    def start(self) -> AskProvider | CallTools | None:
        """Commit the input and the pending run."""
        return self._perform(self._machine.start())

    def advance(self, event: Event) -> AskProvider | CallTools | None:
        """Take what happened outside and commit what follows from it."""
        if isinstance(event, Replied):
            event = Replied(_with_counts(event.reply))
            if self._cost is not None:
                self._cost.add(event.reply.usage)
            self._story.responded(event.reply)
        return self._perform(self._machine.handle(event))

    def broke(self, error: Exception) -> AskProvider | CallTools | None:
        """Take the provider's failure; commits the run as failed."""
        self._story.provider_failed(error)
        self._failure = error
        return self._perform(self._machine.handle(Broke(error_type_of(error))))

    def abort(self, error: BaseException) -> None:
        """End the run because of *error*, whatever state it is in; the row decides how.

        For cancellation, Ctrl-C and termination, at any moment: before, in or after a commit.
        Never raises; what cannot be written is found as interrupted by the next start.
        """
        if self.ended and self._run is not None:
            return
        self._failure = self._failure or error
        for _ in range(3):  # Ctrl-C again while this is written: the write is what counts
            try:
                self._fail(error_type_of(error))
            except KeyboardInterrupt:
                continue
            except Exception as unwritten:  # noqa: BLE001 - the caller's exception is what counts
                error.add_note(f"The end of the run could not be saved: {unwritten}")
            break
        self._aborted = True

    def finish(self) -> RunResult:
        """Return the completed run, or raise what it ended with.

        RunFailed for a run that is stored; the store's own error when nothing was stored.
        """
        run = self._run
        if run is not None and run.status == "completed":
            return RunResult(
                run_id=run.id,
                session_id=run.session_id,
                status="completed",
                text=(self._messages[-1].content or "") if self._messages else "",
                messages=tuple(self._messages),
                usage=run.usage,
                cost=run.cost,
            )
        if self._failure is not None and run is None and not self._messages:
            raise self._failure
        raise RunFailed(
            run_id=self.plan.run_id,
            session_id=self.plan.session_id,
            error_type=(run.error_type if run else None) or error_type_of(self._failure),
            retryable=retryable(self._failure),
            saved=self._saved,
        ) from self._failure

    @property
    def _saved(self) -> Saved:
        if not self._state.saving:
            return "nothing"
        return "input" if self._run is None else "all"

    # --- performing ---------------------------------------------------------------------------

    def _perform(self, effects: tuple[Effect, ...]) -> AskProvider | CallTools | None:
        waiting = deque(effects)
        while waiting:
            effect = waiting.popleft()
            if isinstance(effect, AskProvider):
                self._story.requested(effect.request)
                return effect
            if isinstance(effect, CallTools):
                return effect
            waiting.extend(self._machine.handle(self._committed(effect)))
        return None

    def _committed(self, effect: Effect) -> Event:
        try:
            match effect:
                case Begin():
                    return Begun(self._begin())
                case StartTools():
                    return self._start_tools(effect)
                case KeepResult():
                    return self._keep_result(effect)
                case Complete():
                    return self._complete(effect)
                case Fail(error_type):
                    self._fail(error_type)
                    return Ended()
                case _:
                    raise AssertionError(f"{type(effect).__name__} is not a commit")
        except StateStoreError as error:
            self._failure = self._failure or error
            return Broke(error_type_of(error))

    def _begin(self) -> tuple[ModelMessage, ...]:
        plan = self.plan
        run, message = self._store.begin_run(
            plan.session_id,
            NewMessage(role="user", content=plan.text),
            run_id=plan.run_id,
            create=plan.create,
            changes=plan.changes,
            auto_title=plan.auto_title,
            provider=plan.provider,
            model=plan.model,
            retry_of=plan.retry_of,
        )
        self._messages.append(message)
        self._story.started(run, created=plan.create is not None)
        self._state.tell_recovered()
        session = self._sessions.used(plan.session_id)
        self._revision = session.revision
        if session.model_config.get("cost") is None:  # a session's own price is its owner's
            self._cost = RunCost(endpoint=plan.endpoint, model=plan.model)
        self._before = self._history.before_run(session)
        return (*self._before, to_model(message))

    def _start_tools(self, effect: StartTools) -> Event:
        reply = effect.reply
        policies = [
            self.plan.tools[call.name].replay if call.name in self.plan.tools else "unsafe"
            for call in reply.tool_calls
        ]
        message = self._store.start_tools(
            self.plan.run_id,
            NewMessage(
                role="assistant",
                content=reply.content,
                reasoning_content=reply.reasoning_content,
                tool_calls=reply.tool_calls,
                provider_data=reply.provider_data,
            ),
            policies,
        )
        self._messages.append(message)
        self._revision += 1
        self._call_seq = message.seq
        self._story.tools_started(message, policies)
        return ToolsStarted(to_model(message))

    def _keep_result(self, effect: KeepResult) -> Event:
        result = effect.result
        message = self._store.finish_tool(
            self.plan.run_id,
            call_seq=self._call_seq,
            call_index=result.index,
            outcome=result.outcome,
            message=NewMessage(
                role="tool",
                content=result.content,
                tool_call_id=result.call.id,
                name=result.call.name,
            ),
        )
        self._messages.append(message)
        self._revision += 1
        self._story.tool_finished(result, self._call_seq)
        return ResultKept(result.index, to_model(message))

    def _complete(self, effect: Complete) -> Event:
        reply = effect.reply
        self._run, message = self._store.complete_run(
            self.plan.run_id,
            NewMessage(
                role="assistant",
                content=reply.content,
                reasoning_content=reply.reasoning_content,
                provider_data=reply.provider_data,
            ),
            usage=effect.usage,
            cost=self._cost.total if self._cost else None,
            journal_head=self._story.head,
            journal_lost_count=self._story.lost_count,
        )
        self._messages.append(message)
        self._keep((*self._machine.request.messages, to_model(message)))
        self._tell_end()
        return Ended()

    def _fail(self, error_type: str) -> None:
        """Commit the run as failed, unless the row says that it has ended already."""
        try:
            self._run = self._store.fail_run(
                self.plan.run_id,
                error_type,
                usage=self._machine.total_usage,
                cost=self._cost.total if self._cost else None,
                journal_head=self._story.head,
                journal_lost_count=self._story.lost_count,
            )
            self._keep(self._before)  # a failed run is not replayed
        except RunNotPending:
            self._history.forget()
            self._run = self._store.get_run(self.plan.run_id)
            if self._run.status == "completed":
                page = self._store.messages(self.plan.session_id, view="all")
                self._messages = [one for one in page.items if one.run_id == self._run.id]
        except RunNotFound:
            return  # nothing of it was ever stored
        self._tell_end()

    def _keep(self, messages: tuple[ModelMessage, ...]) -> None:
        """Keep what the next run is preceded by, if all that happened in this one is known."""
        if not self._revision:
            self._history.forget()
            return
        self._revision += 1
        self._history.keep(self.plan.session_id, self._revision, messages)

    def _tell_end(self) -> None:
        if self._run is not None:
            duration_ms = round((time.monotonic() - self._began) * 1000)
            self._story.ended(self._run, self._failure, duration_ms=duration_ms)
            self._sessions.changed(self.plan.session_id)


def _with_counts(reply: ModelReply) -> ModelReply:
    """Return *reply* with a usage of counts alone: an odd number costs the number, not the run."""
    usage = {name: getattr(reply.usage, name) for name in Usage.__dataclass_fields__}
    if all(value is None or _is_count(value) for value in usage.values()):
        return reply
    counts = {name: value if _is_count(value) else None for name, value in usage.items()}
    return replace(reply, usage=Usage(**counts))


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT
