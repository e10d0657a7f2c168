"""Records as JSON objects: the same names, whole ids, times in UTC with `Z`, null for unknown.

Invariant: nothing is left out, shortened or made up; what a record has, its object has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sessions_api.showing.listing import handle
from state_store import Session, SessionSummary, to_text

if TYPE_CHECKING:
    from state_store import Run, ToolExecution, Usage


def as_json(value: Any) -> Any:
    """Return *value* as `json.dumps` takes it."""
    if isinstance(value, datetime):
        return to_text(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: as_json(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): as_json(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [as_json(one) for one in value]
    return str(value) if isinstance(value, Path) else value


def session_json(session: Session | SessionSummary, *, workspace_id: str | None) -> dict[str, Any]:
    """Return a session, whole or as a list has it."""
    return {
        **as_json(session),
        "short_id": handle(session.id),
        "workspace_id": workspace_id,
    }


def runs_json(runs: Sequence[Run], executions: Sequence[ToolExecution]) -> list[dict[str, Any]]:
    """Return runs, each with what became of its tool calls and with null for unknown usage."""
    return [
        {
            **as_json(run),
            "usage": usage_json(run.usage),
            "tool_executions": [as_json(one) for one in executions if one.run_id == run.id],
        }
        for run in runs
    ]


def usage_json(usage: Usage) -> Any:
    """Return usage; null when the provider reported none of it."""
    known = as_json(usage)
    return known if any(one is not None for one in known.values()) else None
