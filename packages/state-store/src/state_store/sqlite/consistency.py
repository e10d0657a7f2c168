"""What the rows of a database say about one another, and where they contradict.

Asked by a check, and by a salvage of what it has saved. Invariant: works on every schema version,
where a column is missing with what its rows would have there; costs the same for each row however
many there are, and a row with impossible values is passed over or is a contradiction of its own; it
never ends the search. All text is read as bytes, since damaged text cannot be read as any.

An orphan is a row whose session is known to be gone, because a tombstone says so. A row that merely
lacks its like in another table is none. The same searches are made in a whole database and in the
rows of one session (`RowsOfOne`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from state_store.sqlite import belonging
from state_store.sqlite.values import is_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import apsw

    from state_store.findings import FindingKind, Severity
    from state_store.sqlite.belonging import Rule

_GAPS = """
SELECT CAST(session_id AS BLOB), count(*), min(seq), max(seq) FROM messages GROUP BY session_id
HAVING min(seq) <> 1 OR max(seq) <> count(*)
"""
_ORIGINALS = """
SELECT CAST(session_id AS BLOB), count(*) FROM messages WHERE kind = 'original' GROUP BY session_id
"""
_RUN_TOTALS = """
SELECT CAST(session_id AS BLOB), CAST(status AS BLOB), input_tokens, output_tokens, cost,
    {copied_from} IS NOT NULL FROM runs
"""
_SESSIONS = """
SELECT CAST(id AS BLOB), CAST(status AS BLOB), message_count, total_tokens, cost, usage_complete,
    {inherited_tokens}, {inherited_cost} FROM sessions
"""
# Columns that came with a later schema, and what rows from before have there.
_LATER = {"copied_from": "NULL", "inherited_tokens": "0", "inherited_cost": "NULL"}
_HAS_COLUMN = "SELECT 1 FROM pragma_table_xinfo(?) WHERE name = ?"
# main.messages: of one session, too, the last message of a run is looked up by the index of runs.
_RUNS = """
SELECT CAST(r.session_id AS BLOB), CAST(r.id AS BLOB), CASE
    WHEN m.id IS NULL THEN 'its first message is missing'
    WHEN m.run_id IS NOT r.id THEN 'its first message is not its own'
    WHEN m.role <> 'user' THEN 'its first message is not a user''s'
    ELSE 'it is completed and does not end with an answer' END
FROM runs r LEFT JOIN messages m ON m.session_id = r.session_id AND m.seq = r.first_seq
WHERE m.id IS NULL OR m.run_id IS NOT r.id OR m.role <> 'user'
    OR (r.status = 'completed' AND 'assistant' IS NOT
        (SELECT role FROM main.messages WHERE run_id = r.id ORDER BY seq DESC LIMIT 1))
"""
_TURNED_CLOCKS = """
SELECT CAST(session_id AS BLOB), CAST(id AS BLOB) FROM runs WHERE finished_at < started_at
"""
_TOOLS = """
SELECT * FROM (
    SELECT CAST(e.session_id AS BLOB), e.call_seq, e.call_index, CASE
        WHEN c.id IS NULL THEN 'the message that carries its call is missing'
        WHEN c.role <> 'assistant' OR e.call_index >=
            CASE WHEN json_valid(c.tool_calls) THEN json_array_length(c.tool_calls) ELSE 0 END
            THEN 'its message carries no such call'
        WHEN c.run_id IS NOT e.run_id THEN 'its call belongs to another run'
        WHEN e.result_seq IS NOT NULL AND m.id IS NULL THEN 'its result is missing'
        WHEN m.role <> 'tool' THEN 'its result is not a tool''s'
        WHEN e.outcome IS NULL AND r.status <> 'pending' THEN 'it is open and its run has ended'
        END AS problem
    FROM tool_executions e
    LEFT JOIN messages c ON c.session_id = e.session_id AND c.seq = e.call_seq
    LEFT JOIN messages m ON m.session_id = e.session_id AND m.seq = e.result_seq
    LEFT JOIN runs r ON r.id = e.run_id
) WHERE problem IS NOT NULL
"""
# The parent may be gone; then nobody can say.
_BRANCHES = """
SELECT CAST(s.id AS BLOB), CASE
    WHEN s.forked_from_seq IS NULL OR s.forked_from_session IS NULL
        THEN 'half of what it was forked from is missing'
    WHEN s.forked_from_session = s.id THEN 'it was forked from itself'
    ELSE 'it was forked behind the end of its parent' END
