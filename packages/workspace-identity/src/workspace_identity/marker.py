"""The marker: `.tinyagent/workspace-id`, one id and a newline, the only thing kept in a workspace.

What it says is a claim, never an authority. It is read without following links, without blocking
and up to a bound, and must belong to this user. It is replaced, never written in place: a
hard-linked copy of the workspace shares the inode.
"""

from __future__ import annotations

import contextlib
import errno
import stat
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from workspace_identity import system
from workspace_identity.workspace_id import WORKSPACE_ID

if TYPE_CHECKING:
    import os

    from workspace_identity.directory import Directory

MARKER_DIR = ".tinyagent"
MARKER_NAME = "workspace-id"

# An id, CR and LF are 38 bytes; reading a little more tells a longer file from a whole one.
_MAX_BYTES = 65
_LINK_OR_NO_DIRECTORY = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})


class MarkerState(StrEnum):
    """What stands where a marker belongs."""

    ABSENT = "absent"
    VALID = "valid"
    DAMAGED = "damaged"  # ours, readable, and not an id
    UNREADABLE = "unreadable"  # ours, and the system does not let us read it
    UNSAFE = "unsafe"  # a link, no regular file, or another user's


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """What was read: `workspace_id` is there exactly when the state is `valid`."""

    state: MarkerState
    workspace_id: str | None = None
    problem: str = ""


ABSENT = Marker(state=MarkerState.ABSENT)


def read_marker(root: Directory) -> Marker:
    """Read the marker of the open workspace *root*. Raises nothing for what it finds there."""
    try:
        folder = root.subdirectory(MARKER_DIR)
    except FileNotFoundError:
        return ABSENT
    except OSError as error:
        if error.errno in _LINK_OR_NO_DIRECTORY:
            return _unsafe(f"{MARKER_DIR} is not a directory, or is a symbolic link")
        return _unreadable(MARKER_DIR, error)
    with folder:
        if _is_foreign(folder.status()):
            return _unsafe(f"{MARKER_DIR} belongs to another user")
        return _read_file(folder)


def _read_file(folder: Directory) -> Marker:
    name = f"{MARKER_DIR}/{MARKER_NAME}"
    try:
        content, status = folder.read(MARKER_NAME, max_bytes=_MAX_BYTES)
    except FileNotFoundError:
        return ABSENT
    except OSError as error:
        if error.errno in _LINK_OR_NO_DIRECTORY:
            return _unsafe(f"{name} is a symbolic link")
        if error.errno == errno.ENXIO:  # a socket cannot be opened at all
            return _unsafe(f"{name} is not a regular file")
        return _unreadable(name, error)
    if not stat.S_ISREG(status.st_mode):
        return _unsafe(f"{name} is not a regular file")
    if _is_foreign(status):
        return _unsafe(f"{name} belongs to another user")
    return parse_marker(content)


def parse_marker(content: bytes) -> Marker:
    """Judge the bytes of a marker: one id, then nothing, LF or CR LF."""
    text = content
    for ending in (b"\r\n", b"\n"):
        if content.endswith(ending):
            text = content.removesuffix(ending)
            break
    if WORKSPACE_ID.fullmatch(text) is None:
        return Marker(state=MarkerState.DAMAGED, problem="it does not hold one workspace id")
    return Marker(state=MarkerState.VALID, workspace_id=text.decode("ascii"))


def write_marker(root: Directory, workspace_id: str, *, replace: bool) -> None:
    """Make *workspace_id* the marker of *root*; survives power loss when it returns.

    Without *replace* exactly one of any number of concurrent creators succeeds, the others get
    FileExistsError and should read what the winner wrote. OSError where it cannot be written.
    """
    with contextlib.suppress(FileExistsError):
        root.make_subdirectory(MARKER_DIR)
    with root.subdirectory(MARKER_DIR) as folder:
        folder.publish(MARKER_NAME, workspace_id.encode("ascii") + b"\n", replace=replace)


def remove_marker(root: Directory) -> None:
    """Remove the marker of *root*, and its directory if nothing else is in it."""
    with root.subdirectory(MARKER_DIR) as folder:
        folder.remove(MARKER_NAME)
        folder.sync()
    with contextlib.suppress(OSError):
        root.remove_subdirectory(MARKER_DIR)


def marker_is_writable(root: Directory) -> bool:
    """Say whether a marker could be written into *root* now."""
    try:
        with root.subdirectory(MARKER_DIR) as folder:
            return folder.is_writable()
    except FileNotFoundError:
        return root.is_writable()
    except OSError:
        return False


def _is_foreign(status: os.stat_result) -> bool:
    user = system.current_user()
    return user is not None and status.st_uid != user


def _unsafe(problem: str) -> Marker:
    return Marker(state=MarkerState.UNSAFE, problem=problem)


def _unreadable(name: str, error: OSError) -> Marker:
    return Marker(state=MarkerState.UNREADABLE, problem=f"{name}: {error.strerror}")
