"""What a model is offered on the command line, asked over real HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from wire_server import Turn, WireServer

if TYPE_CHECKING:
    from tinyagent_process import Call, Tinyagent

READING = ["list_files", "read_file"]


def to(wire: WireServer) -> tuple[str, ...]:
    """Return the options that name the service."""
    return ("--provider", "openai", "--model", "m", "--base-url", wire.base_url)


def offered(wire: WireServer) -> list[str]:
    """Return the names of the tools that the last request offered."""
    return [one["function"]["name"] for one in wire.requests[-1].body.get("tools", [])]


def reading(path: str) -> Turn:
    """Return a turn that asks for a file."""
    return Turn(tool_calls=[call_of("read_file", f'{{"path": "{path}"}}')])


def call_of(name: str, arguments: str) -> dict[str, Any]:
    """Return a tool call of the wire."""
    return {"id": "c1", "name": name, "arguments": arguments}


@pytest.mark.parametrize("command", ["run", "chat"])
@pytest.mark.parametrize(
    ("flags", "names"),
    [([], READING), (["--allow-writes"], [*READING, "write_file"]), (["--no-tools"], [])],
    ids=["plain", "allow-writes", "no-tools"],
)
def test_reading_is_offered_writing_when_asked_for_and_nothing_when_not(
    call: Call, wire: WireServer, command: str, flags: list[str], names: list[str]
) -> None:
    """The same flags and the same tools for one turn and for a chat."""
    wire.script(Turn(text="ok"))
    given = ("hello",) if command == "run" else ()
    code, output, errors = call(command, *given, *to(wire), *flags, typed="hello\n")
    assert (code, output) == (0, "ok\n"), errors
    assert offered(wire) == names


def test_a_file_is_read_and_that_is_shown_beside_the_answer(
    call: Call, tinyagent: Tinyagent, wire: WireServer
) -> None:
    """On standard error, as it runs; a pipe gets the answer alone, with --json as well."""
    (tinyagent.workspace / "notes.txt").write_text("the secret of the day")
    for flags in ((), ("--json",)):
        wire.script(reading("notes.txt"), Turn(text="Read."))
        code, output, errors = call("run", "read it", *to(wire), *flags)
        assert code == 0
        assert "Read." in output
        assert "read_file" not in output
        assert '· read_file({"path": "notes.txt"}) …' in errors
        assert "· read_file: ok: the secret of the day" in errors
        result = wire.requests[-1].body["messages"][-1]
        assert (result["role"], result["content"]) == ("tool", "the secret of the day")


def test_nothing_is_written_that_was_not_allowed(
    call: Call, tinyagent: Tinyagent, wire: WireServer
) -> None:
    """A model that asks for a tool which is not offered reads that there is none."""
    writing = call_of("write_file", '{"path": "new.txt", "content": "x"}')
    for flags in ((), ("--allow-writes",)):
        wire.script(Turn(tool_calls=[writing]), Turn(text="Done."))
        assert call("run", "write it", *to(wire), *flags)[0] == 0
        assert (tinyagent.workspace / "new.txt").exists() == bool(flags)


def test_what_is_read_stays_in_the_workspace(
    call: Call, tinyagent: Tinyagent, wire: WireServer
) -> None:
    """Neither what lies beside it nor tinyagent's own files can be seen."""
    (tinyagent.workspace.parent / "outside.txt").write_text("not yours")
    for path in ("../outside.txt", ".tinyagent/workspace-id"):
        wire.script(reading(path), Turn(text="No."))
        assert call("run", "read it", *to(wire))[0] == 0
        assert wire.requests[-1].body["messages"][-1]["content"].startswith("Error: ")


def test_the_two_flags_together_are_a_usage_error(call: Call) -> None:
    """They say opposite things."""
    code, output, errors = call("run", "x", "--no-tools", "--allow-writes")
    assert (code, output) == (2, "")
    assert "exclude each other" in errors


def test_the_offline_provider_keeps_its_own_tool(call: Call) -> None:
    """It can be tried without any other, and its calls are shown as well."""
    code, output, errors = call("run", "count words: one two", "--provider", "offline")
    assert code == 0
    assert "answered: “2”" in output
    assert "· word_count: ok: 2" in errors


@pytest.mark.parametrize("command", ["chat", "run"])
def test_help_says_how_to_change_it(call: Call, command: str) -> None:
    """Both flags are documented where they can be given."""
    code, output, _ = call(command, "--help")
    assert code == 0
    assert "--allow-writes" in output
    assert "--no-tools" in output
