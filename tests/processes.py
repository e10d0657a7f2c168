"""Real processes in a workspace and a state home of their own.

Owns how the tests that cross packages start `tinyagent` and scripts that use the SDK. Invariant:
a process sees an environment that names nothing of the machine's user, and none outlives its test.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_S = 60
KEY = "sk-" + "made-up-for-tests-0123456789"
WIRE_SERVER = Path(__file__).parents[1] / "packages/sessions-api/tests/wire_server.py"


class Place:
    """A workspace (`workspace`) and a state home (`home`) below one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.workspace = root / "ws"
        self.workspace.mkdir()
        self.environment = {
            "PATH": os.defpath,
            "HOME": str(root / "nobody"),
            "LANG": "C.UTF-8",
            "TINYAGENT_STATE_HOME": str(self.home),
            "PYTHONWARNINGS": "error",
            "NO_PROXY": "127.0.0.1",
        }
        self._processes: list[subprocess.Popen[str]] = []

    def tinyagent(
        self,
        *arguments: str,
        cwd: Path | None = None,
        umask: int = -1,
        more: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run `tinyagent` to its end; *more* is added to the environment."""
        return subprocess.run(
            [sys.executable, "-m", "sessions_api.cli", *arguments],
            cwd=cwd or self.workspace,
            env={**self.environment, **(more or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=TIMEOUT_S,
            check=False,
            umask=umask,
        )

    def json(self, *arguments: str, cwd: Path | None = None) -> Any:
        """Run `tinyagent` with --json and return what it printed."""
        return json.loads(self.tinyagent(*arguments, "--json", cwd=cwd).stdout)

    def start(
        self, *arguments: str, more: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start `tinyagent` or, with a path that ends in .py, a script; its output can be read."""
        script = arguments[0].endswith(".py")
        program = [sys.executable, *(() if script else ("-m", "sessions_api.cli"))]
        process = subprocess.Popen(
            [*program, *arguments],
            cwd=self.workspace,
            env={**self.environment, **(more or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        self._processes.append(process)
        return process

    def script(self, name: str, text: str) -> subprocess.Popen[str]:
        """Write and start a script; it is to print a line when it is where the test wants it."""
        path = self.root / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        return self.start(str(path))

    def wire(self, *turns: dict[str, Any]) -> tuple[subprocess.Popen[str], str]:
        """Start a chat-completions service that plays *turns*; return it and its base URL."""
        script = self.root / "turns.json"
        script.write_text(json.dumps(turns), encoding="utf-8")
        server = self.start(str(WIRE_SERVER), "--script", str(script))
        return server, line_of(server)

    def files(self) -> dict[str, int]:
        """Return every path below the root with its permissions."""
        return {
            str(path.relative_to(self.root)): stat.S_IMODE(path.lstat().st_mode)
            for path in self.root.rglob("*")
        }

    def journal(self) -> str:
        """Return all that the journals say."""
        files = sorted((self.home / "logs").rglob("*.jsonl"))
        return "".join(file.read_text(encoding="utf-8") for file in files)

    def end_all(self) -> None:
        """End what was started and runs still."""
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.communicate(timeout=TIMEOUT_S)


def line_of(process: subprocess.Popen[str]) -> str:
    """Return the next line that *process* prints; fail, with its errors, when none comes."""
    assert process.stdout is not None
    watchdog = threading.Timer(TIMEOUT_S, process.kill)
    watchdog.start()
    try:
        line = process.stdout.readline()
    finally:
        watchdog.cancel()
    if not line:
        raise AssertionError(process.communicate()[1])
    return line.strip()
