"""The interface of a store: what any engine has to do, and what its callers may rely on.

`SessionStore` is synchronous; an asynchronous store has the same names with `await`. Both must
pass the contract suite in `state_store.testing`. Rules for every implementation:

- A method that writes returns after its transaction is durable: what it did survives process
  kill and power loss. A method that raises wrote nothing.
- All methods may be called from any thread; a store does not cross a fork.
- Writes to a run are guarded by its owner and its being pending: a late writer gets
  `RunNotPending` and changes nothing.
- No read outlives the call: pages are complete before they are returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import timedelta

    from state_store.records import (
        Deleted,
        Message,
        NewMessage,
        NewSession,
        Page,
        ReplayPolicy,
        Run,
        Session,
        SessionState,
        SessionSummary,
        ToolExecution,
        ToolOutcome,
        Usage,
        View,
    )


class SessionStore(Protocol):
    """Sessions, messages and runs, durable and in order."""

    def create_session(
        self, settings: NewSession | None = None, *, session_id: str | None = None
    ) -> Session:
        """Create a session without messages. SessionExists when the id is taken."""

    def get_session(self, session_id: str) -> Session:
        """Return the session with this whole id, or raise SessionNotFound."""

    def find_sessions(self, ref: str) -> tuple[SessionSummary, ...]:
        """Return the sessions that *ref* names, newest activity first, maybe none.

        The session with this whole id; else all with exactly this title or whose id ends with
        these digits (4 or more). Case counts and nothing in *ref* is a pattern.
        """

    def list(
        self, *, limit: int | None = 20, cursor: str | None = None, archived: bool = False
    ) -> Page[SessionSummary]:
        """List sessions, newest activity first, at most *limit*; None means all.

        Costs the same however many messages there are. CursorInvalid for a foreign cursor,
        ValueError for a limit below 1.
        """

    def update_session(self, session_id: str, changes: Mapping[str, Any]) -> Session:
        """Change fields of `NewSession`, `status` or `duration_ms`; ValueError for others.

        A title given here is the user's unless `title_source` says otherwise.
        """

    def close_session(self, session_id: str, *, spent: timedelta) -> Session:
        """Add *spent* to the session's duration and close it, if it is idle.

        A failed or running one keeps its status, and the time of last activity stays.
        """

    def archive_session(self, session_id: str, *, archived: bool) -> Session:
        """Take the session out of the usual list, or back in. Its last activity stays."""

    def delete(self, session_id: str) -> Deleted:
        """Delete the session for good and leave a tombstone with times and counts alone.

        SessionBusy while a live process runs it. After it returns the content is nowhere in the
        bytes of the store's files. Somebody in the middle of a read can hold that up: then
        `erased` in the answer is false, no later read finds the session, and the bytes go, once
        that read is over, with this store's next write or close (if its process is killed first:
        when a later writer is the last to close the store).
        """

    def unerased(self) -> tuple[str, ...]:
        """Return the ids of deleted sessions of which something may be left outside the store.

        A delete here is whole, but whoever keeps more about a session, a journal say, can crash
        before that is gone too: what this returns at the next start is still to be done.
        """

    def mark_erased(self, session_id: str) -> None:
        """Note that nothing is left of a deleted session outside the store. Twice is once."""

    def begin_run(
        self,
        session_id: str,
        message: NewMessage,
        *,
        run_id: str,
        create: NewSession | None = None,
        changes: Mapping[str, Any] | None = None,
        auto_title: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        retry_of: str | None = None,
    ) -> tuple[Run, Message]:
        """Commit the user's message and a pending run, and with *create* the session too.

        A pending run of a dead owner is recovered in place; SessionBusy when its owner is alive
        or cannot be judged. *changes* are made to the session in the same transaction (see
        `update_session`). *auto_title* becomes the title of a session that has none.
        """

    def start_tools(
        self, run_id: str, message: NewMessage, policies: Sequence[ReplayPolicy]
    ) -> Message:
        """Commit the assistant message and, for each of its tool calls in order, its start."""

    def finish_tool(
        self,
        run_id: str,
        *,
        call_seq: int,
        call_index: int,
        outcome: ToolOutcome,
        message: NewMessage,
    ) -> Message:
        """Commit one tool's result and outcome."""

    def complete_run(
        self,
        run_id: str,
        message: NewMessage,
        *,
        usage: Usage,
        cost: float | None = None,
        journal_head: tuple[int, str] | None = None,
        journal_lost_count: int = 0,
    ) -> tuple[Run, Message]:
        """Commit the final assistant message and the completed run in one transaction."""

    def fail_run(
        self,
        run_id: str,
        error_type: str,
        *,
        usage: Usage,
        cost: float | None = None,
        journal_head: tuple[int, str] | None = None,
        journal_lost_count: int = 0,
    ) -> Run:
        """Commit the run as failed. Its messages stay; tools still under way become unknown."""

    def get_run(self, run_id: str) -> Run:
        """Return the run as it is now, or raise RunNotFound."""

    def recover(self) -> tuple[Run, ...]:
        """Make the pending runs of dead owners failed/interrupted and return those runs.

        Writes nothing when there are none; doing it twice, or many at once, changes nothing more.
        """

    def messages(
        self,
        session_id: str,
        *,
        view: View = "original",
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Message]:
        """Return messages in order of seq, at most *limit*; None means all, with no hidden cap.

        "original": every original but those of undone runs. "all": everything.
        """

    def last_messages(self, session_id: str, count: int) -> tuple[Message, ...]:
        """Return the last *count* originals in order of seq, whatever the session's length."""

    def runs(
        self, session_id: str, *, limit: int | None = None, cursor: str | None = None
    ) -> Page[Run]:
        """Return the session's runs in the order they began; `stale` marks a dead owner's."""

    def tool_executions(self, session_id: str) -> tuple[ToolExecution, ...]:
        """Return the session's tool executions in call order."""

    def save(self, state: SessionState, duration: timedelta) -> Session:
        """Create the session, or update its settings and append what is new.

        The stored originals must be a prefix of *state*'s messages; HistoryConflict otherwise,
        and nothing is written. *duration* replaces the stored one.
        """

    def load(self, session_id: str) -> SessionState:
        """Return settings and original messages, complete."""

    def export_messages(self, session_id: str) -> Iterator[bytes]:
        """Stream the originals as JSON lines, each with its newline, in constant memory.

        The system prompt comes first unless a stored message says it already; tool results come
        in call order.
        """

    def close(self) -> None:
        """Close the store. Doing it twice does nothing; any other call then raises StoreClosed."""
