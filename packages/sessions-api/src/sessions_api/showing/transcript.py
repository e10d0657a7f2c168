"""Messages as people read them: who, when, what, and which belong to a run that failed.

Invariant: every stored message is shown, whatever its role; nothing is shown that is not stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.showing import figures
from sessions_api.showing.listing import handle
from sessions_api.showing.terminal_text import Ink, cut, one_line, safe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from state_store import Message, Run, ToolCall

_ARGUMENT_COLUMNS = 60


def transcript(
    messages: Iterable[Message],
    runs: Iterable[Run],
    *,
    ink: Ink,
    show_times: bool = True,
    reasoning: bool = False,
) -> Iterator[str]:
    """Yield the lines of *messages*; those of failed and undone runs are marked."""
    marks = run_marks(runs)
    for message in messages:
        yield ink.bold(_heading(message, show_times=show_times)) + ink.alarm(
            marks.get(message.run_id or "", "")
        )
        if reasoning and message.reasoning_content:
            yield from map(ink.dim, _lines(message.reasoning_content))
        yield from _body(message)
        yield ""


def run_marks(runs: Iterable[Run]) -> Mapping[str, str]:
    """Return what to write beside messages, by the id of their run."""
    marks = {}
    for run in runs:
        if run.status == "failed":
            marks[run.id] = f"  [run {handle(run.id)} failed: {run.error_type}]"
        elif run.undone_at is not None:
            marks[run.id] = f"  [run {handle(run.id)} undone]"
        elif run.status == "pending":
            marks[run.id] = f"  [run {handle(run.id)} under way]"
    return marks


def call_text(call: ToolCall) -> str:
    """Return a tool call on one line."""
    return f"{one_line(call.name)}({cut(one_line(call.arguments), _ARGUMENT_COLUMNS)})"


def _heading(message: Message, *, show_times: bool) -> str:
    words = [f"#{message.seq}", one_line(message.role)]
    if message.role == "tool" and message.name:
        words.append(one_line(message.name))
    if message.kind != "original":
        words.append(f"({message.kind})")
    if show_times and message.created_at is not None:
        words.append(f"· {figures.at(message.created_at)}")
    if message.repaired:
        words.append("· repaired: it was not valid Unicode")
    return " ".join(words)


def _lines(text: str) -> list[str]:
    return safe(text).rstrip("\n").split("\n")


def _body(message: Message) -> Iterator[str]:
    if message.content:
        yield from _lines(message.content)
    for call in message.tool_calls or ():
        yield f"→ {call_text(call)}"
    if message.parts:
        kinds = ", ".join(one_line(str(part.get("type", "?"))) for part in message.parts)
        yield f"[{figures.count(len(message.parts), 'part')}: {kinds}]"
