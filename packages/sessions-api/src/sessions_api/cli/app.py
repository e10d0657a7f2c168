"""The commands put together, and the way from arguments to an exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sessions_api.cli import homes
from sessions_api.cli.completion.installing import Install, Show  # noqa: TC001 - Typer reads them
from sessions_api.cli.examples import put_before_help
from sessions_api.cli.failures import USAGE, UsageInvalid
from sessions_api.cli.grammar import (
    RootGroup,
    RunsGroup,
    SessionsGroup,
    StoreGroup,
    WorkspaceGroup,
)
from sessions_api.cli.listing import (  # noqa: TC001 - Typer reads them
    AllWorkspaces,
    Archived,
    Cursor,
    Ids,
    Limit,
    Running,
)
from sessions_api.cli.options import JSON, PLACE, PROVIDER, RESUME, TOOLS, declared, report
from sessions_api.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "tinyagent"


def build(modules: Sequence[str] = homes.ALL) -> typer.Typer:
    """Return the command line; of its commands those that *modules* have."""
    app = typer.Typer(
        name=NAME,
        cls=RootGroup,
        pretty_exceptions_enable=False,
        add_completion=False,  # `completion` has its own scripts
        help="Conversations with an AI agent that survive a crash, kept for each project.",
        epilog="Options may stand before or after the command. Without one it is chat.",
    )
    sessions = typer.Typer(
        cls=SessionsGroup, help="List, show, search, resume, fork, change, export and import."
    )
    runs = typer.Typer(cls=RunsGroup, help="List, show and retry the runs of a session.")
    workspace = typer.Typer(cls=WorkspaceGroup, help="Which workspace a directory is.")
    store = typer.Typer(cls=StoreGroup, help="Check, back up, restore the database.")
    app.callback()(declared(PLACE, JSON, PROVIDER, RESUME, TOOLS)(_root))
    sessions.callback()(declared(PLACE, JSON)(_sessions))
    runs.callback()(declared(PLACE, JSON)(_runs))
    workspace.callback()(declared(PLACE, JSON)(_workspace))
    store.callback()(declared(PLACE, JSON)(_store))
    groups = {"sessions": sessions, "runs": runs, "workspace": workspace, "store": store}
    homes.add(modules, {"": app, **groups})
    for name, group in groups.items():
        if group.registered_commands:
            app.add_typer(group, name=name)
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
    show_completion: Show = None,
    install_completion: Install = None,
) -> None:
    """Conversations with an AI agent that survive a crash, kept for each project."""


def _sessions(
    *,
    limit: Limit = 20,
    cursor: Cursor = None,
    archived: Archived = False,
    running: Running = False,
    all_workspaces: AllWorkspaces = False,
    ids: Ids = False,
) -> None:
    """List, show, resume, change, export and import sessions."""


def _runs() -> None:
    """List, show and retry the runs of a session."""


def _workspace() -> None:
    """Show, list, relink, forget and delete workspaces."""


def _store() -> None:
    """Check, back up, restore, compact and recover the database that holds the sessions."""


def carry_out(arguments: Sequence[str]) -> int:
    """Carry out a command line and return its exit code."""
    before_dashes = list(arguments)[: (*arguments, "--").index("--")]
    out = Output(json="--json" in before_dashes, color="--no-color" not in before_dashes)
    try:
        root = typer.main.get_command(build(homes.needed(arguments)))
        if "--help" in before_dashes:
            put_before_help(root)
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
