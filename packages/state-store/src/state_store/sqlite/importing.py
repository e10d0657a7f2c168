"""A session from elsewhere, brought in whole or not at all.

Invariant: nothing that is stored already is touched. The session keeps its id where that is an id
and free, of a deleted session too, and so do its runs; otherwise they get new ones, and whatever
points at them goes along. Messages are numbered 1, 2, 3 … in the order in which they come, so one
that was numbered so keeps its number. Times are the source's; a missing one stays missing. What was
under way there is interrupted, owners and journals stay behind, totals are counted from the rows.

A session that carries the mark of a salvage keeps its numbers, gaps and all, and what lacks its
like in it is taken as it is: a salvage leaves that behind, and it must not be lost once more.

Takes the records one by one: what stays in memory is a number for each message and an id for each
run. Must not: let the records be read from the store that takes them; that ends the transaction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from state_store.clock import to_text
from state_store.errors import ImportInvalid
from state_store.ids import is_canonical
from state_store.records import Imported
from state_store.sqlite import messages, runs, sessions
from state_store.sqlite.accepting import require_possible
from state_store.sqlite.renumbering import Renumbering, SameNumbers
from state_store.sqlite.salvaged import is_salvaged
from state_store.sqlite.states import settings_of, to_new
from state_store.text import repair_optional, repair_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from state_store.clock import IdSource
    from state_store.records import ImportRecord, Message, Run, Session, ToolExecution

T = TypeVar("T")
_LARGEST = 1 << 53  # a number that every reader of JSON keeps
_SAME = "SELECT id FROM sessions WHERE import_digest = ?"
_TAKEN = """
SELECT 1 FROM sessions WHERE id = ?1 UNION ALL SELECT 1 FROM tombstones WHERE session_id = ?1
"""
_SESSION = (
    "UPDATE sessions SET status = ?, duration_ms = ?, updated_at = ?, archived_at = ?,"
    " forked_from_session = ?, forked_from_seq = ?, import_digest = ?, revision = 1 WHERE id = ?"
)
_RUN = (
    "INSERT INTO runs (id, session_id, first_seq, status, error_type, started_at, finished_at,"
    " owner, input_tokens, output_tokens, cached_input_tokens, reasoning_tokens, cost, provider,"
    " model, undone_at, undone_after, copied_from)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_EXECUTION = (
    "INSERT INTO tool_executions (run_id, session_id, call_seq, call_index, call_id, name, replay,"
    " started_at, finished_at, outcome, result_seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_AT = (
    "SELECT role, run_id, CASE WHEN json_valid(tool_calls) THEN json_array_length(tool_calls) END"
    " FROM messages WHERE session_id = ? AND seq = ?"
)
# The plus keeps SQLite from reading the whole session for each run.
_LAST_ROLE = (
    "SELECT role FROM messages WHERE +session_id = ? AND run_id = ? ORDER BY seq DESC LIMIT 1"
)
_WITHOUT_ITS_RUN = """
SELECT min(seq) FROM messages WHERE session_id = ?1 AND run_id IS NOT NULL
AND run_id NOT IN (SELECT id FROM runs WHERE session_id = ?1)
"""
_LAST_STATUS = """
SELECT status FROM runs WHERE session_id = ? AND undone_at IS NULL ORDER BY first_seq DESC LIMIT 1
"""


def import_session(
    connection: apsw.Connection,
    session: Session,
    *,
    records: tuple[Iterable[Message], Iterable[Run], Iterable[ToolExecution]],
    digest: str,
    new_id: IdSource,
    now: datetime,
) -> Imported:
    """Bring in *session* with its messages, runs and executions, in this order."""
    digest = repair_text(digest)
    if isinstance(there := connection.execute(_SAME, (digest,)).get, str):
        found = sessions.get(connection, there)
        return Imported(session=found, outcome="already_there", source_id=session.id)
    require_possible("session", 1, session)
    is_free = is_canonical(session.id) and not connection.execute(_TAKEN, (session.id,)).get
    session_id = session.id if is_free else new_id()
    sessions.insert(connection, session_id, settings_of(session), session.created_at)
    has_losses = is_salvaged(session.metadata)
    coming = _Import(connection, session_id, has_losses=has_losses, new_id=new_id, now=now)
    spoken, answered, called = records
    for number, message in enumerate(_undisturbed(connection, spoken), start=1):
        coming.message(number, message)
    for number, run in enumerate(_undisturbed(connection, answered), start=1):
        coming.run(number, run)
    for number, execution in enumerate(_undisturbed(connection, called), start=1):
        coming.execution(number, execution)
    coming.connect()
    status = session.status
    if status == "running":
        status = (
            "failed" if connection.execute(_LAST_STATUS, (session_id,)).get == "failed" else "idle"
        )
    connection.execute(
        _SESSION,
        (
            status,
            session.duration_ms,
            to_text(session.updated_at),
            _text_of(session.archived_at),
            *_repaired_origin(session),
            digest,
            session_id,
        ),
    )
    sessions.count_again(connection, session_id)
    return Imported(
        session=sessions.get(connection, session_id),
        outcome="new" if is_free else "renamed",
        source_id=session.id,
    )


def _undisturbed(connection: apsw.Connection, records: Iterable[T]) -> Iterator[T]:
    """Yield *records*; RuntimeError when reading one, or their end, ended the transaction."""
    for record in records:
        _require_transaction(connection)
        yield record
    _require_transaction(connection)


def _require_transaction(connection: apsw.Connection) -> None:
    if not connection.in_transaction:
        raise RuntimeError("records to import must not be read from the store that takes them")


class _Import:
    """The state of one import: the numbers that messages had, and the ids that runs have."""

    def __init__(
        self,
        connection: apsw.Connection,
        session_id: str,
        *,
        has_losses: bool,
        new_id: IdSource,
        now: datetime,
    ) -> None:
        self._connection = connection
        self._session_id = session_id
        self._new_id = new_id
        self._now = now
        self._has_losses = has_losses
        self._numbers = SameNumbers() if has_losses else Renumbering()
        self._ids: dict[str, str] = {}
        self._are_new = False
        self._retries: list[tuple[str, str]] = []
        self._current_run: str | None = None
        self._begun: set[str] = set()
        self._last_seq = 0
        self._answered: set[int | None] = set()  # the results that are of a call

    def message(self, number: int, message: Message) -> None:
        """Append *message*; its run comes later."""
        require_possible("message", number, message)
        run_id = message.run_id
        is_apart = run_id is not None and run_id != self._current_run and run_id in self._begun
        if is_apart and not self._has_losses:
            raise _invalid("message", number, "run_id")  # others lie between it and its run
        if self._has_losses and not self._last_seq < message.seq < _LARGEST:
            raise _invalid("message", number, "seq")
        self._last_seq = message.seq
        if message.kind == "original":
            self._current_run = run_id
        if run_id is not None:
            self._begun.add(run_id)
        seq = self._numbers.add(message.seq)
        new = replace(to_new(message), imported_at=self._now, covers=self._covers(number, message))
        row = messages.row_of(new, self._session_id, seq, run_id=repair_optional(run_id))
        row = messages.with_marks(
            row,
            is_repaired=message.repaired,
            undone_at=_text_of(message.undone_at),
            undone_after=message.undone_after,
        )
        messages.insert(self._connection, row)

    def _covers(self, number: int, message: Message) -> tuple[int, int] | None:
        if message.covers is None:
            return None
        first, last = (
            self._numbers.first_from(message.covers[0]),
            self._numbers.last_to(message.covers[1]),
        )
        if first is None or last is None or first > last:
            raise _invalid("message", number, "covers")
        return first, last

    def run(self, number: int, run: Run) -> None:
        """Insert *run*, whose messages are there."""
        require_possible("run", number, run)
        if run.id in self._ids:
            raise _invalid("run", number, "id")
        seq = self._numbers.exact(run.first_seq)
        if seq is None or not (self._has_losses or self._at(seq)[:2] == ("user", run.id)):
            raise _invalid("run", number, "first_seq")
        last = self._connection.execute(_LAST_ROLE, (self._session_id, run.id)).get
        if run.status == "completed" and last != "assistant" and not self._has_losses:
            raise _invalid("run", number, "status")
        if not self._are_new and not self._is_free(run.id):
            self._rename_all()
        self._ids[run.id] = self._new_id() if self._are_new else run.id
        if run.retry_of is not None:
            self._retries.append((run.id, run.retry_of))
        is_pending = run.status == "pending"
        row = (
            self._ids[run.id],
            self._session_id,
            seq,
            "failed" if is_pending else run.status,
            "interrupted" if is_pending else repair_optional(run.error_type),
            to_text(run.started_at),
            to_text(run.finished_at or self._now),
            runs.NOBODY,
            run.usage.input_tokens,
            run.usage.output_tokens,
            run.usage.cached_input_tokens,
            run.usage.reasoning_tokens,
            run.cost,
            repair_optional(run.provider),
            repair_optional(run.model),
            _text_of(run.undone_at),
            self._after(seq, run.undone_after),
            run.copied_from,
        )
        try:
            self._connection.execute(_RUN, row)
        except apsw.ConstraintError:
            raise _invalid("run", number, "first_seq") from None

    def execution(self, number: int, execution: ToolExecution) -> None:
        """Insert *execution*, whose run and messages are there."""
        require_possible("execution", number, execution)
        if execution.run_id not in self._ids:
            raise _invalid("execution", number, "run_id")
        call_seq = self._numbers.exact(execution.call_seq)
        role, run_id, call_count = self._at(call_seq)
        is_asked = (role, run_id) == ("assistant", execution.run_id) or self._has_losses
        if call_seq is None or not is_asked:
            raise _invalid("execution", number, "call_seq")
        if execution.call_index >= (call_count or 0) and not self._has_losses:
            raise _invalid("execution", number, "call_index")
        result_seq = None
        if execution.result_seq is not None:
            result_seq = self._numbers.exact(execution.result_seq)
            is_result = self._at(result_seq)[0] == "tool" and result_seq not in self._answered
            if result_seq is None or not (is_result or self._has_losses):
                raise _invalid("execution", number, "result_seq")
            self._answered.add(result_seq)
        row = (
            self._ids[execution.run_id],
            self._session_id,
            call_seq,
            execution.call_index,
            repair_text(execution.call_id),
            repair_text(execution.name),
            execution.replay,
            to_text(execution.started_at),
            to_text(execution.finished_at or self._now),
            execution.outcome or "unknown",
            result_seq,
        )
        try:
            self._connection.execute(_EXECUTION, row)
        except apsw.ConstraintError:
            raise _invalid("execution", number, "call_index") from None

    def connect(self) -> None:
        """Lead what points at runs and messages to where they are now."""
        if self._are_new:
            self._connection.executemany(
                "UPDATE messages SET run_id = ? WHERE +session_id = ? AND run_id = ?",
                [(new, self._session_id, old) for old, new in self._ids.items()],
            )
        missing = self._connection.execute(_WITHOUT_ITS_RUN, (self._session_id,)).get
        if isinstance(missing, int):
            raise _invalid("message", missing, "run_id")
        self._connection.executemany(
            "UPDATE runs SET retry_of = ? WHERE id = ?",
            [(self._ids.get(retried), self._ids[run_id]) for run_id, retried in self._retries],
        )
        undone: Any = self._connection.execute(
            "SELECT seq, undone_after, id FROM messages WHERE session_id = ?"
            " AND undone_at IS NOT NULL",
            (self._session_id,),
        ).fetchall()
        self._connection.executemany(
            "UPDATE messages SET undone_after = ? WHERE id = ?",
            [(self._after(seq, after), key) for seq, after, key in undone],
        )

    def _after(self, seq: int, old: int | None) -> int | None:
        """Return up to where the session had got when *seq* was undone; None if that is unclear."""
        new = None if old is None else self._numbers.last_to(old)
        return None if new is None or new < seq else new

    def _at(self, seq: int | None) -> tuple[Any, Any, Any]:
        """Return role, run and count of calls of a message."""
        found: Any = self._connection.execute(_AT, (self._session_id, seq)).fetchone()
        return found or (None, None, None)

    def _is_free(self, run_id: str) -> bool:
        return (
            is_canonical(run_id)
            and not self._connection.execute("SELECT 1 FROM runs WHERE id = ?", (run_id,)).get
        )

    def _rename_all(self) -> None:
        """Give every run so far an id of its own, and every later one."""
        self._are_new = True
        for old in self._ids:
            self._ids[old] = self._new_id()
            self._connection.execute("UPDATE runs SET id = ? WHERE id = ?", (self._ids[old], old))


def _invalid(record: ImportRecord, number: int, field: str) -> ImportInvalid:
    return ImportInvalid(record=record, number=number, field=field)


def _repaired_origin(session: Session) -> tuple[str | None, int | None]:
    if session.forked_from is None:
        return None, None
    parent, seq = session.forked_from
    return repair_text(parent), seq


def _text_of(time: datetime | None) -> str | None:
    return None if time is None else to_text(time)
