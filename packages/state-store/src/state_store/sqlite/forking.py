"""A new session from what was said in another one, up to the end of an exchange.

Rows are copied as they are, under ids of their own; nothing points at the parent but `forked_from`
and the runs' `copied_from`, so that either can be deleted without harm to the other. Invariant:
what is undone or under way stays behind, and messages are numbered 1, 2, 3 … again, with
everything that points at them. What the copied runs used is inherited and counts in no total.

Where damage took messages, a run without any and a call whose message is gone stay behind. A
stand-in (a summary) is copied when all that it covers is, however late it was made, unless an undo
has made it say too much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from state_store.sqlite import sessions
from state_store.sqlite.renumbering import Renumbering
from state_store.sqlite.rows import EXECUTION_COLUMNS, MESSAGE_COLUMNS, RUN_COLUMNS
from state_store.sqlite.states import settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import apsw

    from state_store.clock import IdSource
    from state_store.records import Session

PAGE_SIZE = 500
_LIVE = """
SELECT m.seq FROM messages m LEFT JOIN runs r ON r.id = m.run_id
WHERE m.session_id = ?1 AND m.kind = 'original' AND m.undone_at IS NULL AND r.undone_at IS NULL
AND m.seq <= ?2
"""
# Something that it covers is live, and of the originals there none was undone after it was made;
# one that was before is not in its text. Where that is not known it is taken for undone after.
_STAND_INS = """
SELECT s.seq FROM messages s
WHERE s.session_id = ?1 AND s.kind <> 'original' AND s.undone_at IS NULL
AND coalesce(s.covers_last, s.seq) <= ?2
AND (s.covers_first IS NULL OR EXISTS (
    SELECT 1 FROM messages m LEFT JOIN runs r ON r.id = m.run_id
    WHERE m.session_id = ?1 AND m.seq BETWEEN s.covers_first AND s.covers_last
        AND m.kind = 'original' AND m.undone_at IS NULL AND r.undone_at IS NULL))
AND NOT EXISTS (
    SELECT 1 FROM messages m WHERE m.session_id = ?1 AND m.undone_at IS NOT NULL
        AND m.kind = 'original' AND m.seq BETWEEN s.covers_first AND s.covers_last
        AND coalesce(m.undone_after, s.seq) >= s.seq)
AND NOT EXISTS (
    SELECT 1 FROM runs r JOIN messages m ON m.run_id = r.id
    WHERE r.session_id = ?1 AND r.undone_at IS NOT NULL
        AND m.seq BETWEEN s.covers_first AND s.covers_last
        AND coalesce(r.undone_after, s.seq) >= s.seq)
