"""Who answers a session: its provider and model, with the settings and the keys that they need.

Owns these choices for one agent, and the consent that a history needs to go elsewhere. A provider
or model that the caller names wins over the session's, and that over the settings'; keys and
addresses come from the caller or the settings, never from the store. Invariants: nothing else is
tried in place of a provider that is missing; settings are read when they are first needed, once.

Must not: know of runs, or store anything.
"""

from __future__ import annotations

import os
from itertools import chain
from typing import TYPE_CHECKING, Any

from sessions_api.errors import EndpointChanged, ProviderUnavailable, SessionsError, SettingsInvalid
from sessions_api.providers import make_provider
from sessions_api.providers.addresses import is_http, origin_of, without_secrets
from workspace_identity import resolve_state_home

if TYPE_CHECKING:
    from sessions_api.agent_options import AgentOptions
    from sessions_api.providers.base import Provider
    from state_store import Session


class Answering:
    """The providers of one agent; a provider that its options name is made at once, or refused."""

    def __init__(self, options: AgentOptions, *, asynchronous: bool) -> None:
        self._options = options
        self._asynchronous = asynchronous
        chosen = options.get("provider")
        self._provider_name = chosen if isinstance(chosen, str) else None
        self._given = None if chosen is None or isinstance(chosen, str) else chosen
        self._providers: dict[str, Provider] = {}
        self._settings: Any = None
        self._pid = os.getpid()
        if self._provider_name is not None:
            self._named(self._provider_name)

    @property
    def chosen_name(self) -> str | None:
        """The name of the provider that the caller chose; None where it is left open."""
        return self._provider_name or getattr(self._given, "name", None)

    def provider_for(self, session: Session | None) -> Provider:
        """Return the provider that answers in *session*, or in a new one."""
        if self._given is not None:
            return self._given
        own = session.provider if session is not None else None
        name = self._provider_name or own or self.setting("provider")
        try:
            return self._named(name or "offline")
        except ProviderUnavailable as error:
            if session is not None and session.endpoint and not self._option("base_url"):
                error.hint = f"{error.hint or ''} This session was held with {session.endpoint}: to"
                error.hint += " go on there, name it with --base-url (TINYAGENT_BASE_URL)."
            raise

    def model_for(self, session: Session | None, provider: Provider) -> str | None:
        """Return the model that is asked in *session*; None leaves it to the provider."""
        if explicit := self._options.get("model"):
            return explicit
        if session is not None and session.model_id and session.provider == provider.name:
            return session.model_id
        if provider.name == "offline":
            return "offline"
        found = (self.setting("model") if self._given is None else None) or getattr(
            provider, "default_model", None
        )
        if found is None and hasattr(provider, "default_model"):
            raise ProviderUnavailable(
                provider.name,
                missing="no model is chosen",
                hint="Choose one with --model or TINYAGENT_MODEL.",
            )
        return found

    def require_consent(self, session: Session, provider: Provider) -> None:
        """Raise EndpointChanged where the history of *session* would go to another origin."""
        stored, current = session.endpoint, endpoint_of(provider)
        if stored is None or current is None or origin_of(stored) == origin_of(current):
            return
        if not self._options.get("accept_endpoint", False):
            raise EndpointChanged(session_id=session.id, stored=stored, current=current)

    def obstacle(self, session: Session) -> str | None:
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

    def setting(self, name: str) -> Any:
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

    def secrets(self) -> tuple[str, ...]:
        """Return what must not show in the journal: the key, and what providers found elsewhere."""
        key = self._key()
        found = (getattr(one, "secrets", ()) for one in self.made_providers)
        return (*((key,) if key else ()), *chain.from_iterable(found))

    @property
    def made_providers(self) -> tuple[Provider, ...]:
        """The providers that were made here, which the agent closes; not one that it was given.

        None in a forked child: connections and locks are the parent's.
        """
        return tuple(self._providers.values()) if os.getpid() == self._pid else ()

    def _named(self, name: str) -> Provider:
        if name == "offline" and (address := self._options.get("base_url")):
            readable = is_http(address)  # of another one nobody can say where it keeps a password
            given = f"The address {without_secrets(address)}" if readable else "An address"
            raise SettingsInvalid(
                f"{given} was given, but the provider is offline and asks nobody.",
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

    def _option(self, name: str) -> Any:
        return self._options.get(name) or self.setting(name)

    def _key(self) -> str | None:
        if given := self._options.get("api_key"):
            return given
        configured = self.setting("api_key")
        return None if configured is None else configured.get_secret_value()


def endpoint_of(provider: Provider) -> str | None:
    """Return what is stored of where *provider* sends a history to; its own may hold a key."""
    return None if provider.endpoint is None else without_secrets(provider.endpoint)
