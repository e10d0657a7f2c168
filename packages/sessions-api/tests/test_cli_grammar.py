"""Forms of the command line: where options may stand, and what may be left out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sessions_api.cli.grammar import CHOOSE, bare_resume_filled, command_first

if TYPE_CHECKING:
    from tinyagent_process import Call


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ([], ["chat"]),
        (["-c"], ["chat", "-c"]),
        (["run", "-c", "hi"], ["run", "-c", "hi"]),
        (["-c", "run", "hi"], ["run", "-c", "hi"]),
        (["-w", "run", "sessions"], ["sessions", "-w", "run"]),
        (["--workspace=run", "sessions"], ["sessions", "--workspace=run"]),
        (["--json", "bogus"], ["bogus", "--json"]),
        (["--version"], ["--version"]),
        (["-c", "--help"], ["-c", "--help"]),
        (["--", "run"], ["chat", "--", "run"]),
        (["-w"], ["chat", "-w"]),
    ],
)
def test_the_command_comes_first(given: list[str], meant: list[str]) -> None:
    """Options keep their order and their values, whatever those look like."""
    own, valued = {"--help", "--version"}, {"-w", "--workspace"}
    assert command_first(given, own=own, valued=valued, usual="chat") == meant


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["-r"], ["-r", CHOOSE]),
        (["--resume", "-w", "x"], ["--resume", CHOOSE, "-w", "x"]),
        (["--resume", "ref"], ["--resume", "ref"]),
        (["--resume", ""], ["--resume", ""]),
        (["run", "--", "--resume"], ["run", "--", "--resume"]),
    ],
)
def test_a_bare_resume_means_choosing(given: list[str], meant: list[str]) -> None:
    """An empty reference is one that fits nothing, not a missing one."""
    assert bare_resume_filled(given) == meant


@pytest.mark.parametrize(
    "arguments",
    [
        ("--json", "sessions", "list"),
        ("sessions", "--json"),
        ("sessions", "-n", "1", "--json"),
        ("sessions", "--json", "list", "-n", "1"),
        ("sessions", "list", "--limit=1", "--json"),
    ],
)
def test_options_may_stand_before_or_after_the_command(
    call: Call, arguments: tuple[str, ...]
) -> None:
    """Every form lists the sessions as JSON."""
    call("run", "hello")
    code, output, _ = call(*arguments)
    assert code == 0
    assert len(json.loads(output)["sessions"]) == 1


def test_an_option_that_means_nothing_to_a_command_is_refused(call: Call) -> None:
    """A provider is not asked when sessions are listed, so naming one is a mistake."""
    assert call("sessions", "--provider", "openai")[0] == 2
    assert call("--provider", "openai", "sessions")[0] == 2


@pytest.mark.parametrize("arguments", [(), ("sessions",), ("run",), ("sessions", "show")])
def test_help_is_shown_for_every_command(call: Call, arguments: tuple[str, ...]) -> None:
    """It goes to standard output, and names the options that people look for."""
    code, output, errors = call(*arguments, "--help")
    assert (code, errors) == (0, "")
    assert "--workspace" in output
    assert "--json" in output
