"""What a session's journal tells of each run, gathered from its lines.

Invariant: a pure reading of lines whose chain others check; a line that is damaged tells nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from run_journal import Entry, EventName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from run_journal import Damage

Place = tuple[int, int]
_ENDS = frozenset({EventName.RUN_COMPLETED, EventName.RUN_FAILED, EventName.RUN_RECOVERED})


@dataclass(slots=True)
class ToldRun:
    """One run as its lines tell it. `undone` is None while nobody has told of an undo."""

    last_ts: str
    started: Mapping[str, Any] | None = None
    responded: Mapping[str, Any] | None = None
    end: tuple[str, Mapping[str, Any]] | None = None
    tools_started: dict[Place, Mapping[str, Any]] = field(default_factory=dict)
    tools_finished: dict[Place, Mapping[str, Any]] = field(default_factory=dict)
    undone: bool | None = None


def told_runs(lines: Iterable[Entry | Damage]) -> dict[str, ToldRun]:
    """Return what *lines* tell of each run, by its id, in the order in which they begin."""
    runs: dict[str, ToldRun] = {}
    for line in lines:
        if isinstance(line, Entry) and line.run_id is not None:
            run = runs.setdefault(line.run_id, ToldRun(line.ts))
            run.last_ts = line.ts
            _take(run, line)
    return runs


def _take(run: ToldRun, line: Entry) -> None:
    place = (line.fields.get("call_seq"), line.fields.get("call_index"))
    match line.event:
        case EventName.RUN_STARTED:
            run.started = line.fields
        case EventName.PROVIDER_RESPONDED:
            run.responded = line.fields
        case EventName.TOOL_STARTED if None not in place:
            run.tools_started[place] = line.fields  # type: ignore[index]  # neither is None here
        case EventName.TOOL_FINISHED if None not in place:
            run.tools_finished[place] = line.fields  # type: ignore[index]  # the same
        case EventName.RUN_UNDONE | EventName.RUN_REDONE:
            run.undone = line.event == EventName.RUN_UNDONE
        case event if event in _ENDS:
            run.end = (event, line.fields)
