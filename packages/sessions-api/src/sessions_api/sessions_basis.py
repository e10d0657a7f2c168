"""What every method of `agent.sessions` stands on: a workspace's state and the active session.

Invariant: `None` for a reference always means the active session, and nothing else does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.active import ActiveSession
from sessions_api.errors import NoActiveSession
from sessions_api.references import resolve_session
from state_store import NewSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sessions_api.state import WorkspaceState
    from state_store import Session


class SessionsBasis:
    """The parts that the methods share."""

    def __init__(
        self,
        state: WorkspaceState,
        *,
        defaults: NewSession | None = None,
        secrets: Callable[[], Iterable[str]] = tuple,
        obstacle: Callable[[Session], str | None] = lambda _: None,
    ) -> None:
        self._obstacle = obstacle
        self._state = state
        self._secrets = secrets
        self._store = state.store
        self._story = state.story
        self._defaults = defaults or NewSession()
        self._active = ActiveSession(state.store)

    @property
    def active(self) -> Session | None:
        """The session that the next run goes on with, as this agent last saw it, or None."""
        return self._active.session

    def _id_of(self, ref: str | None) -> str:
        if ref is not None:
            return resolve_session(self._store, ref).id
        if (active := self._active.session) is None:
            raise NoActiveSession
        return active.id
