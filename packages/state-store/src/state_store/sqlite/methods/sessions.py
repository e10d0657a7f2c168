"""Sessions as a whole: creating, finding, changing, deleting. See `StoreBasis` for the rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from state_store.clock import to_text
from state_store.records import Deleted, NewSession, Page, Session, SessionSummary
from state_store.sqlite import backups, sessions, totals
from state_store.sqlite.methods.basis import StoreBasis

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from state_store.totals import Totals


class SessionMethods(StoreBasis):
    """The methods that are about a session and not about what was said in it."""

    def create_session(
        self, settings: NewSession | None = None, *, session_id: str | None = None
    ) -> Session:
        """Create a session without messages. See `SessionStore`."""
        session_id = session_id or self._new_id()
        with self._database.write() as connection:
            sessions.insert(connection, session_id, settings or NewSession(), self._clock())
            return sessions.get(connection, session_id)

    def get_session(self, session_id: str) -> Session:
        """Return the session with this whole id. See `SessionStore`."""
        with self._database.read() as connection:
            return sessions.get(connection, session_id)

    def find_sessions(self, ref: str) -> tuple[SessionSummary, ...]:
        """Return the sessions that *ref* names. See `SessionStore`."""
        with self._database.read() as connection:
            return sessions.find(connection, ref)

    def list(
        self, *, limit: int | None = 20, cursor: str | None = None, archived: bool = False
    ) -> Page[SessionSummary]:
        """List sessions, newest activity first. See `SessionStore`."""
        with self._database.read() as connection:
            return sessions.list_page(connection, limit=limit, cursor=cursor, archived=archived)

    def update_session(self, session_id: str, changes: Mapping[str, Any]) -> Session:
        """Change settings, status or duration. See `SessionStore`."""
        columns = sessions.changed_columns(changes)
        with self._database.write() as connection:
            sessions.get(connection, session_id)
            return sessions.update(connection, session_id, columns, now=to_text(self._clock()))

    def close_session(self, session_id: str, *, spent: timedelta) -> Session:
        """Book the time a conversation took and close it if it is idle. See `SessionStore`."""
        with self._database.write() as connection:
            session = sessions.get(connection, session_id)
            columns = {
                "duration_ms": session.duration_ms + round(spent.total_seconds() * 1000),
                "status": "closed" if session.status == "idle" else session.status,
            }
            closed = sessions.update(connection, session_id, columns, now=None)
        self._settle_search()
        return closed

    def archive_session(self, session_id: str, *, archived: bool) -> Session:
        """Take the session out of the usual list, or back in. See `SessionStore`."""
        archived_at = to_text(self._clock()) if archived else None
        with self._database.write() as connection:
            sessions.get(connection, session_id)
            return sessions.update(connection, session_id, {"archived_at": archived_at}, now=None)

    def delete(self, session_id: str) -> Deleted:
        """Delete the session for good. See `SessionStore`.

        Another process in the middle of a read keeps the log, and with it the bytes, until this
        store's next write or close after that read: `erased` is then false. So it is when the
        search index could be neither cleaned nor removed; the next close or search sees to it.
        """
        with self._idle(session_id) as connection:
            deleted = sessions.delete(connection, session_id, self._clock())
        return replace(
            deleted,
            erased=self._database.checkpoint() & self._search.erase(),
            backups=backups.holding(self._database.path, session_id),
        )

    def unerased(self) -> tuple[str, ...]:
        """Return deleted sessions whose other remains nobody has seen to. See `SessionStore`."""
        with self._database.read() as connection:
            return sessions.unerased(connection)

    def mark_erased(self, *session_ids: str) -> None:
        """Note that nothing else is left of deleted sessions. See `SessionStore`."""
        with self._database.write() as connection:
            sessions.mark_erased(connection, session_ids, self._clock())

    def totals(self, session_id: str | None = None) -> Totals:
        """Add up what runs used, of one session or of all. See `SessionStore`."""
        with self._database.read() as connection:
            return totals.of(connection, session_id)
