"""A conversation as one HTML file, to read, to print and to share.

Invariants: nothing is fetched and nothing runs; what is stored stands between tags as escaped text
and nowhere else, never in an attribute, so that it makes no element whatever it is; text of each
field is isolated, so that its direction of writing turns nothing around it.

Source: HTML Living Standard, "Escaping a string" and `bdi`; Content Security Policy Level 3.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from sessions_api.transfer import outline
from sessions_api.transfer.html_style import POLICY, STYLE
from sessions_api.transfer.visible_text import on_one_line, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions_api.transfer.moment import Moment
    from state_store import Message, Run

_CLASSES = {"system", "developer", "user", "assistant", "tool"}
_MASKED = (
    "Secrets were looked for and masked where they were found. Look it over before you share it."
)
_EXACT = "Nothing is masked: it may hold secrets."


def html_chunks(moment: Moment, *, is_masked: bool) -> Iterator[bytes]:
    """Yield the session as one page, UTF-8, message by message."""
    session = moment.session
    title = session.title or "Untitled session"
    yield _HEAD.format(
        title=escape(on_one_line(title)), policy=escape(POLICY), style=STYLE
    ).encode()
    facts = _facts(outline.session_facts(session))
    yield f'<header>\n<h1 dir="auto">{escape(on_one_line(title))}</h1>\n{facts}</header>\n'.encode()
    yield b"<main>\n"
    if session.system_prompt:
        prompt = _folded("Show it", session.system_prompt, "said")
        yield f"<section>\n<h2>System prompt</h2>\n{prompt}</section>\n".encode()
    yield b"<h2>Conversation</h2>\n"
    open_run: str | None = None
    for entry in outline.entries(moment.messages(), moment.runs, moment.executions):
        run = entry.run
        run_id = None if run is None else run.id
        if run_id != open_run:
            if open_run is not None:
                yield b"</section>\n"
            if run is not None:
                yield _run(run).encode()
            open_run = run_id
        yield "".join(_entry(entry, level=3 if run is None else 4)).encode()
    if open_run is not None:
        yield b"</section>\n"
    note = _MASKED if is_masked else _EXACT
    yield f"</main>\n<footer><p>{note}</p></footer>\n</body>\n</html>\n".encode()


_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
"""


def _run(run: Run) -> str:
    states = " undone" if run.undone_at is not None else ""
    states += " failed" if run.status == "failed" or run.stale else ""
    name = f"run-{run.first_seq}"
    return (
        f'<section class="run{states}" aria-labelledby="{name}">\n'
        f'<h3 id="{name}">Run {_isolated(run.id)}: {_isolated(outline.run_status(run))}</h3>\n'
        f"{_facts(outline.run_facts(run))}"
    )


def _entry(entry: outline.Entry, *, level: int) -> Iterator[str]:
    message = entry.message
    name = f"message-{message.seq}"
    kind = message.role if message.role in _CLASSES else "other"
    kind += " undone" if message.undone_at is not None else ""
    yield f'<article class="message {kind}" aria-labelledby="{name}">\n'
    yield f'<h{level} id="{name}">{message.seq}. {_isolated(message.role)}'
    if message.name:
        yield f" {_isolated(message.name)}"
    yield f"{_time(message)}</h{level}>\n"
    marks = outline.message_marks(message)
    if message.role == "tool":
        marks.append(f"answers {message.tool_call_id or ''}")
    for mark in marks:
        yield f'<p class="mark">{_isolated(mark)}</p>\n'
    yield from _said(message, "said")
    for call in entry.calls:
        bad = "" if call.outcome in {"ok", "answered"} else ' class="bad"'
        yield '<div class="call">\n'
        yield f"<p>Tool call {_isolated(call.call.name)}: "
        yield f"<span{bad}>{_isolated(call.outcome)}</span> "
        yield f'<span class="mark">{_isolated(call.call.id)}</span></p>\n'
        yield _folded("Arguments", call.call.arguments, "code", is_open=True)
        if call.result is not None:
            yield f'<p class="mark">Result, message {call.result.seq}{_time(call.result)}</p>\n'
            yield from _said(call.result, "said code")
        yield "</div>\n"
    yield "</article>\n"


def _said(message: Message, kind: str) -> Iterator[str]:
    if message.reasoning_content:
        yield _folded("Reasoning", message.reasoning_content, "said")
    if message.content:
        yield _text(message.content, kind)
    for name, text in outline.part_texts(message):
        shown = "not text; it is in an archive of this session" if text is None else "text"
        yield f'<p class="mark">Part, {_isolated(name)}: {shown}</p>\n'
        if text is not None:
            yield _text(text, kind)


def _folded(summary: str, text: str, kind: str, *, is_open: bool = False) -> str:
    opened = " open" if is_open else ""
    return f"<details{opened}><summary>{summary}</summary>\n{_text(text, kind)}</details>\n"


def _facts(facts: list[tuple[str, str]]) -> str:
    rows = "".join(f"<dt>{name}</dt><dd>{_isolated(value)}</dd>\n" for name, value in facts)
    return f"<dl>\n{rows}</dl>\n"


def _time(message: Message) -> str:
    if message.created_at is None:
        return ""
    shown = outline.time_of(message.created_at)
    return f' <time class="time" datetime="{shown}">{shown}</time>'


def _text(text: str, kind: str) -> str:
    return f'<div class="{kind}" dir="auto">{escape(visible(text))}</div>\n'


def _isolated(text: str) -> str:
    return f"<bdi>{escape(on_one_line(text))}</bdi>"
