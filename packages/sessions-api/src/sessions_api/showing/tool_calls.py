"""A tool call as it is seen while it runs: one line when it starts, one when it has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.runs.events import ToolFinished, ToolStarted
from sessions_api.showing.terminal_text import Ink, cut, one_line
from sessions_api.showing.transcript import call_text

if TYPE_CHECKING:
    from sessions_api.runs.events import RunEvent

_RESULT_COLUMNS = 70


def tool_line(event: RunEvent, ink: Ink) -> str | None:
    """Return the line for a call that starts or has ended; None for any other event."""
    match event:
        case ToolStarted(call=call):
            return ink.dim(f"· {call_text(call)} …")
        case ToolFinished(call=call, outcome=outcome, content=content):
            shown = cut(one_line(content), _RESULT_COLUMNS)
            return ink.dim(f"· {one_line(call.name)}: {outcome}: {shown}")
        case _:
            return None
