"""One screen about a last run that failed or was interrupted, before anything else is shown.

Owns the four questions a person has then: what was saved, which tools ran and how they ended,
what is unknown, what to type next. Invariant: computed from committed rows alone.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sessions_api.showing import figures
from sessions_api.showing.liveness import INTERRUPTED, shown_run
from sessions_api.showing.terminal_text import Ink, columns, cut, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state_store import Message, Run, ToolExecution

_INPUT_COLUMNS = 60
_ENDS = {
    "ok": "ok",
    "error": "ended with an error, which the model was told",
    "cancelled": "was stopped",
    "unknown": "unknown: it had started and its end was not recorded",
}
_NOUNS = {"assistant": "assistant message", "tool": "tool result"}


def aftermath(
    runs: Sequence[Run],
    messages: Sequence[Message],
    executions: Sequence[ToolExecution],
    *,
    ink: Ink,
    then: Sequence[tuple[str, str]],
) -> list[str]:
    """Return the screen's lines, none when the last run ended well or is under way.

    *then* is what can be typed next, each with what it does.
    """
    last = shown_run(runs[-1]) if runs else None
    if last is None or last.status != "failed" or last.undone_at is not None:
        return []
    tools = [one for one in executions if one.run_id == last.id]
    unknown = sorted({one_line(one.name) for one in tools if _end(one) == "unknown"})
    saved = _saved([one for one in messages if one.run_id == last.id])
    rows = [
        ("Saved", saved),
        *_labelled("Tools", [f"{one_line(one.name)}  {_ENDS[_end(one)]}" for one in tools]),
        ("Unknown", f"whether {', '.join(unknown)} took effect" if unknown else "nothing"),
        *_labelled("Next", columns(then) if then else []),
    ]
    labels = columns([(f"{label}  ",) for label, _ in rows])
    wide = max(map(len, labels)) + 2
    return [
        ink.alarm(_headline(last)),
        *(f"  {label:<{wide}}{text}" for (label, text) in rows),
        "  What a failed run did is kept and shown; it is not sent to the model again.",
    ]


def _headline(run: Run) -> str:
    when = figures.ago(run.finished_at or run.started_at)
    match run.error_type:
        case "interrupted":
            return f"The last run was {INTERRUPTED}: its process ended before it did ({when})."
        case "cancelled":
            return f"The last run was cancelled ({when})."
        case _:
            return f"The last run failed: {run.error_type} ({when})."


def _end(execution: ToolExecution) -> str:
    return execution.outcome or "unknown"


def _saved(messages: Sequence[Message]) -> str:
    said = [one for one in messages if one.role == "user"]
    parts = (
        [f"your message “{cut(one_line(said[0].content or ''), _INPUT_COLUMNS)}”"] if said else []
    )
    others = Counter(one.role for one in messages if one.role != "user")
    parts += [figures.count(number, _NOUNS.get(role, role)) for role, number in others.items()]
    return ", ".join(parts) or "nothing"


def _labelled(label: str, lines: Sequence[str]) -> list[tuple[str, str]]:
    return [(label if place == 0 else "", line) for place, line in enumerate(lines)] or [
        (label, "none ran")
    ]
