"""A session as it was when its export began, read a page at a time.

Invariant: what is appended, undone or finished after the start shows nowhere, so that no export is
torn; no transaction is open while somebody reads what was yielded. Of messages at most one page is
in memory; the rows of runs and tool executions, which hold no content, are there from the start.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state_store import Message, Run, Session, SqliteStore, ToolExecution

PAGE_SIZE = 50  # a page of the largest messages must fit into memory as well


class Moment(Protocol):
    """Session, runs and executions of one commit, and the messages there were then."""

    @property
    def session(self) -> Session:
        """The session with its settings and totals."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """Its runs, in the order in which they began."""

    @property
    def executions(self) -> tuple[ToolExecution, ...]:
        """What became of its tool calls, in their order."""

    def messages(self) -> Iterator[Message]:
        """Yield every message in order of seq; again and again the same ones.

        SessionNotFound when somebody deletes the session meanwhile.
        """

    def originals(self) -> Iterator[Message]:
        """Yield the originals but those that are undone."""


class StoredMoment:
    """A moment of a session in a store, exactly as it is."""

    def __init__(self, store: SqliteStore, session_id: str) -> None:
        self._store = store
        self._snapshot = store.snapshot(session_id)
        self.session = self._snapshot.session
        self.runs = self._snapshot.runs
        self.executions = self._snapshot.executions

    def messages(self) -> Iterator[Message]:
        """Yield every message in order of seq."""
        cursor = None
        while True:
            page = self._store.messages(self.session.id, view="all", limit=PAGE_SIZE, cursor=cursor)
            for message in page.items:
                if message.seq > self._snapshot.last_seq:
                    return
                yield self._as_it_was(message)
            if (cursor := page.next_cursor) is None:
                return

    def originals(self) -> Iterator[Message]:
        """Yield the originals but those that are undone."""
        undone = {run.id for run in self.runs if run.undone_at is not None}
        for message in self.messages():
            is_undone = message.undone_at is not None or message.run_id in undone
            if message.kind == "original" and not is_undone:
                yield message

    def _as_it_was(self, message: Message) -> Message:
        """Return *message* as undone as it was; nothing else about it can change."""
        at, after = self._snapshot.undone.get(message.seq, (None, None))
        if (message.undone_at, message.undone_after) == (at, after):
            return message
        return replace(message, undone_at=at, undone_after=after)
