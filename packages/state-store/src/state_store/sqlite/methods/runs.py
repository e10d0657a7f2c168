"""The run protocol: beginning, each step, the end, and what became of it.

A write to a run is guarded by its owner and its being pending; see `state_store.sqlite.runs`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from state_store.records import (
    Message,
    NewMessage,
    NewSession,
    Page,
    ReplayPolicy,
    Run,
    ToolExecution,
    ToolOutcome,
    Usage,
)
from state_store.sqlite import messages, runs, sessions
from state_store.sqlite.methods.basis import StoreBasis
from state_store.sqlite.runs import Ending

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    import apsw


class RunMethods(StoreBasis):
    """The methods by which a run is made, step by step, and read."""

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
        outcomes: Mapping[tuple[int, int], ToolOutcome] | None = None,
    ) -> Run:
        """Commit the run as failed. See `SessionStore`."""
        ending = Ending(
            status="failed",
            error_type=error_type,
            usage=usage,
            cost=cost,
            journal_head=journal_head,
            journal_lost_count=journal_lost_count,
            outcomes=outcomes or {},
        )
        run, _ = self._end(run_id, ending, ())
        return run

    def find_runs(self, ref: str) -> tuple[Run, ...]:
        """Return the runs that *ref* names. See `SessionStore`."""
        with self._database.read() as connection:
            found = runs.find(connection, ref)
        return tuple(self._recovery.as_seen(run) for run in found)

    def get_run(self, run_id: str) -> Run:
        """Return the run as it is now. See `SessionStore`."""
        with self._database.read() as connection:
            run = runs.get(connection, run_id)
        return self._recovery.as_seen(run)

    def recover(self) -> tuple[Run, ...]:
        """Make the pending runs of dead owners failed/interrupted. See `SessionStore`."""
        recovered = self._recovery.recover(clock=self._clock)
        self.recovered += recovered
        return recovered

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
