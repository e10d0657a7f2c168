"""`docs/cli.md` and the program say the same, command by command and option by option."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer

from sessions_api.cli import main
from sessions_api.cli.app import build
from sessions_api.cli.examples import EXAMPLES, commands_of
from sessions_api.cli.grammar import CHOOSE

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
PROGRAM: Any = typer.main.get_command(build())
COMMANDS: dict[str, Any] = dict(commands_of(PROGRAM))
# How a group of shared options ends the section of a command that takes it.
TAKES = re.compile(r"^Takes also: (.*)\.$", re.MULTILINE)
FLAG = re.compile(r"`(--?[\w-]+)`")


def sections(mark: str) -> dict[str, str]:
    """Return the text below each heading of the level *mark*, by the heading."""
    parts = re.split(rf"^{mark} (.+)$", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]
    higher = f"\n{mark[1:]} "  # ends a section as well
    texts = [text.partition(higher)[0] for text in parts[1::2]]
    return dict(zip(parts[::2], texts, strict=True))


def documented_in(text: str) -> set[str]:
    """Return the options that stand in the first column of tables in *text*."""
    rows = re.findall(r"^\| (`-.*?) \|", text, flags=re.MULTILINE)
    return {flag for row in rows for flag in FLAG.findall(row)}


def options_of(command: Any) -> set[str]:
    """Return the options that a command takes, in all their spellings."""
    options = [one for one in command.params if one.param_type_name == "option"]
    return {flag for one in options for flag in (*one.opts, *one.secondary_opts)}


def documented() -> Iterator[tuple[str, set[str]]]:
    """Yield each command of the page with its own options and those it shares with others."""
    shared = {name: documented_in(text) for name, text in sections("###").items()}
    for heading, text in sections("##").items():
        found = re.fullmatch(r"`tinyagent ?(.*)`", heading)
        if found is None:
            continue
        taken = TAKES.search(text)
        assert taken is not None, heading
        groups = re.findall(r"\[(\w+)\]\(#\1\)", taken[1])
        yield found[1], documented_in(text).union(*(shared[one] for one in groups))


def test_every_command_is_documented_and_no_other() -> None:
    """A command that is added, renamed or taken away changes the page."""
    assert {words for words, _ in documented()} == {"", *COMMANDS}


@pytest.mark.parametrize("words", ["", *COMMANDS])
def test_every_option_of_a_command_is_documented_and_no_other(words: str) -> None:
    """Its own and the shared ones, in every spelling."""
    command = COMMANDS[words] if words else PROGRAM
    assert dict(documented())[words] - {"--help"} == options_of(command) - {"--help"}


@pytest.mark.parametrize("words", COMMANDS)
def test_every_argument_of_a_command_is_documented(words: str) -> None:
    """By the name that its help has for it."""
    text = sections("##")[f"`tinyagent {words}`"].replace("\\|", "|")
    for one in COMMANDS[words].params:
        if one.param_type_name == "argument":
            assert f"| `{one.metavar.strip('[]')}` |" in text


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_has_one_example_that_can_be_typed(
    words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The first thing in its help, and on the page; the program takes it as that command."""
    example = EXAMPLES[words]
    assert example in sections("##")[f"`tinyagent {words}`"]
    assert main([*words.split(), "--help"]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    _, _, after_usage = shown.partition("Example: ")
    assert after_usage.startswith(" ".join(example.split())[:60])
    assert shown.index("Example: ") < shown.index(COMMANDS[words].help.split(".")[0][:30])
    program, *arguments = shlex.split(example)
    assert program == "tinyagent"
    assert command_of(arguments) == words


def command_of(arguments: list[str]) -> str:
    """Return which command the program takes a command line for; it is not carried out."""
    context, words = PROGRAM.make_context("tinyagent", list(arguments)), []
    while hasattr(context.command, "commands"):
        name, command, rest = context.command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        words.append(name)
        context = command.make_context(name, rest, parent=context)
    assert CHOOSE not in context.params.values()
    return " ".join(words)


def test_there_is_no_example_of_a_command_that_is_none() -> None:
    """What was renamed leaves nothing behind."""
    assert set(EXAMPLES) == set(COMMANDS)
