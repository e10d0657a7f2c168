"""The picker as lines of text: rows, preview, the line that says what is shown, the keys.

Invariants: exactly as many lines as the screen has; no line is wider than it; what others wrote is
safe for a terminal; a handle is never cut.
"""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Literal

from sessions_api.chat.picker.listing import workspace_name
from sessions_api.showing import figures
from sessions_api.showing.listing import handle, shown_title
from sessions_api.showing.terminal_text import cut, one_line, width
from sessions_api.showing.transcript import call_text

if TYPE_CHECKING:
    from sessions_api.chat.picker.listing import Row
    from sessions_api.chat.picker.mode import Picking
    from state_store import Message

Weight = Literal["", "bold", "reverse", "dim"]
Line = tuple[Weight, str]

KEYS = "Enter take · Space preview · ^R rename · ^D delete · ^A all workspaces · Esc leave"
_FACTS_FROM = 60  # columns; a narrower screen shows handles and titles alone
_PREVIEW_FROM = 12  # lines
_SAID_LINES = 4


def picture(picking: Picking, *, columns: int, rows: int, everywhere: bool) -> list[Line]:
    """Return the whole screen, a line a row."""
    above = [_question(picking)]
    below: list[Line] = [("bold", _counts(picking))]
    said = wrap(picking.said, max(1, columns))[:_SAID_LINES] if picking.said else [KEYS]
    below += [("dim", line) for line in said]
    room = max(1, rows - len(above) - len(below))
    preview: list[Line] = []
    if picking.previewing and rows >= _PREVIEW_FROM:
        preview = [("dim", "─" * columns), *_preview(picking, room // 2)]
    middle = _rows(picking, max(1, room - len(preview)), columns, everywhere=everywhere)
    lines = [*above, *middle, *preview, *below][:rows]
    return [(weight, cut(text, columns)) for weight, text in lines]


def _question(picking: Picking) -> Line:
    marked = picking.listing.marked
    if picking.mode == "rename":
        return "bold", f"New title: {picking.typed}▏"
    if picking.mode == "delete" and marked is not None:
        session = marked.session
        facts = f"{figures.count(session.message_count, 'message')}, last active"
        said = f"Delete {handle(session.id)} for good? [y/N] "
        return "bold", f"{said}({facts} {figures.ago(session.updated_at)}) {_title(marked)}"
    return "bold", f"Session: {picking.listing.query}▏"


def _counts(picking: Picking) -> str:
    listing = picking.listing
    more = "" if listing.all_known else "+"
    if listing.all_known and not listing.count:
        return "There is no session here yet."
    return f"{len(listing.fitting):,} of {listing.count:,}{more} shown"


def _rows(picking: Picking, count: int, columns: int, *, everywhere: bool) -> list[Line]:
    listing = picking.listing
    # The marked row is in the middle, but at both ends.
    first = max(0, min(listing.marked_index - count // 2, len(listing.fitting) - count))
    visible = listing.fitting[first : first + count]
    lines: list[Line] = [
        ("reverse" if row is listing.marked else "", _row(row, columns, everywhere=everywhere))
        for row in visible
    ]
    return _filled(lines, count)


def _row(row: Row, columns: int, *, everywhere: bool) -> str:
    begin = f" {handle(row.session.id)}  "
    facts = ""
    if columns >= _FACTS_FROM:
        status = "" if row.session.status in {"idle", "closed"} else row.session.status
        facts = f"  {row.session.message_count:>6}  {figures.ago(row.session.updated_at):>10}"
        facts += f"  {status:<7}"
        if everywhere:
            facts += f"  {_fill(one_line(workspace_name(row.place.root)), 14)}"
    return begin + _fill(_title(row), columns - width(begin) - width(facts)) + facts


def _fill(text: str, columns: int) -> str:
    shown = cut(text, max(1, columns))
    return shown + " " * (columns - width(shown))


def _title(row: Row) -> str:
    return shown_title(row.session.title)


def _preview(picking: Picking, count: int) -> list[Line]:
    lines: list[Line] = [("", one) for message in picking.preview() for one in _said(message)]
    lines = lines[-count:] or [("dim", "Nothing has been said in it yet.")]
    return _filled(lines, count)


def _filled(lines: list[Line], count: int) -> list[Line]:
    nothing: Line = ("", "")
    return lines + [nothing] * (count - len(lines))


def _said(message: Message) -> list[str]:
    words = [f"{one_line(message.role)}:"]
    if message.content:
        # The beginning of a long text is enough, and is quick.
        words.append(one_line(message.content[:1000]))
    words += [f"→ {call_text(call)}" for call in message.tool_calls or ()]
    return [" ".join(words)]
