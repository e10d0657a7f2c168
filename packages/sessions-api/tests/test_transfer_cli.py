from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sessions_api import Agent
from sessions_api.testing import ScriptedProvider
from state_store import NewMessage, SessionState, new_id
from tinyagent_process import PROGRAM, Call, Terminal, Tinyagent

FORMS = ("jsonl", "archive", "markdown", "html")


def large_session(tinyagent: Tinyagent, byte_count: int) -> str:
    """Store a session of so many bytes; return its id."""
    session_id = new_id()
    text = "0123456789abcdef" * 6250
    messages = tuple(NewMessage(role="user", content=text) for _ in range(byte_count // len(text)))
    home = tinyagent.environment["TINYAGENT_STATE_HOME"]
    with Agent(tinyagent.workspace, provider=ScriptedProvider([]), state_home=home) as agent:
        agent.sessions.save(SessionState(id=session_id, messages=messages), timedelta())
    return session_id


def shell(tinyagent: Tinyagent, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in the workspace; `tinyagent` is "$@"."""
    return subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", script, "bash", *PROGRAM, *arguments],
        cwd=tinyagent.workspace,
        env=tinyagent.environment,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("form", ["jsonl", "archive"])
def test_c37_an_export_through_a_slow_pipe_is_whole(tinyagent: Tinyagent, form: str) -> None:
    """20 MB: what a reader that waits gets is what a file gets; the header's time aside."""
    session_id = large_session(tinyagent, 20_000_000)
    command = ("sessions", "export", session_id, "--format", form)
    skip = 2 if form == "archive" else 1
    piped = shell(tinyagent, f'"$@" | (sleep 1; cat) | tail -n +{skip} | sha256sum', *command)
    assert (piped.returncode, piped.stderr) == (0, "")
    target = tinyagent.workspace / "out"
    assert tinyagent(*command, "-o", str(target)).returncode == 0
    lines = target.read_bytes().splitlines(keepends=True)
    assert sum(map(len, lines)) > 20_000_000
    assert piped.stdout.split()[0] == hashlib.sha256(b"".join(lines[skip - 1 :])).hexdigest()


@pytest.mark.parametrize("form", FORMS)
def test_c37_a_reader_that_leaves_ends_it_quietly(tinyagent: Tinyagent, form: str) -> None:
    """`head -c 100` gets its hundred bytes, and nobody complains; a full disk is an error."""
    session_id = large_session(tinyagent, 2_000_000)
    command = ("sessions", "export", session_id, "--format", form)
    cut = shell(tinyagent, '"$@" | head -c 100 | wc -c; echo "${PIPESTATUS[0]}"', *command)
    assert (cut.stdout.split(), cut.stderr) == (["100", "0"], "")
    full = shell(tinyagent, '"$@" > /dev/full', *command)
    assert full.returncode == 1
    assert len(full.stderr.splitlines()) == 2


def asked(call: Call, *arguments: str) -> Any:
    """Return what the command prints under --json."""
    code, output, errors = call(*arguments, "--json")
    assert code == 0, errors
    return json.loads(output)


def test_everything_goes_into_an_archive_and_comes_back(call: Call, tmp_path: Path) -> None:
    """Archived sessions too; a second import makes nothing new, and each outcome is told."""
    call("run", "one")
    call("run", "two")
    call("sessions", "archive", "one")
    target = tmp_path / "all.archive"
    assert call("sessions", "export", "--all", "-o", str(target))[:2] == (0, "")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    (tmp_path / "other").mkdir()
    there = ("-w", str(tmp_path / "other"))
    imported = asked(call, "sessions", "import", str(target), *there)
    assert imported["schema_version"] == 1
    assert [one["outcome"] for one in imported["sessions"]] == ["new", "new"]
    assert [one["title"] for one in imported["sessions"]] == ["one", "two"]
    assert [one["id"] for one in imported["sessions"]] == [
        one["source_id"] for one in imported["sessions"]
    ]
    code, output, errors = call("sessions", "import", str(target), *there)
    assert (code, output) == (0, "")
    assert errors.count("Already there") == 2
    listed = asked(call, "sessions", "--archived", *there)
    assert [one["title"] for one in listed["sessions"]] == ["one"]
    assert "one" in call("sessions", "show", imported["sessions"][0]["id"], *there)[1]


def test_a_file_that_is_no_good_creates_nothing(call: Call, tinyagent: Tinyagent) -> None:
    """Not even the workspace's marker; of several files none is imported."""
    good, bad = tinyagent.workspace / "good", tinyagent.workspace / "bad"
    good.write_text('{"role":"user","content":"x"}\n')
    bad.write_text('{"role":"user","content":"x"}\n{"role":')
    code, output, errors = call("sessions", "import", str(good), str(bad))
    assert (code, output, len(errors.splitlines())) == (1, "", 2)
    assert f"{bad} cannot be imported: line 2: it is not valid JSON" in errors
    assert not (tinyagent.workspace / ".tinyagent").exists()
    code, output, _ = call("sessions", "import", str(bad), "--json")
    assert (code, json.loads(output)["error"]["kind"]) == (1, "import_invalid")
    assert call("sessions", "import", str(good.with_name("none")))[0] == 1
    assert call("sessions", "import")[0] == 2


def test_an_import_reads_standard_input(tinyagent: Tinyagent) -> None:
    """So that one workspace can be piped into another."""
    done = tinyagent("sessions", "import", "-", typed='{"role":"user","content":"piped"}\n')
    assert (done.returncode, done.stdout) == (0, "")
    assert "Imported: " in done.stderr
    assert tinyagent.json("sessions")["sessions"][0]["title"] == "piped"


@pytest.mark.parametrize(
    "arguments",
    [
        ("export",),
        ("export", "latest", "--all"),
        ("export", "--all", "--format", "html"),
        ("export", "latest", "--format", "yaml"),
    ],
)
def test_an_export_that_makes_no_sense_is_refused(call: Call, arguments: tuple[str, ...]) -> None:
    """Before anything is opened."""
    code, output, errors = call("sessions", *arguments)
    assert (code, output) == (2, "")
    assert len(errors.splitlines()) == 2


def test_c35_masking_is_asked_for_by_a_flag_and_html_has_it(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key of the environment, the key of the configuration, and a password in a sentence."""
    home = Path(os.environ["TINYAGENT_STATE_HOME"])
    call("run", "password: hunter2-XYZ, key configured-key-0815, other environment-key-4711")
    (home / "config.toml").write_text('api_key = "configured-key-0815"\n')
    monkeypatch.setenv("SOME_API_KEY", "environment-key-4711")
    secrets = ("hunter2", "configured-key", "environment-key")
    for form in FORMS:
        export = ("sessions", "export", "latest", "--format", form)
        shown = {
            flags: call(*export, *flags)[1].replace("\\", "")
            for flags in ((), ("--redact",), ("--no-redact",))
        }
        assert not any(secret in shown["--redact",] for secret in secrets)
        assert all(secret in shown["--no-redact",] for secret in secrets)
        assert (shown[()] == shown["--redact",]) == (form == "html") or form == "archive"
    (home / "config.toml").write_text("no = such setting")
    code, output, errors = call("sessions", "export", "latest", "--redact")
    assert code == 0
    assert "hunter2" not in output
    assert "masked by its form alone" in errors


def test_an_import_on_a_terminal_leaves_one_line_for_each_session(tinyagent: Tinyagent) -> None:
    """How far it is may be seen before; what is left of that is nothing."""
    session_id = large_session(tinyagent, 4_000_000)
    target = tinyagent.workspace / "big"
    assert tinyagent("sessions", "export", session_id, "-o", str(target)).returncode == 0
    with Terminal(tinyagent, "sessions", "import", str(target)) as terminal:
        assert terminal.leave() == 0
    last = terminal.shown.rstrip("\n").split("\r")[-1]
    assert last.startswith("Imported: ")
    assert "\n" not in last
