"""Between rows and records: the only place that knows how a field looks in a column.

JSON columns hold compact JSON and NULL for "nothing"; `provider_data` and tool arguments stay the
exact text they came as. Tool calls are stored in the wire form that chat completions made common
(see `export.call_object`), so that any tool can read them.
Text enters the store through `storable`, and only there is it repaired.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from state_store.clock import UNREADABLE_TIME, from_text
from state_store.export import call_object, require_unknown
from state_store.records import (
    Message,
    NewMessage,
    NewSession,
    Run,
    Session,
    SessionSummary,
    ToolCall,
    ToolExecution,
    Usage,
)
from state_store.sqlite.faults import UnreadableValue
from state_store.text import repair_optional, repair_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

Row = tuple[Any, ...]
T = TypeVar("T")

SESSION_COLUMNS = (
    "id, title, title_source, provider, endpoint, model_id, model_config, system_prompt,"
    " parameters, show_reasoning, status, message_count, total_tokens, cost, usage_complete,"
    " duration_ms, created_at, updated_at, archived_at, forked_from_session, forked_from_seq,"
    " metadata, revision, inherited_tokens, inherited_cost"
)
# What a person called a session is read as bytes: if it is damaged, all others are listed still.
SUMMARY_COLUMNS = (
    "id, CAST(title AS BLOB), CAST(model_id AS BLOB), CAST(provider AS BLOB), created_at,"
    " updated_at, status, message_count, total_tokens, cost"
)
MESSAGE_COLUMNS = (
    "id, session_id, seq, run_id, role, content, reasoning_content, tool_calls, tool_call_id,"
    " name, kind, covers_first, covers_last, parts, provider_data, repaired, created_at,"
    " imported_at, undone_at, undone_after, extra"
)
RUN_COLUMNS = (
    "id, session_id, first_seq, status, error_type, started_at, finished_at, owner, input_tokens,"
    " output_tokens, cached_input_tokens, reasoning_tokens, cost, provider, model, retry_of,"
    " undone_at, undone_after, journal_seq, journal_chain, journal_lost_count, copied_from"
)
EXECUTION_COLUMNS = (
    "run_id, session_id, call_seq, call_index, call_id, name, replay, started_at, finished_at,"
    " outcome, result_seq"
)


@dataclass(frozen=True, slots=True)
class StorableMessage:
    """The column values that a new message fixes by itself."""

    role: str
    content: str | None
    reasoning_content: str | None
    tool_calls: str | None
    tool_call_id: str | None
    name: str | None
    parts: str | None
    provider_data: str | None
    extra: str | None
    repaired: bool


def storable(message: NewMessage) -> StorableMessage:
    """Return *message* as columns, its text made valid Unicode and marked if it was not."""
    repaired = False

    def text(value: str | None) -> str | None:
        nonlocal repaired
        clean = repair_optional(value)
        repaired = repaired or clean is not value
        return clean

    calls = None
    if message.tool_calls is not None:
        calls = text(to_json([call_object(call) for call in message.tool_calls]))
    parts = None if message.parts is None else text(to_json(_objects(message.parts)))
    return StorableMessage(
        role=text(message.role) or "",
        content=text(message.content),
        reasoning_content=text(message.reasoning_content),
        tool_calls=calls,
        tool_call_id=text(message.tool_call_id),
        name=text(message.name),
        parts=parts,
        provider_data=text(message.provider_data),
        extra=None if message.extra is None else text(require_unknown(message.extra)),
        repaired=repaired,
    )


def _objects(parts: tuple[Mapping[str, Any], ...]) -> tuple[Mapping[str, Any], ...]:
    """Return *parts*; TypeError for one that is no object, which nobody could read again."""
    if not all(isinstance(part, Mapping) for part in parts):
        raise TypeError("each part of a message has to be a mapping")
    return parts


def to_json(value: Any) -> str:
    """Return *value* as compact, strict JSON. NaN and Infinity are refused with ValueError.

    Text that is not valid Unicode passes as it is, so that repairing the result repairs it all.
    """
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain
    )


def _plain(value: Any) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} has no JSON form")


def settings_columns(settings: NewSession) -> dict[str, Any]:
    """Return the columns that *settings* set, by name, repaired like every other text."""
    text = repair_optional

    def json_text(value: Mapping[str, Any] | None) -> str | None:
        return repair_text(to_json(value)) if value else None

    return {
        "title": text(settings.title),
        "title_source": settings.title_source,
        "provider": text(settings.provider),
        "endpoint": text(settings.endpoint),
        "model_id": text(settings.model_id),
        "model_config": json_text(settings.model_config),
        "system_prompt": text(settings.system_prompt),
        "parameters": json_text(settings.parameters),
        "show_reasoning": int(settings.show_reasoning),
        "metadata": json_text(settings.metadata),
    }


def _reading(read: Callable[[Row], T]) -> Callable[[Row], T]:
    """Make *read* say that a row which it cannot read is damaged, and not the caller's mistake."""

    @wraps(read)
    def reading(row: Row) -> T:
        try:
            return read(row)
        except (LookupError, TypeError, ValueError) as error:
            raise UnreadableValue from error

    return reading


