"""`tinyagent path` and `tinyagent workspace`: where everything is, why, and what undoes that.

Neither `relink` nor `forget` removes any history; they say which directory it belongs to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sessions_api.cli.completion.candidates import complete_workspaces
from sessions_api.cli.options import JSON, PLACE, Call, command
from sessions_api.showing import figures
from sessions_api.showing.terminal_text import columns, one_line
from sessions_api.sizes import sizes_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from workspace_identity import WorkspaceRecord

# As `sessions_api.settings` has it, whose import costs a third of a second.
CONFIG_NAME = "config.toml"
_NONE_YET = "none yet"
_SELDOM = ("notice", "previous_path")  # and not worth a line when there is none

WorkspaceId = Annotated[
    str,
    typer.Argument(
        metavar="UUID", help="The whole id of a workspace.", autocompletion=complete_workspaces
    ),
]


def add_to(app: typer.Typer, *, workspace: typer.Typer) -> None:
    """Add `path` to the command line and the commands of `tinyagent workspace`."""
    command(app, "path", PLACE, JSON)(show_paths)
    command(workspace, "show", PLACE, JSON)(show_workspace)
    command(workspace, "list", JSON)(list_all)
    command(workspace, "relink", PLACE, JSON)(relink_workspace)
    command(workspace, "forget", JSON)(forget_workspace)


def show_paths(call: Call) -> None:
    """Show where everything of this workspace is kept, and how large it is."""
    from workspace_identity import inspect_workspace  # noqa: PLC0415 - not for --help

    found = inspect_workspace(call.workspace)
    paths = found.paths
    places = {
        "state_home": found.state_home,
        "workspace": found.root,
        "database": paths.database if paths else None,
        "journal_dir": paths.journal_dir if paths else None,
        "exports": paths.exports if paths else None,
        "config": found.state_home / CONFIG_NAME,
    }
    sizes = None if paths is None else sizes_of(paths)
    if call.json:
        told = {name: str(path) if path else None for name, path in places.items()}
        call.out.record({**told, "sizes": sizes})
        return
    call.out.lines(_table({name: _shown(path) for name, path in places.items()}))
    if sizes is not None:
        said = ", ".join(
            f"{name.replace('_', ' ')} {figures.size(size)}" for name, size in sizes.items()
        )
        call.out.lines([f"sizes        {said}"])


def show_workspace(call: Call) -> None:
    """Show which workspace this directory is, and what was decided about it."""
    from workspace_identity import inspect_workspace  # noqa: PLC0415 - not for --help

    found = inspect_workspace(call.workspace)
    facts = {
        "id": found.id,
        "root": found.root,
        "verdict": str(found.verdict),
        "reason": found.reason,
        "notice": found.notice,
        "previous_path": found.previous_path,
        "database": found.paths.database if found.paths else None,
        "journal_dir": found.paths.journal_dir if found.paths else None,
    }
    if call.json:
        call.out.record({name: value and str(value) for name, value in facts.items()})
        return
    told = {name: value for name, value in facts.items() if value or name not in _SELDOM}
    call.out.lines(_table({name: _shown(value) for name, value in told.items()}))


def list_all(call: Call) -> None:
    """List every workspace that this state home knows, the one seen last first."""
    from workspace_identity import list_workspaces  # noqa: PLC0415 - not for --help

    records = list_workspaces()
    if call.json:
        call.out.record({"workspaces": [_record_json(one) for one in records]})
        return
    call.out.lines(
        columns([(one.id, _shown(one.path), _shown(one.problem or "")) for one in records])
    )


def relink_workspace(call: Call, workspace_id: WorkspaceId) -> None:
    """Give this directory the history of a workspace, instead of what was decided."""
    from workspace_identity import relink  # noqa: PLC0415 - not for --help

    found = relink(workspace_id, call.workspace)
    _tell(call, {"id": found.id, "root": str(found.root), "verdict": str(found.verdict)})


def forget_workspace(call: Call, workspace_id: WorkspaceId) -> None:
    """Take a workspace's directory away from it, so that the directory begins anew.

    The history stays; relink gives it a directory again.
    """
    from workspace_identity import forget  # noqa: PLC0415 - not for --help

    forget(workspace_id)
    _tell(call, {"id": workspace_id, "verdict": "forgotten"})


def _tell(call: Call, facts: Mapping[str, str]) -> None:
    if call.json:
        call.out.record(facts)
    else:
        call.out.lines(_table({name: _shown(value) for name, value in facts.items()}))


def _record_json(record: WorkspaceRecord) -> dict[str, str | None]:
    seen = record.last_seen_at
    return {
        "id": record.id,
        "path": None if record.path is None else str(record.path),
        "last_seen_at": None if seen is None else seen.isoformat().replace("+00:00", "Z"),
        "problem": record.problem,
    }


def _shown(value: Path | str | None) -> str:
    return _NONE_YET if value is None else one_line(str(value))


def _table(facts: Mapping[str, str]) -> list[str]:
    return columns(list(facts.items()))
