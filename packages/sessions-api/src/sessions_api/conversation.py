"""What both agents are made of: a workspace's state, a provider for each session, runs.

Owns the decisions before a run begins: which session it belongs to, which provider and model
answer it, whether the history may go there. Invariant: synchronous and without a driver; `Agent`
and `AsyncAgent` differ only in who performs provider and tools. Nothing is stored when a plan is
refused.

A session's own provider, model, system prompt and parameters come back with it. A provider or model
that the caller names wins over the session's, and that over the settings'. Keys and addresses
always come from the caller or the settings, never from the store.
"""

from __future__ import annotations

import os
from itertools import chain
from typing import TYPE_CHECKING, Any, TypedDict

from sessions_api.arguments import check_options, checked
from sessions_api.errors import (
    AgentClosed,
    EndpointChanged,
    InputInvalid,
    ProviderUnavailable,
    SessionsError,
    SettingsInvalid,
)
from sessions_api.providers import make_provider
from sessions_api.providers.addresses import origin_of, without_secrets
from sessions_api.runs.history import History
from sessions_api.runs.plan import RunPlan
from sessions_api.runs.recorder import RunRecorder
from sessions_api.runs.requests import Requests
from sessions_api.runs.retrying import attempt_at
from sessions_api.runs.tools import Tool, toolbox
from sessions_api.sessions import Sessions
from sessions_api.state import Persistence, open_state
from sessions_api.titles import title_of
from state_store import (
    Clock,
    IdSource,
    NewSession,
    Progress,
    Session,
    new_id,
    silent,
    utc_now,
)
from workspace_identity import resolve_state_home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sessions_api.providers.base import Provider
    from sessions_api.runs.exchanges import Select


class AgentOptions(TypedDict, total=False):
    """What an agent is made with, all optional.

    - `provider`: a name ("offline", "openai") or an object that implements `Provider`. Left out,
      a resumed session's own, else the settings', else "offline".
    - `model`, `base_url`, `api_key`: for the provider; the key is never stored.
    - `system_prompt`, `parameters`, `model_config`: of the sessions that this agent creates. In the
      last, `cost` is a price of their own, in USD per million tokens: `{"input": 3, "output": 15,
      "cached_input": 0.3}` (without the last one, cached input costs as much as other input);
      `context_window` is in tokens; the rest, such as `capabilities`, is kept for the caller.
    - `select`: a function that is given the whole exchanges of the history, oldest first, before
      each run and returns those to send, in their order; the new message is always sent. Newest
      ten: `lambda exchanges: exchanges[-10:]`. It changes no stored message, runs in the agent's
      thread, and should depend on its argument alone. `SelectionInvalid` for a wrong answer.
    - `tools`: functions or `tool`s that the model may call.
    - `persistence`: "required" (default) raises when the store cannot be used; "best-effort" goes
      on in memory with a line in `notices`; "ephemeral" keeps nothing and touches no disk.
    - `accept_endpoint`: consent to send a history to another origin than it came from.
    - `state_home`: instead of TINYAGENT_STATE_HOME or ~/.tinyagent.
    - `progress`: called with what an upgrade of an older store is at, how much is done, of how
      much; (0, 0) where that cannot be known.
    - `clock`, `new_id`: sources of times and ids, for tests.
    """

    provider: str | Provider | None
    model: str | None
    base_url: str | None
    api_key: str | None
    system_prompt: str | None
    parameters: Mapping[str, Any] | None
    model_config: Mapping[str, Any] | None
    select: Select | None
    tools: Iterable[Tool | Callable[..., Any]]
    persistence: Persistence
    accept_endpoint: bool
    state_home: str | os.PathLike[str] | None
    progress: Progress
    clock: Clock
    new_id: IdSource


