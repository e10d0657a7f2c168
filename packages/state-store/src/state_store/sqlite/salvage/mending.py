"""Make one consistent database of the rows that were saved.

Rows point at one another, and damage takes some of them. What is kept without its parent gets a
new one that says no more than its children prove; what contradicts itself is refused. Invariants:
no message is changed, moved or made up; a deleted session stays deleted; nothing is pending at the
end, because whoever ran it is gone; totals are counted again from the rows that are there.

The order matters: first who is deleted, then which messages stay, then runs, what hangs on them,
and last the sessions, whose totals come from all of it. Runs inside the transaction of its caller,
without foreign keys, on a database of any schema version.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from state_store.sqlite import consistency
from state_store.sqlite.runs import NOBODY
from state_store.sqlite.salvaged import marked

if TYPE_CHECKING:
    from collections.abc import Iterator

    import apsw

    from state_store.sqlite.salvage.collecting import Collection
    from state_store.sqlite.salvage.recognition import Row

_DELETED = """
SELECT session_id, count(*) FROM messages WHERE session_id IN (SELECT session_id FROM tombstones)
GROUP BY session_id
"""
# Ids and numbers of a session's messages grow together. A message is out of place when its
# neighbours on both sides, or the next two on the only side it has, agree without it.
_MISPLACED = """
SELECT id, session_id FROM (
    SELECT id, session_id, seq, lag(seq) OVER w AS before, lag(seq, 2) OVER w AS before_that,
        lead(seq) OVER w AS after, lead(seq, 2) OVER w AS after_that
    FROM messages WINDOW w AS (PARTITION BY session_id ORDER BY id)
) WHERE CASE
    WHEN before IS NULL THEN seq > after AND seq > after_that
    WHEN after IS NULL THEN seq < before AND seq < before_that
    ELSE (seq < before OR seq > after) AND before < after END
"""
_HOMES = """
SELECT run_id, session_id, count(*) FROM messages WHERE run_id IS NOT NULL
GROUP BY run_id, session_id ORDER BY run_id, count(*) DESC
"""
_SPAN = """
SELECT session_id, min(seq), min(created_at), max(created_at),
    (SELECT role = 'assistant' AND coalesce(tool_calls, '[]') = '[]' FROM messages AS last
    WHERE last.run_id = :run_id ORDER BY seq DESC LIMIT 1)
FROM messages WHERE run_id = :run_id
"""
_TIMES = "SELECT session_id, min(created_at), max(created_at) FROM messages GROUP BY session_id"
_IS_FIRST = """
SELECT 1 FROM messages WHERE session_id = :session_id AND seq = :first_seq AND run_id = :id
"""
# Both are written in one transaction with the message.
_LOST_EXECUTIONS = """
SELECT session_id FROM (
    SELECT session_id, seq FROM messages WHERE role = 'tool' AND run_id IS NOT NULL
    EXCEPT SELECT session_id, result_seq FROM tool_executions)
UNION
SELECT session_id FROM messages AS m
WHERE role = 'assistant' AND run_id IS NOT NULL AND tool_calls IS NOT NULL
    AND json_array_length(tool_calls) > (SELECT count(*) FROM tool_executions AS e
        WHERE e.session_id = m.session_id AND e.call_seq = m.seq)
    AND (EXISTS (SELECT 1 FROM messages WHERE run_id = m.run_id AND seq > m.seq)
        OR EXISTS (SELECT 1 FROM runs WHERE id = m.run_id AND status <> 'completed'))
