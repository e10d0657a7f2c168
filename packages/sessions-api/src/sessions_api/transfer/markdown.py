"""A conversation as Markdown, to read and to share.

Invariant: nothing that is stored can open or close anything. What was said stands in fences longer
than any row of marks inside; whatever stands on a line of ours has every mark of punctuation
escaped that could make it a heading, link, image, tag or mention.

Source: CommonMark 0.31, "Backslash escapes" and "Fenced code blocks"; GFM, "Autolinks".
"""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING

from sessions_api.transfer import outline
from sessions_api.transfer.visible_text import on_one_line, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions_api.transfer.moment import Moment
    from state_store import Message

# Within a line these mean nothing where "/" and "." are escaped; ids and times stay readable.
_PLAIN = frozenset("-:,")
_ESCAPED = str.maketrans({mark: f"\\{mark}" for mark in set(string.punctuation) - _PLAIN})
_MARKS = re.compile("`+")
_SHORTEST_FENCE = 3


def markdown_chunks(moment: Moment) -> Iterator[bytes]:
    """Yield the session as Markdown, UTF-8, message by message."""
    session = moment.session
    yield f"# {inline(session.title or 'Untitled session')}\n\n".encode()
    yield _facts(outline.session_facts(session)).encode()
    if session.system_prompt:
        yield f"\n## System prompt\n\n{fenced(session.system_prompt)}".encode()
    for entry in outline.entries(moment.messages(), moment.runs, moment.executions):
        yield "".join(_entry(entry)).encode()


def inline(text: str) -> str:
    """Return *text* on one line, with no mark in it that means anything."""
    return on_one_line(text).translate(_ESCAPED) or "(nothing)"


def fenced(text: str, info: str = "text") -> str:
    """Return *text* in a fence that nothing in it ends: a longer row of the fence's own mark."""
    shown = visible(text)
    longest = max((len(row) for row in _MARKS.findall(shown)), default=0)
    fence = "`" * max(_SHORTEST_FENCE, longest + 1)
    return f"{fence}{info}\n{shown}\n{fence}\n"


def _facts(facts: list[tuple[str, str]]) -> str:
    return "".join(f"- {name}: {inline(value)}\n" for name, value in facts)


def _entry(entry: outline.Entry) -> Iterator[str]:
    message, run = entry.message, entry.run
    if run is not None and entry.begins_run:
        yield f"\n## Run {inline(run.id)}: {inline(outline.run_status(run))}\n\n"
        yield _facts(outline.run_facts(run))
    name = f" ({inline(message.name)})" if message.name else ""
    marks = [f"**{inline(mark)}**" for mark in outline.message_marks(message)]
    yield f"\n### {message.seq}\\. {inline(message.role)}{name}\n\n"
    if message.created_at is not None:
        marks.insert(0, inline(outline.time_of(message.created_at)))
    if message.role == "tool":
        marks.append(f"answers {inline(message.tool_call_id or '')}")
    if marks:
        yield " · ".join(marks) + "\n\n"
    yield from _said(message)
    for call in entry.calls:
        yield f"\n#### Tool call {inline(call.call.name)}: {inline(call.outcome)}\n\n"
        yield f"- Id: {inline(call.call.id)}\n\nArguments:\n\n{fenced(call.call.arguments, 'json')}"
        if call.result is not None:
            yield f"\nResult ({call.result.seq}):\n\n"
            yield from _said(call.result)


def _said(message: Message) -> Iterator[str]:
    if message.reasoning_content:
        yield f"Reasoning:\n\n{fenced(message.reasoning_content)}\n"
    if message.content:
        yield fenced(message.content)
    for kind, text in outline.part_texts(message):
        shown = (
            "(not text; it is in an archive of this session)\n" if text is None else fenced(text)
        )
        yield f"\nPart, {inline(kind)}:\n\n{shown}"
