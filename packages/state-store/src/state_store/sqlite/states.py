"""Whole sessions as values: saving a state over what is stored, and loading one.

Invariant: saving never changes or removes a stored original. What is stored must be a prefix of
what is saved; the rest is appended. Messages are compared by what they say, not by their times.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from state_store.errors import HistoryConflict
from state_store.records import Message, NewMessage, NewSession, Session, SessionState
from state_store.sqlite import messages, sessions
from state_store.sqlite.rows import StorableMessage, settings_columns, storable

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    import apsw

_EXISTS = "SELECT 1 FROM sessions WHERE id = ?"


def save(
    connection: apsw.Connection, state: SessionState, duration: timedelta, now: datetime
) -> Session:
    """Create or update the session of *state* inside the caller's transaction."""
    if not connection.execute(_EXISTS, (state.id,)).get:
        sessions.insert(connection, state.id, state.settings, state.created_at or now)
        new = state.messages
    else:
        page = messages.page(connection, state.id, view="original", limit=None, cursor=None)
        _require_prefix(state, page.items)
        new = state.messages[len(page.items) :]
    appended = messages.append(
        connection, state.id, new, run_id=None, now=now, keep_times=bool(new and new[0].imported_at)
    )
    originals = sum(message.kind == "original" for message in appended)
    sessions.advance(connection, state.id, status="idle", now=now, originals=originals)
    columns = settings_columns(state.settings)
    if state.settings.title is None:
        del columns["title"], columns["title_source"]
    columns["duration_ms"] = round(duration.total_seconds() * 1000)
    return sessions.update(connection, state.id, columns, now=None)


def _require_prefix(state: SessionState, stored: tuple[Message, ...]) -> None:
    for index, message in enumerate(stored):
        if index >= len(state.messages) or _said(state.messages[index]) != _said(to_new(message)):
            raise HistoryConflict(state.id, seq=message.seq)


def _said(message: NewMessage) -> StorableMessage:
    """Return the columns by which two messages are the same.

    Fields that we have no place for are not among them: who rebuilds a message does not know them.
    A message that was repaired on its way in equals the one it was made from.
    """
    return replace(storable(message), repaired=False, extra=None)


def to_new(message: Message) -> NewMessage:
    """Return what a stored message says, as a message that could be stored again."""
    return NewMessage(
        role=message.role,
        content=message.content,
        reasoning_content=message.reasoning_content,
        tool_calls=message.tool_calls,
        tool_call_id=message.tool_call_id,
        name=message.name,
        kind=message.kind,
        covers=message.covers,
        parts=message.parts,
        provider_data=message.provider_data,
        created_at=message.created_at,
        imported_at=message.imported_at,
        extra=message.extra,
    )


def load(connection: apsw.Connection, session_id: str) -> SessionState:
    """Return the settings and the originals of a session."""
    session = sessions.get(connection, session_id)
    page = messages.page(connection, session_id, view="original", limit=None, cursor=None)
    return SessionState(
        id=session.id,
        settings=settings_of(session),
        messages=tuple(to_new(message) for message in page.items),
        created_at=session.created_at,
    )


def settings_of(session: Session) -> NewSession:
    """Return what a session was created or last updated with."""
    return NewSession(
        title=session.title,
        title_source=session.title_source,
        provider=session.provider,
        endpoint=session.endpoint,
        model_id=session.model_id,
        model_config=session.model_config,
        system_prompt=session.system_prompt,
        parameters=session.parameters,
        show_reasoning=session.show_reasoning,
        metadata=session.metadata,
    )
