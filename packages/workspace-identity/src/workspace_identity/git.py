"""Two questions to git about the marker, asked when an id is made or git is first seen.

git runs without optional locks, without the repository's own programs (`core.fsmonitor`), without
the caller's `GIT_*` variables, and for a bounded time. Where it is missing or fails the answer is
no. Nothing here writes to a repository or to git's configuration.
"""

from __future__ import annotations

import os
from pathlib import Path

from workspace_identity.marker import MARKER_DIR, MARKER_NAME

GIT_TIMEOUT_S = 5.0

_MARKER = f"{MARKER_DIR}/{MARKER_NAME}"
_NOT_IGNORED = 1  # exit status of `git check-ignore`, see gitignore(5) and git-check-ignore(1)


def is_tracked(root: str) -> bool:
    """Say whether git tracks the marker of the workspace *root*."""
    return is_in_repository(root) and _run(root, "ls-files", "--error-unmatch", _MARKER) == 0


def is_unignored(root: str) -> bool:
    """Say whether *root* is in a git repository that would offer its marker for a commit."""
    return is_in_repository(root) and _run(root, "check-ignore", "-q", _MARKER) == _NOT_IGNORED


def is_in_repository(root: str) -> bool:
    """Say whether *root* is in a working tree of git; asks the filesystem alone."""
    path = Path(root)
    try:
        return any((above / ".git").exists() for above in (path, *path.parents))
    except OSError:
        return False


def _run(root: str, command: str, *arguments: str) -> int | None:
    import shutil  # noqa: PLC0415 - a usual open runs no program
    import subprocess  # noqa: PLC0415 - the same; git is run with fixed arguments

    program = shutil.which("git")
    if program is None:
        return None
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environ |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        return subprocess.run(  # noqa: S603 - no shell, a fixed command line
            [program, "-C", root, "-c", "core.fsmonitor=false", command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environ,
            timeout=GIT_TIMEOUT_S,
            check=False,
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        return None
