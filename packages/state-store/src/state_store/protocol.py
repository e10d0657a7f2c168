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
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import timedelta

    from state_store.findings import Finding
    from state_store.records import (
        Deleted,
        Hit,
        Imported,
        Message,
        NewMessage,
        NewSession,
        Page,
        ReplayPolicy,
        Run,
        SearchOrder,
        SearchState,
        Session,
        SessionState,
        SessionSummary,
        Snapshot,
        StandInKind,
        ToolExecution,
        ToolOutcome,
        Usage,
        View,
    )
    from state_store.totals import Totals


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

    def mark_erased(self, *session_ids: str) -> None:
        """Note that nothing is left of deleted sessions outside the store. Twice is once."""

    def totals(self, session_id: str | None = None) -> Totals:
        """Add up what runs used, of one session or of all that are stored.

        Copies of runs are left out, so that a fork counts nothing twice; undone and failed runs
        have used what they used, and one under way is not counted yet. The usage of a deleted
        session goes with it. Never looks at messages.
        """

    def fork_session(
        self, session_id: str, *, at: int | None = None, title: str | None = None
    ) -> Session:
        """Begin a session with what was said in another one, through the message *at*.

        None means all of it. *at* has to end an exchange: BoundaryInvalid names the nearest that
        do. Settings, live messages and stand-ins for them, runs and tool executions are copied
        under ids of their own; messages are numbered 1, 2, 3 … again, since undone ones stay
        behind. What the copied runs had used is the fork's `inherited_tokens` and
        `inherited_cost`, and in no total. A run under way stays behind; SessionBusy when *at* lies
        in it. Whichever of the two is deleted, the other one stays whole.
        """

    def undo(self, session_id: str, count: int = 1) -> Session:
        """Mark the last *count* live turns undone, or as many as there are.

        A turn is one typed input with everything that answered it, failed runs and retries too.
        Nothing is deleted or counted less; undone messages are in `view="all"` alone. The status
        becomes that of the last live run. NothingToUndo when there is none; SessionBusy while a
        live process runs the session.
        """

    def redo(self, session_id: str, count: int = 1) -> Session:
        """Bring back the earliest *count* undone turns, or as many as can be.

        Only while nothing new was said since they were undone, nor summed up in their place;
        NothingToRedo when there is none. Otherwise as `undo`.
        """

    def summarize(
        self, session_id: str, text: str, *, through: int, kind: StandInKind = "summary"
    ) -> Message:
        """Append a message that stands for all originals through the message *through*.

        These stay as they are. *through* has to end an exchange, as in `fork_session`; one of a run
        under way never does. A summary speaks for live messages: once one that it covers is undone
        it counts no more, until that is brought back.
        """

    def import_session(
        self,
        session: Session,
        *,
        messages: Iterable[Message],
        runs: Iterable[Run] = (),
        executions: Iterable[ToolExecution] = (),
        digest: str,
    ) -> Imported:
        """Store a session that comes from elsewhere, in one transaction, or nothing of it.

        *digest* says what is imported: when it was before, that session is the answer and nothing
        is written or read. The session's id is kept where it is one and free, and so are those of
        its runs; else they get new ones. Messages are numbered 1, 2, 3 … in the order in which
        they come, and everything that points at them goes along; their ids, owners, journals and
        totals are made anew, and what was under way is interrupted. ImportInvalid names the first
        record that cannot be. The records are taken in the order of the arguments, one by one; they
        must not be read from this very store meanwhile (RuntimeError).
        """

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
        outcomes: Mapping[tuple[int, int], ToolOutcome] | None = None,
    ) -> Run:
        """Commit the run as failed. Its messages stay.

        *outcomes* says of calls still under way, by (call_seq, call_index), how they have ended
        without a result that is stored, cancelled for instance; all others become unknown.
        """

    def find_runs(self, ref: str) -> tuple[Run, ...]:
        """Return the runs that *ref* names, in the order of their ids, maybe none.

        The run with this whole id; else all whose id ends with these digits (4 or more). Nothing
        in *ref* is a pattern. Reads the ids of all runs, and no message.
        """

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

    def snapshot(self, session_id: str) -> Snapshot:
        """Return the session, its runs, its executions and its last seq, all of one moment."""

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

    def search(
        self,
        query: str,
        *,
        limit: int | None = 20,
        cursor: str | None = None,
        order: SearchOrder = "newest",
        session_id: str | None = None,
        archived: bool | None = None,
    ) -> Page[Hit]:
        """Find titles and messages, results of tools among them, that have all words of *query*.

        Case and accents do not count. Words in double quotes, or written without a space between
        them, are found next to one another; the last word, unless in quotes, also as the beginning
        of one. Each character of Chinese, Japanese or Korean is a word. Nothing is a pattern or an
        operator, and a query without a word finds nothing.

        Titles come first, of the newest session first, then messages, those stored last first, or
        by "relevance" (often, in few words): the newest 1,000 that match, then the next. Originals
        that are not undone are found, in all sessions or in one (SessionNotFound), archived ones
        or not; None is both. It is complete at any time. CursorInvalid for a cursor of another
        search, ValueError for a limit below 1 or another order.
        """

    def prepare_search(self, *, slice_ms: int = 200) -> SearchState:
        """Spend about *slice_ms* on making searches quick, and say how far that has got.

        For whoever is idle, again and again until `complete`. Searching and closing do a little of
        it too. It never waits for another process, and what hinders it is no error.
        """

    def search_state(self) -> SearchState:
        """Return how much of the store is indexed for searching."""

    def check_session(self, session_id: str) -> tuple[Finding, ...]:
        """Return what the session's rows say that cannot be, in no other's; none if all is well.

        Its totals, its status, its order, its runs against their messages, calls against results,
        what summaries cover, what was undone, where it was forked. Costs what the session is long.
        """

    def close(self) -> None:
        """Close the store. Doing it twice does nothing; any other call then raises StoreClosed."""
