"""`tinyagent sessions list`: the newest sessions, a page at a time."""

from __future__ import annotations

from typing import Annotated

import typer

from sessions_api.cli.opened import reading
from sessions_api.cli.options import JSON, PLACE, Call, command
from sessions_api.showing.listing import session_lines
from sessions_api.showing.liveness import shown_session

NOTHING_YET = 'There is no session here yet. Start one: tinyagent run "hello"'

Limit = Annotated[int, typer.Option("--limit", "-n", min=0, help="How many; 0 for all.")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="Go on after an earlier page.")]
Archived = Annotated[bool, typer.Option("--archived", help="The archived ones.")]
Ids = Annotated[bool, typer.Option("--ids", help="Whole ids alone, one a line.")]


def add_to(sessions: typer.Typer) -> None:
    """Add `list` to `tinyagent sessions`."""
    command(sessions, "list", PLACE, JSON)(list_sessions)


def list_sessions(
    call: Call,
    *,
    limit: Limit = 20,
    cursor: Cursor = None,
    archived: Archived = False,
    ids: Ids = False,
) -> None:
    """List sessions, newest activity first."""
    with reading(call) as opened:
        page = opened.sessions.list(limit or None, cursor, archived=archived)
        listed = [shown_session(one, opened.sessions) for one in page.items]
        workspace_id = opened.state.workspace_id
    out = call.out
    if call.json:
        from sessions_api.cli.json_shapes import session_json  # noqa: PLC0415 - for --json alone

        out.record(
            {
                "sessions": [session_json(one, workspace_id=workspace_id) for one in listed],
                "next_cursor": page.next_cursor,
            }
        )
        return
    if ids:
        out.lines(one.id for one in listed)
    elif listed:
        out.lines(session_lines(listed, ink=out.ink, columns_wide=out.columns_wide))
    elif cursor is None:
        out.note("No session is archived." if archived else NOTHING_YET)
    if page.next_cursor:
        also = " --archived" if archived else ""
        out.note(f"More: tinyagent sessions list{also} --cursor {page.next_cursor}")
