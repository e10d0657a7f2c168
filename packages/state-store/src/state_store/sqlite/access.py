"""Which path keeps this user from the database, and what would help.

SQLite says "unable to open" or "readonly" and names no file: it may be the database, its log, the
index of the log, or a directory. Invariant: only asks about permissions (access(2)), by path;
never opens a file. The fix never touches the -wal's content: it may hold acknowledged commits.
"""

from __future__ import annotations

import os
import pwd
import shlex
import stat
from contextlib import suppress
from pathlib import Path

from state_store.sqlite.beside import log_of

_READ, _WRITE, _SEARCH = os.R_OK, os.W_OK, os.X_OK
_WORDS = {_READ: "read", _WRITE: "write to", _SEARCH: "enter"}
_REMOUNT = "Mount it for writing, or set TINYAGENT_STATE_HOME elsewhere."


def hindrance(path: Path, *, writing: bool) -> tuple[Path, str, str] | None:
    """Return the first path that this user may not use as needed, why, and the fix.

    None when permissions do not explain it. A reader needs to make the -shm when it is missing.
    """
    log, index = log_of(path), Path(f"{path}-shm")
    files = (path, log, index)
    needed = [(directory, _SEARCH) for directory in reversed(path.parents)]
    needed += [(file, _READ) for file in files]
    if writing:
        needed += [(file, _WRITE) for file in files]
    if not (_is_there(index) and (_is_there(log) or not writing)):
        needed.append((next(one for one in path.parents if _is_there(one)), _WRITE))
    for one, mode in needed:
        if _is_there(one) and not _may(one, mode):
            if mode == _WRITE and _is_mounted_read_only(one):
                return one, "its filesystem is mounted read-only", _REMOUNT
            return one, f"this user may not {_WORDS[mode]} it", _fix(one, mode)
    return None


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)  # and not `Path.exists`, which raises where one may not look


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _is_mounted_read_only(path: Path) -> bool:
    with suppress(OSError):
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    return False


def _fix(path: Path, mode: int) -> str:
    try:
        facts = path.stat()
        owner, is_directory = facts.st_uid, stat.S_ISDIR(facts.st_mode)
    except OSError:
        owner, is_directory = -1, False
    bits = "rwx" if is_directory else "rw" if mode == _WRITE else "r"
    quoted = shlex.quote(str(path))
    if owner == os.geteuid():
        fix = f"Run: chmod u+{bits} {quoted}"
    else:
        fix = f"It belongs to {_name(owner)}: run as that user, or: sudo chown {_name()} {quoted}"
    return f"{fix} (never delete the -wal: it may hold the newest messages)."


def _name(user: int | None = None) -> str:
    user = os.geteuid() if user is None else user
    try:
        return pwd.getpwuid(user).pw_name
    except (KeyError, OverflowError):
        return f"user {user}" if user < 0 else str(user)
