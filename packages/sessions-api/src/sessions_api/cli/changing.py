"""`tinyagent sessions rename`, `archive`, `unarchive` and `delete`.

Invariants: every reference is resolved before anything is changed, so that a wrong one changes
nothing; deleting asks first, and where nobody can be asked it needs `--yes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sessions_api.cli.consent import Yes, require_consent
from sessions_api.cli.failures import UsageInvalid
from sessions_api.cli.inspecting import Ref  # noqa: TC001 - Typer reads it
from sessions_api.cli.opened import resolved, writing
from sessions_api.cli.options import JSON, PLACE, Call, command
from sessions_api.showing import figures
from sessions_api.showing.listing import handle, shown_title
from sessions_api.showing.terminal_text import cut, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sessions_api.sessions import Sessions
    from state_store import Deleted, Session

Refs = Annotated[
    list[str], typer.Argument(metavar="REF...", help="latest, id, last digits or exact title.")
]
Title = Annotated[str, typer.Argument(metavar="TITLE", help="One that no automatic one replaces.")]
_TITLE_COLUMNS = 50


def add_to(sessions: typer.Typer) -> None:
    """Add the commands to `tinyagent sessions`."""
    command(sessions, "rename", PLACE, JSON)(rename)
    command(sessions, "archive", PLACE, JSON)(archive)
    command(sessions, "unarchive", PLACE, JSON)(unarchive)
    command(sessions, "delete", PLACE, JSON)(delete)


def rename(call: Call, ref: Ref, title: Title) -> None:
    """Give a session a title."""
    if not title.strip():
        raise UsageInvalid("The title is empty.", hint="Give one: sessions rename REF TITLE")
    _change(call, ref, lambda sessions, session_id: sessions.rename(session_id, title))


def archive(call: Call, ref: Ref) -> None:
    """Take a session out of the usual list; nothing is deleted."""
    _change(call, ref, lambda sessions, session_id: sessions.archive(session_id))


def unarchive(call: Call, ref: Ref) -> None:
    """Put an archived session back into the usual list."""
    _change(call, ref, lambda sessions, session_id: sessions.unarchive(session_id))


def _change(call: Call, ref: str, change: Callable[[Sessions, str], Session]) -> None:
    (found,) = resolved(call, ref)
    with writing(call) as opened:
        session = change(opened.sessions, found.id)
        workspace_id = opened.state.workspace_id
    if call.json:
        from sessions_api.cli.json_shapes import session_json  # noqa: PLC0415 - for --json alone

        call.out.record({"session": session_json(session, workspace_id=workspace_id)})
    else:
        archived = ", archived" if session.archived_at else ""
        call.out.note(f"{handle(session.id)}: {shown_title(session.title)}{archived}")


def delete(call: Call, refs: Refs, *, yes: Yes = False) -> None:
    """Delete sessions for good, with their journals; asks first."""
    found = resolved(call, *refs)
    if not yes:
        _ask(call, found)
    deleted: list[Deleted] = []
    try:
        with writing(call) as opened:
            for one in found:
                deleted.append(opened.sessions.delete(one.id))
                if not call.json:
                    call.out.note(f"Deleted: {handle(one.id)}")
    except Exception:
        if call.json:
            for done in deleted:
                call.out.note(f"Deleted: {done.id}")
        raise
    held = sorted({backup for one in deleted for backup in one.backups})
    if call.json:
        listed = [
            {"id": one.id, "message_count": one.message_count, "run_count": one.run_count}
            for one in deleted
        ]
        call.out.record({"deleted": listed, "backups": held})
    for backup in held:
        call.out.note(f"A backup still holds it: {one_line(backup)}")


def _ask(call: Call, sessions: Sequence[Session]) -> None:
    require_consent(
        call.out,
        "Delete for good?",
        lines=[
            f"{handle(one.id)}  {cut(shown_title(one.title), _TITLE_COLUMNS)}  "
            f"{figures.count(one.message_count, 'message')}, "
            f"last active {figures.ago(one.updated_at)}"
            for one in sessions
        ],
        refused=f"Deleting {figures.count(len(sessions), 'session')} was not confirmed.",
        nothing="Nothing was deleted.",
    )
