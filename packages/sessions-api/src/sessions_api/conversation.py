"""What both agents are made of: a workspace's state, who answers its sessions, runs.

Owns the decisions before a run begins: which session it belongs to and what it is about; who
answers it is `answering`'s. Invariant: synchronous and without a driver; `Agent` and `AsyncAgent`
differ only in who performs provider and tools. Nothing is stored when a plan is refused.

A session's own provider, model, system prompt and parameters come back with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sessions_api.answering import Answering, endpoint_of
from sessions_api.arguments import check_options, checked, request_limit
from sessions_api.errors import AgentClosed, InputInvalid
from sessions_api.runs.commits import RunCommits
from sessions_api.runs.history import History
from sessions_api.runs.plan import RunPlan
from sessions_api.runs.recorder import RunRecorder
from sessions_api.runs.requests import Requests
from sessions_api.runs.retrying import attempt_at
from sessions_api.runs.tools import Tool, toolbox
from sessions_api.sessions import Sessions
from sessions_api.state import open_state
from sessions_api.titles import title_of
from state_store import NewSession, Session, new_id, silent, utc_now

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from sessions_api.agent_options import AgentOptions
    from sessions_api.providers.base import Provider


@checked
class Conversation:
    """The core that an agent drives. Not for use from two runs at once: `SessionBusy` says so."""

    def __init__(
        self, workspace: str | os.PathLike[str], options: AgentOptions, *, asynchronous: bool
    ) -> None:
        check_options(workspace, options)
        self._options = options
        self._new_id = options.get("new_id", new_id)
        self._tools = toolbox(options.get("tools", ()))
        for tool in self._tools.values():
            tool.spec  # noqa: B018 - a tool that cannot be described is refused now, not in a run
        # Before the journal's first line, which asks for the secrets.
        self._answering = Answering(options, asynchronous=asynchronous)
        defaults = NewSession(
            provider=self._answering.chosen_name,
            model_id=options.get("model"),
            system_prompt=self._answering.setting("system_prompt"),
            parameters=options.get("parameters"),
            model_config=options.get("model_config"),
        )  # settings that cannot be read are refused before anything is open
        self._state = open_state(
            workspace,
            state_home=options.get("state_home"),
            persistence=options.get("persistence", "required"),
            secrets=self._answering.secrets,
            progress=options.get("progress", silent),
            clock=options.get("clock", utc_now),
            new_id=self._new_id,
        )
        self.sessions = Sessions(
            self._state,
            defaults=defaults,
            secrets=self._answering.secrets,
            obstacle=self._answering.obstacle,
        )
        self._history = History(self._state.store, notify=self._notify)
        self._requests = Requests(select=options.get("select"))
        self._under_way: set[RunRecorder] = set()
        self._closed = False

    @property
    def notices(self) -> tuple[str, ...]:
        """Lines for a person: about the workspace, or about what is not saved."""
        lost = self._state.lost_lines_notice()
        return (*self._state.notices, *((lost,) if lost else ()))

    def _notify(self, line: str) -> None:
        self._state.notices += (line,)

    @property
    def saving(self) -> bool:
        """Whether what happens here is kept."""
        return self._state.saving

    def plan(self, text: str) -> tuple[RunRecorder, Provider]:
        """Decide about a run that answers *text* in the active or a new session."""
        self._require_open()
        _require_text(text)
        return self._planned(self.sessions.active, text)

    def plan_retry(
        self, run_id: str, *, allow_unsafe: bool = False, note: str | None = None
    ) -> tuple[RunRecorder, Provider]:
        """Decide about a run that tries a failed one again, in its session."""
        self._require_open()
        attempt = attempt_at(self._state, run_id, allow_unsafe=allow_unsafe)
        session = self._state.store.get_session(attempt.run.session_id)
        text, parts = attempt.input_with(note)
        return self._planned(session, text, parts=parts, retry_of=run_id, allow_unsafe=allow_unsafe)

    def _require_open(self) -> None:
        """Refuse when the agent is closed; write what an earlier run could not."""
        if self._closed:
            raise AgentClosed("This agent is closed.", hint="Make a new one.")
        for recorder in tuple(self._under_way):
            recorder.settle()

    def _planned(
        self,
        session: Session | None,
        text: str,
        *,
        parts: tuple[Mapping[str, Any], ...] | None = None,
        retry_of: str | None = None,
        allow_unsafe: bool = False,
    ) -> tuple[RunRecorder, Provider]:
        provider = self._answering.provider_for(session)
        model = self._answering.model_for(session, provider)
        if session is not None:
            self._answering.require_consent(session, provider)
        created = self._new_session(provider, model) if session is None else None
        plan = RunPlan(
            session_id=self._new_id() if session is None else session.id,
            run_id=self._new_id(),
            text=text,
            parts=parts,
            retry_of=retry_of,
            allow_unsafe=allow_unsafe,
            provider=provider.name,
            endpoint=endpoint_of(provider),
            model=model,
            tools={**_own_tools(provider), **self._tools},
            create=created,
            changes={} if session is None else _changes(session, provider, model),
            auto_title=title_of(text),
            max_request_bytes=request_limit(provider),
        )
        commits = RunCommits(
            self._state,
            plan,
            sessions=self.sessions,
            history=self._history,
            requests=self._requests,
        )
        recorder = RunRecorder(commits, plan, saving=self._state.saving, under_way=self._under_way)
        return recorder, provider

    @property
    def made_providers(self) -> tuple[Provider, ...]:
        """The providers that were made here, which the agent closes; not one that it was given."""
        return self._answering.made_providers

    def close(self) -> None:
        """Book and close the active session, then the store and the journal."""
        if self._closed:
            return
        self._closed = True
        try:
            self._end_runs()
            self.sessions.leave()
        finally:
            self._state.close()

    def _end_runs(self) -> None:
        """End the runs that are under way, in whatever thread, and commit that."""
        for recorder in tuple(self._under_way):
            recorder.abort(AgentClosed("The agent was closed while this run was under way."))
            recorder.settle()

    # --- inside -------------------------------------------------------------------------------

    def _new_session(self, provider: Provider, model: str | None) -> NewSession:
        return NewSession(
            provider=provider.name,
            endpoint=endpoint_of(provider),
            model_id=model,
            system_prompt=self._answering.setting("system_prompt"),
            parameters=self._options.get("parameters"),
            model_config=self._options.get("model_config"),
        )


def _changes(session: Session, provider: Provider, model: str | None) -> dict[str, Any]:
    """Return what the session is to know about who answers it from now on, if that is new."""
    now = {"provider": provider.name, "model_id": model, "endpoint": endpoint_of(provider)}
    if now["endpoint"] is None:
        del now["endpoint"]  # where the history went before stays known
    return {name: value for name, value in now.items() if getattr(session, name) != value}


def _own_tools(provider: Provider) -> dict[str, Tool]:
    """Return the harmless tools that a provider brings along, by name."""
    return {
        one.spec.name: Tool(
            function=one.function,
            name=one.spec.name,
            description=one.spec.description,
            replay="safe",
            timeout_s=None,
            given_spec=one.spec,
        )
        for one in getattr(provider, "own_tools", ())
    }


def _require_text(text: object) -> None:
    if not isinstance(text, str):
        raise InputInvalid(f"A message is text, not {type(text).__name__}.")
    if not text.strip():
        raise InputInvalid("There is nothing to send: the message is empty.")
