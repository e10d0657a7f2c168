"""`tinyagent sessions import`: sessions that were exported, here or elsewhere.

Invariant: all files are read and checked before anything is opened for writing, so that a file that
is no good creates and changes nothing.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from sessions_api.cli.opened import writing
from sessions_api.cli.options import JSON, PLACE, Call, command
from sessions_api.showing.listing import handle, shown_title
from sessions_api.showing.terminal_text import cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state_store import Imported

Files = Annotated[
    list[str],
    typer.Argument(metavar="FILE...", help="Archives or messages as JSON lines; - is a pipe."),
]
_TITLE_COLUMNS = 50
_SAID = {
    "new": "Imported",
    "already_there": "Already there",
    "renamed": "Imported under a new id",
}


def add_to(sessions: typer.Typer) -> None:
    """Add `import` to `tinyagent sessions`."""
    command(sessions, "import", PLACE, JSON)(import_files)


def import_files(call: Call, files: Files) -> None:
    """Import sessions; what is there already is not made twice."""
    from sessions_api.transfer.importing import checked  # noqa: PLC0415 - not for --help

    outcomes: list[Imported] = []
    with ExitStack() as sources:
        with call.out.progress() as progress:
            found = [
                sources.enter_context(
                    checked(sys.stdin.buffer if name == "-" else name, progress=progress)
                )
                for name in files
            ]
        with writing(call) as opened, call.out.progress() as progress:
            workspace_id = opened.state.workspace_id
            for source in found:
                outcomes += opened.sessions.import_(source, progress=progress).outcomes
    if call.json:
        _record(call, outcomes, workspace_id)
        return
    for one in outcomes:
        title = cut(shown_title(one.session.title), _TITLE_COLUMNS)
        renamed = f" ({handle(one.source_id)} is taken, or was deleted)"
        told = renamed if one.outcome == "renamed" else ""
        call.out.note(f"{_SAID[one.outcome]}: {handle(one.session.id)}  {title}{told}")


def _record(call: Call, outcomes: Sequence[Imported], workspace_id: str | None) -> None:
    from sessions_api.cli.json_shapes import session_json  # noqa: PLC0415 - for --json alone

    call.out.record(
        {
            "sessions": [
                {
                    **session_json(one.session, workspace_id=workspace_id),
                    "outcome": one.outcome,
                    "source_id": one.source_id,
                }
                for one in outcomes
            ]
        }
    )
