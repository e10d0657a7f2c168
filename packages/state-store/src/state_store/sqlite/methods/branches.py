"""What is done with turns as wholes: branching off, undoing, redoing, summing up."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from state_store.errors import SessionBusy
from state_store.records import NewMessage, StandInKind
from state_store.sqlite import forking, messages, runs, sessions, undoing
from state_store.sqlite.boundaries import require_boundary
from state_store.sqlite.methods.basis import StoreBasis

if TYPE_CHECKING:
    import apsw

    from state_store.records import Message, Run, Session


class BranchMethods(StoreBasis):
    """The methods that cut a history, and those that take turns out of it."""

    def fork_session(
        self, session_id: str, *, at: int | None = None, title: str | None = None
    ) -> Session:
        """Begin a session with what was said in another one. See `SessionStore`."""
        with self._database.write() as connection:
            parent = sessions.get(connection, session_id)
            recovered, under_way = self._before_fork(connection, session_id, at)
            if at is None:
                before = None if under_way is None else under_way.first_seq
                at = forking.last_live(connection, session_id, before=before)
            else:
                require_boundary(connection, session_id, at)
            made = forking.fork(
                connection, parent, at=at, title=title, new_id=self._new_id, now=self._clock()
            )
            session = sessions.get(connection, made)
        self.recovered += recovered
        return session

    def _before_fork(
        self, connection: apsw.Connection, session_id: str, at: int | None
    ) -> tuple[tuple[Run, ...], Run | None]:
        """Recover a dead owner's run; return one that is under way, if it can stay behind."""
        try:
            return self._recovery.require_idle(connection, session_id, clock=self._clock), None
        except SessionBusy:
            (under_way,) = runs.pending(connection, session_id)
            if at is not None and at >= under_way.first_seq:
                raise
            return (), under_way

    def undo(self, session_id: str, count: int = 1) -> Session:
        """Mark the last turns undone. See `SessionStore`."""
        _require_count(count)
        with self._idle(session_id) as connection:
            sessions.require(connection, session_id)
            return undoing.undo(connection, session_id, count, self._clock())

    def redo(self, session_id: str, count: int = 1) -> Session:
        """Bring undone turns back. See `SessionStore`."""
        _require_count(count)
        with self._idle(session_id) as connection:
            sessions.require(connection, session_id)
            return undoing.redo(connection, session_id, count, self._clock())

    def summarize(
        self, session_id: str, text: str, *, through: int, kind: StandInKind = "summary"
    ) -> Message:
        """Append a message that stands for what was said so far. See `SessionStore`."""
        if kind not in get_args(StandInKind):
            raise ValueError(f"{kind!r} is no kind of message that stands for others")
        now = self._clock()
        message = NewMessage(role="system", content=text, kind=kind, covers=(1, through))
        with self._database.write() as connection:
            status = sessions.get(connection, session_id).status
            require_boundary(connection, session_id, through)
            (stored,) = messages.append(connection, session_id, (message,), run_id=None, now=now)
            sessions.advance(connection, session_id, status=status, now=now)
        return stored


def _require_count(count: int) -> None:
    if count < 1:
        raise ValueError(f"count must be at least 1; it is {count}")
