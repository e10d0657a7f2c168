"""The sessions table: creating, reading, listing, changing, deleting.

Functions take a connection inside a transaction that the store has opened. Invariant: listing
reads the sessions table alone, in index order, LIMIT first; what it costs does not depend on how
many messages there are. `revision` grows with every change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from state_store.clock import to_text
from state_store.cursor import decode_cursor, encode_cursor, fetch_count
from state_store.errors import SessionExists, SessionNotFound, SessionWasDeleted
from state_store.ids import require_id
from state_store.records import (
    Deleted,
    NewSession,
    Page,
    Session,
    SessionStatus,
    SessionSummary,
    Usage,
)
from state_store.sqlite.faults import UnreadableValue
from state_store.sqlite.rows import (
    SESSION_COLUMNS,
    SUMMARY_COLUMNS,
    settings_columns,
    to_session,
    to_summary,
)
from state_store.text import repair_optional, repair_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import apsw

LISTING = "sessions"
ARCHIVED_LISTING = "sessions.archived"
_CHANGEABLE = {*NewSession.__dataclass_fields__, "status", "duration_ms"}
_GET = f"SELECT {SESSION_COLUMNS} FROM sessions WHERE id = ?"  # noqa: S608 - constants alone
_LIST = {
    (archived, after): (
        f"SELECT {SUMMARY_COLUMNS} FROM sessions WHERE archived_at IS"  # noqa: S608 - constants
        f" {'NOT NULL' if archived else 'NULL'}"
        f"{' AND (updated_at, id) < (?, ?)' if after else ''}"
        " ORDER BY updated_at DESC, id DESC LIMIT ?"
    )
    for archived in (False, True)
    for after in (False, True)
}
_ANY = {
    archived: (
        "SELECT 1 FROM sessions NOT INDEXED WHERE archived_at IS"  # noqa: S608 - constants
        f" {'NOT NULL' if archived else 'NULL'} LIMIT 1"
    )
    for archived in (False, True)
}
_BY_ID = f"SELECT {SUMMARY_COLUMNS} FROM sessions WHERE id = ?"  # noqa: S608 - constants alone
_BY_TITLE_OR_DIGITS = (
    f"SELECT {SUMMARY_COLUMNS} FROM sessions WHERE title = ?1 OR id IN"  # noqa: S608 - constants alone
    " (SELECT id FROM sessions WHERE length(?1) >= 4 AND substr(id, -4) = substr(?1, -4)"
    " AND substr(id, -length(?1)) = ?1)"
    " ORDER BY updated_at DESC, id DESC"
)
_INSERT = (
    "INSERT INTO sessions (id, title, title_source, provider, endpoint, model_id, model_config,"
    " system_prompt, parameters, show_reasoning, metadata, status, created_at, updated_at)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'idle', ?, ?)"
)
_ADVANCE = (
    "UPDATE sessions SET status = ?1, message_count = message_count + ?2,"
    " total_tokens = total_tokens + ?3,"
    " cost = CASE WHEN ?4 IS NULL THEN cost ELSE coalesce(cost, 0) + ?4 END,"
    " usage_complete = usage_complete AND ?5, title = coalesce(title, ?6), updated_at = ?7,"
    " revision = revision + 1 WHERE id = ?8"
)

# The totals of what is there. Copied runs are counted apart, and those under way not yet.
_COUNT_AGAIN = """
UPDATE sessions SET
    message_count = (SELECT count(*) FROM messages WHERE session_id = ?1 AND kind = 'original'),
    (total_tokens, cost, usage_complete) = (
        SELECT coalesce(sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)), 0), sum(cost),
            coalesce(min(input_tokens IS NOT NULL AND output_tokens IS NOT NULL), 1)
        FROM runs WHERE session_id = ?1 AND copied_from IS NULL AND status <> 'pending'),
    (inherited_tokens, inherited_cost) = (
        SELECT coalesce(sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)), 0), sum(cost)
        FROM runs WHERE session_id = ?1 AND copied_from IS NOT NULL)
