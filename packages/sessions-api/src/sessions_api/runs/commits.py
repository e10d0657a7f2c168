"""The commits of one run: each performed in the store, then told to the journal.

Owns what is written of a run, and what is known of it from that: its messages, its row, what it
has cost. Invariants: a journal line is written after its commit, and never fails a run; a run that
a retry has begun is checked once more when it holds the session, for what another try did between
the decision and the beginning.

Must not: know of the machine's states, wait for anything but the store, or keep a transaction open
between two calls. Thread-safe by its owner, the recorder.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sessions_api.errors import AgentClosed
from sessions_api.providers.base import ModelRequest
from sessions_api.runs.exchanges import Past
from sessions_api.runs.machine import (
    Begun,
    Complete,
    Ended,
    Fail,
    KeepResult,
    ResultKept,
    StartTools,
    ToolsStarted,
)
from sessions_api.runs.prices import RunCost
from sessions_api.runs.rates import rates_of
from sessions_api.runs.replay import to_model
from sessions_api.runs.retrying import require_safe
from sessions_api.runs.story import RunStory
from state_store import (
    Message,
    NewMessage,
    Run,
    RunExists,
    RunNotFound,
    RunNotPending,
    StoreClosed,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessions_api.providers.base import ModelReply
    from sessions_api.runs.history import History
    from sessions_api.runs.plan import RunPlan
    from sessions_api.runs.requests import Fitting, Requests
    from sessions_api.sessions import Sessions
    from sessions_api.state import WorkspaceState
    from state_store import Session, ToolOutcome


class RunCommits:
    """What is stored of one run so far, and how more of it gets there.

    `run` is None until its end is stored, `messages` are in order of seq. `let_go` says how calls
    ended that nobody waits for any more.
    """

    def __init__(
        self,
        state: WorkspaceState,
        plan: RunPlan,
        *,
        sessions: Sessions,
        history: History,
        requests: Requests,
    ) -> None:
        self.messages: list[Message] = []
        self.run: Run | None = None
        self.let_go: Mapping[int, ToolOutcome] = {}
        self.fitting: Fitting | None = None
        self.story = RunStory(state.story.journal if state.story else None, plan)
        self._plan = plan
        self._state = state
        self._store = state.store
        self._sessions = sessions
        self._history = history
        self._requests = requests
        self._past = self._sent = Past()  # what came before, and what is sent of it
        self._revision = 0
        self._call_seq = 0
        self._taken = False  # the id of this run was another one's
        self._cost: RunCost | None = None
        self._began = time.monotonic()

    def choose(self) -> None:
        """Let the caller select from what came before; SelectionInvalid when that cannot be sent.

        Of a new session there is nothing yet.
        """
        if self._requests.selects and self._plan.create is None:
            self._past = self._history.now(self._store.get_session(self._plan.session_id))
            self._sent = self._requests.chosen(self._past)

    def begin(self) -> Begun:
        """Commit the input and the pending run; the request is what the rows say from then on."""
        plan = self._plan
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
        except RunExists:
            self._taken = True
            raise
        self.messages.append(message)
        self.story.started(run, created=plan.create is not None)
        self._state.tell_recovered()
        session = self._sessions.used(plan.session_id)
        if plan.retry_of is not None and not plan.allow_unsafe:
            require_safe(self._store, self._store.get_run(plan.retry_of))
        self._cost = self._cost_in(session)
        past = self._history.before_run(session)
        if past is not self._past:  # nothing was chosen from it yet, or from what it was then
            self._past, self._sent = past, self._requests.chosen(past)
        self._revision = session.revision  # not before: what is kept would lack the past
        self.fitting = self._requests.fitting(
            self._sent, (plan.provider, plan.endpoint), max_bytes=plan.max_request_bytes
        )
        # What is stored is sent: the store has repaired what no encoding could carry.
        return Begun(
            ModelRequest(
                model=plan.model,
                system_prompt=session.system_prompt,
                messages=(*self._sent.messages, to_model(message)),
                tools=tuple(tool.spec for tool in plan.tools.values()),
                parameters=dict(session.parameters),
            )
        )

    def replied(self, reply: ModelReply) -> None:
        """Price a reply and tell that it came; nothing of it is committed yet."""
        if self._cost is not None:
            self._cost.add(reply.usage, cache_write_tokens=reply.cache_write_tokens)
        self.story.responded(reply)

    def start_tools(self, effect: StartTools) -> ToolsStarted:
        """Commit the assistant message and the starts of its calls."""
        tools = self._plan.tools
        policies = [
            tools[call.name].replay if call.name in tools else "unsafe"
            for call in effect.reply.tool_calls
        ]
        message = self._store.start_tools(self._plan.run_id, _stored(effect.reply), policies)
        self.messages.append(message)
        self._revision += 1
        self._call_seq = message.seq
        self.let_go = {}
        self.story.tools_started(message, policies)
        return ToolsStarted(to_model(message))

    def keep_result(self, effect: KeepResult) -> ResultKept:
        """Commit one result."""
        result = effect.result
        message = self._store.finish_tool(
            self._plan.run_id,
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
        self.messages.append(message)
        self._revision += 1
        self.story.tool_finished(result, self._call_seq)
        return ResultKept(result.index, to_model(message))

    def complete(self, effect: Complete, request: ModelRequest) -> Ended:
        """Commit the answer to *request*, the run's last one, and the completed run."""
        self.run, message = self._store.complete_run(
            self._plan.run_id,
            _stored(effect.reply),
            usage=effect.usage,
            cost=self._cost.total if self._cost else None,
            journal_head=self.story.head,
            journal_lost_count=self.story.lost_count,
        )
        self.messages.append(message)
        own = request.messages[len(self._sent.messages) :]
        self._keep(self._past.then((*own, to_model(message))))
        self._tell_end(None)
        return Ended()

    def fail(self, effect: Fail, failure: BaseException | None) -> Ended:
        """Commit the run as failed, unless the row says that it has ended already."""
        if self._taken:
            return Ended()  # the row of that id tells of another run
        try:
            self.run = self._store.fail_run(
                self._plan.run_id,
                effect.error_type,
                usage=effect.usage,
                # What a call that broke has used is not known, and so neither is what it costs.
                cost=self._cost.total if self._cost and effect.usage.complete else None,
                journal_head=self.story.head,
                journal_lost_count=self.story.lost_count,
                outcomes={(self._call_seq, index): how for index, how in self.let_go.items()},
            )
            self._keep(self._past)  # a failed run is not replayed
        except RunNotPending:
            self._history.forget()
            self.run = self._store.get_run(self._plan.run_id)
            if self.run.status == "completed":
                page = self._store.messages(self._plan.session_id, view="all")
                self.messages = [one for one in page.items if one.run_id == self.run.id]
        except RunNotFound:
            return Ended()  # nothing of it was ever stored
        self._tell_end(failure)
        return Ended()

    def _tell_end(self, failure: BaseException | None) -> None:
        """Tell the journal how the run ended, and `sessions` how its session is now."""
        if self.run is not None:
            duration_ms = round((time.monotonic() - self._began) * 1000)
            self.story.ended(self.run, failure, duration_ms=duration_ms)
            self._sessions.changed(self._plan.session_id)

    def _cost_in(self, session: Session) -> RunCost | None:
        own = session.model_config.get("cost")
        rates = rates_of(own)
        if own is not None and rates is None:
            return None  # what its owner pays is not what a list says
        return RunCost(endpoint=self._plan.endpoint, model=self._plan.model, rates=rates)

    def _keep(self, past: Past) -> None:
        """Keep what the next run is preceded by, if all that happened in this one is known."""
        if not self._revision:
            self._history.forget()
            return
        self._revision += 1
        self._history.keep(self._plan.session_id, self._revision, past)


def _stored(reply: ModelReply) -> NewMessage:
    return NewMessage(
        role="assistant",
        content=reply.content,
        reasoning_content=reply.reasoning_content,
        tool_calls=reply.tool_calls or None,
        provider_data=reply.provider_data,
    )
