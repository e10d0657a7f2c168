"""The shortest way to say what a test does to a store.

Messages and whole turns with as little about them as a test needs. For the contract suite; an
engine's own tests may use it too.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from state_store.clock import new_id
from state_store.records import Message, NewMessage, NewSession, Run, Session, ToolCall, Usage

if TYPE_CHECKING:
    from state_store.protocol import SessionStore

USAGE = Usage(input_tokens=10, output_tokens=5)


def user(content: str = "question") -> NewMessage:
    """Return a user's message."""
    return NewMessage(role="user", content=content)


def assistant(content: str = "answer") -> NewMessage:
    """Return an answer."""
    return NewMessage(role="assistant", content=content)


def calling(*ids: str) -> NewMessage:
    """Return an assistant message that calls the tool "look" once for each of *ids*."""
    calls = tuple(ToolCall(id=key, name="look", arguments='{"at": 1.0}') for key in ids)
    return NewMessage(role="assistant", tool_calls=calls)


def result(call_id: str, content: str = "seen") -> NewMessage:
    """Return the result of a call."""
    return NewMessage(role="tool", content=content, tool_call_id=call_id)


def begin(store: SessionStore, session_id: str, content: str = "question") -> Run:
    """Begin a run and leave it pending."""
    run, _ = store.begin_run(session_id, user(content), run_id=new_id())
    return run


def complete(store: SessionStore, run: Run, usage: Usage = USAGE) -> Run:
    """Complete *run* with an answer."""
    completed, _ = store.complete_run(run.id, assistant(), usage=usage)
    return completed


def turn(store: SessionStore, session_id: str, content: str = "question") -> Run:
    """Ask and answer."""
    return complete(store, begin(store, session_id, content))


def session_with_turn(store: SessionStore, settings: NewSession | None = None) -> str:
    """Return the id of a new session with one completed turn."""
    session_id = store.create_session(settings).id
    turn(store, session_id)
    return session_id


def contents(store: SessionStore, session_id: str) -> list[str | None]:
    """Return what the session's original messages say, in order."""
    return [message.content for message in store.messages(session_id).items]


def only_message(store: SessionStore, session_id: str) -> Message:
    """Return the only message of the session."""
    (message,) = store.messages(session_id).items
    return message


def said(store: SessionStore, session_id: str, *messages: NewMessage) -> None:
    """Append messages without a run, as an adapter does."""
    state = store.load(session_id)
    store.save(replace(state, messages=(*state.messages, *messages)), timedelta(0))


def retry(store: SessionStore, run: Run, content: str = "question") -> Run:
    """Begin a run that retries *run*, and complete it."""
    began, _ = store.begin_run(run.session_id, user(content), run_id=new_id(), retry_of=run.id)
    return complete(store, began)


def source(session_id: str | None = None, **fields: Any) -> Session:
    """Return a session as a file from elsewhere says it."""
    then = datetime(2020, 2, 3, 4, 5, 6, tzinfo=UTC)
    plain: dict[str, Any] = {
        "title": None,
        "title_source": "auto",
        "provider": None,
        "endpoint": None,
        "model_id": None,
        "model_config": {},
        "system_prompt": None,
        "parameters": {},
        "show_reasoning": False,
        "status": "idle",
        "message_count": 0,
        "total_tokens": 0,
        "cost": None,
        "usage_complete": True,
        "duration_ms": 0,
        "created_at": then,
        "updated_at": then,
        "archived_at": None,
        "forked_from": None,
        "metadata": {},
        "revision": 1,
    }
    return Session(id=new_id() if session_id is None else session_id, **(plain | fields))


def source_messages(*messages: NewMessage, run_id: str | None = None) -> tuple[Message, ...]:
    """Return messages as a file from elsewhere says them, numbered from 1."""
    names = NewMessage.__dataclass_fields__
    return tuple(
        Message(
            id=0,
            session_id="",
            seq=seq,
            run_id=run_id,
            repaired=False,
            **{name: getattr(message, name) for name in names},
        )
        for seq, message in enumerate(messages, start=1)
    )
