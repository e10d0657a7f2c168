"""The runs and tool_executions tables: the run protocol, step by step.

Invariants: at most one pending run a session, kept by a unique index; every write to a run is
guarded by (run, owner, status = pending), so that an owner that was taken for dead and wakes up
changes nothing; the user's message and the pending run, and the answer and the completed run, are
one transaction each. Recovery touches only runs whose owner is proved dead.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import apsw

from state_store.clock import to_text
from state_store.cursor import decode_cursor, encode_cursor, fetch_count
from state_store.errors import RunExists, RunNotFound, RunNotPending
from state_store.ids import require_id
from state_store.records import Message, Page, ReplayPolicy, Run, ToolExecution, ToolOutcome, Usage
from state_store.sqlite.rows import EXECUTION_COLUMNS, RUN_COLUMNS, to_execution, to_run
from state_store.text import repair_optional, repair_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

NOBODY = "00000000-0000-0000-0000-000000000000"  # the owner of a run that came without one
_GET = f"SELECT {RUN_COLUMNS} FROM runs WHERE id = ?"  # noqa: S608 - constants alone
# A scan of the index of ids: one of their last digits would be written with every run.
_ENDING = (
    f"SELECT {RUN_COLUMNS} FROM runs WHERE id IN"  # noqa: S608 - the same
    " (SELECT id FROM runs WHERE length(?1) >= 4 AND substr(id, -length(?1)) = ?1)"
    " ORDER BY id"
)
_PENDING = f"SELECT {RUN_COLUMNS} FROM runs WHERE status = 'pending'"  # noqa: S608 - the same
_PENDING_OF = f"{_PENDING} AND session_id = ?"
_PAGE = (
    f"SELECT {RUN_COLUMNS} FROM runs WHERE session_id = ? AND first_seq > ?"  # noqa: S608 - constants alone
    " ORDER BY first_seq LIMIT ?"
)
_EXECUTIONS = (
    f"SELECT {EXECUTION_COLUMNS} FROM tool_executions WHERE session_id = ?"  # noqa: S608 - constants alone
    " ORDER BY call_seq, call_index"
)
_INSERT = (
    "INSERT INTO runs (id, session_id, first_seq, status, started_at, owner, provider, model,"
    " retry_of) VALUES (?, ?, ?, 'pending', ?, ?, ?, ?, ?)"
)
_FINISH = (
    "UPDATE runs SET status = ?, error_type = ?, finished_at = ?, input_tokens = ?,"
    " output_tokens = ?, cached_input_tokens = ?, reasoning_tokens = ?, cost = ?,"
    " journal_seq = ?, journal_chain = ?, journal_lost_count = ?"
    " WHERE id = ? AND owner = ? AND status = 'pending'"
)
_INTERRUPT = (
    "UPDATE runs SET status = 'failed', error_type = 'interrupted', finished_at = ?"
    " WHERE id = ? AND owner = ? AND status = 'pending'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ends: what its row and its session's totals take from it."""

    status: str
    error_type: str | None = None
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    journal_head: tuple[int, str] | None = None
    journal_lost_count: int = 0
    outcomes: Mapping[tuple[int, int], ToolOutcome] = field(default_factory=dict)


def get(connection: apsw.Connection, run_id: str) -> Run:
    """Return the run or raise RunNotFound."""
    row = connection.execute(_GET, (run_id,)).fetchone()
    if row is None:
        raise RunNotFound(run_id)
    return to_run(row)


def find(connection: apsw.Connection, ref: str) -> tuple[Run, ...]:
    """Return the run with this whole id, or those whose id ends with these digits."""
    if not (text := repair_text(ref)):
        return ()
    rows = connection.execute(_GET, (text,)).fetchall()
    rows = rows or connection.execute(_ENDING, (text,)).fetchall()
    return tuple(to_run(row) for row in rows)


def as_stale(run: Run) -> Run:
    """Return the pending run of a dead owner, marked as such for a reader."""
    return replace(run, stale=True)


def pending(connection: apsw.Connection, session_id: str | None = None) -> tuple[Run, ...]:
    """Return the pending runs, of one session or of all."""
    rows = (
        connection.execute(_PENDING)
        if session_id is None
        else connection.execute(_PENDING_OF, (session_id,))
    )
    return tuple(to_run(row) for row in rows.fetchall())