"""
_COPIED = f"{_LIVE} UNION {_STAND_INS} ORDER BY 1"
_PAGE = (
    f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE session_id = ? AND seq > ? AND seq <= ?"  # noqa: S608 - constants alone
    f" ORDER BY seq LIMIT {PAGE_SIZE}"
)
_RUNS = (
    f"SELECT {RUN_COLUMNS} FROM runs WHERE session_id = ? AND first_seq <= ?"  # noqa: S608 - the same
    " AND undone_at IS NULL AND status <> 'pending' ORDER BY first_seq"
)
_FIRST_LEFT = (
    "SELECT min(seq) FROM messages WHERE run_id = ? AND +session_id = ? AND kind = 'original'"
)
_EXECUTIONS = (
    f"SELECT {EXECUTION_COLUMNS} FROM tool_executions"  # noqa: S608 - the same
    " WHERE session_id = ? AND call_seq <= ?"
)
_SET = "UPDATE sessions SET forked_from_session = ?, forked_from_seq = ?, status = ? WHERE id = ?"
Row = dict[str, Any]


def last_live(connection: apsw.Connection, session_id: str, *, before: int | None) -> int:
    """Return the seq of the last live original, of those *before* a seq; 0 if there is none."""
    limit = (1 << 53) if before is None else before - 1
    found = connection.execute(f"{_LIVE} ORDER BY m.seq DESC LIMIT 1", (session_id, limit)).get
    return found if isinstance(found, int) else 0


def fork(
    connection: apsw.Connection,
    parent: Session,
    *,
    at: int,
    title: str | None,
    new_id: IdSource,
    now: datetime,
) -> str:
    """Make the session and return its id. *at* is a legal boundary, or the last live original."""
    session_id = new_id()
    sessions.insert(connection, session_id, settings_of(parent), now)
    if title is not None:
        sessions.update(
            connection, session_id, sessions.changed_columns({"title": title}), now=None
        )
    copy = _Copy(connection, parent.id, session_id, at)
    copy.runs(new_id)
    copy.messages()
    copy.executions()
    connection.execute(_SET, (parent.id, at, copy.status, session_id))
    sessions.count_again(connection, session_id)
    return session_id


class _Copy:
    """The copying of one session's rows, in an order in which everything finds what it points at.

    `status` is what the last copied run makes the session.
    """

    def __init__(
        self, connection: apsw.Connection, parent_id: str, session_id: str, at: int
    ) -> None:
        self._connection = connection
        self._parent_id = parent_id
        self._session_id = session_id
        self._at = at
        self._ids: dict[str, str] = {}
        self._numbers = Renumbering()
        self._last = 0
        self.status = "idle"
        copied: Any = connection.execute(_COPIED, (parent_id, at)).fetchall()
        for (seq,) in copied:
            self._numbers.add(seq)
            self._last = seq

    def runs(self, new_id: IdSource) -> None:
        """Copy the runs; their journals are the parent's."""
        for row in self._rows(_RUNS, RUN_COLUMNS, self._at):
            if (first_seq := self._first_seq(row)) is None:
                continue
            self._ids[row["id"]] = new_id()
            self.status = "failed" if row["status"] == "failed" else "idle"
            row |= {
                "copied_from": row["id"],
                "id": self._ids[row["id"]],
                "session_id": self._session_id,
                "first_seq": first_seq,
                "retry_of": self._ids.get(row["retry_of"]),
                "journal_seq": None,
                "journal_chain": None,
                "journal_lost_count": 0,
            }
            self._insert("runs", row)

    def _first_seq(self, run: Row) -> int | None:
        """Return where a copied run begins: behind its input, if damage took that."""
        if (seq := self._numbers.exact(run["first_seq"])) is not None:
            return seq
        first_left = self._connection.execute(_FIRST_LEFT, (run["id"], self._parent_id)).get
        return self._numbers.exact(first_left) if isinstance(first_left, int) else None

    def messages(self) -> None:
        """Copy the messages, a page at a time."""
        after = 0
        while page := list(self._rows(_PAGE, MESSAGE_COLUMNS, after, self._last)):
            for row in page:
                after = row["seq"]
                if (seq := self._numbers.exact(after)) is not None:
                    self._message(row, seq)

    def _message(self, row: Row, seq: int) -> None:
        del row["id"]
        row |= {
            "session_id": self._session_id,
            "seq": seq,
            "run_id": self._ids.get(row["run_id"]),
        }
        if row["covers_first"] is not None:
            row["covers_first"] = self._numbers.first_from(row["covers_first"])
            row["covers_last"] = self._numbers.last_to(row["covers_last"])
        self._insert("messages", row)

    def executions(self) -> None:
        """Copy what became of the calls."""
        for row in self._rows(_EXECUTIONS, EXECUTION_COLUMNS, self._at):
            call_seq = self._numbers.exact(row["call_seq"])
            if row["run_id"] in self._ids and call_seq is not None:
                result_seq = row["result_seq"]
                row |= {
                    "run_id": self._ids[row["run_id"]],
                    "session_id": self._session_id,
                    "call_seq": call_seq,
                    "result_seq": result_seq and self._numbers.exact(result_seq),
                }
                self._insert("tool_executions", row)

    def _rows(self, statement: str, columns: str, *bounds: int) -> Iterator[Row]:
        """Yield the parent's rows within *bounds*, each by the names of its columns."""
        names = columns.split(", ")
        rows = self._connection.execute(statement, (self._parent_id, *bounds)).fetchall()
        for values in rows:
            yield dict(zip(names, values, strict=True))

    def _insert(self, table: str, row: Row) -> None:
        """Insert *row*, whose names are columns of this package."""
        self._connection.execute(
            f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",  # noqa: S608 - constants alone
            tuple(row.values()),
        )
