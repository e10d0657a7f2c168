"""The way of a session through the command line, in processes of its own."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

from tinyagent_process import PROGRAM, Call, Terminal, Tinyagent


def asked(call: Call, *arguments: str) -> Any:
    """Return what the command prints under --json."""
    code, output, errors = call(*arguments, "--json")
    assert code == 0, errors
    return json.loads(output)


def test_a_session_is_run_continued_shown_and_deleted(tinyagent: Tinyagent) -> None:
    """The answer is all that stands on standard output; standard error says how to go on."""
    first = tinyagent("run", "good morning")
    assert first.returncode == 0
    assert "“good morning”" in first.stdout
    resume = re.fullmatch(r"Resume: tinyagent --resume ([0-9a-f]{8})\n", first.stderr)
    assert resume
    short = resume[1]
    assert "2 times" in tinyagent("--continue", "run", "and again").stdout
    assert "3 times" in tinyagent("run", "-r", short, "third").stdout
    listed = tinyagent("sessions").stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["ID", short]
    shown = tinyagent("sessions", "show", short).stdout
    assert shown.index("good morning") < shown.index("and again") < shown.index("third")
    assert len(tinyagent.json("runs", short)["runs"]) == 3
    gone = tinyagent("sessions", "delete", short, "--yes")
    assert (gone.returncode, gone.stdout) == (0, "")
    assert tinyagent("sessions", "show", short).returncode == 4
    assert tinyagent("-c", "run", "hello").returncode == 4


def test_json_has_the_promised_members_and_nothing_shortened(call: Call) -> None:
    """Ids are whole, times are UTC with Z, and what is unknown is null."""
    run = asked(call, "run", "hello")
    assert set(run) == {
        *("schema_version", "session_id", "run_id", "status", "text", "usage", "cost"),
        "error_type",
    }
    assert (run["status"], run["cost"], run["error_type"]) == ("completed", None, None)
    listed = asked(call, "sessions")
    assert set(listed) == {"schema_version", "sessions", "next_cursor"}
    (session,) = listed["sessions"]
    assert set(session) == {
        *("id", "title", "model_id", "provider", "created_at", "updated_at", "status"),
        *("message_count", "total_tokens", "cost", "short_id", "workspace_id"),
    }
    assert session["id"] == run["session_id"]
    assert session["created_at"].endswith("Z")
    assert datetime.fromisoformat(session["created_at"]).utcoffset() is not None
    assert session["workspace_id"] == asked(call, "workspace", "show")["id"]
    shown = asked(call, "sessions", "show", "latest")
    assert set(shown) == {"schema_version", "session", "messages", "runs"}
    assert [message["role"] for message in shown["messages"]] == ["user", "assistant"]
    assert shown["runs"][0]["id"] == run["run_id"]
    assert set(asked(call, "path")) == {
        *("schema_version", "state_home", "workspace", "database", "journal_dir", "exports"),
        *("config", "sizes"),
    }
    assert set(asked(call, "workspace", "show")) == {
        *("schema_version", "id", "root", "verdict", "reason", "notice", "previous_path"),
        "database",
        "journal_dir",
    }
    assert [one["event"] for one in asked(call, "logs", "latest")["lines"]][-1] == ("run.completed")
    deleted = asked(call, "sessions", "delete", session["id"], "--yes")
    assert deleted["deleted"][0]["id"] == session["id"]
    assert (deleted["deleted"][0]["message_count"], deleted["deleted"][0]["run_count"]) == (2, 1)
    assert deleted["backups"] == []


def test_pages_of_the_list_make_up_the_whole(call: Call) -> None:
    """A page names the next one; 0 is no limit; archived sessions have a list of their own."""
    titles = ("one", "two", "three")
    ids = [asked(call, "sessions", "new", "--title", one)["session"]["id"] for one in titles]
    assert call("sessions", "--limit", "0", "--ids")[1].split() == ids[::-1]
    _, output, errors = call("sessions", "-n", "2", "--ids")
    cursor = re.search(r"--cursor (\S+)", errors)
    assert cursor
    second = call("sessions", "--ids", "--cursor", cursor[1])[1]
    assert output.split() + second.split() == ids[::-1]
    assert call("sessions", "archive", ids[0])[0] == 0
    assert call("sessions", "--archived", "--ids")[1].split() == [ids[0]]
    assert ids[0] not in call("sessions", "--ids")[1]
    assert call("sessions", "unarchive", ids[0])[0] == 0
    assert ids[0] in call("sessions", "--ids")[1]


def test_what_the_list_prints_as_a_handle_is_accepted(call: Call, tinyagent: Tinyagent) -> None:
    """C25: titles stand on one line, wide ones are cut on a terminal, equal ones are ambiguous."""
    titles = ["x" * 41, "会話" * 20, "two\nlines\tand a tab", "twin", "twin", "50%_*"]
    for title in titles:
        assert call("sessions", "new", "--title", title)[0] == 0
    lines = call("sessions")[1].splitlines()[1:]
    assert len(lines) == len(titles)
    for handle in (line.split()[0] for line in lines):
        assert call("sessions", "export", handle)[0] == 0
    with Terminal(tinyagent, "sessions", "--no-color") as terminal:
        assert terminal.leave() == 0
    shown = terminal.shown.splitlines()
    assert "…" in terminal.shown
    assert all(len(line) + line.count("会") + line.count("話") <= 80 for line in shown)
    code, _, errors = call("sessions", "show", "twin")
    assert code == 3
    assert all(line.split()[0] in errors for line in lines if " twin " in line)
    assert call("sessions", "show", titles[2])[0] == 0
    assert call("sessions", "show", "50%_*")[0] == 0
    assert call("sessions", "show", "%")[0] == 4


def test_an_export_is_private_and_replaces_the_file_at_once(call: Call, tmp_path: Path) -> None:
    """The file holds what standard output would; a failed one leaves what was there."""
    call("run", "hello")
    target = tmp_path / "out.jsonl"
    target.write_text("before")
    target.chmod(0o644)
    assert call("sessions", "export", "latest", "-o", str(target))[0] == 0
    assert target.read_text("utf-8") == call("sessions", "export", "latest")[1]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert call("sessions", "export", "latest", "-o", str(tmp_path / "no" / "x"))[0] == 1
    left = {"home", "out.jsonl", "state", "workspace"}
    assert {path.name for path in tmp_path.iterdir()} == left


def test_deleting_asks_on_a_terminal_and_no_is_the_default(
    call: Call, tinyagent: Tinyagent
) -> None:
    """The question names title, number of messages and age."""
    session_id = asked(call, "run", "keep me")["session_id"]
    with Terminal(tinyagent, "sessions", "delete", session_id) as terminal:
        terminal.wait_for("[y/N]")
        assert re.search(r"keep me +2 messages, last active (now|\d)", terminal.shown)
        terminal.type("\n")
        assert terminal.leave() == 1
    assert call("sessions", "--ids")[1].split() == [session_id]
    with Terminal(tinyagent, "sessions", "delete", session_id) as terminal:
        terminal.wait_for("[y/N]")
        terminal.type("y\n")
        assert terminal.leave() == 0
    assert call("sessions", "--ids")[1] == ""


def test_reading_needs_no_provider_and_imports_none(call: Call, tinyagent: Tinyagent) -> None:
    """C28: reading commands load neither settings, nor loguru, nor a provider's package."""
    session_id = asked(call, "run", "hello")["session_id"]
    program = (
        "import sys; from sessions_api.cli import main; code = main(sys.argv[1:]);"
        "heavy = ('loguru', 'pydantic', 'pydantic_settings', 'openai', 'anthropic', 'httpx',"
        " 'prompt_toolkit', 'rich', 'http.server', 'sessions_api.web', 'sessions_api.health');"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    for arguments in (
        ("--version",),
        ("sessions", "list"),
        ("sessions", "list", "--running"),
        ("sessions", "list", "--all-workspaces"),
        ("sessions", "show", session_id),
        ("runs", session_id),
        ("logs", session_id),
        ("sessions", "export", session_id),
        ("path",),
    ):
        done = subprocess.run(
            [PROGRAM[0], "-c", program, *arguments],
            cwd=tinyagent.workspace,
            env=tinyagent.environment,
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        assert done.stderr.splitlines()[-1] == "[]", arguments


def test_a_first_look_creates_nothing(call: Call, tinyagent: Tinyagent) -> None:
    """Reading commands in a directory that was never used leave it as it is."""
    for arguments in (("sessions",), ("path",), ("workspace", "show"), ("-c", "run", "hello")):
        call(*arguments)
    assert list(tinyagent.workspace.iterdir()) == []
    assert not Path(tinyagent.environment["TINYAGENT_STATE_HOME"]).exists()


def test_an_ephemeral_run_leaves_nothing_and_promises_nothing(
    call: Call, tinyagent: Tinyagent
) -> None:
    """There is no place to resume, so none is named."""
    code, _, errors = call("run", "--ephemeral", "secret")
    assert (code, errors) == (0, "")
    assert list(tinyagent.workspace.iterdir()) == []


def test_many_first_runs_at_once_all_succeed(tinyagent: Tinyagent) -> None:
    """C01: eight processes create the same database, and each keeps its own session."""
    started = [tinyagent.start("run", "--provider", "offline", f"n={n}") for n in range(8)]
    ends = [(process.communicate(timeout=60), process.returncode) for process in started]
    assert [code for _, code in ends] == [0] * 8, ends
    listed = tinyagent.json("sessions", "--limit", "0")["sessions"]
    assert sorted(one["title"] for one in listed) == sorted(f"n={n}" for n in range(8))
    assert {one["message_count"] for one in listed} == {2}


def test_no_stored_control_character_reaches_a_terminal(call: Call, tinyagent: Tinyagent) -> None:
    """Escapes are shown as text; JSON keeps them exactly."""
    hostile = "\x1b]0;owned\x07 \x1b[31mred\x9b2J\x7f end"
    call("run", "-", typed=hostile)
    with Terminal(tinyagent, "sessions", "show", "latest", "--no-color") as terminal:
        assert terminal.leave() == 0
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", terminal.shown)
    assert r"\x1b]0;owned\x07" in terminal.shown
    messages = asked(call, "sessions", "show", "latest")["messages"]
    assert messages[0]["content"] == hostile


def test_lines_that_the_journal_lost_are_shown(tinyagent: Tinyagent) -> None:
    """The run goes on and is saved; that its evidence is not, is said at once and later."""
    tinyagent("run", "hello")
    directory = Path(tinyagent.json("path")["journal_dir"])
    shutil.rmtree(directory)
    directory.write_text("no directory")
    done = tinyagent("run", "again", "--continue")
    assert done.returncode == 0, done.stderr
    assert "of the journal's lines could not be written" in done.stderr
    assert "lines could not be written" in tinyagent("sessions", "show", "latest").stdout
    chatted = tinyagent("--continue", typed="and again\n")
    assert "of the journal's lines could not be written" in chatted.stderr
