"""`tinyagent sessions list`: the newest sessions, a page at a time, of this workspace or of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sessions_api.cli.failures import UsageInvalid
from sessions_api.cli.opened import reading
from sessions_api.cli.options import JSON, PLACE, Call, command
from sessions_api.command_line import typed
from sessions_api.showing import figures
from sessions_api.showing.listing import session_lines
from sessions_api.showing.liveness import shown_session
from sessions_api.showing.terminal_text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessions_api.everywhere import Placed
    from state_store import SessionSummary

NOTHING_YET = 'There is no session here yet. Start one: tinyagent run "hello"'

Limit = Annotated[int, typer.Option("--limit", "-n", min=0, help="How many; 0 for all.")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="Go on after an earlier page.")]
Archived = Annotated[bool, typer.Option("--archived", help="The archived ones.")]
Running = Annotated[bool, typer.Option("--running", help="Those with a run under way.")]
AllWorkspaces = Annotated[
    bool, typer.Option("--all-workspaces", help="Of every workspace, not only of this one.")
]
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
    running: Running = False,
    all_workspaces: AllWorkspaces = False,
    ids: Ids = False,
) -> None:
    """List sessions, newest activity first."""
    if cursor is not None and (running or all_workspaces):
        raise UsageInvalid(
            "There are no pages with --running or --all-workspaces.",
            hint="Leave --cursor out, and name the number with --limit (0 for all).",
        )
    if all_workspaces:
        _list_everywhere(call, limit or None, archived=archived, running=running, ids=ids)
        return
    next_cursor = None
    with reading(call) as opened:
        if running:
            from sessions_api.everywhere import running_of  # noqa: PLC0415 - for --running alone

            listed = list(running_of(opened.sessions, archived=archived))[: limit or None]
        else:
            page = opened.sessions.list(limit or None, cursor, archived=archived)
            listed = [shown_session(one, opened.sessions) for one in page.items]
            next_cursor = page.next_cursor
        workspace_id = opened.state.workspace_id
    if call.json:
        from sessions_api.cli.json_shapes import session_json  # noqa: PLC0415 - for --json alone

        shown = [session_json(one, workspace_id=workspace_id) for one in listed]
        call.out.record({"sessions": shown, "next_cursor": next_cursor})
        return
    _show(call, listed, ids=ids)
    if not listed and cursor is None:
        call.out.note(_nothing(archived=archived, running=running))
    if next_cursor:
        also = " --archived" if archived else ""
        more = typed(f"sessions list{also} --cursor {next_cursor}", workspace=call.workspace)
        call.out.note(f"More: {more}")


def _list_everywhere(
    call: Call, limit: int | None, *, archived: bool, running: bool, ids: bool
) -> None:
    from sessions_api.everywhere import list_everywhere  # noqa: PLC0415 - for --all-workspaces

    found = list_everywhere(limit=limit, archived=archived, running=running)
    for problem in found.problems:
        call.out.note(f"Left out: {one_line(problem)}")
    if call.json:
        call.out.record(
            {"sessions": [_placed_json(one) for one in found.sessions], "next_cursor": None}
        )
        return
    if ids:
        call.out.lines(one.session.id for one in found.sessions)
    else:
        for number, (path, sessions) in enumerate(_by_workspace(found.sessions)):
            call.out.lines([*([""] if number else []), call.out.ink.bold(one_line(path))])
            _show(call, sessions, ids=False)
    if not found.sessions:
        call.out.note(_nothing(archived=archived, running=running))
    elif limit is not None and len(found.sessions) == limit:
        shown = figures.count(limit, "session")
        call.out.note(f"The newest {shown}; all of them: --limit 0")


def _show(call: Call, sessions: Sequence[SessionSummary], *, ids: bool) -> None:
    out = call.out
    if ids:
        out.lines(one.id for one in sessions)
    elif sessions:
        out.lines(session_lines(sessions, ink=out.ink, columns_wide=out.columns_wide))


def _by_workspace(found: Sequence[Placed]) -> list[tuple[str, list[SessionSummary]]]:
    """Return the sessions by workspace, that first in which something happened last."""
    groups: dict[str, tuple[str, list[SessionSummary]]] = {}
    for one in found:
        named = str(one.path or one.workspace_id)
        groups.setdefault(one.workspace_id, (named, []))[1].append(one.session)
    return list(groups.values())


def _placed_json(placed: Placed) -> dict[str, Any]:
    from sessions_api.cli.json_shapes import session_json  # noqa: PLC0415 - for --json alone

    session = session_json(placed.session, workspace_id=placed.workspace_id)
    return {**session, "workspace_path": None if placed.path is None else str(placed.path)}


def _nothing(*, archived: bool, running: bool) -> str:
    if running:
        return "No session has a run under way."
    return "No session is archived." if archived else NOTHING_YET