@checked
class Conversation:
    """The core that an agent drives. Not for use from two runs at once: `SessionBusy` says so."""

    def __init__(
        self, workspace: str | os.PathLike[str], options: AgentOptions, *, asynchronous: bool
    ) -> None:
        check_options(workspace, options)
        self._options = options
        self._asynchronous = asynchronous
        self._new_id = options.get("new_id", new_id)
        self._tools = toolbox(options.get("tools", ()))
        for tool in self._tools.values():
            tool.spec  # noqa: B018 - a tool that cannot be described is refused now, not in a run
        chosen = options.get("provider")
        self._provider_name = chosen if isinstance(chosen, str) else None
        self._providers: dict[str, Provider] = {}
        self._given = None if chosen is None or isinstance(chosen, str) else chosen
        self._settings: Any = None
        self._pid = os.getpid()  # before the journal's first line, which asks for the secrets
        if self._provider_name is not None:
            self._provider_named(self._provider_name)  # an unknown name is refused at once
        defaults = NewSession(
            provider=self._provider_name or getattr(self._given, "name", None),
            model_id=options.get("model"),
            system_prompt=self._setting("system_prompt"),
            parameters=options.get("parameters"),
            model_config=options.get("model_config"),
        )  # settings that cannot be read are refused before anything is open
        self._state = open_state(
            workspace,
            state_home=options.get("state_home"),
            persistence=options.get("persistence", "required"),
            secrets=self._secrets,
            progress=options.get("progress", silent),
            clock=options.get("clock", utc_now),
            new_id=self._new_id,
        )
        self.sessions = Sessions(
            self._state, defaults=defaults, secrets=self._secrets, obstacle=self._obstacle
        )
        self._history = History(self._state.store)
        self._requests = Requests(select=options.get("select"))
        self._under_way: set[RunRecorder] = set()
        self._closed = False

    @property
    def notices(self) -> tuple[str, ...]:
        """Lines for a person: about the workspace, or about what is not saved."""
        lost = self._state.lost_lines_notice()
        return (*self._state.notices, *((lost,) if lost else ()))

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
        return self._planned(session, text, parts=parts, retry_of=run_id)

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
    ) -> tuple[RunRecorder, Provider]:
        provider = self.provider_for(session)
        model = self._model_for(session, provider)
        if session is not None:
            self._consent(session, provider)
        created = self._new_session(provider, model) if session is None else None
        source = session or created
        plan = RunPlan(
            session_id=self._new_id() if session is None else session.id,
            run_id=self._new_id(),
            text=text,
            parts=parts,
            retry_of=retry_of,
            provider=provider.name,
            endpoint=_endpoint_of(provider),
            model=model,
            system_prompt=source.system_prompt if source else None,
            parameters=(source.parameters if source else None) or {},
            tools={**_own_tools(provider), **self._tools},
            create=created,
            changes={} if session is None else _changes(session, provider, model),
            auto_title=title_of(text),
            max_request_bytes=getattr(provider, "max_request_bytes", None),
        )
        recorder = RunRecorder(
            self._state,
            plan,
            sessions=self.sessions,
            history=self._history,
            requests=self._requests,
            under_way=self._under_way,
        )
        return recorder, provider

    def provider_for(self, session: Session | None) -> Provider:
        """Return the provider that answers in *session*, or in a new one."""
        if self._given is not None:
            return self._given
        own = session.provider if session is not None else None
        name = self._provider_name or own or self._setting("provider")
        try:
            return self._provider_named(name or "offline")
        except ProviderUnavailable as error:
            if session is not None and session.endpoint and not self._option("base_url"):
                error.hint = f"{error.hint or ''} This session was held with {session.endpoint}: to"
                error.hint += " go on there, name it with --base-url (TINYAGENT_BASE_URL)."
            raise

    def _obstacle(self, session: Session) -> str | None:
        """Return what is in the way of going on with *session*, whose history is open all the same.

        Nothing else is tried in its place: that is for the caller to say.
        """
        if session.provider is None:
            return None
        try:
            self.provider_for(session)
        except SessionsError as error:
            return f"{error} The history of session {session.id[-8:]} is open. {error.hint or ''}"
        return None

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

    @property
    def made_providers(self) -> tuple[Provider, ...]:
        """The providers that were made here, which the agent closes; not one that it was given.

        None in a forked child: connections and locks are the parent's.
        """
        return tuple(self._providers.values()) if os.getpid() == self._pid else ()

    # --- inside -------------------------------------------------------------------------------

    def _provider_named(self, name: str) -> Provider:
        if name == "offline" and self._options.get("base_url"):
            raise SettingsInvalid(
                "A base URL was given, but the provider is offline and asks nobody.",
                hint="Name a provider too: --provider openai, for any OpenAI-compatible service.",
            )
        if name not in self._providers:
            self._providers[name] = make_provider(
                name,
                asynchronous=self._asynchronous,
                model=self._option("model"),
                base_url=None if name == "offline" else self._option("base_url"),
                api_key=None if name == "offline" else self._key(),
            )
        return self._providers[name]

    def _model_for(self, session: Session | None, provider: Provider) -> str | None:
        if explicit := self._options.get("model"):
            return explicit
        if session is not None and session.model_id and session.provider == provider.name:
            return session.model_id
        if provider.name == "offline":
            return "offline"
        found = (self._setting("model") if self._given is None else None) or getattr(
            provider, "default_model", None
        )
        if found is None and hasattr(provider, "default_model"):
            raise ProviderUnavailable(
                provider.name,
                missing="no model is chosen",
                hint="Choose one with --model or TINYAGENT_MODEL.",
            )
        return found

    def _consent(self, session: Session, provider: Provider) -> None:
        stored, current = session.endpoint, _endpoint_of(provider)
        if stored is None or current is None or origin_of(stored) == origin_of(current):
            return
        if not self._options.get("accept_endpoint", False):
            raise EndpointChanged(session_id=session.id, stored=stored, current=current)

    def _new_session(self, provider: Provider, model: str | None) -> NewSession:
        return NewSession(
            provider=provider.name,
            endpoint=_endpoint_of(provider),
            model_id=model,
            system_prompt=self._setting("system_prompt"),
            parameters=self._options.get("parameters"),
            model_config=self._options.get("model_config"),
        )

    def _option(self, name: str) -> Any:
        return self._options.get(name) or self._setting(name)

    def _setting(self, name: str) -> Any:
        """Return an option, or else the setting of that name.

        A provider that was given as an object, or is offline by name, needs no settings, and
        reading them costs more than all the rest of a start.
        """
        if (given := self._options.get(name)) is not None:
            return given
        if self._given is not None or self._provider_name == "offline":
            return None
        if self._settings is None:
            from sessions_api.settings import Settings  # noqa: PLC0415 - costs 0.3 s

            self._settings = Settings.load(resolve_state_home(self._options.get("state_home")))
        return getattr(self._settings, name)

    def _key(self) -> str | None:
        if given := self._options.get("api_key"):
            return given
        configured = self._setting("api_key")
        return None if configured is None else configured.get_secret_value()

    def _secrets(self) -> tuple[str, ...]:
        """Return what must not show in the journal: the key, and what providers found elsewhere."""
        key = self._key()
        found = (getattr(one, "secrets", ()) for one in self.made_providers)
        return (*((key,) if key else ()), *chain.from_iterable(found))


def _changes(session: Session, provider: Provider, model: str | None) -> dict[str, Any]:
    """Return what the session is to know about who answers it from now on, if that is new."""
    now = {"provider": provider.name, "model_id": model, "endpoint": _endpoint_of(provider)}
    if now["endpoint"] is None:
        del now["endpoint"]  # where the history went before stays known
    return {name: value for name, value in now.items() if getattr(session, name) != value}


def _endpoint_of(provider: Provider) -> str | None:
    """Return what is stored of where *provider* sends a history to; its own may hold a key."""
    return None if provider.endpoint is None else without_secrets(provider.endpoint)


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
