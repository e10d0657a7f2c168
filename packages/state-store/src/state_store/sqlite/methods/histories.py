"""What was said: reading it by pages, and whole sessions as values or lines."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from state_store.export import jsonl_lines
from state_store.records import Snapshot
from state_store.sqlite import messages, runs, sessions, states
from state_store.sqlite.methods.basis import StoreBasis

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from state_store.records import Message, Page, Session, SessionState, View

EXPORT_PAGE_SIZE = 500


class HistoryMethods(StoreBasis):
    """The methods that read messages, and those that take or give a whole session."""

    def messages(
        self,
        session_id: str,
        *,
        view: View = "original",
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Message]:
        """Return messages in order of seq. See `SessionStore`."""
        with self._database.read() as connection:
            sessions.require(connection, session_id)
            return messages.page(connection, session_id, view=view, limit=limit, cursor=cursor)

    def last_messages(self, session_id: str, count: int) -> tuple[Message, ...]:
        """Return the last *count* originals in order of seq. See `SessionStore`."""
        with self._database.read() as connection:
            sessions.require(connection, session_id)
            return messages.last(connection, session_id, count)

    def save(self, state: SessionState, duration: timedelta) -> Session:
        """Create the session, or update its settings and append. See `SessionStore`."""
        with self._idle(state.id) as connection:
            return states.save(connection, state, duration, self._clock())

    def load(self, session_id: str) -> SessionState:
        """Return settings and original messages. See `SessionStore`."""
        with self._database.read() as connection:
            return states.load(connection, session_id)

    def snapshot(self, session_id: str) -> Snapshot:
        """Return all about a session but its messages, of one moment. See `SessionStore`."""
        with self._database.read() as connection:
            session = sessions.get(connection, session_id)
            found = runs.page(connection, session_id, limit=None, cursor=None).items
            executions = runs.executions(connection, session_id)
            last_seq = messages.last_seq(connection, session_id)
            undone = messages.undone_alone(connection, session_id)
        return Snapshot(
            session=session,
            runs=tuple(self._recovery.as_seen(run) for run in found),
            executions=executions,
            last_seq=last_seq,
            undone=undone,
        )

    def export_messages(self, session_id: str) -> Iterator[bytes]:
        """Stream the originals as JSON lines. See `SessionStore`."""
        at_start = self.snapshot(session_id)
        originals = takewhile(
            lambda message: message.seq <= at_start.last_seq, self._iter_originals(session_id)
        )
        return jsonl_lines(at_start.session, originals, at_start.executions)

    def _iter_originals(self, session_id: str) -> Iterator[Message]:
        cursor = None
        while True:
            page = self.messages(session_id, limit=EXPORT_PAGE_SIZE, cursor=cursor)
            yield from page.items
            if (cursor := page.next_cursor) is None:
                return
