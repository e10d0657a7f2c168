"""What a record from elsewhere has to be before it is stored: one rule a field.

An import comes from a file that anybody can have written, so nothing about it is taken on trust:
not types, not names from closed lists, not times without a zone. Invariant: what passes is what
this package could have written, and a check of the database finds nothing wrong with it.

Rules ask about one record at a time; what records say about one another is `importing`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args

from state_store.clock import to_text
from state_store.errors import ImportInvalid
from state_store.export import require_unknown
from state_store.records import (
    Message,
    MessageKind,
    ReplayPolicy,
    Run,
    RunStatus,
    Session,
    SessionStatus,
    TitleSource,
    ToolCall,
    ToolExecution,
    ToolOutcome,
    Usage,
)
from state_store.sqlite.rows import to_json
from state_store.sqlite.values import is_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from state_store.records import ImportRecord

    Rule = Callable[[Any], bool]

_LARGEST = 1 << 53
# Of a run: more than there can be, and their sums stay countable.
_TOKENS_MAX = 1 << 40
_COST_MAX = 1e15


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _words(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _time(value: Any) -> bool:
    try:
        return isinstance(value, datetime) and to_text(value) != ""
    except (ValueError, OverflowError):  # without a zone, or before the year 1 in UTC
        return False


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


def _ordinal(value: Any) -> bool:
    return _count(value) and value > 0


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _price(value: Any) -> bool:
    return type(value) in {int, float} and 0 <= value <= _COST_MAX


def _one_of(names: Any) -> Rule:
    known = get_args(names)
    return lambda value: isinstance(value, str) and value in known


def _or_none(rule: Rule) -> Rule:
    return lambda value: value is None or rule(value)


def _json_object(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    try:
        to_json(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _parts(value: Any) -> bool:
    return isinstance(value, tuple) and all(map(_json_object, value))


def _calls(value: Any) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(call, ToolCall) and all(map(_text, (call.id, call.name, call.arguments)))
        for call in value
    )


def _pair(first: Rule, second: Rule) -> Rule:
    return lambda value: (
        isinstance(value, tuple) and len(value) == 2 and first(value[0]) and second(value[1])  # noqa: PLR2004 - a pair
    )


def _range(value: Any) -> bool:
    return _pair(_ordinal, _ordinal)(value) and value[0] <= value[1]


def _extra(value: Any) -> bool:
    try:
        require_unknown(value)
    except (TypeError, ValueError):
        return False
    return True


def _usage(value: Any) -> bool:
    return isinstance(value, Usage) and all(
        one is None or (_count(one) and one < _TOKENS_MAX)
        for one in (
            value.input_tokens,
            value.output_tokens,
            value.cached_input_tokens,
            value.reasoning_tokens,
        )
    )


def _id(value: Any) -> bool:
    return isinstance(value, str) and is_id(value)


_RULES: Mapping[ImportRecord, tuple[type, Mapping[str, Rule]]] = {
    "session": (
        Session,
        {
            "id": _text,
            "title": _or_none(_text),
            "title_source": _one_of(TitleSource),
            "provider": _or_none(_text),
            "endpoint": _or_none(_text),
            "model_id": _or_none(_text),
            "model_config": _json_object,
            "system_prompt": _or_none(_text),
            "parameters": _json_object,
            "show_reasoning": _flag,
            "status": _one_of(SessionStatus),
            "duration_ms": _count,
            "created_at": _time,
            "updated_at": _time,
            "archived_at": _or_none(_time),
            "forked_from": _or_none(_pair(_text, _count)),
            "metadata": _json_object,
        },
    ),
    "message": (
        Message,
        {
            "seq": lambda value: type(value) is int,
            "run_id": _or_none(_words),
            "role": _text,
            "content": _or_none(_text),
            "reasoning_content": _or_none(_text),
            "tool_calls": _or_none(_calls),
            "tool_call_id": _or_none(_text),
            "name": _or_none(_text),
            "kind": _one_of(MessageKind),
            "covers": _or_none(_range),
            "parts": _or_none(_parts),
            "provider_data": _or_none(_text),
            "repaired": _flag,
            "created_at": _or_none(_time),
            "undone_at": _or_none(_time),
            "undone_after": _or_none(_count),
            "extra": _or_none(_extra),
        },
    ),
    "run": (
        Run,
        {
            "id": _words,
            "first_seq": lambda value: type(value) is int,
            "status": _one_of(RunStatus),
            "error_type": _or_none(_words),
            "started_at": _time,
            "finished_at": _or_none(_time),
            "usage": _usage,
            "cost": _or_none(_price),
            "provider": _or_none(_text),
            "model": _or_none(_text),
            "retry_of": _or_none(_text),
            "undone_at": _or_none(_time),
            "undone_after": _or_none(_count),
            "copied_from": _or_none(_id),
        },
    ),
    "execution": (
        ToolExecution,
        {
            "run_id": _words,
            "call_seq": lambda value: type(value) is int,
            "call_index": _count,
            "call_id": _text,
            "name": _text,
            "replay": _one_of(ReplayPolicy),
            "started_at": _time,
            "finished_at": _or_none(_time),
            "outcome": _or_none(_one_of(ToolOutcome)),
            "result_seq": _or_none(lambda value: type(value) is int),
        },
    ),
}


def require_possible(record: ImportRecord, number: int, found: object) -> None:
    """Raise ImportInvalid, with the first field that is not possible, unless all are."""
    kind, rules = _RULES[record]
    if not isinstance(found, kind):
        raise ImportInvalid(record=record, number=number, field="type")
    for field, is_possible in rules.items():
        if not is_possible(getattr(found, field)):
            raise ImportInvalid(record=record, number=number, field=field)
    if (contradicting := _contradicting(found)) is not None:
        raise ImportInvalid(record=record, number=number, field=contradicting)


def _contradicting(found: object) -> str | None:
    """Return a field that does not go together with the others."""
    match found:
        case Message(run_id=str(), undone_at=datetime()):
            return "undone_at"  # its run says so
        case Message(undone_at=None, undone_after=int()) | Run(undone_at=None, undone_after=int()):
            return "undone_after"
        case Message(kind="original", covers=tuple()):
            return "covers"
        case Message(kind="summary" | "derived", run_id=str()):
            return "run_id"
        case Run(status="failed", error_type=None) | Run(status="completed", error_type=str()):
            return "error_type"
        case Run(status="failed" | "completed", finished_at=None):
            return "finished_at"
        case ToolExecution(outcome=str(), finished_at=None):
            return "finished_at"
    return None