FROM sessions s
WHERE (s.forked_from_seq IS NULL) <> (s.forked_from_session IS NULL)
    OR s.forked_from_session = s.id OR s.forked_from_seq >
        (SELECT max(m.seq) FROM main.messages m WHERE m.session_id = s.forked_from_session)
"""
_NOT_FAILED = """
SELECT CAST(s.id AS BLOB) FROM sessions s WHERE s.status = 'failed' AND 'failed' <>
    (SELECT status FROM runs r WHERE r.session_id = s.id AND r.undone_at IS NULL
     ORDER BY first_seq DESC LIMIT 1)
"""
_ORPHANS = """
SELECT CAST(session_id AS BLOB), count(*) FROM {table} WHERE session_id IN
    (SELECT session_id FROM tombstones) AND session_id NOT IN (SELECT id FROM sessions)
GROUP BY session_id
"""
_RETURNED = "SELECT CAST(id AS BLOB) FROM sessions WHERE id IN (SELECT session_id FROM tombstones)"
_CHILDREN = ("runs", "messages", "tool_executions")
# Within a statement these names stand for the rows of one session, in place of the tables.
_ROWS_OF_ONE = ", ".join(
    f"{table} AS NOT MATERIALIZED (SELECT * FROM main.{table} WHERE {key} = ?1)"  # noqa: S608 - constants alone
    for table, key in (("sessions", "id"), *((child, "session_id") for child in _CHILDREN))
)
_TOLERANCE = 1e-9  # sums of prices depend on their order in the last digits


class Rows(Protocol):
    """What is searched: a connection, or the rows of one session."""

    def execute(self, statements: str, bindings: Any = None, /) -> apsw.Cursor:
        """Perform a statement that reads."""


@dataclass(frozen=True, slots=True)
class RowsOfOne:
    """The rows of one session, for a search to be made in as if there were no others."""

    connection: apsw.Connection
    session_id: str

    def execute(self, statements: str, bindings: Any = None, /) -> apsw.Cursor:
        """Perform a statement; one with bindings of its own does not read rows of sessions."""
        if bindings is not None:
            return self.connection.execute(statements, bindings)
        return self.connection.execute(f"WITH {_ROWS_OF_ONE} {statements}", (self.session_id,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """One thing that cannot be, with the session that it is about if its id can be read."""

    kind: FindingKind
    object: str
    message: str
    session_id: str | None
    severity: Severity = "error"


@dataclass(slots=True)
class Totals:
    """What the rows of one session add up to."""

    message_count: int = 0
    total_tokens: int = 0
    cost: float | None = None
    usage_complete: bool = True
    inherited_tokens: int = 0
    inherited_cost: float | None = None
    pending_count: int = 0
    failed_count: int = 0


def totals_of(connection: Rows) -> dict[bytes, Totals]:
    """Return the totals of all sessions that have any row, by the bytes of their ids."""
    totals: dict[bytes, Totals] = {}
    for key, count in _rows(connection, _ORIGINALS):
        totals.setdefault(key, Totals()).message_count = count
    statement = _with_columns_of(connection, "runs", _RUN_TOTALS)
    for key, status, read, written, cost, is_copied in _rows(connection, statement):
        found = totals.setdefault(key, Totals())
        if status == b"pending":
            found.pending_count += 1
            continue
        found.failed_count += status == b"failed"
        if is_copied:
            found.inherited_tokens += _number(read) + _number(written)
            if cost is not None:
                found.inherited_cost = (found.inherited_cost or 0.0) + _number(cost)
            continue
        found.total_tokens += _number(read) + _number(written)
        found.usage_complete &= read is not None and written is not None
        if cost is not None:
            found.cost = (found.cost or 0.0) + _number(cost)
    return totals


def _with_columns_of(connection: Rows, table: str, statement: str) -> str:
    """Return *statement* with the columns that *table* has, in whatever schema version."""
    return statement.format(
        **{
            name: name if connection.execute(_HAS_COLUMN, (table, name)).get else instead
            for name, instead in _LATER.items()
        }
    )


def same_cost(left: Any, right: Any) -> bool:
    """Say whether two sums of prices are the same but for the order they were added in."""
    if left is None or right is None:
        return left is right
    return math.isclose(_number(left), _number(right), rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)


def _returned(connection: Rows) -> Iterator[Contradiction]:
    for (key,) in _rows(connection, _RETURNED):
        yield _of_session(key, "returned", "it is there again although it was deleted")


def _orphans(connection: Rows) -> Iterator[Contradiction]:
    for table in _CHILDREN:
        for key, count in _rows(connection, _ORPHANS.format(table=table)):
            yield _of_session(key, "orphan", f"it was deleted and {count} rows of {table} are left")


def _gaps(connection: Rows) -> Iterator[Contradiction]:
    for key, count, first, last in _rows(connection, _GAPS):
        yield _of_session(key, "gap", f"of its messages {first} to {last}, {count} are there")


def _sessions(connection: Rows) -> Iterator[Contradiction]:
    totals = totals_of(connection)
    statement = _with_columns_of(connection, "sessions", _SESSIONS)
    for key, status, count, tokens, cost, complete, *inherited in _rows(connection, statement):
        found = totals.get(key, Totals())
        wrong = {
            "message_count": count != found.message_count,
            "total_tokens": tokens != found.total_tokens,
            "cost": not same_cost(cost, found.cost),
            "usage_complete": bool(complete) != found.usage_complete,
            "inherited_tokens": inherited[0] != found.inherited_tokens,
            "inherited_cost": not same_cost(inherited[1], found.inherited_cost),
        }
        if any(wrong.values()):
            names = ", ".join(name for name, is_wrong in wrong.items() if is_wrong)
            yield _of_session(key, "counter", f"its rows do not add up to its {names}")
        if status == b"running" and not found.pending_count:
            yield _of_session(key, "status", "it is running without a pending run")
        elif found.pending_count and status != b"running":
            yield _of_session(key, "status", "it has a pending run and is not running", "warning")
        elif status == b"failed" and not found.failed_count:
            yield _of_session(key, "status", "it is failed without a failed run", "warning")


def _runs(connection: Rows) -> Iterator[Contradiction]:
    for key, run, problem in _rows(connection, _RUNS):
        yield _contradiction(key, "run", f"run {_name(run)}", _text(problem))


def _turned_clocks(connection: Rows) -> Iterator[Contradiction]:
    for key, run in _rows(connection, _TURNED_CLOCKS):
        problem = "it ended before it began: the clock was set back, or a time is damaged"
        yield _contradiction(key, "run", f"run {_name(run)}", problem, "warning")


def _branches(connection: Rows) -> Iterator[Contradiction]:
    for key, problem in _rows(connection, _BRANCHES):
        yield _of_session(key, "branch", _text(problem), "warning")


def _not_failed(connection: Rows) -> Iterator[Contradiction]:
    for (key,) in _rows(connection, _NOT_FAILED):
        yield _of_session(key, "status", "it is failed and its last run is not", "warning")


def _by_rule(rule: Rule) -> Callable[[Rows], Iterator[Contradiction]]:
    def search(connection: Rows) -> Iterator[Contradiction]:
        if rule.needs is not None and connection.execute(_HAS_COLUMN, rule.needs).get is None:
            return
        for key, seq, problem, is_error in _rows(connection, rule.statement):
            place = f"message {_number(seq)} of session {_name(key)}"
            severity: Severity = "error" if is_error else "warning"
            yield _contradiction(key, rule.kind, place, _text(problem), severity)

    return search


def _tools(connection: Rows) -> Iterator[Contradiction]:
    for key, seq, index, problem in _rows(connection, _TOOLS):
        place = f"tool execution {_number(seq)}.{_number(index)} of session {_name(key)}"
        yield _contradiction(key, "tool", place, _text(problem))


def _of_session(
    key: bytes, kind: FindingKind, message: str, severity: Severity = "error"
) -> Contradiction:
    return _contradiction(key, kind, f"session {_name(key)}", message, severity)


def _contradiction(
    key: bytes, kind: FindingKind, place: str, message: str, severity: Severity = "error"
) -> Contradiction:
    name = _name(key)
    return Contradiction(
        kind=kind,
        object=place,
        message=message,
        session_id=name if is_id(name) else None,
        severity=severity,
    )


def _rows(connection: Rows, statement: str) -> Iterator[tuple[Any, ...]]:
    return connection.execute(statement)


def _name(key: object) -> str:
    """Return an id that can be shown: a damaged one may hold anything."""
    if isinstance(key, bytes):
        text = key.decode("utf-8", "replace")
        if is_id(text):
            return text
    return "with an unreadable id"


def _number(value: object) -> Any:
    return value if isinstance(value, int | float) else 0


def _text(value: object) -> str:
    return str(value)


# One after the other, so that a damaged page ends no more than one of them.
SEARCHES: tuple[Callable[[Rows], Iterator[Contradiction]], ...] = (
    _returned,
    _orphans,
    _gaps,
    _sessions,
    _runs,
    _turned_clocks,
    _tools,
    _branches,
    _not_failed,
    *map(_by_rule, belonging.RULES),
)
