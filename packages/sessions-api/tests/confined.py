"""A workspace with everything around it that its tools must never reach.

Each hidden place holds `UNSEEN`. `Surroundings.snapshot` is what must not change by whatever a
tool does; `refused` asserts that a tool said no in words, and returns them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from sessions_api import Tool, workspace_tools
from sessions_api.runs.tools import ToolArgumentsInvalid

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

UNSEEN = "what nobody may see"
STATE_FILE = "workspaces/x/state.sqlite3"


@dataclass(frozen=True)
class Surroundings:
    """The workspace `ws` beside a state home and a folder of somebody else's."""

    path: Path

    @property
    def ws(self) -> Path:
        """The workspace."""
        return self.path / "ws"

    @property
    def home(self) -> Path:
        """The state home."""
        return self.path / "home"

    @property
    def outside(self) -> Path:
        """A folder that is nobody's business."""
        return self.path / "outside"

    def tools(self, *, state_home: Path | None = None) -> dict[str, Tool]:
        """Return all three tools by name."""
        made = workspace_tools(self.ws, writes=True, state_home=state_home or self.home)
        return {one.name: one for one in made}

    def snapshot(self) -> dict[str, object]:
        """Return name, kind and content of everything outside the workspace, and the marker."""
        found: dict[str, object] = {}
        for top in (self.home, self.outside, self.ws / ".tinyagent"):
            for path in (top, *sorted(top.rglob("*"))):
                found[str(path)] = path.read_text() if path.is_file() else path.lstat().st_mode
        return found


def make_surroundings(path: Path) -> Surroundings:
    """Make all of it in *path*."""
    made = Surroundings(path)
    for secret in (
        made.outside / "secret.txt",
        made.home / STATE_FILE,
        made.ws / ".tinyagent" / "workspace-id",
    ):
        secret.parent.mkdir(parents=True)
        secret.write_text(UNSEEN)
    (made.ws / "src").mkdir()
    (made.ws / "src" / "main.py").write_text("print()\n")
    return made


def refused(call: Callable[..., Any], **arguments: Any) -> str:
    """Assert that *call* says no, and return what the model reads."""
    with pytest.raises(ToolArgumentsInvalid) as caught:
        call(**arguments)
    assert UNSEEN not in str(caught.value)
    return str(caught.value)


def descriptor_count() -> int:
    """Return how many descriptors this process has open, give or take the one that looks."""
    return len(os.listdir("/dev/fd"))  # noqa: PTH208 - it is no file that is looked for
