"""A run on its way: what happened goes into the machine, what follows from it is committed.

Owns the meeting of the machine and the commits, shared by both faces: drivers only talk to the
provider and run tools. Invariant: after any exception the row decides how the run ended, never
this object's memory. An end that could not be written is written before the agent's next run, or
when it closes.

Must not: wait for anything but the store.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from run_journal import Uninterrupted
from sessions_api.error_types import error_type_of, retryable
from sessions_api.errors import RetryRefused, RunFailed
from sessions_api.providers.base import ModelRequest
from sessions_api.runs.events import RunResult
from sessions_api.runs.machine import (
    AskProvider,
    Begin,
    Broke,
    CallTools,
    Complete,
    Effect,
    Event,
    Fail,
    KeepResult,
    Replied,
    RunMachine,
    StartTools,
    State,
    Stopped,
)
from state_store import StateStoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessions_api.errors import Saved
    from sessions_api.runs.commits import RunCommits
    from sessions_api.runs.plan import RunPlan
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
        commits: RunCommits,
        plan: RunPlan,
        *,
        saving: bool,
        under_way: set[RunRecorder],
    ) -> None:
        self.plan = plan
        self._saving = saving
        self._lock = threading.RLock()
        self._under_way = under_way
        self._machine = RunMachine(ModelRequest(model=plan.model))
        self._commits = commits
        self._failure: BaseException | None = None
        self._unwritten: Fail | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more happens in this run."""
        return self._machine.state in _OVER

    def start(self) -> AskProvider | CallTools | None:
        """Commit the input and the pending run; SelectionInvalid before anything is stored."""
        with self._lock:
            self._commits.choose()
            self._under_way.add(self)
            return self._perform(self._machine.start())

    def advance(self, event: Event) -> AskProvider | CallTools | None:
        """Take what happened outside and commit what follows from it."""
        with self._lock:
            if isinstance(event, Replied) and not self.ended:
                self._commits.replied(event.reply)
            return self._perform(self._machine.handle(event))

    def broke(self, error: Exception) -> AskProvider | CallTools | None:
        """Take the provider's failure; commits the run as failed, or asks for less of it."""
        with self._lock:
            if self.ended:
                return None
            self._commits.story.provider_failed(error)
            if self._commits.fitting is not None:
                smaller = self._commits.fitting.after_refusal(self._machine.request, error)
                if smaller is not None:
                    self._commits.story.requested(smaller)
                    return AskProvider(smaller)
            self._failure = error
            return self._perform(self._machine.handle(Broke(error_type_of(error))))

    def let_go(self, outcomes: Mapping[int, ToolOutcome]) -> None:
        """Take how the calls under way, by their index, ended that nobody waits for any more.

        Calls that are not named, and have no result, are still at work: they become unknown.
        """
        self._commits.let_go = outcomes

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
        try:
            thread.start()
        except RuntimeError:  # the program is at its end: from Python 3.12 on none begins any more
            self.abort(error)
        else:
            thread.join(COLLECTOR_WAIT_S)

    def settle(self) -> None:
        """Write the end that could not be written when it came. Raises nothing."""
        with Uninterrupted(), self._lock:
            if self._unwritten is not None:
                with suppress(StateStoreError):
                    self._end_as(self._unwritten)
            self._forget_if_over()

    def _forget_if_over(self) -> None:
        if self.ended and self._unwritten is None:
            self._under_way.discard(self)
            if not isinstance(self._failure, Exception):
                # It is on its way to the caller, and its frames lead here. Kept, it would wait for
                # the garbage collector, whose thread cannot let go of locks that the frames hold.
                self._failure = None

    def finish(self) -> RunResult:
        """Return the completed run, or raise what it ended with.

        RunFailed for a run that is stored; the store's own error when nothing was stored, and
        UnsafeRetry when another try ran an unsafe tool before this one had begun.
        """
        run, messages = self._commits.run, self._commits.messages
        if run is not None and run.status == "completed":
            return RunResult(
                run_id=run.id,
                session_id=run.session_id,
                status="completed",
                text=(messages[-1].content or "") if messages else "",
                messages=tuple(messages),
                usage=run.usage,
                cost=run.cost,
            )
        nothing_stored = run is None and not messages
        if self._failure is not None and (
            nothing_stored or isinstance(self._failure, RetryRefused)
        ):
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
        if not self._saving:
            return "nothing"
        return "input" if self._commits.run is None else "all"

    # --- performing ---------------------------------------------------------------------------

    def _perform(self, effects: tuple[Effect, ...]) -> AskProvider | CallTools | None:
        waiting = deque(effects)
        while waiting:
            effect = waiting.popleft()
            if isinstance(effect, AskProvider):
                fitting = self._commits.fitting
                request = fitting.fit(effect.request) if fitting else effect.request
                self._commits.story.requested(request)
                return AskProvider(request)
            if isinstance(effect, CallTools):
                return effect
            waiting.extend(self._machine.handle(self._committed(effect)))
        return None

    def _committed(self, effect: Effect) -> Event:
        try:
            match effect:
                case Begin():
                    return self._commits.begin()
                case StartTools():
                    return self._commits.start_tools(effect)
                case KeepResult():
                    return self._commits.keep_result(effect)
                case Complete():
                    ended = self._commits.complete(effect, self._machine.request)
                    self._under_way.discard(self)
                    return ended
                case Fail():
                    return self._end_as(effect)
                case _:
                    raise AssertionError(f"{type(effect).__name__} is not a commit")
        except StateStoreError as error:
            self._failure = self._failure or error
            if isinstance(effect, Fail) and self._failure is not error:
                _note(self._failure, error)
            return Broke(error_type_of(error))

    def _end_as(self, effect: Fail) -> Event:
        self._unwritten = effect
        ended = self._commits.fail(effect, self._failure)
        self._unwritten = None
        self._under_way.discard(self)
        return ended


def _note(error: BaseException, unwritten: Exception) -> None:
    error.add_note(f"The end of the run could not be saved: {unwritten}")
