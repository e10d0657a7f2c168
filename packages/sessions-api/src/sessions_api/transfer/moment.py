"""A session as it was when its export began, read a page at a time.

Invariant: what is appended, undone or finished after the start shows nowhere, so that no export is
torn; no transaction is open while somebody reads what was yielded. Of messages at most one page is
in memory; the rows of runs and tool executions, which hold no content, are there from the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state_store import Message, Snapshot, SqliteStore

PAGE_SIZE = 50  # a page of the largest messages must fit into memory as well


class Moment:
    """Session, runs and executions of one commit, and the messages there were then."""

    def __init__(self, store: SqliteStore, session_id: str) -> None:
        self._store = store
        self.snapshot: Snapshot = store.snapshot(session_id)

    def messages(self) -> Iterator[Message]:
        """Yield every message in order of seq; again and again the same ones.

        SessionNotFound when somebody deletes the session meanwhile.
        """
        cursor = None
        while True:
            page = self._store.messages(
                self.snapshot.session.id, view="all", limit=PAGE_SIZE, cursor=cursor
            )
            for message in page.items:
                if message.seq > self.snapshot.last_seq:
                    return
                yield message
            if (cursor := page.next_cursor) is None:
                return

    def originals(self) -> Iterator[Message]:
        """Yield the originals but those that are undone."""
        undone = {run.id for run in self.snapshot.runs if run.undone_at is not None}
        for message in self.messages():
            is_undone = message.undone_at is not None or message.run_id in undone
            if message.kind == "original" and not is_undone:
                yield message
