"""A start imports no more of the command line than it needs, and nothing is lost by that."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
import typer

from sessions_api.cli import homes
from sessions_api.cli.app import build
from sessions_api.cli.examples import commands_of
from tinyagent_process import PROGRAM

if TYPE_CHECKING:
    from tinyagent_process import Tinyagent


def commands(modules: tuple[str, ...]) -> set[str]:
    """Return the commands that these modules add."""
    return {words for words, _ in commands_of(typer.main.get_command(build(modules)))}


@pytest.mark.parametrize("module", homes.ALL)
def test_each_module_has_the_commands_that_the_table_says(module: str) -> None:
    """A command that moves or is added changes the table."""
    assert commands((module,)) == set(homes.COMMANDS[module])


@pytest.mark.parametrize(
    ("arguments", "modules"),
    [
        (["--version"], ()),
        (["sessions"], ("listing",)),
        (["sessions", "list", "-n", "5"], ("listing",)),
        (["sessions", "show", "latest"], ("inspecting",)),
        (["doctor"], ("doctor",)),
        (["run", "sessions"], ("conversing",)),
        (["workspace", "delete", "x"], ("removing",)),
        ([], homes.ALL),
        (["sessions", "-n", "5"], homes.ALL),
        (["sessions", "nonsense"], homes.ALL),
        (["runs", "latest"], homes.ALL),
        (["-c", "run", "hi"], homes.ALL),
        (["--help"], homes.ALL),
    ],
)
def test_a_plain_command_line_needs_one_module(
    arguments: list[str], modules: tuple[str, ...]
) -> None:
    """Whatever is not plain gets all, so that it means what it always means."""
    assert homes.needed(arguments) == modules


def test_a_start_imports_neither_the_store_for_its_version_nor_other_commands(
    tinyagent: Tinyagent,
) -> None:
    """C28: what a command does not use costs it nothing."""
    tinyagent("run", "hello")
    program = (
        "import json, sys; from sessions_api.cli import main; main(sys.argv[1:]);"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    for arguments, forbidden in (
        (("--version",), {"state_store", "workspace_identity", "run_journal"}),
        (("sessions", "list"), {"run_journal", "sessions_api.problems", "sessions_api.agent"}),
    ):
        done = subprocess.run(
            [PROGRAM[0], "-c", program, *arguments],
            cwd=tinyagent.workspace,
            env=tinyagent.environment,
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        loaded = set(json.loads(done.stderr))
        assert loaded & forbidden == set()
        modules = {f"sessions_api.cli.{one}" for one in homes.ALL}
        assert loaded & modules <= {"sessions_api.cli.listing"}
