"""`tinyagent sessions rename`, `archive`, `unarchive` and `delete`.

Invariants: every reference is resolved before anything is changed, so that a wrong one changes
nothing; deleting asks first, and where nobody can be asked it needs `--yes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sessions_api.cli.completion.candidates import complete_sessions
from sessions_api.cli.consent import Yes, require_consent
from sessions_api.cli.failures import UsageInvalid
from sessions_api.cli.inspecting import Ref  # noqa: TC001 - Typer reads it
from sessions_api.cli.kept import kept
from sessions_api.cli.opened import reading, resolved, writing
from sessions_api.cli.options import JSON, PLACE, Call, command
from sessions_api.cli.removing import DryRun  # noqa: TC001 - Typer reads it
from sessions_api.showing import figures
from sessions_api.showing.listing import handle, shown_title
from sessions_api.showing.terminal_text import cut, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sessions_api.sessions import Sessions
    from state_store import Deleted, Session

Refs = Annotated[
    list[str],
    typer.Argument(
        metavar="REF...",
        help="latest, id, last digits or exact title.",
        autocompletion=complete_sessions,
    ),
]
Backups = Annotated[
    bool, typer.Option("--backups", help="With every backup that still holds them.")
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


def delete(
    call: Call,
    refs: Refs,
    *,
    backups: Backups = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete sessions for good, with their journals; asks first."""
    found = resolved(call, *refs)
    holding = _holding(call, found) if dry_run or (backups and not yes) else ()
    if dry_run:
        _tell_plan(call, found, holding)
        return
    if not yes:
        _ask(call, found, holding)
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
    purged: tuple[str, ...] = ()
    if backups:
        with kept(call) as store:
            agreed = [one for one in held if yes or one in holding]
            purged = store.maintenance.remove_backups(agreed)
    left = [one for one in held if one not in purged]
    if call.json:
        call.out.record(
            {"deleted": _counts(deleted), "backups": left, "purged_backups": list(purged)}
        )
    for backup in purged:
        call.out.note(f"Deleted: the backup {one_line(backup)}")
    for backup in left:
        call.out.note(f"A backup still holds it: {one_line(backup)}")


def _holding(call: Call, sessions: Sequence[Session]) -> tuple[str, ...]:
    """Return the backups that hold any of the sessions, or cannot be read and may."""
    with kept(call) as store:
        found = [store.maintenance.backups_holding(one.id) for one in sessions]
    return tuple(sorted({backup for backups in found for backup in backups}))


def _tell_plan(call: Call, sessions: Sequence[Session], holding: Sequence[str]) -> None:
    """Say what deleting would take away."""
    if call.json:
        with reading(call) as opened:
            counts = [
                {
                    "id": one.id,
                    "message_count": one.message_count,
                    "run_count": len(opened.sessions.runs(one.id).items),
                }
                for one in sessions
            ]
        call.out.record({"deleted": counts, "backups": list(holding), "dry_run": True})
        return
    call.out.lines(f"Would be deleted: {line}" for line in map(_described, sessions))
    call.out.lines(f"A backup holds it: {one_line(backup)}" for backup in holding)


def _counts(deleted: Sequence[Deleted]) -> list[dict[str, Any]]:
    return [
        {"id": one.id, "message_count": one.message_count, "run_count": one.run_count}
        for one in deleted
    ]


def _ask(call: Call, sessions: Sequence[Session], holding: Sequence[str]) -> None:
    require_consent(
        call.out,
        "Delete for good?",
        lines=[
            *map(_described, sessions),
            *(f"With the backup, and all else in it: {one_line(backup)}" for backup in holding),
        ],
        refused=f"Deleting {figures.count(len(sessions), 'session')} was not confirmed.",
        nothing="Nothing was deleted.",
    )


def _described(session: Session) -> str:
    return (
        f"{handle(session.id)}  {cut(shown_title(session.title), _TITLE_COLUMNS)}  "
        f"{figures.count(session.message_count, 'message')}, "
        f"last active {figures.ago(session.updated_at)}"
    )
