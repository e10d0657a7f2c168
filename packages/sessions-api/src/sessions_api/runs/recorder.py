"""A run on its way: the machine's commits performed, in order, and told to the journal.

Owns the meeting of machine, store and journal, shared by both faces: drivers only talk to the
provider and run tools. Invariants: a journal line is written after its commit; the journal never
fails a run; after any exception the row decides how the run ended, never this object's memory. An
end that could not be written is written before the agent's next run, or when it closes.

Must not: wait for anything but the store, or keep a transaction open between two calls.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from run_journal import Uninterrupted
from sessions_api.error_types import error_type_of, retryable
from sessions_api.errors import AgentClosed, RunFailed
from sessions_api.providers.base import ModelMessage, ModelRequest
from sessions_api.runs.events import RunResult
from sessions_api.runs.exchanges import Past
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
    Stopped,
    ToolsStarted,
)
from sessions_api.runs.prices import RunCost
from sessions_api.runs.rates import rates_of
from sessions_api.runs.replay import to_model
from sessions_api.runs.story import RunStory
from state_store import (
    Message,
    NewMessage,
    Run,
    RunNotFound,
    RunNotPending,
    StateStoreError,
    StoreClosed,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessions_api.errors import Saved
    from sessions_api.runs.history import History
    from sessions_api.runs.plan import RunPlan
    from sessions_api.runs.requests import Fitting, Requests
    from sessions_api.sessions import Sessions
    from sessions_api.state import WorkspaceState
    from state_store import ToolOutcome

COLLECTOR_WAIT_S = 1.0
_OVER = {State.FAILING, State.COMPLETED, State.FAILED}


class RunRecorder:
    """One run. Call `start`, then `advance` or `broke` with what happened, until `ended`.

    Each call returns what is to be done outside (ask the provider, call tools), or None when
    there is nothing: other tools are still awaited, or the run has ended. Thread-safe: tools are
    reported by threads, and whoever closes the agent ends the run from another one.

    The recorder is in `under_way` from its beginning until its end is in the row.
    """

    def __init__(
        self,
        state: WorkspaceState,
        plan: RunPlan,
        *,
        sessions: Sessions,
        history: History,
        requests: Requests,
        under_way: set[RunRecorder],
    ) -> None:
        self.plan = plan
        self._lock = threading.RLock()
        self._under_way = under_way
        self._state = state
        self._sessions = sessions
        self._history = history
        self._requests = requests
        self._past = self._sent = Past()  # what came before, and what is sent of it
        self._fitting: Fitting | None = None
        self._revision = 0
        self._store = state.store
        self._story = RunStory(state.story.journal if state.story else None, plan)
        self._machine = RunMachine(
            ModelRequest(
                model=plan.model,
                tools=tuple(tool.spec for tool in plan.tools.values()),
            )
        )
        self._messages: list[Message] = []
        self._call_seq = 0
        self._let_go: Mapping[int, ToolOutcome] = {}
        self._run: Run | None = None
        self._cost: RunCost | None = None
        self._failure: BaseException | None = None
        self._unwritten: Fail | None = None
        self._began = time.monotonic()

    @property
    def ended(self) -> bool:
        """Whether nothing more happens in this run."""
        return self._machine.state in _OVER

    def start(self) -> AskProvider | CallTools | None:
        """Commit the input and the pending run; SelectionInvalid before anything is stored."""
        with self._lock:
            if self._requests.selects and self.plan.create is None:
                self._past = self._history.now(self._store.get_session(self.plan.session_id))
                self._sent = self._requests.chosen(self._past)
            self._under_way.add(self)
            return self._perform(self._machine.start())

    def advance(self, event: Event) -> AskProvider | CallTools | None:
        """Take what happened outside and commit what follows from it."""
        with self._lock:
            if isinstance(event, Replied) and not self.ended:
                if self._cost is not None:
                    reply = event.reply
                    self._cost.add(reply.usage, cache_write_tokens=reply.cache_write_tokens)
                self._story.responded(event.reply)
            return self._perform(self._machine.handle(event))

    def broke(self, error: Exception) -> AskProvider | CallTools | None:
        """Take the provider's failure; commits the run as failed, or asks for less of it."""
        with self._lock:
            if self.ended:
                return None
            self._story.provider_failed(error)
            if self._fitting is not None:
                smaller = self._fitting.after_refusal(self._machine.request, error)
                if smaller is not None:
                    self._story.requested(smaller)
                    return AskProvider(smaller)
            self._failure = error
            return self._perform(self._machine.handle(Broke(error_type_of(error))))

    def let_go(self, outcomes: Mapping[int, ToolOutcome]) -> None:
        """Take how the calls under way, by their index, ended that nobody waits for any more.

        Calls that are not named, and have no result, are still at work: they become unknown.
        """
        self._let_go = outcomes

    def abort(self, error: BaseException) -> None:
        """End the run because of *error*, whatever it is at; the row decides how.

        For cancellation, Ctrl-C, termination and the agent's end, at any moment: before, in or
        after a commit. Ctrl-C waits until it is over. What could not be written is noted on
        *error*, and tried again by `settle`.
        """
        if self.ended and self not in self._under_way:
            return
        with Uninterrupted(), self._lock:
            self._failure = self._failure or error
            try:
                self._perform(self._machine.handle(Stopped(error_type_of(error))))
            except Exception as unwritten:  # noqa: BLE001 - the caller's exception is what counts
                _note(error, unwritten)
            self._forget_if_over()

    def abandon(self, error: BaseException) -> None:
        """Do what `abort` does for a garbage collector, from another thread.

        A collector strikes anywhere, also inside a transaction of this very thread, which must
        neither take part in the end of this run nor be rolled back by it.
        """
        if sys.is_finalizing():
            self.abort(error)  # no thread begins any more, and none is left that could be inside
            return
        thread = threading.Thread(target=self.abort, args=(error,), name="abandoned", daemon=True)
        thread.start()
        thread.join(COLLECTOR_WAIT_S)

    def settle(self) -> None:
        """Write the end that could not be written when it came. Raises nothing."""
        with Uninterrupted(), self._lock:
            if self._unwritten is not None:
                with suppress(StateStoreError):
                    self._fail(self._unwritten)
            self._forget_if_over()

    def _forget_if_over(self) -> None:
        if self.ended and self._unwritten is None:
            self._under_way.discard(self)

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
                request = self._fitting.fit(effect.request) if self._fitting else effect.request
                self._story.requested(request)
                return AskProvider(request)
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
                case Fail():
                    self._fail(effect)
                    return Ended()
                case _:
                    raise AssertionError(f"{type(effect).__name__} is not a commit")
        except StateStoreError as error:
            self._failure = self._failure or error
            if isinstance(effect, Fail) and self._failure is not error:
                _note(self._failure, error)
            return Broke(error_type_of(error))

    def _begin(self) -> tuple[ModelMessage, ...]:
        plan = self.plan
        try:
            run, message = self._store.begin_run(
                plan.session_id,
                NewMessage(role="user", content=plan.text, parts=plan.parts),
                run_id=plan.run_id,
                create=plan.create,
                changes=plan.changes,
                auto_title=plan.auto_title,
                provider=plan.provider,
                model=plan.model,
                retry_of=plan.retry_of,
            )
        except StoreClosed as error:
            raise AgentClosed(
                "This agent was closed before the run began.", hint="Make a new one."
            ) from error
        self._messages.append(message)
        self._story.started(run, created=plan.create is not None)
        self._state.tell_recovered()
        session = self._sessions.used(plan.session_id)
        # What is stored is sent: the store has repaired what no encoding could carry.
        self._machine.request = replace(
            self._machine.request,
            system_prompt=session.system_prompt,
            parameters=dict(session.parameters),
        )
        own = session.model_config.get("cost")
        rates = rates_of(own)
        if own is None or rates is not None:  # what its owner pays is not what a list says
            self._cost = RunCost(endpoint=plan.endpoint, model=plan.model, rates=rates)
        past = self._history.before_run(session)
        if past is not self._past:  # nothing was chosen from it yet, or from what it was then
            self._past, self._sent = past, self._requests.chosen(past)
        self._revision = session.revision  # not before: what is kept would lack the past
        self._fitting = self._requests.fitting(
            self._sent, (plan.provider, plan.endpoint), max_bytes=plan.max_request_bytes
        )
        return (*self._sent.messages, to_model(message))

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
        self._let_go = {}
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
                parts=result.parts,
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
        self._written()
        own = self._machine.request.messages[len(self._sent.messages) :]
        self._keep(self._past.then((*own, to_model(message))))
        self._tell_end()
        return Ended()

    def _fail(self, effect: Fail) -> None:
        """Commit the run as failed, unless the row says that it has ended already."""
        self._unwritten = effect
        try:
            self._run = self._store.fail_run(
                self.plan.run_id,
                effect.error_type,
                usage=effect.usage,
                # What a call that broke has used is not known, and so neither is what it costs.
                cost=self._cost.total if self._cost and effect.usage.complete else None,
                journal_head=self._story.head,
                journal_lost_count=self._story.lost_count,
                outcomes={(self._call_seq, index): how for index, how in self._let_go.items()},
            )
            self._keep(self._past)  # a failed run is not replayed
        except RunNotPending:
            self._history.forget()
            self._run = self._store.get_run(self.plan.run_id)
            if self._run.status == "completed":
                page = self._store.messages(self.plan.session_id, view="all")
                self._messages = [one for one in page.items if one.run_id == self._run.id]
        except RunNotFound:
            self._written()
            return  # nothing of it was ever stored
        self._written()
        self._tell_end()

    def _written(self) -> None:
        self._unwritten = None
        self._under_way.discard(self)

    def _keep(self, past: Past) -> None:
        """Keep what the next run is preceded by, if all that happened in this one is known."""
        if not self._revision:
            self._history.forget()
            return
        self._revision += 1
        self._history.keep(self.plan.session_id, self._revision, past)

    def _tell_end(self) -> None:
        if self._run is not None:
            duration_ms = round((time.monotonic() - self._began) * 1000)
            self._story.ended(self._run, self._failure, duration_ms=duration_ms)
            self._sessions.changed(self.plan.session_id)


def _note(error: BaseException, unwritten: Exception) -> None:
    error.add_note(f"The end of the run could not be saved: {unwritten}")