"""


def settle(connection: apsw.Connection, collection: Collection, *, now: str) -> set[str]:
    """Complete the database and return the sessions of which something is missing or rebuilt."""
    collection.decide_disputes()
    _refuse_deleted(connection, collection)
    _refuse_misplaced(connection, collection)
    homes = _settle_homes(connection, collection)
    statuses = _write_runs(connection, collection, homes, now=now)
    _write_executions(collection, homes, now=now)
    _write_sessions(connection, collection, statuses, now=now)
    return _mark_incomplete(connection, collection)


def _refuse_deleted(connection: apsw.Connection, collection: Collection) -> None:
    deleted = set()
    for row in collection.rows("tombstones"):
        deleted.add(row["session_id"])
        collection.insert("tombstones", row)
    for row in collection.rows("sessions"):
        if row["id"] in deleted:
            collection.drop("sessions", row, "deleted")
    for table in ("runs", "tool_executions"):
        for row in collection.rows(table):
            if row["session_id"] in deleted:
                collection.drop(table, row, "deleted")
    for session_id, count in _rows(connection, _DELETED):
        connection.execute("DELETE FROM messages WHERE session_id = ?", (session_id,))
        collection.refuse("messages", "deleted", count=count)


def _refuse_misplaced(connection: apsw.Connection, collection: Collection) -> None:
    for number, session_id in connection.execute(_MISPLACED).fetchall():
        connection.execute("DELETE FROM messages WHERE id = ?", (number,))
        collection.refuse("messages", "contradicting", {"session_id": session_id})


def _settle_homes(connection: apsw.Connection, collection: Collection) -> dict[str, str]:
    """Return the session of each run; refuse what says that it belongs to another."""
    known = {row["id"] for row in collection.rows("sessions")}
    said = {row["id"]: row for row in collection.rows("runs")}
    homes = {run_id: row["session_id"] for run_id, row in said.items()}
    votes: dict[str, dict[str, int]] = defaultdict(dict)
    for run_id, session_id, count in _rows(connection, _HOMES):
        votes[run_id][session_id] = count
    for run_id, counts in votes.items():
        home = homes.get(run_id)
        if home is None or (home not in counts and home not in known):
            if home is not None:
                collection.drop("runs", said[run_id], "contradicting")
            home = homes[run_id] = next(iter(counts))
        for session_id, count in counts.items():
            if session_id != home:
                connection.execute(
                    "DELETE FROM messages WHERE run_id = ? AND session_id = ?", (run_id, session_id)
                )
                lost = {"session_id": session_id}
                collection.refuse("messages", "contradicting", lost, count=count)
    return homes


def _write_runs(
    connection: apsw.Connection, collection: Collection, homes: dict[str, str], *, now: str
) -> dict[str, str]:
    """Write the runs, rebuild those that have lost their row; return the last status by session."""
    missing = set(homes)
    # Where two begin with one message, the one it names is right.
    for row in sorted(
        collection.rows("runs"), key=lambda row: not connection.execute(_IS_FIRST, row).get
    ):
        if row["status"] == "pending":
            row |= {"status": "failed", "error_type": "interrupted", "finished_at": now}
        if collection.insert("runs", row):
            missing.discard(row["id"])
        else:
            collection.drop("runs", row, "duplicate")
    for run_id in sorted(missing):
        if not _rebuild_run(connection, collection, run_id, now=now):
            del homes[run_id]
    return dict(_rows(connection, "SELECT session_id, status FROM runs ORDER BY first_seq"))


def _rebuild_run(
    connection: apsw.Connection, collection: Collection, run_id: str, *, now: str
) -> bool:
    """Make a run of what its messages prove; where none can be, they go on without one.

    An answer is committed together with the completed run, so where the last message is one, the
    run was completed.
    """
    bindings = {"run_id": run_id}
    ((session_id, first_seq, began, ended, is_answered),) = _rows(connection, _SPAN, bindings)
    if session_id is None:
        return False
    row = {
        "id": run_id,
        "session_id": session_id,
        "first_seq": first_seq,
        "status": "completed" if is_answered else "failed",
        "error_type": None if is_answered else "interrupted",
        "started_at": began or now,
        "finished_at": ended or now,
        "owner": NOBODY,
    }
    if collection.insert("runs", row):
        collection.note_rebuilt("runs", session_id)
        return True
    connection.execute("UPDATE messages SET run_id = NULL WHERE run_id = :run_id", bindings)
    collection.note_mended("messages", session_id, count=connection.changes())
    return False


def _write_executions(collection: Collection, homes: dict[str, str], *, now: str) -> None:
    for row in collection.rows("tool_executions"):
        home = homes.get(row["run_id"])
        if home != row["session_id"]:
            collection.drop("tool_executions", row, "orphan" if home is None else "contradicting")
            continue
        if row["outcome"] is None:
            row |= {"outcome": "unknown", "finished_at": now}
        if not collection.insert("tool_executions", row):
            collection.drop("tool_executions", row, "impossible")


def _write_sessions(
    connection: apsw.Connection, collection: Collection, statuses: dict[str, str], *, now: str
) -> None:
    times = {key: (first, last) for key, first, last in _rows(connection, _TIMES)}
    totals = consistency.totals_of(connection)
    rows = {row["id"]: row for row in collection.rows("sessions")}
    lost = {*times, *statuses} - set(rows)
    for session_id in sorted(lost):
        rows[session_id] = _rebuilt_session(session_id)
        collection.note_rebuilt("sessions", session_id)
    for session_id, row in rows.items():
        first, last = times.get(session_id, (None, None))
        created_at = row["created_at"] or first or row["updated_at"] or now
        row |= {"created_at": created_at, "updated_at": row["updated_at"] or last or created_at}
        if row["status"] == "running":
            row["status"] = "failed" if statuses.get(session_id) == "failed" else "idle"
        found = totals.get(session_id.encode(), consistency.Totals())
        if _count_again(row, found):
            collection.touch(session_id)
        if not collection.insert("sessions", row) and session_id not in lost:
            collection.drop("sessions", row, "impossible")


def _count_again(row: Row, found: consistency.Totals) -> bool:
    """Give a session the totals of the rows that are there; say whether it had others."""
    same = True
    for name in ("message_count", "total_tokens", "inherited_tokens"):
        same &= row.get(name, 0) == getattr(found, name)
        row[name] = getattr(found, name)
    for name in ("cost", "inherited_cost"):
        if not consistency.same_cost(row.get(name), getattr(found, name)):
            same = False
            row[name] = getattr(found, name)
    row["usage_complete"] = int(found.usage_complete)
    return not same


def _rebuilt_session(session_id: str) -> Row:
    return {
        "id": session_id,
        "status": "closed",
        "show_reasoning": 0,
        "message_count": 0,
        "total_tokens": 0,
        "cost": None,
        "created_at": None,
        "updated_at": None,
        "title_source": "auto",
        "metadata": None,
    }


def _mark_incomplete(connection: apsw.Connection, collection: Collection) -> set[str]:
    incomplete = set(collection.touched)
    for search in consistency.SEARCHES:
        incomplete |= {
            one.session_id
            for one in search(connection)
            if one.session_id is not None and one.severity == "error"
        }
    incomplete |= {key for (key,) in _rows(connection, _LOST_EXECUTIONS)}
    there = dict(_rows(connection, "SELECT id, metadata FROM sessions"))
    incomplete &= set(there)
    for session_id in incomplete:
        connection.execute(
            "UPDATE sessions SET metadata = ? WHERE id = ?", (marked(there[session_id]), session_id)
        )
    return incomplete


def _rows(
    connection: apsw.Connection, statement: str, bindings: dict[str, Any] | None = None
) -> Iterator[tuple[Any, ...]]:
    return iter(connection.execute(statement, bindings or {}).fetchall())
