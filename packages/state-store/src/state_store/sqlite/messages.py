"""The messages table: appending and reading in order.

Invariant: what a message says is never changed once it is committed, and `seq` is 1, 2, 3 … per
session in the order of commits. Reading is by pages on (session, seq); no read transaction outlives
a page.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from state_store.clock import to_text
from state_store.cursor import check_limit, decode_cursor, encode_cursor, fetch_count
from state_store.records import Message, NewMessage, Page, View
from state_store.sqlite.faults import UnreadableValue
from state_store.sqlite.rows import MESSAGE_COLUMNS, Row, instant, storable, to_message

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import apsw

# Every column but the id, in the order in which a record reads them.
_INSERT = (
    f"INSERT INTO messages ({MESSAGE_COLUMNS.removeprefix('id, ')}) VALUES"  # noqa: S608 - constants alone
    f" ({', '.join('?' * MESSAGE_COLUMNS.count(','))})"
)
_FILTERS: dict[View, str] = {
    "original": " AND kind = 'original' AND undone_at IS NULL"
    # ?1 and not the column: SQLite would look up the runs again for every message.
    " AND (run_id IS NULL OR run_id NOT IN (SELECT id FROM runs"
    " WHERE session_id = ?1 AND undone_at IS NOT NULL))",
    "all": "",
}
_PAGE: dict[View, str] = {
    view: (
        f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE session_id = ?1 AND seq > ?2{condition}"  # noqa: S608 - constants alone
        " ORDER BY seq LIMIT ?3"
    )
    for view, condition in _FILTERS.items()
}
# Nothing was found of a session that counts originals, and nothing explains that.
_HIDDEN = (
    "SELECT message_count > 0"
    " AND NOT EXISTS (SELECT 1 FROM messages WHERE session_id = ?1"
    " AND kind IN ('summary', 'derived'))"
    " AND NOT EXISTS (SELECT 1 FROM runs WHERE session_id = ?1 AND undone_at IS NOT NULL)"
    " AND NOT EXISTS (SELECT 1 FROM messages WHERE session_id = ?1 AND undone_at IS NOT NULL)"
    " FROM sessions WHERE id = ?1"
)
_UNDONE = """
SELECT seq, undone_at, undone_after FROM messages WHERE session_id = ? AND undone_at IS NOT NULL
"""
_LAST = (
    f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE session_id = ?1{_FILTERS['original']}"  # noqa: S608 - constants alone
    " ORDER BY seq DESC LIMIT ?2"
)


def undone_alone(
    connection: apsw.Connection, session_id: str
) -> dict[int, tuple[datetime | None, int | None]]:
    """Return since when each message that is undone by itself is, and after which seq, by seq."""
    found = connection.execute(_UNDONE, (session_id,))
    return {seq: (instant(at), after) for seq, at, after in found}


def last_seq(connection: apsw.Connection, session_id: str) -> int:
    """Return the highest seq of the session, 0 when it has no message."""
    found = connection.execute(
        "SELECT max(seq) FROM messages WHERE session_id = ?", (session_id,)
    ).get
    return found if isinstance(found, int) else 0


def append(
    connection: apsw.Connection,
    session_id: str,
    messages: Sequence[NewMessage],
    *,
    run_id: str | None,
    now: datetime,
    keep_times: bool = False,
) -> tuple[Message, ...]:
    """Append *messages* in order and return them as stored.

    With *keep_times* a missing `created_at` stays missing, as an import needs it.
    """
    seq = last_seq(connection, session_id)
    stored = []
    for message in messages:
        seq += 1
        timed = message if keep_times or message.created_at else replace(message, created_at=now)
        row = row_of(timed, session_id, seq, run_id=run_id)
        insert(connection, row)
        stored.append(to_message((connection.last_insert_rowid(), *row)))
    return tuple(stored)


def row_of(message: NewMessage, session_id: str, seq: int, *, run_id: str | None) -> Row:
    """Return *message* in its place as a row, without the id that it is going to have."""
    columns = storable(message)
    return (
        session_id,
        seq,
        run_id,
        columns.role,
        columns.content,
        columns.reasoning_content,
        columns.tool_calls,
        columns.tool_call_id,
        columns.name,
        message.kind,
        *(message.covers or (None, None)),
        columns.parts,
        columns.provider_data,
        int(columns.repaired),
        None if message.created_at is None else to_text(message.created_at),
        None if message.imported_at is None else to_text(message.imported_at),
        None,
        None,
        columns.extra,
    )


def with_marks(
    row: Row, *, is_repaired: bool, undone_at: str | None, undone_after: int | None
) -> Row:
    """Return *row* with what was known of the message before it came here."""
    *said, repaired, created_at, imported_at, _, _, extra = row
    was_repaired = int(repaired or is_repaired)
    return (*said, was_repaired, created_at, imported_at, undone_at, undone_after, extra)


def insert(connection: apsw.Connection, row: Row) -> None:
    """Insert a row of MESSAGE_COLUMNS without its id."""
    connection.execute(_INSERT, row)


def page(
    connection: apsw.Connection,
    session_id: str,
    *,
    view: View,
    limit: int | None,
    cursor: str | None,
) -> Page[Message]:
    """Return messages in order of seq, at most *limit*, after *cursor*."""
    listing = f"messages.{view}.{session_id}"
    after = 0 if cursor is None else decode_cursor(listing, cursor, (int,))[0]
    bindings: tuple[Any, ...] = (session_id, after, fetch_count(limit))
    rows = connection.execute(_PAGE[view], bindings).fetchall()
    if not rows and cursor is None:
        _require_none(connection, session_id)
    more = limit is not None and len(rows) > limit
    items = tuple(to_message(row) for row in rows[:limit])
    return Page(
        items=items,
        next_cursor=encode_cursor(listing, (items[-1].seq,)) if items and more else None,
    )


def last(connection: apsw.Connection, session_id: str, count: int) -> tuple[Message, ...]:
    """Return the last *count* originals, in order of seq."""
    check_limit(count)
    rows = connection.execute(_LAST, (session_id, count)).fetchall()
    if not rows and count:
        _require_none(connection, session_id)
    return tuple(to_message(row) for row in reversed(rows))


def _require_none(connection: apsw.Connection, session_id: str) -> None:
    """Raise when an empty history is a full one behind an index that lost its rows."""
    if connection.execute(_HIDDEN, (session_id,)).get != 0:  # None: the row is hidden as well
        raise UnreadableValue
