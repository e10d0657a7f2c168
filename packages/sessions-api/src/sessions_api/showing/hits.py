"""What a search found, as people read it: where, and the words in their line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.showing import figures
from sessions_api.showing.listing import handle
from sessions_api.showing.terminal_text import Ink, columns, one_line, safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state_store import Hit


def hit_lines(hits: Sequence[Hit], *, ink: Ink) -> list[str]:
    """Return a line for each hit: its session, its place there, its age, its words."""
    return columns([_row(hit, ink) for hit in hits]) if hits else []


def _row(hit: Hit, ink: Ink) -> tuple[str, str, str, str]:
    place = "title" if hit.seq is None else f"#{hit.seq} {one_line(hit.role or '')}"
    age = figures.UNKNOWN if hit.created_at is None else figures.ago(hit.created_at)
    return handle(hit.session_id), place, age, _words(hit, ink)


def _words(hit: Hit, ink: Ink) -> str:
    shown, place = "", 0
    for first, end in hit.matches:
        shown += safe(hit.snippet[place:first]) + ink.bold(safe(hit.snippet[first:end]))
        place = end
    return shown + safe(hit.snippet[place:])
