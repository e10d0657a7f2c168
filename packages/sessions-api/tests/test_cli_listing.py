"""`tinyagent sessions list` beyond one workspace and its pages, and journals as they grow."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sessions_api import Agent
from state_store import NewMessage, Usage, new_id

if TYPE_CHECKING:
    from tinyagent_process import Call, Tinyagent


def asked(call: Call, *arguments: str) -> Any:
    """Return what the command prints under --json."""
    code, output, errors = call(*arguments, "--json")
    assert code == 0, errors
    return json.loads(output)


def other_than(tinyagent: Tinyagent, name: str) -> Tinyagent:
    """Return the command in another workspace of the same state home."""
    workspace = tinyagent.workspace.with_name(name)
    workspace.mkdir()
    return replace(tinyagent, workspace=workspace)


def test_sessions_of_all_workspaces_are_listed_newest_first(tinyagent: Tinyagent) -> None:
    """Each with its workspace, and one that cannot be read hides no other."""
    other, broken = other_than(tinyagent, "other"), other_than(tinyagent, "broken")
    ids = [
        json.loads(where("run", text, "--json").stdout)["session_id"]
        for where, text in ((tinyagent, "first"), (other, "second"), (tinyagent, "third"))
    ]
    broken("run", "lost")
    database = broken.database()
    for end in ("-wal", "-shm"):
        Path(f"{database}{end}").unlink(missing_ok=True)
    database.write_bytes(b"no database")
    done = other("sessions", "list", "--all-workspaces", "--json")
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)["sessions"]
    assert [one["id"] for one in listed] == ids[::-1]
    assert listed[0]["workspace_path"] == str(tinyagent.workspace)
    assert listed[1]["workspace_id"] == other.json("workspace", "show")["id"]
    assert str(broken.workspace) in done.stderr
    assert other("sessions", "--all-workspaces", "--ids").stdout.split() == ids[::-1]
    shown = other("sessions", "--all-workspaces", "-n", "2")
    assert shown.stdout.startswith(str(tinyagent.workspace))
    assert "--limit 0" in shown.stderr


def test_running_sessions_are_those_of_living_processes(call: Call, tinyagent: Tinyagent) -> None:
    """One whose process holds its store is listed, an idle one is not."""
    asked(call, "run", "idle")
    assert asked(call, "sessions", "list", "--running")["sessions"] == []
    assert "No session has a run under way." in call("sessions", "--running")[2]
    state = tinyagent.environment["TINYAGENT_STATE_HOME"]
    with Agent(tinyagent.workspace, provider="offline", state_home=state) as agent:
        session = agent.sessions.create("busy")
        store = agent.sessions._state.store
        message = NewMessage(role="user", content="wait")
        run, _ = store.begin_run(session.id, message, run_id=new_id())
        for flags in (("--running",), ("--running", "--all-workspaces")):
            (listed,) = asked(call, "sessions", "list", *flags)["sessions"]
            assert (listed["id"], listed["status"]) == (session.id, "running")
        store.fail_run(run.id, "cancelled", usage=Usage())
    assert asked(call, "sessions", "list", "--running")["sessions"] == []


def test_pages_and_lists_without_pages_exclude_each_other(call: Call) -> None:
    """A cursor belongs to one store and one order."""
    for flag in ("--running", "--all-workspaces"):
        code, _, errors = call("sessions", "list", "--cursor", "x", flag)
        assert code == 2
        assert "--limit" in errors


def test_a_journal_is_followed_until_interrupted(tinyagent: Tinyagent) -> None:
    """What was there comes first, then what is written meanwhile, a line at once."""
    first = json.loads(tinyagent("run", "hello", "--json").stdout)
    with tinyagent.start("logs", first["session_id"], "--follow") as process:
        assert process.stdout is not None
        seen = ""
        while "run.completed" not in seen:
            seen = process.stdout.readline()
        second = json.loads(tinyagent("run", "again", "--continue", "--json").stdout)
        while second["run_id"][-8:] not in seen:
            seen = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130


def test_a_followed_journal_is_an_object_a_line_and_ends_with_its_session(
    tinyagent: Tinyagent,
) -> None:
    """Each line parses; when the session is deleted there is nothing to wait for."""
    session_id = json.loads(tinyagent("run", "hello", "--json").stdout)["session_id"]
    with tinyagent.start("logs", session_id, "-f", "--json") as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert first["schema_version"] == 1
        assert first["line"]["session_id"] == session_id
        assert tinyagent("sessions", "delete", session_id, "--yes").returncode == 0
        rest = [json.loads(line)["line"] for line in process.stdout]
        assert process.wait(timeout=60) == 0
    assert rest[-1]["event"] == "run.completed"