WHERE id = ?1
"""


def insert(
    connection: apsw.Connection, session_id: str, settings: NewSession, created_at: datetime
) -> None:
    """Insert a session without messages, unless its id is taken or was deleted."""
    require_id(session_id, kind="session")
    if connection.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).get:
        raise SessionExists(session_id)
    refuse_deleted(connection, session_id)
    now = to_text(created_at)
    connection.execute(_INSERT, (session_id, *_ordered(settings), now, now))


def _ordered(settings: NewSession) -> tuple[Any, ...]:
    return tuple(settings_columns(settings).values())


def refuse_deleted(connection: apsw.Connection, session_id: str) -> None:
    """Raise SessionWasDeleted when a tombstone carries the id."""
    deleted_at = connection.execute(
        "SELECT deleted_at FROM tombstones WHERE session_id = ?", (session_id,)
    ).get
    if isinstance(deleted_at, str):
        raise SessionWasDeleted(session_id, deleted_at=deleted_at)


def get(connection: apsw.Connection, session_id: str) -> Session:
    """Return the session; SessionNotFound, or SessionWasDeleted, when it is not there."""
    row = connection.execute(_GET, (session_id,)).fetchone()
    if row is None:
        refuse_deleted(connection, session_id)
        raise SessionNotFound(session_id)
    return to_session(row)


def require(connection: apsw.Connection, session_id: str) -> None:
    """Raise as `get` does when the session is not there, without reading it."""
    if not connection.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).get:
        refuse_deleted(connection, session_id)
        raise SessionNotFound(session_id)


def find(connection: apsw.Connection, ref: str) -> tuple[SessionSummary, ...]:
    """Return what *ref* names, newest activity first.

    The session with this whole id, else all with exactly this title or whose id ends with these
    digits (4 or more).
    """
    if not (text := repair_text(ref)):
        return ()
    rows = (
        connection.execute(_BY_ID, (text,)).fetchall()
        or connection.execute(_BY_TITLE_OR_DIGITS, (text,)).fetchall()
    )
    return tuple(to_summary(row) for row in rows)


def list_page(
    connection: apsw.Connection, *, limit: int | None, cursor: str | None, archived: bool
) -> Page[SessionSummary]:
    """Return sessions, newest activity first, at most *limit*, after *cursor*."""
    listing = ARCHIVED_LISTING if archived else LISTING
    bindings: list[Any] = []
    if cursor is not None:
        bindings += decode_cursor(listing, cursor, (str, str))
    bindings.append(fetch_count(limit))
    rows = connection.execute(_LIST[archived, cursor is not None], bindings).fetchall()
    if not rows and cursor is None and connection.execute(_ANY[archived]).get:
        raise UnreadableValue  # an index that lost its rows is no empty list
    more = limit is not None and len(rows) > limit
    rows = rows[:limit]
    # The key is the stored text, not a datetime: a damaged time must not end the listing.
    key = (str(rows[-1][5]), str(rows[-1][0])) if rows and more else None
    return Page(
        items=tuple(to_summary(row) for row in rows),
        next_cursor=encode_cursor(listing, key) if key else None,
    )


def advance(
    connection: apsw.Connection,
    session_id: str,
    *,
    status: str,
    now: datetime,
    originals: int = 0,
    usage: Usage | None = None,
    cost: float | None = None,
    auto_title: str | None = None,
) -> None:
    """Book what a step of a run did: new originals, and at its end its usage and cost.

    *auto_title* becomes the title of a session that has none.
    """
    tokens = 0 if usage is None else usage.total_tokens or 0
    complete = usage is None or usage.complete
    connection.execute(
        _ADVANCE,
        (
            status,
            originals,
            tokens,
            cost,
            complete,
            repair_optional(auto_title),
            to_text(now),
            session_id,
        ),
    )


def changed_columns(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that *changes* set; ValueError for a field or status that is none."""
    if unknown := set(changes) - _CHANGEABLE:
        raise ValueError(f"a session has no changeable field {', '.join(sorted(unknown))}")
    own = {name: changes[name] for name in ("status", "duration_ms") if name in changes}
    if own.get("status", "idle") not in get_args(SessionStatus):
        raise ValueError(f"a session has no status {own['status']!r}")
    given = {name: value for name, value in changes.items() if name not in own}
    if "title" in given:
        # Without a title the next one may be made automatically again.
        given.setdefault("title_source", "auto" if given["title"] is None else "user")
    columns = settings_columns(NewSession(**given))
    return {**own, **{name: columns[name] for name in given}}


def update(
    connection: apsw.Connection, session_id: str, columns: dict[str, Any], *, now: str | None
) -> Session:
    """Set *columns* (names of this package, never a caller's) and return the session.

    *now* is the new time of last activity; None leaves it, as for archiving.
    """
    if now is not None:
        columns = {**columns, "updated_at": now}
    assignments = ", ".join(f"{name} = ?" for name in columns)
    connection.execute(
        f"UPDATE sessions SET {assignments}, revision = revision + 1 WHERE id = ?",  # noqa: S608 - constants alone
        (*columns.values(), session_id),
    )
    return get(connection, session_id)


def count_again(connection: apsw.Connection, session_id: str) -> None:
    """Make a new session's totals those of the rows that were put into it."""
    connection.execute(_COUNT_AGAIN, (session_id,))


def delete(connection: apsw.Connection, session_id: str, now: datetime) -> Deleted:
    """Delete the session and all that belongs to it, and leave a tombstone without content."""
    session = get(connection, session_id)
    run_count = connection.execute(
        "SELECT count(*) FROM runs WHERE session_id = ?", (session_id,)
    ).get
    message_count = connection.execute(
        "SELECT count(*) FROM messages WHERE session_id = ?", (session_id,)
    ).get
    remove_rows(connection, session_id)
    connection.execute(
        "INSERT INTO tombstones (session_id, deleted_at, message_count, run_count)"
        " VALUES (?, ?, ?, ?)",
        (session_id, to_text(now), message_count, run_count),
    )
    assert isinstance(message_count, int)  # noqa: S101 - for the type checker: count(*) is one
    assert isinstance(run_count, int)  # noqa: S101 - the same
    return Deleted(id=session.id, deleted_at=now, message_count=message_count, run_count=run_count)


def remove_rows(connection: apsw.Connection, session_id: str) -> None:
    """Delete the rows of the session, in whatever schema version the database has."""
    for table in ("tool_executions", "messages", "runs"):
        connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))  # noqa: S608 - constants alone
    connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))


def unerased(connection: apsw.Connection) -> tuple[str, ...]:
    """Return the deleted sessions of which something may be left outside this database."""
    rows = connection.execute("SELECT session_id FROM tombstones WHERE erased_at IS NULL")
    return tuple(str(session_id) for (session_id,) in rows)


def mark_erased(connection: apsw.Connection, session_ids: tuple[str, ...], now: datetime) -> None:
    """Note that nothing of these deleted sessions is left outside this database."""
    connection.executemany(
        "UPDATE tombstones SET erased_at = ? WHERE session_id = ? AND erased_at IS NULL",
        [(to_text(now), session_id) for session_id in session_ids],
    )