def page(
    connection: apsw.Connection, session_id: str, *, limit: int | None, cursor: str | None
) -> Page[Run]:
    """Return the session's runs in the order they began, at most *limit*, after *cursor*."""
    listing = f"runs.{session_id}"
    after = 0 if cursor is None else decode_cursor(listing, cursor, (int,))[0]
    bindings = (session_id, after, fetch_count(limit))
    rows = connection.execute(_PAGE, bindings).fetchall()
    more = limit is not None and len(rows) > limit
    items = tuple(to_run(row) for row in rows[:limit])
    return Page(
        items=items,
        next_cursor=encode_cursor(listing, (items[-1].first_seq,)) if items and more else None,
    )


def executions(connection: apsw.Connection, session_id: str) -> tuple[ToolExecution, ...]:
    """Return the session's tool executions in call order."""
    return tuple(to_execution(row) for row in connection.execute(_EXECUTIONS, (session_id,)))


def insert(
    connection: apsw.Connection,
    run_id: str,
    *,
    session_id: str,
    first_seq: int,
    owner: str,
    now: datetime,
    provider: str | None,
    model: str | None,
    retry_of: str | None,
) -> None:
    """Insert a pending run; the caller has made sure that there is no other."""
    require_id(run_id, kind="run")
    try:
        connection.execute(
            _INSERT,
            (
                run_id,
                session_id,
                first_seq,
                to_text(now),
                owner,
                repair_optional(provider),
                repair_optional(model),
                retry_of,
            ),
        )
    except apsw.ConstraintError:
        raise RunExists(run_id) from None


def require_pending(connection: apsw.Connection, run_id: str, owner: str) -> Run:
    """Return the run if *owner* may write to it; RunNotPending otherwise."""
    run = get(connection, run_id)
    if run.status != "pending" or run.owner != owner:
        raise RunNotPending(run_id, status=run.status)
    return run


def start_tools(
    connection: apsw.Connection,
    run: Run,
    message: Message,
    policies: Sequence[ReplayPolicy],
    now: datetime,
) -> None:
    """Record that the calls of *message* begin now; ValueError unless each has its policy."""
    calls = zip(message.tool_calls or (), policies, strict=True)
    connection.executemany(
        "INSERT INTO tool_executions (run_id, session_id, call_seq, call_index, call_id, name,"
        " replay, started_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (run.id, run.session_id, message.seq, index, call.id, call.name, policy, to_text(now))
            for index, (call, policy) in enumerate(calls)
        ],
    )


def finish_tool(
    connection: apsw.Connection,
    run: Run,
    *,
    call_seq: int,
    call_index: int,
    outcome: ToolOutcome,
    result_seq: int | None,
    now: datetime,
) -> None:
    """Record how one call ended; RunNotPending when it is not under way."""
    connection.execute(
        "UPDATE tool_executions SET finished_at = ?, outcome = ?, result_seq = ?"
        " WHERE session_id = ? AND call_seq = ? AND call_index = ? AND run_id = ?"
        " AND outcome IS NULL",
        (to_text(now), outcome, result_seq, run.session_id, call_seq, call_index, run.id),
    )
    if connection.changes() != 1:
        raise RunNotPending(run.id, status="past this tool call")


def finish(
    connection: apsw.Connection, run: Run, ending: Ending, *, owner: str, now: datetime
) -> None:
    """End the run as *ending* says and add its usage to the session; the guard is in the SQL."""
    usage = ending.usage
    head_seq, head_chain = ending.journal_head or (None, None)
    connection.execute(
        _FINISH,
        (
            ending.status,
            ending.error_type,
            to_text(now),
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_input_tokens,
            usage.reasoning_tokens,
            ending.cost,
            head_seq,
            head_chain,
            ending.journal_lost_count,
            run.id,
            owner,
        ),
    )
    if connection.changes() != 1:
        raise RunNotPending(run.id, status=run.status)
    connection.executemany(
        "UPDATE tool_executions SET finished_at = ?, outcome = ?"
        " WHERE run_id = ? AND call_seq = ? AND call_index = ? AND outcome IS NULL",
        [(to_text(now), outcome, run.id, *place) for place, outcome in ending.outcomes.items()],
    )
    close_open_tools(connection, run.id, now)


def close_open_tools(connection: apsw.Connection, run_id: str, now: datetime) -> int:
    """Mark the run's tools that began and did not end as unknown; return how many."""
    connection.execute(
        "UPDATE tool_executions SET outcome = 'unknown', finished_at = ?"
        " WHERE run_id = ? AND outcome IS NULL",
        (to_text(now), run_id),
    )
    return connection.changes()


def interrupt(connection: apsw.Connection, run: Run, now: datetime) -> bool:
    """Make a dead owner's run failed/interrupted; False when somebody else did already."""
    connection.execute(_INTERRUPT, (to_text(now), run.id, run.owner))
    if connection.changes() != 1:
        return False
    close_open_tools(connection, run.id, now)
    return True
