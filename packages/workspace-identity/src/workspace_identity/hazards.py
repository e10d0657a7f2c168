"""Directories that must never be a workspace, whatever marker they carry.

Tools of an agent may write anywhere in its workspace, so the state home, where the database and
the journal of every workspace live, must lie outside of all of them. Both are compared as real
paths and, because a bind mount or a case-insensitive filesystem has several real paths for one
directory, by device and inode as well.
"""

from __future__ import annotations

import os
from pathlib import Path

from workspace_identity.state_home import LOGS_DIR, WORKSPACES_DIR


def find_hazard(path: str, status: os.stat_result, state_home: Path) -> str | None:
    """Say why the directory at the real *path* must not be a workspace, None if it may be."""
    if Path(path).parent == Path(path):
        return "it is the root of the filesystem"
    home = Path(os.path.realpath(state_home))
    if path == str(home) or _is_same(home, status):
        return f"it is the state home {state_home}"
    if any(path == str(above) or _is_same(above, status) for above in home.parents):
        return f"it contains the state home {state_home}"
    for room in (WORKSPACES_DIR, LOGS_DIR):
        if Path(path).is_relative_to(home / room):
            return f"it lies among the state of workspaces in {state_home}"
    return None


def _is_same(path: Path, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), status)
    except OSError:
        return False
