"""Completion, in the shells themselves: what Tab puts on the line names the session meant."""

from __future__ import annotations

import json
import os
import pty
import random
import select
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
import typer

from sessions_api.cli.app import build
from sessions_api.cli.completion.candidates import complete_sessions
from sessions_api.cli.completion.quoting import Word, quoted, taken_apart
from sessions_api.cli.completion.scripts import SCRIPTS, VARIABLE
from test_cli_store import made_by_the_first_schema
from tinyagent_process import ON_ITS_TERMINAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tinyagent_process import Call, Tinyagent

TIMEOUT_S = 60
HOSTILE = "fix: the 'bug' \"now\" $HOME `id` *! \\ ; #1"
TITLES = {"fix": HOSTILE, "修": "修复 这个 错误", "two": "two\nlines  here"}
BREAKS = " \t\n\"'@><=;|&(:"
START = {
    "bash": ["--norc", "--noprofile", "-i"],
    "zsh": ["-f", "-i"],
    "fish": ["--no-config", "-i"],
}
SET_UP = {
    "bash": 'HISTFILE=; eval "$(tinyagent --show-completion bash)"',
    "zsh": "autoload -Uz compinit; compinit -D -u;"
    ' eval "$(tinyagent --show-completion zsh)"; setopt no_beep',
    "fish": "tinyagent --show-completion fish | source",
}
# What a line editor writes when it begins to read a line.
AT_WORK = {"bash": "\x1b[?2004h", "zsh": "\x1b[?2004h", "fish": "\x1b[K"}


@pytest.fixture
def with_sessions(tinyagent: Tinyagent) -> tuple[Tinyagent, dict[str, str]]:
    """Return the command where there is a session of each title, and its id by what is typed."""
    ids = {}
    for typed, title in TITLES.items():
        done = tinyagent("sessions", "new", "--title", title, "--no-chat", "--json")
        ids[typed] = json.loads(done.stdout)["session"]["id"]
    folder = tinyagent.workspace.parent / "bin"
    folder.mkdir()
    program = folder / "tinyagent"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m sessions_api.cli "$@"\n')
    program.chmod(0o755)
    tinyagent.environment["PATH"] = f"{folder}{os.pathsep}{tinyagent.environment['PATH']}"
    return tinyagent, ids


