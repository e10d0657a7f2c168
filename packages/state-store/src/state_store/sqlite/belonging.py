"""Whether messages, runs, calls and results belong together, message by message.

Owns the rules as data, one statement a rule, for `consistency` to ask. Each gives the bytes of a
session's id, the seq of a message, what is wrong there, and whether that is an error; what was
imported came as it was, so there much is a warning. Invariant: one pass over a table or a lookup by
key a row; what another rule finds (`consistency`) is not said again here.

Source: how runs, tools and undoing write (`runs`, `undoing`, `forking`, `importing`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from state_store.findings import FindingKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. `needs` is a (table, column) that came with a later schema."""

    kind: FindingKind
    statement: str
    needs: tuple[str, str] | None = None


_OF_A_RUN = """
SELECT * FROM (
    SELECT CAST(m.session_id AS BLOB), m.seq, CASE
        WHEN r.id IS NULL THEN 'its run is missing, or is of another session'
        WHEN r.session_id <> m.session_id THEN 'its run is of another session'
        WHEN m.seq < r.first_seq THEN 'it stands before its run began'
        WHEN m.role = 'user' AND m.seq <> r.first_seq THEN 'it is a second input of its run'
        END AS problem, m.imported_at IS NULL
    FROM messages m LEFT JOIN runs r ON r.id = m.run_id WHERE m.run_id IS NOT NULL
) WHERE problem IS NOT NULL
"""
_CALLS = """
SELECT CAST(m.session_id AS BLOB), m.seq, 'it is not recorded what became of each of its calls',
    m.imported_at IS NULL
FROM messages m
WHERE m.run_id IS NOT NULL AND m.role = 'assistant'
    AND CASE WHEN json_valid(m.tool_calls) THEN json_array_length(m.tool_calls) ELSE 0 END >
        (SELECT count(*) FROM tool_executions e
         WHERE e.session_id = m.session_id AND e.call_seq = m.seq)
"""
_RESULTS = """
SELECT CAST(m.session_id AS BLOB), m.seq, 'it is the result of no call', m.imported_at IS NULL
FROM (
    SELECT session_id, seq FROM messages WHERE run_id IS NOT NULL AND role = 'tool'
    EXCEPT SELECT session_id, result_seq FROM tool_executions
) lone JOIN messages m ON m.session_id = lone.session_id AND m.seq = lone.seq
"""
_SHARED = """
SELECT CAST(session_id AS BLOB), result_seq, 'it is the result of ' || count(*) || ' calls', 1
FROM tool_executions WHERE result_seq IS NOT NULL
GROUP BY session_id, result_seq HAVING count(*) > 1
"""
_EXECUTIONS = """
SELECT * FROM (
    SELECT CAST(e.session_id AS BLOB), e.call_seq, CASE
        WHEN e.result_seq IS NULL AND r.status = 'completed'
            THEN 'a call of it has no result, and its run is completed'
        WHEN e.result_seq <= e.call_seq THEN 'a result stands before its call'
        WHEN m.run_id IS NOT e.run_id AND m.id IS NOT NULL
            THEN 'the result of a call of it is of another run'
        WHEN json_valid(c.tool_calls) AND e.call_id IS NOT
            json_extract(c.tool_calls, '$[' || e.call_index || '].id')
            THEN 'what became of a call of it is told of another call'
        END AS problem, c.imported_at IS NULL
    FROM tool_executions e
    LEFT JOIN runs r ON r.id = e.run_id
    LEFT JOIN messages c ON c.session_id = e.session_id AND c.seq = e.call_seq
    LEFT JOIN messages m ON m.session_id = e.session_id AND m.seq = e.result_seq
) WHERE problem IS NOT NULL
"""
_COVERS = """
SELECT CAST(session_id AS BLOB), seq, 'it stands for messages that cannot be', 1
FROM messages
WHERE (covers_first IS NULL) <> (covers_last IS NULL) OR covers_first < 1
    OR covers_first > covers_last
"""
_UNDONE = """
SELECT * FROM (
    SELECT CAST(session_id AS BLOB), seq, CASE
        WHEN undone_at IS NULL THEN 'it is not undone and says since when it is'
        WHEN run_id IS NOT NULL THEN 'it is undone by itself and not with its run'
        WHEN undone_after < seq THEN 'it was undone before it was said'
        END AS problem, imported_at IS NULL
    FROM messages WHERE undone_at IS NOT NULL OR undone_after IS NOT NULL
    UNION ALL
    SELECT CAST(r.session_id AS BLOB), r.first_seq, CASE
        WHEN r.undone_at IS NULL THEN 'its run is not undone and says since when it is'
        WHEN r.undone_after < r.first_seq THEN 'its run was undone before it began'
        WHEN r.undone_after > (SELECT max(seq) FROM messages m WHERE m.session_id = r.session_id)
            THEN 'its run was undone after messages that are not there'
        END, 1
    FROM runs r WHERE r.undone_at IS NOT NULL OR r.undone_after IS NOT NULL
) WHERE problem IS NOT NULL
"""

RULES: tuple[Rule, ...] = (
    Rule(kind="run", statement=_OF_A_RUN),
    Rule(kind="tool", statement=_CALLS),
    Rule(kind="tool", statement=_RESULTS),
    Rule(kind="tool", statement=_SHARED),
    Rule(kind="tool", statement=_EXECUTIONS),
    Rule(kind="covers", statement=_COVERS),
    Rule(kind="undone", statement=_UNDONE, needs=("messages", "undone_after")),
)
