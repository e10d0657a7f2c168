"""`tinyagent path` and `tinyagent workspace show`: where everything is, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.chat import figures
from sessions_api.chat.terminal_text import columns, one_line
from sessions_api.cli.options import JSON, PLACE, Call, command

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import typer

# As `sessions_api.settings` has it, whose import costs a third of a second.
CONFIG_NAME = "config.toml"
_NONE_YET = "none yet"


def add_to(app: typer.Typer, *, workspace: typer.Typer) -> None:
    """Add `path` to the command line and `show` to `tinyagent workspace`."""
    command(app, "path", PLACE, JSON)(show_paths)
    command(workspace, "show", PLACE, JSON)(show_workspace)


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
    if call.json:
        call.out.record({name: str(path) if path else None for name, path in places.items()})
        return
    call.out.lines(_table({name: _shown(path) for name, path in places.items()}))
    if paths is not None:
        database, directory = paths.database, paths.state_dir
        sizes = {
            "database": [database, *directory.glob(f"{database.name}-*")],
            "backups": directory.glob(f"{database.name}.backup-*"),
            "journals": paths.journal_dir.glob("*"),
            "index": directory.glob("search.sqlite3*"),
        }
        said = ", ".join(f"{name} {figures.size(_size(files))}" for name, files in sizes.items())
        call.out.lines([f"sizes        {said}"])


def show_workspace(call: Call) -> None:
    """Show which workspace this directory is, and what was decided about it."""
    from workspace_identity import inspect_workspace  # noqa: PLC0415 - not for --help

    found = inspect_workspace(call.workspace)
    facts = {
        "id": found.id,
        "root": found.root,
        "verdict": str(found.verdict),
        "notice": found.notice,
        "previous_path": found.previous_path,
        "database": found.paths.database if found.paths else None,
        "journal_dir": found.paths.journal_dir if found.paths else None,
    }
    if call.json:
        call.out.record({name: value and str(value) for name, value in facts.items()})
        return
    call.out.lines(_table({name: _shown(value) for name, value in facts.items()}))


def _shown(value: Path | str | None) -> str:
    return _NONE_YET if value is None else one_line(str(value))


def _table(facts: Mapping[str, str]) -> list[str]:
    return columns(list(facts.items()))


def _size(files: Iterable[Path]) -> int:
    return sum(file.stat().st_size for file in files if file.is_file())
