"""Records as lines of an archive.

Invariant: a line is a function of what a record says and of nothing else, so that a session which
was imported is written with the same bytes again. What is a fact of one machine alone has no place
on a line: owner, journal, revision, row ids, when and from what something was imported; nor have
totals, which follow from the runs. JSON text that a provider needs back stays text on the line.

Source: `docs/formats.md`, "Archive".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sessions_api.providers.exact_json import members
from state_store import to_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from state_store import Message, Run, Session, ToolExecution

MESSAGE_FIELDS = frozenset(
    (
        *("type", "seq", "run_id", "role", "content", "reasoning_content", "tool_calls"),
        *("tool_call_id", "name", "kind", "covers", "parts", "provider_data", "repaired"),
        *("created_at", "undone_at", "undone_after", "extra"),
    )
)


def line_of(fields: Mapping[str, Any], *, more: str = "") -> bytes:
    """Return *fields* as one line; *more* is the exact text of further members, without braces."""
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return (f"{text[:-1]},{more}}}\n" if more else f"{text}\n").encode()


def session_line(session: Session) -> bytes:
    """Return what a session is but for its messages and totals."""
    return line_of(
        {
            "type": "session",
            "id": session.id,
            "title": session.title,
            "title_source": session.title_source,
            "provider": session.provider,
            "endpoint": session.endpoint,
            "model_id": session.model_id,
            "model_config": session.model_config,
            "system_prompt": session.system_prompt,
            "parameters": session.parameters,
            "show_reasoning": session.show_reasoning,
            "status": session.status,
            "duration_ms": session.duration_ms,
            "created_at": to_text(session.created_at),
            "updated_at": to_text(session.updated_at),
            "archived_at": _instant(session.archived_at),
            "forked_from": session.forked_from,
            "metadata": session.metadata,
        }
    )


def run_line(run: Run) -> bytes:
    """Return one attempt to answer, with what it used."""
    return line_of(
        {
            "type": "run",
            "id": run.id,
            "first_seq": run.first_seq,
            "status": run.status,
            "error_type": run.error_type,
            "started_at": to_text(run.started_at),
            "finished_at": _instant(run.finished_at),
            "input_tokens": run.usage.input_tokens,
            "output_tokens": run.usage.output_tokens,
            "cached_input_tokens": run.usage.cached_input_tokens,
            "reasoning_tokens": run.usage.reasoning_tokens,
            "cost": run.cost,
            "provider": run.provider,
            "model": run.model,
            "retry_of": run.retry_of,
            "undone_at": _instant(run.undone_at),
            "undone_after": run.undone_after,
            "copied_from": run.copied_from,
        }
    )


def execution_line(execution: ToolExecution) -> bytes:
    """Return what became of one tool call."""
    return line_of(
        {
            "type": "tool_execution",
            "run_id": execution.run_id,
            "call_seq": execution.call_seq,
            "call_index": execution.call_index,
            "call_id": execution.call_id,
            "name": execution.name,
            "replay": execution.replay,
            "started_at": to_text(execution.started_at),
            "finished_at": _instant(execution.finished_at),
            "outcome": execution.outcome,
            "result_seq": execution.result_seq,
        }
    )


def message_line(message: Message) -> bytes:
    """Return a message; what it does not have is left out, what nobody here knows is written."""
    fields: dict[str, Any] = {
        "type": "message",
        "seq": message.seq,
        "role": message.role,
        "content": message.content,
    }
    optional: dict[str, Any] = {
        "run_id": message.run_id,
        "reasoning_content": message.reasoning_content,
        "tool_calls": None
        if message.tool_calls is None
        else [
            {"id": call.id, "name": call.name, "arguments": call.arguments}
            for call in message.tool_calls
        ],
        "tool_call_id": message.tool_call_id,
        "name": message.name,
        "kind": None if message.kind == "original" else message.kind,
        "covers": message.covers,
        "parts": message.parts,
        "provider_data": message.provider_data,
        "repaired": True if message.repaired else None,
        "created_at": _instant(message.created_at),
        "undone_at": _instant(message.undone_at),
        "undone_after": message.undone_after,
    }
    fields |= {name: value for name, value in optional.items() if value is not None}
    more = _unknown_members(message.extra)
    if more is None:
        fields["extra"] = message.extra
    return line_of(fields, more=more or "")


def extra_of(unknown: Iterable[tuple[str, str]]) -> str:
    """Return names and exact values of members that nobody here knows as `Message.extra`."""
    return (
        "{"
        + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{value}" for name, value in unknown)
        + "}"
    )


def _unknown_members(extra: str | None) -> str | None:
    """Return the members of *extra* as they stand there; None where it must stay a text."""
    if extra is None:
        return ""
    try:
        found = [*members(extra)] if isinstance(json.loads(extra), dict) else []
    except (ValueError, RecursionError):
        return None
    names = {name for name, _ in found}
    is_clear = len(names) == len(found) and not names & MESSAGE_FIELDS
    if not found or not is_clear or "\n" in extra or extra_of(found) != extra:
        return None
    return extra[1:-1]


def _instant(instant: datetime | None) -> str | None:
    return None if instant is None else to_text(instant)
