from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING, Any

import pytest

from processes import KEY, Place, line_of

if TYPE_CHECKING:
    import subprocess

SCRIPT = """
import sys, time
from sessions_api import Agent, ModelReply, ToolCall, Usage, tool
from sessions_api.testing import ScriptedProvider

def hang():
    print("here", flush=True)
    sys.stdin.readline()

def in_provider(request):
    hang()
    return "after all"

@tool(replay="unsafe")
def quick() -> str:
    "Be done."
    return "quick result"

@tool(replay="unsafe")
def stuck() -> str:
    "Hang once the other result is surely committed."
    time.sleep(0.3)
    hang()
    return "stuck result"

calls = ModelReply(tool_calls=(
    ToolCall(id="a", name="quick", arguments="{}"),
    ToolCall(id="b", name="stuck", arguments="{}"),
))
step = in_provider if WHERE == "provider" else calls
with Agent(".", provider=ScriptedProvider(["one", step, "done"]), tools=[quick, stuck]) as agent:
    agent.run("first turn")
    agent.run("second turn")
    print("finished", flush=True)
"""


def interrupted(place: Place, where: str) -> subprocess.Popen[str]:
    """Start a conversation that hangs in its second turn, in the *where* named."""
    process = place.script(f"in_{where}", f"WHERE = {where!r}\n{SCRIPT}")
    assert line_of(process) == "here"
    return process


def contents(shown: Any) -> list[str | None]:
    """Return what the messages say."""
    return [message["content"] for message in shown["messages"]]


EXPECTED = {
    "provider": ["first turn", "one", "second turn"],
    "tool": ["first turn", "one", "second turn", None, "quick result"],
}


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("where", ["provider", "tool"])
def test_c03_a_killed_process_leaves_exactly_what_happened(
    place: Place, where: str, end: signal.Signals
) -> None:
    """Input, calls and results are there, the run is interrupted, and nothing is made up."""
    process = interrupted(place, where)
    process.send_signal(end)
    assert process.wait(30) == -end

    seen = place.json("sessions", "show", place.json("sessions", "list")["sessions"][0]["id"])
    assert contents(seen) == EXPECTED[where]

    answer = place.tinyagent("run", "third turn", "--continue", "--provider", "offline")
    assert answer.returncode == 0, answer.stderr
    assert "“first turn”" in answer.stdout  # the interrupted turn is not replayed

    (summary,) = place.json("sessions", "list")["sessions"]
    shown = place.json("sessions", "show", summary["id"])
    assert contents(shown)[:-2] == EXPECTED[where]
    assert summary["message_count"] == len(shown["messages"])
    endings = [(run["status"], run["error_type"]) for run in shown["runs"]]
    assert endings == [("completed", None), ("failed", "interrupted"), ("completed", None)]
    assert shown["runs"][1]["finished_at"] is not None
    assert outcomes(place) == ([] if where == "provider" else ["ok", "unknown"])
    assert '"event":"run.recovered"' in place.journal()


def outcomes(place: Place) -> list[str]:
    """Return how the tools of the latest session ended, in call order."""
    code = (
        "from sessions_api.state import read_state\n"
        "store = read_state('.').store\n"
        "found = store.tool_executions(store.list(limit=1).items[0].id)\n"
        "print(','.join(str(one.outcome) for one in found))\n"
        "store.close()\n"
    )
    printed = line_of(place.script("outcomes", f"{code}print('end')\n"))
    return printed.split(",") if printed else []


def test_c05_readers_show_a_dead_run_as_interrupted_and_write_nothing(place: Place) -> None:
    """The row stays pending until a command that writes makes it so, and then only once."""
    process = interrupted(place, "tool")
    process.kill()
    process.wait(30)
    (database,) = place.home.glob("workspaces/*/state.sqlite3")
    (log,) = place.home.glob("logs/*/[0-9a-f]*.jsonl")
    before = (database.read_bytes(), log.read_bytes())
    session = place.json("sessions", "list")["sessions"][0]["id"]
    text = place.tinyagent("sessions", "show", session).stdout
    assert "interrupted" in text
    assert re.search(r"^Tokens +-$", text, re.MULTILINE)  # of what it used nothing is known
    assert (database.read_bytes(), log.read_bytes()) == before
    for _ in range(2):
        place.tinyagent("run", "a session of its own")
    runs = place.json("sessions", "show", session)["runs"]
    assert [run["error_type"] for run in runs] == [None, "interrupted"]
    assert place.journal().count('"event":"run.recovered"') == 1


def test_c05_a_live_processs_run_is_not_touched(place: Place) -> None:
    """While one process works, another starts, recovers the dead and leaves the living alone."""
    alive = interrupted(place, "provider")
    session = place.json("sessions", "list")["sessions"][0]["id"]
    dead = place.script("dead", f"WHERE = 'provider'\n{SCRIPT}")
    assert line_of(dead) == "here"
    dead.kill()
    dead.wait(30)

    assert place.tinyagent("run", "meanwhile").returncode == 0
    busy = place.tinyagent("run", "me too", "--resume", session, "--provider", "offline")
    assert busy.returncode == 7
    assert str(alive.pid) in busy.stderr
    runs = place.json("sessions", "show", session)["runs"]
    assert [run["status"] for run in runs] == ["completed", "pending"]

    assert alive.stdin is not None
    alive.stdin.write("go on\n")
    alive.stdin.flush()
    assert line_of(alive) == "finished"
    assert alive.wait(30) == 0
    shown = place.json("sessions", "show", session)
    assert [run["status"] for run in shown["runs"]] == ["completed", "completed"]
    assert contents(shown)[-1] == "after all"


def test_c03_ctrl_c_in_the_command_keeps_the_turn(place: Place) -> None:
    """`tinyagent run` is told to stop while the service thinks: the turn is kept as cancelled."""
    server, base_url = place.wire({"text": "late", "pause_s": 30})
    for end, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        asked = ("run", "slow question", "--provider", "openai", "--model", "m")
        service = {"TINYAGENT_BASE_URL": base_url, "TINYAGENT_API_KEY": KEY}
        process = place.start(*asked, more=service)
        line_of(server)  # the request is there
        os.kill(process.pid, end)
        output, errors = process.communicate(timeout=30)
        assert (process.returncode, output) == (code, ""), errors
        assert "Traceback" not in errors
        summary = place.json("sessions", "list")["sessions"][0]
        shown = place.json("sessions", "show", summary["id"])
        assert contents(shown) == ["slow question"]
        assert [run["error_type"] for run in shown["runs"]] == ["cancelled"]
        server.kill()
        server, base_url = place.wire({"text": "late", "pause_s": 30})
