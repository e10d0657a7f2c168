"""The store: every method one transaction, over the modules that know the SQL.

Owns the database and this store's claim on its runs. Invariant: see `state_store.protocol`; all
that is added here is what an engine in a file needs: opening, recovery at open, ownership.

Must not: hold a transaction while anybody waits, or know what a provider or a journal is.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from state_store.clock import Clock, IdSource, new_id, to_text, utc_now
from state_store.errors import StateStoreError
from state_store.export import jsonl_lines
from state_store.progress import Progress, silent
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
    Upgrade,
    Usage,
    View,
)
from state_store.sqlite import backups, messages, runs, sessions, states
from state_store.sqlite.database import Database
from state_store.sqlite.opening import open_database
from state_store.sqlite.place import BUSY_TIMEOUT_MS, Place
from state_store.sqlite.recovery import Recovery
from state_store.sqlite.runs import Ending

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime, timedelta
    from pathlib import Path

    import apsw


EXPORT_PAGE_SIZE = 500


class SqliteStore:
    """A `SessionStore` in one SQLite file. Thread-safe; does not cross a fork.

    Open it with `open` or `in_memory` and close it, or use it as a context manager. `recovered`
    holds the runs of dead processes that this store made failed/interrupted, at opening and since;
    `upgraded` tells of the upgrade that opening it made, if it made one.
    """

    def __init__(
        self, database: Database, recovery: Recovery, *, clock: Clock, new_id: IdSource
    ) -> None:
        self._database = database
        self._recovery = recovery
        self._clock = clock
        self._new_id = new_id
        self.recovered: tuple[Run, ...] = ()
        self.upgraded: Upgrade | None = None

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        workspace_id: str,
        writing: bool = True,
        owners_dir: Path | None = None,
        clock: Clock = utc_now,
        new_id: IdSource = new_id,
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,
        allow_network_filesystem: bool = False,
        progress: Progress = silent,
    ) -> Self:
        """Open the database at *path*.

        For writing it is created when missing, its directory and *owners_dir* (default: `owners`
        beside it; the same for all who open it) too, and pending runs of dead processes are
        recovered. A reader creates nothing, raises StoreMissing when there is no database, and
        never waits for a writer. Damaged, newer and foreign files are refused with their bytes
        unchanged. An older schema is backed up and upgraded first, by a reader too: *progress* is
        told, StoreInUse names who is in the way, UpgradeFailed leaves everything as it was.
        Filesystems of other machines (NFS, SMB, 9p, virtiofs, FUSE …) are refused
        with WalUnsupported: *allow_network_filesystem* takes the risk that commits vanish there.
        """
        place = Place.at(
            path,
            workspace_id=workspace_id,
            owners_dir=owners_dir,
            clock=clock,
            busy_timeout_ms=busy_timeout_ms,
            allow_network_filesystem=allow_network_filesystem,
            progress=progress,
        )
        opened = open_database(place, writing=writing)
        store = cls(opened.database, opened.recovery, clock=clock, new_id=new_id)
        store.recovered = opened.recovered
        store.upgraded = opened.upgraded
        return store

    @classmethod
    def in_memory(
        cls, *, workspace_id: str, clock: Clock = utc_now, new_id: IdSource = new_id
    ) -> Self:
        """Make a store with the same meaning that keeps nothing once it is closed."""
        database = Database.in_memory(workspace_id=workspace_id, clock=clock)
        recovery = Recovery(database, owner=None, owners_dir=None)
        return cls(database, recovery, clock=clock, new_id=new_id)

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
            return sessions.update(connection, session_id, columns, now=None)

    def archive_session(self, session_id: str, *, archived: bool) -> Session:
        """Take the session out of the usual list, or back in. See `SessionStore`."""
        archived_at = to_text(self._clock()) if archived else None
        with self._database.write() as connection:
            sessions.get(connection, session_id)
            return sessions.update(connection, session_id, {"archived_at": archived_at}, now=None)

    def delete(self, session_id: str) -> Deleted:
        """Delete the session for good. See `SessionStore`.

        Another process in the middle of a read keeps the log, and with it the bytes, until this
        store's next write or close after that read: `erased` is then false.
        """
        with self._idle(session_id) as connection:
            deleted = sessions.delete(connection, session_id, self._clock())
        return replace(
            deleted,
            erased=self._database.checkpoint(),
            backups=backups.holding(self._database.path, session_id),
        )

    def unerased(self) -> tuple[str, ...]:
        """Return deleted sessions whose other remains nobody has seen to. See `SessionStore`."""
        with self._database.read() as connection:
            return sessions.unerased(connection)

    def mark_erased(self, session_id: str) -> None:
        """Note that nothing else is left of a deleted session. See `SessionStore`."""
        with self._database.write() as connection:
            sessions.mark_erased(connection, session_id, self._clock())

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
        """Commit the user's message and a pending run. See `SessionStore`."""
        now = self._clock()
        columns = sessions.changed_columns(changes) if changes else {}
        with self._idle(session_id) as connection:
            if create is not None:
                sessions.insert(connection, session_id, create, now)
            else:
                sessions.require(connection, session_id)
            if columns:
                sessions.update(connection, session_id, columns, now=None)
            runs.insert(
                connection,
                run_id,
                session_id=session_id,
                first_seq=messages.last_seq(connection, session_id) + 1,
                owner=self._recovery.owner_id,
                now=now,
                provider=provider,
                model=model,
                retry_of=retry_of,
            )
            (stored,) = messages.append(connection, session_id, (message,), run_id=run_id, now=now)
            sessions.advance(
                connection,
                session_id,
                status="running",
                now=now,
                originals=1,
                auto_title=auto_title,
            )
            return runs.get(connection, run_id), stored

    def start_tools(
        self, run_id: str, message: NewMessage, policies: Sequence[ReplayPolicy]
    ) -> Message:
        """Commit the assistant message with its calls and their starts. See `SessionStore`."""
        with self._step(run_id, message) as (connection, run, stored, now):
            runs.start_tools(connection, run, stored, policies, now)
        return stored

    def finish_tool(
        self,
        run_id: str,
        *,
        call_seq: int,
        call_index: int,
        outcome: ToolOutcome,
        message: NewMessage,
    ) -> Message:
        """Commit one tool's result and outcome. See `SessionStore`."""
        with self._step(run_id, message) as (connection, run, stored, now):
            runs.finish_tool(
                connection,
                run,
                call_seq=call_seq,
                call_index=call_index,
                outcome=outcome,
                result_seq=stored.seq,
                now=now,
            )
        return stored

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
        """Commit the answer and the completed run. See `SessionStore`."""
        ending = Ending(
            status="completed",
            usage=usage,
            cost=cost,
            journal_head=journal_head,
            journal_lost_count=journal_lost_count,
        )
        run, stored = self._end(run_id, ending, (message,))
        return run, stored[0]

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
        """Commit the run as failed. See `SessionStore`."""
        ending = Ending(
            status="failed",
            error_type=error_type,
            usage=usage,
            cost=cost,
            journal_head=journal_head,
            journal_lost_count=journal_lost_count,
        )
        run, _ = self._end(run_id, ending, ())
        return run

    def get_run(self, run_id: str) -> Run:
        """Return the run as it is now. See `SessionStore`."""
        with self._database.read() as connection:
            run = runs.get(connection, run_id)
        return self._recovery.as_seen(run)

    def recover(self) -> tuple[Run, ...]:
        """Make the pending runs of dead owners failed/interrupted. See `SessionStore`."""
        return self._recovery.recover(clock=self._clock)

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

    def runs(
        self, session_id: str, *, limit: int | None = None, cursor: str | None = None
    ) -> Page[Run]:
        """Return the session's runs in the order they began. See `SessionStore`."""
        with self._database.read() as connection:
            sessions.require(connection, session_id)
            page = runs.page(connection, session_id, limit=limit, cursor=cursor)
        return Page(
            items=tuple(self._recovery.as_seen(run) for run in page.items),
            next_cursor=page.next_cursor,
        )

    def tool_executions(self, session_id: str) -> tuple[ToolExecution, ...]:
        """Return the session's tool executions in call order. See `SessionStore`."""
        with self._database.read() as connection:
            sessions.require(connection, session_id)
            return runs.executions(connection, session_id)

    def save(self, state: SessionState, duration: timedelta) -> Session:
        """Create the session, or update its settings and append. See `SessionStore`."""
        with self._idle(state.id) as connection:
            return states.save(connection, state, duration, self._clock())

    def load(self, session_id: str) -> SessionState:
        """Return settings and original messages. See `SessionStore`."""
        with self._database.read() as connection:
            return states.load(connection, session_id)

    def export_messages(self, session_id: str) -> Iterator[bytes]:
        """Stream the originals as JSON lines. See `SessionStore`."""
        return jsonl_lines(self.get_session(session_id), self._iter_originals(session_id))

    def close(self) -> None:
        """Close the store; its owner file goes unless a run of ours is pending still."""
        try:
            with contextlib.suppress(StateStoreError):  # what hinders a read must not hinder this
                self._recovery.release()
        finally:
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _iter_originals(self, session_id: str) -> Iterator[Message]:
        cursor = None
        while True:
            page = self.messages(session_id, limit=EXPORT_PAGE_SIZE, cursor=cursor)
            yield from page.items
            if (cursor := page.next_cursor) is None:
                return

    @contextlib.contextmanager
    def _idle(self, session_id: str) -> Iterator[apsw.Connection]:
        """Write while no run of the session is pending; a dead owner's is recovered first."""
        with self._database.write() as connection:
            recovered = self._recovery.require_idle(connection, session_id, clock=self._clock)
            yield connection
        self.recovered += recovered

    @contextlib.contextmanager
    def _step(
        self, run_id: str, message: NewMessage
    ) -> Iterator[tuple[apsw.Connection, Run, Message, datetime]]:
        """Commit *message* as a step of a run under way, with what the block adds."""
        now = self._clock()
        with self._database.write() as connection:
            run = runs.require_pending(connection, run_id, self._recovery.owner_id)
            (stored,) = messages.append(
                connection, run.session_id, (message,), run_id=run_id, now=now
            )
            sessions.advance(connection, run.session_id, status="running", now=now, originals=1)
            yield connection, run, stored, now

    def _end(
        self, run_id: str, ending: Ending, last: Sequence[NewMessage]
    ) -> tuple[Run, tuple[Message, ...]]:
        """Commit how a run ends, with its last messages, in one transaction."""
        now = self._clock()
        with self._database.write() as connection:
            run = runs.require_pending(connection, run_id, self._recovery.owner_id)
            stored = messages.append(connection, run.session_id, last, run_id=run_id, now=now)
            runs.finish(connection, run, ending, owner=self._recovery.owner_id, now=now)
            sessions.advance(
                connection,
                run.session_id,
                status="idle" if ending.status == "completed" else "failed",
                now=now,
                originals=len(stored),
                usage=ending.usage,
                cost=ending.cost,
            )
            return runs.get(connection, run_id), stored
