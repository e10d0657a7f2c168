"""The commands put together, and the way from arguments to an exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sessions_api.cli import (
    branching,
    changing,
    conversing,
    doctor,
    exporting,
    importing,
    inspecting,
    journals,
    listing,
    places,
    recovering,
    restoring,
    runs,
    searching,
    storing,
)
from sessions_api.cli.failures import USAGE, UsageInvalid
from sessions_api.cli.grammar import (
    RootGroup,
    RunsGroup,
    SessionsGroup,
    StoreGroup,
    WorkspaceGroup,
)
from sessions_api.cli.listing import Archived, Cursor, Ids, Limit  # noqa: TC001 - Typer reads it
from sessions_api.cli.options import JSON, PLACE, PROVIDER, RESUME, TOOLS, declared, report
from sessions_api.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "tinyagent"


def build() -> typer.Typer:
    """Return the whole command line."""
    app = typer.Typer(
        name=NAME,
        cls=RootGroup,
        pretty_exceptions_enable=False,
        help="Conversations with an AI agent that survive a crash, kept for each project.",
        epilog="Options may stand before or after the command. Without one it is chat.",
    )
    sessions = typer.Typer(
        cls=SessionsGroup, help="List, show, search, resume, fork, change, export and import."
    )
    run_commands = typer.Typer(cls=RunsGroup, help="List, show and retry the runs of a session.")
    workspace = typer.Typer(cls=WorkspaceGroup, help="Which workspace a directory is.")
    store = typer.Typer(cls=StoreGroup, help="Check, back up, restore the database.")
    app.callback()(declared(PLACE, JSON, PROVIDER, RESUME, TOOLS)(_root))
    sessions.callback()(declared(PLACE, JSON)(_sessions))
    run_commands.callback()(declared(PLACE, JSON)(_runs))
    workspace.callback()(declared(PLACE, JSON)(_workspace))
    store.callback()(declared(PLACE, JSON)(_store))
    runs.add_to(run_commands)
    conversing.add_to(app, sessions=sessions, runs=run_commands)
    listing.add_to(sessions)
    inspecting.add_to(sessions)
    searching.add_to(sessions)
    changing.add_to(sessions)
    branching.add_to(sessions)
    exporting.add_to(sessions)
    importing.add_to(sessions)
    journals.add_to(app)
    doctor.add_to(app)
    places.add_to(app, workspace=workspace)
    storing.add_to(store)
    restoring.add_to(store)
    recovering.add_to(store)
    app.add_typer(sessions, name="sessions")
    app.add_typer(run_commands, name="runs")
    app.add_typer(workspace, name="workspace")
    app.add_typer(store, name="store")
    return app


def _show_version(*, wanted: bool) -> None:
    if wanted:
        from sessions_api import __version__  # noqa: PLC0415 - for --version alone

        Output().lines([f"{NAME} {__version__}"])
        raise typer.Exit


def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show it.")
    ] = False,
) -> None:
    """Conversations with an AI agent that survive a crash, kept for each project."""


def _sessions(
    *, limit: Limit = 20, cursor: Cursor = None, archived: Archived = False, ids: Ids = False
) -> None:
    """List, show, resume, change, export and import sessions."""


def _runs() -> None:
    """List, show and retry the runs of a session."""


def _workspace() -> None:
    """Show, list, relink and forget workspaces."""


def _store() -> None:
    """Check, back up, restore, compact and recover the database that holds the sessions."""


def carry_out(arguments: Sequence[str]) -> int:
    """Carry out a command line and return its exit code."""
    before_dashes = list(arguments)[: (*arguments, "--").index("--")]
    out = Output(json="--json" in before_dashes, color="--no-color" not in before_dashes)
    try:
        root = typer.main.get_command(build())
        code = root.main(list(arguments), prog_name=NAME, standalone_mode=False)
        if not code:  # what failed already was told; one failure is two lines
            out.flush()
    except BrokenPipeError:
        return 0
    except typer.Abort:
        return 1
    except Exception as error:  # noqa: BLE001 - what the parser says, or a fault of ours
        return report(_usage(error), out, debug="--debug" in before_dashes)
    return code if isinstance(code, int) else 0


def _usage(error: Exception) -> Exception:
    """Return what Typer says about the command line as one of our failures."""
    if getattr(error, "exit_code", None) != USAGE or not hasattr(error, "format_message"):
        return error
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else NAME
    return UsageInvalid(error.format_message(), hint=f"See: {where} --help")
