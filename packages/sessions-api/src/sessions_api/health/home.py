"""Checks of the state home: is it there, whose is it, who may read it, and is there room."""

from __future__ import annotations

import os
import shlex
import stat
from typing import TYPE_CHECKING

from sessions_api.health.findings import Finding
from sessions_api.showing import figures
from sessions_api.sizes import sizes_of
from workspace_identity import resolve_state_home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sessions_api.health.subject import Subject

_OTHERS = 0o077
_MIB = 1024 * 1024
# Below the first a backup or an upgrade of even a small database fails, below the other a commit.
_SCARCE_BYTES, _NOTHING_LEFT_BYTES = 64 * _MIB, 4 * _MIB
# The backup before an upgrade, its transaction in the log, and the log moved into the database.
_UPGRADE_FACTOR = 3
_ELSEWHERE = "Set TINYAGENT_STATE_HOME to a directory on a local disk that you can write."


def check_state_home(subject: Subject) -> Iterator[Finding]:
    """Find the state home, and whether this user can write into it."""
    home = subject.state_home = resolve_state_home(subject.state_home)
    if not os.path.lexists(home):
        yield Finding(
            severity="info",
            kind="state_home",
            object=str(home),
            message="There is no state home yet; nothing was ever kept in it.",
            hint='The first conversation makes it: tinyagent run "hello"',
        )
    elif not home.is_dir():
        yield _unusable(home, "it is no directory")
    elif not os.access(home, os.R_OK | os.X_OK):
        yield _unusable(home, "this user may not read it")
    elif not os.access(home, os.W_OK) or _is_mounted_read_only(home):
        yield _unusable(home, "it cannot be written, so that nothing new is saved")
    else:
        yield Finding(severity="ok", kind="state_home", object=str(home), message="It can be used.")


def check_permissions(subject: Subject) -> Iterator[Finding]:
    """Look for what others may read or write, and for what belongs to somebody else."""
    home = subject.state_home
    if home is None or not home.is_dir():
        return
    count, open_to_others, foreign = 0, [], []
    for path, facts in _everything_in(home):
        count += 1
        if stat.S_IMODE(facts.st_mode) & _OTHERS:
            open_to_others.append(path)
        if facts.st_uid != os.geteuid():
            foreign.append(path)
    if open_to_others:
        yield Finding(
            severity="warning",
            kind="permissions",
            object=open_to_others[0],
            message=f"Other users may get at {len(open_to_others)} of {count} files and"
            " directories of the state home.",
            hint=f"Run: chmod -R go= {shlex.quote(str(home))}",
        )
    if foreign:
        yield Finding(
            severity="warning",
            kind="owner",
            object=foreign[0],
            message=f"{len(foreign)} of {count} files and directories belong to another user.",
            hint="Run tinyagent as one user alone, or: sudo chown -R $(id -un)"
            f" {shlex.quote(str(home))}",
        )
    if not open_to_others and not foreign:
        message = f"All {count} files and directories are for this user alone."
        yield Finding(severity="ok", kind="permissions", object=str(home), message=message)


def check_space(subject: Subject) -> Iterator[Finding]:
    """Compare what is free on the disk with what commits, backups and upgrades need."""
    around = subject.around
    if around is None or around.free_bytes is None or subject.paths is None:
        return
    used = (around.database_bytes or 0) + (around.log_bytes or 0)
    needed = max(_SCARCE_BYTES, _UPGRADE_FACTOR * used)
    free = f"{figures.size(around.free_bytes)} are free"
    place = str(subject.paths.state_dir)
    if around.free_bytes >= needed:
        yield Finding(severity="ok", kind="disk_space", object=place, message=f"{free}.")
        return
    is_over = around.free_bytes < _NOTHING_LEFT_BYTES
    yield Finding(
        severity="error" if is_over else "warning",
        kind="disk_space",
        object=place,
        message=f"{free}; a backup or an upgrade may need {figures.size(needed)}.",
        hint="Free space on that disk. See what is large: tinyagent path",
    )


def check_sizes(subject: Subject) -> Iterator[Finding]:
    """Say how large everything of the workspace is."""
    if subject.paths is None or not subject.paths.state_dir.is_dir():
        return
    told = ", ".join(
        f"{name.replace('_', ' ')} {figures.size(size)}"
        for name, size in sizes_of(subject.paths).items()
    )
    place = str(subject.paths.state_dir)
    yield Finding(severity="ok", kind="sizes", object=place, message=f"{told}.")


def _unusable(home: Path, reason: str) -> Finding:
    return Finding(
        severity="error",
        kind="state_home",
        object=str(home),
        message=f"The state home cannot be used: {reason}.",
        hint=_ELSEWHERE,
    )


def _everything_in(home: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield what this program keeps in the state home, links apart."""
    yield str(home), home.stat()
    for directory, directories, files in os.walk(home):
        for name in (*directories, *files):
            path = os.path.join(directory, name)  # noqa: PTH118 - as text, of many files
            try:
                facts = os.lstat(path)
            except OSError:  # it has just gone
                continue
            if not stat.S_ISLNK(facts.st_mode):
                yield path, facts


def _is_mounted_read_only(path: Path) -> bool:
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False
