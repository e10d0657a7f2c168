"""`tinyagent` as tests call it: in processes of its own, in this process, and on a terminal.

Invariant: the state home, the user's home and the workspace lie in the test's folder; the
environment names no provider.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from sessions_api.cli import main

PROGRAM = (sys.executable, "-m", "sessions_api.cli")
TIMEOUT_S = 30
# A process gets Ctrl-C from a terminal only when that is its controlling one.
ON_ITS_TERMINAL = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tinyagent:
    """The command in *workspace*; `environment` is all that its processes see."""

    workspace: Path
    environment: dict[str, str]

    def __call__(self, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        """Run the command to its end with *typed* on standard input."""
        return subprocess.run(
            [*PROGRAM, *arguments],
            cwd=self.workspace,
            env=self.environment,
            input=typed,
            capture_output=True,
            encoding="utf-8",
            timeout=TIMEOUT_S,
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        """Run the command with --json and return what it printed."""
        done = self(*arguments, "--json")
        return json.loads(done.stdout)

    def start(self, *arguments: str, program: tuple[str, ...] = PROGRAM) -> subprocess.Popen[str]:
        """Start the command with an empty standard input."""
        return subprocess.Popen(
            [*program, *arguments],
            cwd=self.workspace,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def database(self) -> Path:
        """Return the path of the workspace's database."""
        return Path(self.json("path")["database"])


def made_in(folder: Path) -> Tinyagent:
    """Return the command for a new workspace in *folder*."""
    workspace, home = folder / "workspace", folder / "home"
    workspace.mkdir()
    home.mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return Tinyagent(
        workspace=workspace,
        environment={
            **kept,
            "HOME": str(home),
            "TINYAGENT_STATE_HOME": str(folder / "state"),
            "LANG": "C",
            "TERM": "dumb",
            "COLUMNS": "80",
            "PYTHONWARNINGS": "error",
            "NO_PROXY": "127.0.0.1",
        },
    )


@pytest.fixture
def tinyagent(tmp_path: Path) -> Tinyagent:
    """Return the command in a new workspace."""
    return made_in(tmp_path)


Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(
    tinyagent: Tinyagent, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Call:
    """Call the command in this process, which is faster; (exit code, output, errors) comes back."""
    for name in set(os.environ) - {"PATH"}:
        monkeypatch.delenv(name)
    for name, value in tinyagent.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tinyagent.workspace)

    def call_main(*arguments: str, typed: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
        code = main(arguments)
        written = capfd.readouterr()
        return code, written.out, written.err

    return call_main


class Terminal:
    """A command on a terminal of its own. Use it as a context manager."""

    def __init__(
        self, tinyagent: Tinyagent, *arguments: str, program: tuple[str, ...] = PROGRAM
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, b"\x18\x00\x50\x00\x00\x00\x00\x00")  # 24 by 80
        self.process = subprocess.Popen(
            [sys.executable, "-c", ON_ITS_TERMINAL, *program, *arguments],
            cwd=tinyagent.workspace,
            env=tinyagent.environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        self.shown = ""

    def type(self, text: str) -> None:
        """Type *text* as it is; code 3 is Ctrl-C, 4 is Ctrl-D."""
        os.write(self._ours, text.encode())

    def wait_for(self, text: str, *, after: int = 0, pressing: str = "") -> int:
        """Read until *text* was shown behind place *after*; return the place behind it.

        *pressing* is typed again and again: Python misses a Ctrl-C that comes between showing a
        prompt and waiting for a key, until the next key.
        """
        deadline = time.monotonic() + TIMEOUT_S
        while (place := self.shown.find(text, after)) < 0:
            assert time.monotonic() < deadline, f"{text!r} never came; shown was: {self.shown}"
            assert self._read(pressing), f"it left without {text!r}; shown was: {self.shown}"
        return place + len(text)

    def leave(self, *, pressing: str = "") -> int:
        """Read to the end, *pressing* keys again and again, and return the exit code."""
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline and self._read(pressing):
            pass
        return self.process.wait(TIMEOUT_S)

    def _read(self, pressing: str) -> bool:
        """Read what is shown within a moment, or press keys; False once nobody can show more."""
        if not select.select([self._ours], [], [], 0.2)[0]:
            self.type(pressing)
            return True
        try:
            piece = os.read(self._ours, 65536)
        except OSError:  # the other end is closed
            return False
        self.shown += piece.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(piece)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
