"""Reading and replacing the one file that a walk has found.

Reading opens nothing but regular files: what the name stands for is looked at first, because
opening a device may do something and opening a FIFO may wait for ever, and the opened file is
judged again, because the name may have been given to another in between. A file is replaced whole:
temporary file beside it, fsync, rename, fsync of the directory; a reader sees the old content or
the new one, also after power loss. A hard link is thereby cut: the file's other names keep the old
content.

Must not: close a descriptor on a file of the state home (see `forbidden`).
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessions_api.workspace_files.names import shown_briefly
from sessions_api.workspace_files.walk import CLOEXEC, NOFOLLOW, NONBLOCK, PathRefused, sync

if TYPE_CHECKING:
    from sessions_api.workspace_files.walk import Walk

NEW_FILE_MODE = 0o644  # what the umask takes is taken from this
_READ: int = os.O_RDONLY | NOFOLLOW | CLOEXEC | NONBLOCK | getattr(os, "O_NOCTTY", 0)
_WRITE: int = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some bytes of a file, which had `size` bytes in all; `is_last` when the file ends there."""

    content: bytes
    size: int
    is_last: bool


def read_part(walk: Walk, name: str, *, offset: int, limit: int) -> Part:
    """Return at most *limit* bytes from *offset* of the file *name* that *walk* stands beside."""
    _judge(walk, name, os.stat(name, dir_fd=walk.descriptor, follow_symlinks=False))
    descriptor = os.open(name, _READ, dir_fd=walk.descriptor)
    status = os.fstat(descriptor)
    if walk.forbidden.has_file(status):  # put there since it was judged: never closed, on purpose
        raise _refusal(name)
    try:
        _judge_kind(name, status)
        if offset and offset >= status.st_size:
            return Part(content=b"", size=status.st_size, is_last=True)
        content = bytearray()
        while len(content) <= limit:
            piece = os.pread(descriptor, limit + 1 - len(content), offset + len(content))
            if not piece:
                break
            content += piece
        return Part(
            content=bytes(content[:limit]), size=status.st_size, is_last=len(content) <= limit
        )
    finally:
        os.close(descriptor)


def replace(walk: Walk, name: str, content: bytes) -> bool:
    """Make the file *name* that *walk* stands beside hold *content*; say whether it was there.

    An existing file keeps its permission bits and, where this user may give it, its owner.
    """
    before = None
    with contextlib.suppress(FileNotFoundError):
        before = os.stat(name, dir_fd=walk.descriptor, follow_symlinks=False)
    if before is not None:
        _judge(walk, name, before)
        if not before.st_mode & 0o222:
            raise PathRefused(f"{shown_briefly(name)} is read-only; it was left as it is.")
    building = f".write-{os.urandom(8).hex()}.new"
    mode = NEW_FILE_MODE if before is None else 0o600  # nobody may read it before it is complete
    descriptor = os.open(building, _WRITE, mode, dir_fd=walk.descriptor)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if before is not None:
                _keep_access(file.fileno(), before)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(building, name, src_dir_fd=walk.descriptor, dst_dir_fd=walk.descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(building, dir_fd=walk.descriptor)
        raise
    sync(walk.descriptor)
    return before is not None


def _keep_access(descriptor: int, before: os.stat_result) -> None:
    with contextlib.suppress(PermissionError):
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, before.st_mode & 0o777)


def _judge(walk: Walk, name: str, status: os.stat_result) -> None:
    _judge_kind(name, status)
    if walk.forbidden.has_file(status):
        raise _refusal(name)


def _judge_kind(name: str, status: os.stat_result) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    kinds = {
        stat.S_IFDIR: "a directory; list it with list_files",
        stat.S_IFLNK: "a symbolic link that was only just put there",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
    }
    kind = kinds.get(stat.S_IFMT(status.st_mode), "a device")
    raise PathRefused(f"{shown_briefly(name)} is not a file but {kind}.")


def _refusal(name: str) -> PathRefused:
    return PathRefused(f"{shown_briefly(name)} cannot be used: it is not part of the project.")
