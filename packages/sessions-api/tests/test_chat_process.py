"""Chat in a process of its own: on a terminal, through a pipe, and asked to end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tinyagent_process import Terminal
from wire_server import Turn, WireServer

if TYPE_CHECKING:
    from tinyagent_process import Call, Tinyagent

CTRL_C, CTRL_D = "\x03", "\x04"
# `tinyagent chat` with a tool that takes long, which no built-in tool does.
SLEEPY = """
import sys, time
from sessions_api import Agent, ModelReply, ToolCall
from sessions_api.chat.lines import StreamLines
from sessions_api.chat.loop import Chat
from sessions_api.cli.signals import signals_that_stop
from sessions_api.testing import ScriptedProvider

def nap() -> str:
    print("napping", flush=True)
    time.sleep(30)
    return "rested"

calls = ModelReply(tool_calls=(ToolCall(id="c1", name="nap", arguments="{}"),))
provider = ScriptedProvider(["one", "two", "three", calls])
try:
    with signals_that_stop(), Agent(".", provider=provider, tools=[nap]) as agent:
        Chat(agent, lines=StreamLines(sys.stdin), output=sys.stdout, aside=sys.stderr).run()
except KeyboardInterrupt:
    sys.exit(130)
"""


def ended(process: subprocess.Popen[str], *, pressing: bool) -> int:
    """Wait for the end, with Ctrl-C again and again where it takes that; return the exit code."""
    for _ in range(60):
        if pressing:
            process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(0.5)
            return code if code >= 0 else 128 - code  # as a shell reports an end by a signal
    raise AssertionError("it never ended")


@pytest.mark.parametrize(
    ("stopping", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_a_signal_in_a_tool_keeps_all_turns(
    call: Call, tinyagent: Tinyagent, stopping: signal.Signals, code: int
) -> None:
    """C03: three whole turns, the fourth message and its call are there; the tool is unknown."""
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPY],
        cwd=tinyagent.workspace,
        env=tinyagent.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        bufsize=1,
    ) as chat:
        assert chat.stdin
        assert chat.stdout
        assert chat.stderr
        chat.stdin.write("a\nb\nc\nd\n")
        while chat.stdout.readline() != "napping\n":
            pass
        errors = ""
        chat.send_signal(stopping)
        if stopping is signal.SIGINT:
            while "Stopped." not in errors:
                errors += chat.stderr.readline()
        assert ended(chat, pressing=stopping is signal.SIGINT) == code
        errors += chat.stderr.read()
    assert errors.splitlines()[-1].startswith("Resume: tinyagent --resume ")
    shown = json.loads(call("sessions", "show", "latest", "--json")[1])
    roles = [message["role"] for message in shown["messages"]]
    assert roles == ["user", "assistant"] * 4
    assert shown["messages"][7]["tool_calls"][0]["name"] == "nap"
    last = shown["runs"][-1]
    assert (last["status"], last["error_type"]) == ("failed", "cancelled")
    assert [one["outcome"] for one in last["tool_executions"]] == ["unknown"]
    (listed,) = json.loads(call("sessions", "--json")[1])["sessions"]
    assert listed["message_count"] == len(shown["messages"])
    screen = call("sessions", "show", "latest")[1].splitlines()
    assert screen[0].startswith("The last run was cancelled")
    assert "whether nap took effect" in "\n".join(screen[:5])
    assert "tinyagent --resume" in "\n".join(screen[:6])


def test_piped_lines_are_turns(tinyagent: Tinyagent) -> None:
    """The offline provider's tool runs; the exit code is that of a chat that went well."""
    done = tinyagent(typed="count words: a b c\nhello\n")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2
    assert "· word_count: ok: 3" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("Resume: ")


def test_ctrl_c_stops_a_turn_and_ctrl_d_leaves(
    call: Call, tinyagent: Tinyagent, wire: WireServer
) -> None:
    """The chat goes on after the first and names where to resume after the second."""
    wire.script(Turn(pause_s=60), Turn(text="here again"))
    arguments = ("--provider", "openai", "--model", "m", "--base-url", wire.base_url)
    with Terminal(tinyagent, *arguments) as terminal:
        terminal.wait_for("> ")
        terminal.type("are you there?\n")
        while not wire.requests:
            terminal.wait_for("are you there?")
        place = terminal.wait_for("> ", after=terminal.wait_for("Stopped.", pressing=CTRL_C))
        terminal.type("and now?\n")
        place = terminal.wait_for("> ", after=terminal.wait_for("here again", after=place))
        terminal.type(CTRL_D)
        assert terminal.leave() == 0
    assert "Resume: tinyagent --resume " in terminal.shown[place:]
    runs = json.loads(call("runs", "latest", "--json")[1])["runs"]
    assert [run["error_type"] for run in runs] == ["cancelled", None]


def test_ctrl_c_twice_at_the_prompt_leaves(tinyagent: Tinyagent) -> None:
    """Once only says how to leave."""
    with Terminal(tinyagent) as terminal:
        place = terminal.wait_for("> ")
        terminal.type("hello\n")
        place = terminal.wait_for("> ", after=terminal.wait_for("No model was asked", after=place))
        place = terminal.wait_for("with Ctrl-D", after=place, pressing=CTRL_C)
        assert terminal.leave(pressing=CTRL_C) == 130
    assert "Resume: tinyagent --resume " in terminal.shown[place:]


def test_a_bare_resume_asks_which(call: Call, tinyagent: Tinyagent) -> None:
    """The list is shown and the handle that is typed is gone on with."""
    session_id = json.loads(call("run", "hello", "--json")[1])["session_id"]
    with Terminal(tinyagent, "--resume") as terminal:
        terminal.wait_for("Session (")
        terminal.type(f"{session_id[-8:]}\n")
        place = terminal.wait_for("> ", after=terminal.wait_for("showing 2 of 2"))
        terminal.type(CTRL_D)
        assert terminal.leave() == 0
    assert session_id[-8:] in terminal.shown[place:]
