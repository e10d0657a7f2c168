"""Asking a person which session is meant, where the whole screen cannot be used for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.showing.listing import session_lines
from sessions_api.showing.liveness import shown_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessions_api.chat.lines import Lines
    from sessions_api.sessions import Sessions
    from sessions_api.showing.terminal_text import Ink

SHOWN_COUNT = 20


def choose_session(
    sessions: Sessions,
    lines: Lines,
    show: Callable[[str], None],
    *,
    ink: Ink,
    columns_wide: int | None,
) -> str | None:
    """Show the newest sessions and return the reference that is typed, None for none."""
    found = sessions.list(SHOWN_COUNT)
    if not found.items:
        show("There is no session here yet.")
        return None
    listed = [shown_session(one, sessions) for one in found.items]
    for line in session_lines(listed, ink=ink, columns_wide=columns_wide):
        show(line)
    if found.next_cursor:
        show(f"The newest {len(listed)} are shown; all: tinyagent sessions --limit 0")
    return (lines.ask("Session (id or title, empty for none): ") or "").strip() or None
