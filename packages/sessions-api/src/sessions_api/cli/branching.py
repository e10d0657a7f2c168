"""`tinyagent sessions fork`, `undo` and `redo`: another way to go on, and turns taken back.

Invariants: nothing is deleted by any of these, so none asks; without a reference the latest session
is meant, since a command has no active one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sessions_api.cli.completion.candidates import complete_sessions
from sessions_api.cli.failures import UsageInvalid
from sessions_api.cli.opened import resolved, writing
from sessions_api.cli.options import JSON, PLACE, Call, command
from sessions_api.command_line import typed
from sessions_api.showing.listing import handle, shown_title

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessions_api.sessions import Sessions
    from state_store import Session

LatestRef = Annotated[
    str,
    typer.Argument(
        metavar="[REF]",
        help="latest (the default), id, last digits or title.",
        autocompletion=complete_sessions,
    ),
]
At = Annotated[
    int | None,
    typer.Option(
        "--at", min=1, metavar="SEQ", help="Through this message, which ends an exchange."
    ),
]
ForkTitle = Annotated[str | None, typer.Option("--title", help="Its title; else the parent's.")]
Turns = Annotated[int, typer.Option("--turns", "-n", min=1, help="How many turns.")]


def add_to(sessions: typer.Typer) -> None:
    """Add the commands to `tinyagent sessions`."""
    command(sessions, "fork", PLACE, JSON)(fork)
    command(sessions, "undo", PLACE, JSON)(undo)
    command(sessions, "redo", PLACE, JSON)(redo)


def fork(call: Call, ref: LatestRef = "latest", *, at: At = None, title: ForkTitle = None) -> None:
    """Begin a session with what was said in another one, and print its id."""
    if title is not None and not title.strip():
        raise UsageInvalid("The title is empty.", hint="Give one, or leave --title out.")
    made = _done(call, ref, lambda sessions, one: sessions.fork(one, at, title=title))
    if not call.json:
        call.out.lines([made.id])
        call.out.flush()  # before the line on standard error that says how to go on
        call.out.note(f"Resume: {typed(f'--resume {handle(made.id)}', workspace=call.workspace)}")


def undo(call: Call, ref: LatestRef = "latest", *, turns: Turns = 1) -> None:
    """Take back the last turns of a session; nothing is deleted."""
    session = _done(call, ref, lambda sessions, one: sessions.undo(turns, ref=one))
    _tell(call, session, "Undone", "To bring it back", "redo")


def redo(call: Call, ref: LatestRef = "latest", *, turns: Turns = 1) -> None:
    """Bring undone turns back, while nothing new was said."""
    session = _done(call, ref, lambda sessions, one: sessions.redo(turns, ref=one))
    _tell(call, session, "Brought back", "To undo it again", "undo")


def _done(call: Call, ref: str, change: Callable[[Sessions, str], Session]) -> Session:
    """Make the change, and print the session under --json."""
    (found,) = resolved(call, ref)
    with writing(call) as opened:
        session = change(opened.sessions, found.id)
        workspace_id = opened.state.workspace_id
    if call.json:
        from sessions_api.cli.json_shapes import session_json  # noqa: PLC0415 - for --json alone

        call.out.record({"session": session_json(session, workspace_id=workspace_id)})
    return session


def _tell(call: Call, session: Session, done: str, other_way: str, other: str) -> None:
    if call.json:
        return
    short = handle(session.id)
    back = typed(f"sessions {other} {short}", workspace=call.workspace)
    call.out.note(f"{done} in {short} ({shown_title(session.title)}). {other_way}: {back}")