class LineEditor:
    """A shell on a terminal of its own, to which keys are sent. Use it as a context manager."""

    def __init__(self, shell: str, tinyagent: Tinyagent) -> None:
        kept = {name: os.environ[name] for name in ("FPATH",) if name in os.environ}
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", ON_ITS_TERMINAL, shutil.which(shell) or shell, *START[shell]],
            cwd=tinyagent.workspace,
            env={**tinyagent.environment, **kept, "LC_ALL": "C.UTF-8", "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        self.shown, self._at_work = "", AT_WORK[shell]

    def type(self, line: str) -> None:
        r"""Type a command line, \t being Tab, and wait until it was carried out."""
        over = f"over-{len(self.shown)}"
        os.write(self._ours, f"{line}; echo {over[:4]}''{over[4:]}\n".encode())
        self._wait_for(over)
        # What is typed before the line editor is at work again would be no completion.
        self._wait_for(self._at_work, after=self.shown.index(over))

    def _wait_for(self, text: str, *, after: int = 0) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while text not in self.shown[after:]:
            assert time.monotonic() < deadline, self.shown
            if select.select([self._ours], [], [], 0.1)[0]:
                self.shown += os.read(self._ours, 65536).decode("utf-8", "replace")

    def __enter__(self) -> Self:
        self._wait_for(self._at_work)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_tab_completes_a_title_so_that_the_command_finds_its_session(
    with_sessions: tuple[Tinyagent, dict[str, str]], shell: str
) -> None:
    """Blanks, quotation marks, wild cards, line breaks and ideographs, begun in any quotes."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    tinyagent, ids = with_sessions
    beginnings = ["fix", "修", "two", "two\\ li"]
    beginnings += ['"fix', "'fix", "fix:", "fix\\:\\ t"] if shell == "bash" else []
    with LineEditor(shell, tinyagent) as line:
        line.type(SET_UP[shell])
        for number, beginning in enumerate(beginnings):
            resume = beginning == "修"
            words = "run hello --provider offline --resume=" if resume else "sessions show "
            line.type(f"tinyagent {words}{beginning}\t --json >{number}.json")
            written = (tinyagent.workspace / f"{number}.json").read_text(encoding="utf-8")
            assert written, line.shown
            found: Any = json.loads(written)
            named = found.get("session_id") or found.get("session", {}).get("id")
            typed = next(key for key in ids if key in beginning)
            assert named == ids[typed], (beginning, found, line.shown)


def complete(call: Call, monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """Return the values that the program offers for the last of *words*, as zsh asks for them."""
    monkeypatch.setenv(VARIABLE, "zsh")
    code, output, errors = call(*words)
    monkeypatch.delenv(VARIABLE)
    assert (code, errors) == (0, "")
    return [line.partition("\t")[0] for line in output.splitlines()]


def test_commands_options_and_choices_are_completed(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line itself, groups and all."""
    assert "sessions" in complete(call, monkeypatch, "se")
    assert {"list", "show", "delete"} <= set(complete(call, monkeypatch, "sessions", ""))
    assert complete(call, monkeypatch, "sessions", "show", "--vi") == ["--view"]
    assert complete(call, monkeypatch, "sessions", "show", "--view", "co") == ["context"]


def test_sessions_are_completed_by_digits_title_and_latest(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the workspace that the line names, wherever it names it; runs have their own digits."""
    session_id = json.loads(call("run", "hello there", "--json")[1])["session_id"]
    run_id = json.loads(call("runs", session_id, "--json")[1])["runs"][0]["id"]
    everything = ["latest", session_id[-8:], "hello there"]
    for words in (("sessions", "show"), ("runs",), ("run", "-r"), ("--resume",), ("logs",)):
        found = complete(call, monkeypatch, *words, "")
        assert [one for one in found if one in everything] == everything, words
    assert complete(call, monkeypatch, "sessions", "show", session_id[-8:-2]) == [session_id[-8:]]
    assert complete(call, monkeypatch, "sessions", "show", session_id[:20]) == [session_id]
    assert complete(call, monkeypatch, "runs", "show", "") == [run_id[-8:]]
    workspace_id = json.loads(call("workspace", "show", "--json")[1])["id"]
    assert complete(call, monkeypatch, "workspace", "delete", "") == [workspace_id]
    Path("elsewhere").mkdir()
    there = ("-w", "elsewhere")
    for other in ((*there, "sessions", "show"), ("sessions", "show", *there)):
        assert complete(call, monkeypatch, *other, "") == []


def test_what_names_no_single_session_is_not_offered(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Titles that two sessions have, that look like options, or mean something else."""
    for title in ("same", "same", "--yes", "latest"):
        call("sessions", "new", f"--title={title}", "--no-chat")
    offered = complete(call, monkeypatch, "sessions", "show", "")
    assert not {"same", "--yes"} & set(offered)
    assert offered.count("latest") == 1


def test_every_parameter_that_takes_a_session_is_completed() -> None:
    """Whoever adds a command with a REF finds out here what else it needs."""

    def uncompleted(command: Any, path: str) -> Iterator[str]:
        for parameter in command.params:
            if "REF" in (parameter.metavar or "") and not parameter._custom_shell_complete:
                yield f"{path} {parameter.name}"
        for name, one in getattr(command, "commands", {}).items():
            yield from uncompleted(one, f"{path} {name}")

    assert list(uncompleted(typer.main.get_command(build()), "tinyagent")) == []
    assert complete_sessions.__doc__


@pytest.mark.parametrize("trouble", ["unused", "damaged", "older", "marker", "home"])
def test_trouble_is_silent_and_changes_nothing(
    call: Call, tinyagent: Tinyagent, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """No session is offered then, and what is no session still is."""
    home = Path(tinyagent.environment["TINYAGENT_STATE_HOME"])
    if trouble == "damaged":
        call("run", "hello")
        database = Path(json.loads(call("path", "--json")[1])["database"])
        database.write_bytes(b"no database")
    elif trouble == "older":
        made_by_the_first_schema(tinyagent)
    elif trouble == "marker":
        (tinyagent.workspace / ".tinyagent").mkdir()
        (tinyagent.workspace / ".tinyagent" / "workspace-id").symlink_to("/etc/hostname")
    elif trouble == "home":
        home.write_text("a file")
    before = sorted(tinyagent.workspace.parent.rglob("*"))
    assert complete(call, monkeypatch, "sessions", "show", "") == []
    after = sorted(tinyagent.workspace.parent.rglob("*"))
    assert [one for one in after if not one.name.endswith(("-wal", "-shm"))] == [
        one for one in before if not one.name.endswith(("-wal", "-shm"))
    ]
    assert complete(call, monkeypatch, "sessions", "sho") == ["show"]


def test_a_question_that_makes_no_sense_is_answered_with_nothing(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version's script, a shell that nobody knows."""
    for shell in ("bash", "tcsh", ""):
        monkeypatch.setenv(VARIABLE, shell)
        assert call() == (0, "", "")


def test_a_line_is_taken_apart_as_bash_does() -> None:
    """Whole words, the one at the cursor, and where bash begins what it replaces."""
    words, word = taken_apart(r"""tinyagent -w "a b" 'c\d' e\ f "g\"h" fix:\ t""", breaks=BREAKS)
    assert words == ["tinyagent", "-w", "a b", r"c\d", "e f", 'g"h']
    assert word == Word(value="fix: t", quote="", replaced_from=4)
    assert taken_apart("x ", breaks=BREAKS)[1] == Word(value="", quote="", replaced_from=0)
    assert taken_apart('x "fix: t', breaks=BREAKS)[1] == Word(
        value="fix: t", quote='"', replaced_from=0
    )


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_what_is_put_on_the_line_is_read_as_the_value(quote: Any) -> None:
    """A thousand texts of awkward characters, read back by bash itself."""
    seed = random.SystemRandom().randrange(2**32)
    choose = random.Random(seed)
    letters = "ab \\'\"$`!*?[]{}()<>|&;#~^=:@%,./-+修é\U0001f600"
    values = ["".join(choose.choices(letters, k=choose.randint(1, 9))) for _ in range(1000)]
    word = Word(value="", quote=quote, replaced_from=0)
    script = "".join(f"printf '%s\\0' {quote}{quoted(one, word)}{quote}\n" for one in values)
    done = subprocess.run(
        ["bash", "-s"], input=script.encode(), capture_output=True, check=True, timeout=TIMEOUT_S
    )
    assert done.stdout.decode().split("\0")[:-1] == values, seed


@pytest.mark.parametrize("shell", sorted(SCRIPTS))
def test_the_script_is_printed_and_put_where_the_shell_looks(
    call: Call, tinyagent: Tinyagent, shell: str
) -> None:
    """The start-up files of a person stay as they are."""
    home = Path(tinyagent.environment["HOME"])
    (home / f".{shell}rc").write_text("mine")
    assert call("--show-completion", shell) == (0, SCRIPTS[shell], "")
    code, output, errors = call("--install-completion", shell)
    assert code == 0
    assert errors
    assert Path(output.strip()).read_text() == SCRIPTS[shell]
    assert Path(output.strip()).is_relative_to(home)
    assert (home / f".{shell}rc").read_text() == "mine"
    assert call("--show-completion", "cmd.exe")[0] == 2
