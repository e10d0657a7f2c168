"""Which session an agent goes on with, and how long it has been in it.

Invariant: at most one session is active; the one that is left is closed and the time it took is
booked, but only if a run used it: looking at a session changes nothing in the store.

Must not: resolve references or tell the journal.
"""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from state_store import SessionNotFound

if TYPE_CHECKING:
    from state_store import Session, SqliteStore


class ActiveSession:
    """The session of the next run, as this agent last saw it; `session` is None when none is."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._entered_at = 0.0
        self._used = False
        self.session: Session | None = None

    def enter(self, session: Session) -> Session:
        """Make *session* active, leave the one before, and return it."""
        if not self._is(session.id):
            self.leave()
            self._entered_at = time.monotonic()
        self.session = session
        return session

    def use(self, session_id: str) -> Session:
        """Make the session that a run has begun in active, and return it as it is now."""
        session = self.enter(self._store.get_session(session_id))
        self._used = True
        return session

    def leave(self) -> None:
        """Make none active; close the one that was, if a run used it."""
        active, used = self.session, self._used
        self.forget()
        if active is not None and used:
            spent = timedelta(seconds=time.monotonic() - self._entered_at)
            with suppress(SessionNotFound):  # deleted elsewhere meanwhile
                self._store.close_session(active.id, spent=spent)

    def forget(self, session_id: str | None = None) -> None:
        """Make none active, or not that one, and book nothing."""
        if session_id is None or self._is(session_id):
            self.session = None
            self._used = False

    def seen(self, session: Session) -> Session:
        """Take over how *session* is now, if it is the active one, and return it."""
        if self._is(session.id):
            self.session = session
        return session

    def refresh(self, session_id: str) -> None:
        """Read the session again, if it is the active one."""
        if self._is(session_id):
            with suppress(SessionNotFound):  # the next call that needs it says so
                self.session = self._store.get_session(session_id)

    def _is(self, session_id: str) -> bool:
        return self.session is not None and self.session.id == session_id
