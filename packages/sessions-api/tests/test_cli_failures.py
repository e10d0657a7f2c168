"""How the command ends when something is wrong: exit code, two lines, one JSON object."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from sessions_api.cli.places import CONFIG_NAME
from sessions_api.settings import CONFIG_NAME as SETTINGS_CONFIG_NAME
from tinyagent_process import PROGRAM, TIMEOUT_S, Call, Tinyagent


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [
        (("sessions", "bogus"), 2, "usage_invalid"),
        (("sessions", "--bogus"), 2, "usage_invalid"),
        (("sessions", "--limit", "-1"), 2, "usage_invalid"),
        (("sessions", "--cursor", "x"), 2, "cursor_invalid"),
        (("run", ""), 2, "input_invalid"),
        (("run", "-c", "--resume", "latest", "hi"), 2, "usage_invalid"),
        (("run", "--resume"), 2, "usage_invalid"),
        (("run", "--ephemeral", "-c", "hi"), 2, "usage_invalid"),
        (("run", "--provider", "nobody", "hi"), 2, "provider_unknown"),
        (("sessions", "--workspace", "missing"), 2, "workspace_missing"),
        (("sessions", "--workspace", "/"), 2, "unsafe_workspace"),
        (("sessions", "new", "--title", " "), 2, "usage_invalid"),
        (("sessions", "show", "nothing"), 4, "reference_not_found"),
        (("sessions", "show", ""), 4, "reference_not_found"),
        (("run", "--continue", "hi"), 4, "reference_not_found"),
        (("run", "--resume", "nothing", "hi"), 4, "reference_not_found"),
        (("sessions", "delete", "nothing", "--yes"), 4, "reference_not_found"),
        (("logs", "./nothing.jsonl"), 4, "journal_missing"),
        (("run", "--provider", "openai", "--model", "m", "hi"), 1, "provider_unavailable"),
    ],
)
def test_a_failure_is_two_lines_a_code_and_under_json_one_object(
    call: Call, arguments: tuple[str, ...], code: int, kind: str
) -> None:
    """What failed, then what to do; nothing on standard output unless JSON was asked for."""
    ended, output, errors = call(*arguments)
    assert (ended, output) == (code, "")
    assert len(errors.splitlines()) == 2
    assert errors.startswith("Error: ")
    for asked in (("--json", *arguments), (*arguments, "--json")):
        if asked[-2:-1] == ("--resume",):
            continue  # "--json" would be its value's place, which is another failure
        ended, output, errors = call(*asked)
        failure = json.loads(output)
        assert ended == code
        assert failure["schema_version"] == 1
        assert failure["error"]["kind"] == kind
        assert set(failure["error"]) == {"kind", "message", "hint", "retryable"}
        assert "Traceback" not in errors


def test_deleting_without_a_terminal_needs_yes(call: Call) -> None:
    """Nothing is deleted and the exit code says why."""
    call("run", "hello")
    code, _, errors = call("sessions", "delete", "latest")
    assert code == 8
    assert "--yes" in errors
    assert call("sessions", "--ids")[1] != ""


def test_a_damaged_database_is_named_and_its_journal_stays_readable(
    call: Call, tinyagent: Tinyagent
) -> None:
    """C11: exit 5 with the file's name, the bytes as they were, and no list that looks empty."""
    run = json.loads(call("run", "hello", "--json")[1])
    database = Path(json.loads(call("path", "--json")[1])["database"])
    whole = database.read_bytes()
    for damaged in (bytes(100) + whole[100:], whole[: len(whole) // 2], b""):
        database.write_bytes(damaged)
        for arguments in (("sessions",), ("run", "hi"), ("sessions", "show", "latest")):
            code, output, errors = call(*arguments)
            assert (code, output) == (5, ""), (len(damaged), arguments)
            assert str(database) in errors
        assert database.read_bytes() == damaged
        for named in (run["session_id"], run["session_id"][-8:]):
            code, output, _ = call("logs", named)
            assert code == 0
            assert "run.completed" in output
        code, _, errors = call("logs", "latest")
        assert code == 5
        assert run["session_id"] in errors
    journal = json.loads(call("logs", run["session_id"], "--json")[1])["file"]
    assert "run.completed" in call("logs", journal)[1]


def test_damage_in_a_journal_is_shown_where_it_is(call: Call) -> None:
    """The rest of the file is shown as well."""
    session_id = json.loads(call("run", "hello", "--json")[1])["session_id"]
    journal = Path(json.loads(call("logs", session_id, "--json")[1])["file"])
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([lines[0], b"nonsense\n", *lines[1:], b'{"torn']))
    code, output, errors = call("logs", session_id)
    assert code == 0
    assert output.splitlines()[1] == f"DAMAGED not_a_line: 9 bytes at {len(lines[0])}"
    assert output.splitlines()[-1].startswith("DAMAGED torn_tail")
    assert errors.startswith("2 damaged places")
    told = json.loads(call("logs", session_id, "--json")[1])["lines"]
    assert [one.get("damage", {}).get("kind") for one in told].count(None) == len(lines)


def test_a_newer_database_is_refused_unchanged(call: Call) -> None:
    """Exit 6, and the bytes are as they were."""
    import apsw  # noqa: PLC0415 - only to play a newer program

    call("run", "hello")
    database = Path(json.loads(call("path", "--json")[1])["database"])
    connection = apsw.Connection(str(database))
    connection.execute("PRAGMA user_version=9999")
    connection.close()
    before = database.read_bytes()
    for arguments in (("sessions",), ("run", "hi"), ("-c", "chat")):
        assert call(*arguments)[0] == 6
    assert database.read_bytes() == before


def test_a_state_home_that_is_no_directory_is_one_failure(
    call: Call, tinyagent: Tinyagent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`run` fails with 1; chat goes on, says once that nothing is saved, and promises nothing."""
    occupied = tmp_path / "file"
    occupied.write_text("")
    monkeypatch.setenv("TINYAGENT_STATE_HOME", str(occupied))
    code, output, errors = call("run", "hello")
    assert (code, output) == (1, "")
    assert len(errors.splitlines()) == 2
    code, output, errors = call("chat", typed="hello\n")
    assert code == 0
    assert "“hello”" in output
    assert errors.count("will be saved") == 1
    assert "Resume" not in errors


def test_a_session_of_an_unknown_provider_stays_readable(call: Call, tinyagent: Tinyagent) -> None:
    """C28: it opens under its own id with a notice, and goes on with another provider if asked."""
    from sessions_api import Agent  # noqa: PLC0415 - only here
    from sessions_api.testing import ScriptedProvider  # noqa: PLC0415 - only here

    with Agent(tinyagent.workspace, provider=ScriptedProvider(["hi"], name="gone")) as agent:
        session_id = agent.run("hello").session_id
    for arguments in (("sessions", "show"), ("runs",), ("sessions", "export"), ("logs",)):
        assert call(*arguments, session_id)[0] == 0
    code, _, errors = call("chat", "--resume", session_id, typed="")
    assert code == 0
    assert "'gone'" in errors
    assert f"--resume {session_id[-8:]}" in errors
    assert call("run", "-c", "more")[0] == 2
    code, output, _ = call("run", "-c", "more", "--provider", "offline", "--json")
    assert json.loads(output)["session_id"] == session_id
    assert "2 times" in json.loads(output)["text"]
    assert len(json.loads(call("sessions", "--json")[1])["sessions"]) == 1


def test_debug_shows_where_but_not_what(call: Call) -> None:
    """Frames and types are there; the words of foreign errors are not."""
    _, _, errors = call("--debug", "sessions", "show", "nothing")
    assert "references.py" in errors
    assert "ReferenceNotFound" in errors


def test_the_name_of_the_configuration_is_the_settings_own() -> None:
    """`path` shows it without importing the settings."""
    assert CONFIG_NAME == SETTINGS_CONFIG_NAME


def test_output_that_cannot_be_written_fails_and_a_closed_pipe_does_not(
    tinyagent: Tinyagent,
) -> None:
    """/dev/full is an error with two lines; a reader that left is the end of the matter."""
    tinyagent("run", "hello")
    for arguments in (("sessions",), ("sessions", "export", "latest"), ("sessions", "--json")):
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                [*PROGRAM, *arguments],
                cwd=tinyagent.workspace,
                env=tinyagent.environment,
                stdout=full,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                check=False,
            )
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 2), done.stderr
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*PROGRAM, "sessions", "export", "latest"],
        cwd=tinyagent.workspace,
        env=tinyagent.environment,
        stdout=writing,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("command", "code", "line_count"), [("run", 2, 2), ("chat", 0, 0)])
def test_a_closed_standard_input_is_an_empty_one(
    tinyagent: Tinyagent, command: str, code: int, line_count: int
) -> None:
    """Services are started like that; it is no fault of ours to report."""
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *PROGRAM, command],
        cwd=tinyagent.workspace,
        env=tinyagent.environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert len(done.stderr.splitlines()) == line_count
    assert "unexpected" not in done.stderr