@_reading
def to_summary(row: Row) -> SessionSummary:
    """Read a row of SUMMARY_COLUMNS."""
    key, title, model_id, provider, created_at, updated_at, status, count, tokens, cost = row
    return SessionSummary(
        id=key,
        title=_words(title),
        model_id=_words(model_id),
        provider=_words(provider),
        created_at=_time(created_at),
        updated_at=_time(updated_at),
        status=status,
        message_count=count,
        total_tokens=tokens,
        cost=cost,
    )


def _words(stored: bytes | None) -> str | None:
    """Return text that is shown and compared with nothing; U+FFFD where it is no text."""
    return None if stored is None else stored.decode("utf-8", "replace")


@_reading
def to_session(row: Row) -> Session:
    """Read a row of SESSION_COLUMNS."""
    return Session(
        id=row[0],
        title=row[1],
        title_source=row[2],
        provider=row[3],
        endpoint=row[4],
        model_id=row[5],
        model_config=_object(row[6]),
        system_prompt=row[7],
        parameters=_object(row[8]),
        show_reasoning=bool(row[9]),
        status=row[10],
        message_count=row[11],
        total_tokens=row[12],
        cost=row[13],
        usage_complete=bool(row[14]),
        duration_ms=row[15],
        created_at=_time(row[16]),
        updated_at=_time(row[17]),
        archived_at=instant(row[18]),
        forked_from=None if row[19] is None else (row[19], row[20]),
        metadata=_object(row[21]),
        revision=row[22],
        inherited_tokens=row[23],
        inherited_cost=row[24],
    )


@_reading
def to_message(row: Row) -> Message:
    """Read a row of MESSAGE_COLUMNS."""
    return Message(
        id=row[0],
        session_id=row[1],
        seq=row[2],
        run_id=row[3],
        role=row[4],
        content=row[5],
        reasoning_content=row[6],
        tool_calls=None if row[7] is None else _calls(row[7]),
        tool_call_id=row[8],
        name=row[9],
        kind=row[10],
        covers=None if row[11] is None else (row[11], row[12]),
        parts=None if row[13] is None else tuple(json.loads(row[13])),
        provider_data=row[14],
        repaired=bool(row[15]),
        created_at=instant(row[16]),
        imported_at=instant(row[17]),
        undone_at=instant(row[18]),
        undone_after=row[19],
        extra=row[20],
    )


@_reading
def to_run(row: Row) -> Run:
    """Read a row of RUN_COLUMNS."""
    return Run(
        id=row[0],
        session_id=row[1],
        first_seq=row[2],
        status=row[3],
        error_type=row[4],
        started_at=_time(row[5]),
        finished_at=instant(row[6]),
        owner=row[7],
        usage=Usage(
            input_tokens=row[8],
            output_tokens=row[9],
            cached_input_tokens=row[10],
            reasoning_tokens=row[11],
        ),
        cost=row[12],
        provider=row[13],
        model=row[14],
        retry_of=row[15],
        undone_at=instant(row[16]),
        undone_after=row[17],
        journal_head=None if row[18] is None else (row[18], row[19]),
        journal_lost_count=row[20],
        copied_from=row[21],
    )


@_reading
def to_execution(row: Row) -> ToolExecution:
    """Read a row of EXECUTION_COLUMNS."""
    return ToolExecution(
        run_id=row[0],
        session_id=row[1],
        call_seq=row[2],
        call_index=row[3],
        call_id=row[4],
        name=row[5],
        replay=row[6],
        started_at=_time(row[7]),
        finished_at=instant(row[8]),
        outcome=row[9],
        result_seq=row[10],
    )


def _time(text: str) -> datetime:
    """Return the instant that *text* says; one that cannot be read must not hide its row."""
    try:
        found = from_text(text)
    except ValueError:
        return UNREADABLE_TIME
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def instant(text: str | None) -> datetime | None:
    """Return the time that a column holds, None where it holds none."""
    return None if text is None else _time(text)


def _object(text: str | None) -> dict[str, Any]:
    return {} if text is None else json.loads(text)


@_reading
def to_call_ids(row: Row) -> tuple[str, ...]:
    """Read the ids of the calls in a row that has the column `tool_calls` alone."""
    return () if row[0] is None else tuple(call.id for call in _calls(row[0]))


def _calls(text: str) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(
            id=call["id"],
            name=call["function"]["name"],
            arguments=call["function"]["arguments"],
        )
        for call in json.loads(text)
    )
