"""Events that are as full as their rules allow."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import run_journal
from run_journal import CodeName, CollapsedFrames, Frame, id_of

if TYPE_CHECKING:
    from run_journal import Event

UUID = id_of("019b7d2e-0000-7000-8000-000000000001")


def largest(cls: type[Event]) -> Event:
    """Return an event of *cls* in which every field is as long as its rule allows."""
    return cls(**{field.name: _longest(field.metadata["kind"]) for field in fields(cls)})


def _longest(kind: str) -> Any:
    match kind:
        case "stack":
            frame = Frame(module=CodeName("m" * 64), function=CodeName("f" * 64), line=2**31 - 1)
            return (CollapsedFrames(count=2**31 - 1), *[frame] * 15)
        case "type_names":
            return ("t" * 64,) * 8
        case "flag":
            return False
        case "http_status":
            return 999
        case "count":
            return 2**63 - 1
        case "uuid":
            return UUID
        case "name" | "identifier":
            return "i" * 64
        case _:
            return max(getattr(run_journal, kind), key=len)
