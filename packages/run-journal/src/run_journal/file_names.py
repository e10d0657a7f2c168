"""What the files of a journal's directory are called.

Owns the names. Invariant: a name is made of hex digits and fixed words alone, whatever a session's
id is, so it stays inside the directory and says nothing.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

WORKSPACE_FILE_NAME = "workspace.jsonl"
TORN_INFIX = ".torn-"

_SESSION_FILE = re.compile(r"[0-9a-f]{32}\.jsonl")


@lru_cache(maxsize=4096)
def session_file_name(session_id: str) -> str:
    """Return the name of a session's file: 32 hex digits of the SHA-256 of its id, `.jsonl`."""
    return hashlib.sha256(session_id.encode("utf-8")).hexdigest()[:32] + ".jsonl"


def file_name_of(session_id: str | None) -> str:
    """Return the name of a session's file, or with None that of the workspace's own."""
    return WORKSPACE_FILE_NAME if session_id is None else session_file_name(session_id)


def is_file_name(name: str) -> bool:
    """Whether *name* is one that this module gives to a journal; a copy may have any other."""
    return name == WORKSPACE_FILE_NAME or _SESSION_FILE.fullmatch(name) is not None
