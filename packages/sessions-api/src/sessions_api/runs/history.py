"""What a provider is sent of one session, kept from one run to the next.

Reading a session of ten thousand messages for every turn would make a turn as slow as the session
is long. Invariant: what is kept is used only if nothing but our own commits has changed the session
since; each change of a session raises its `revision` by one, so counting our commits is enough to
know. Otherwise, and after any doubt, the rows are read again. Whoever reads a history with calls
that were interrupted is told so, once a session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.runs.exchanges import Past, past_of
from sessions_api.runs.replay import context, is_made_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from state_store import Session, SqliteStore


class History:
    """The replay of one session as of a revision. Not thread-safe: one run at a time uses it."""

    def __init__(self, store: SqliteStore, *, notify: Callable[[str], None]) -> None:
        self._store = store
        self._notify = notify
        self._told: set[str] = set()
        self._session_id: str | None = None
        self._revision = 0
        self._past = Past()

    def now(self, session: Session) -> Past:
        """Return what would come before a run of *session*, which is as it was just read.

        If somebody changes the session between that reading and this one, `before_run` finds out.
        """
        if session.id != self._session_id or session.revision != self._revision:
            self.keep(session.id, session.revision, self._read(session.id))
        return self._past

    def before_run(self, session: Session) -> Past:
        """Return what came before the run that has just begun in *session*.

        The run itself is pending and therefore not part of what is replayed.
        """
        if session.id != self._session_id or session.revision != self._revision + 1:
            self.forget()
            return self._read(session.id)
        return self._past

    def keep(self, session_id: str, revision: int, past: Past) -> None:
        """Keep what will come before the next run, if the session is then at *revision*."""
        self._session_id = session_id
        self._revision = revision
        self._past = past

    def forget(self) -> None:
        """Keep nothing; the next run reads the rows."""
        self._session_id = None
        self._past = Past()

    def _read(self, session_id: str) -> Past:
        past = past_of(
            context(
                self._store.messages(session_id, view="all").items,
                self._store.runs(session_id).items,
                self._store.tool_executions(session_id),
            )
        )
        count = sum(map(is_made_up, past.messages))
        if count and session_id not in self._told:
            self._told.add(session_id)
            calls = "1 tool call" if count == 1 else f"{count} tool calls"
            self._notify(
                f"{calls} of session {session_id[-8:]} had been interrupted and no result is"
                " stored; the model is told so."
            )
        return past
