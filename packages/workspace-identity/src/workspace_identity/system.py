"""What differs between operating systems, and nothing else.

Flags that a system lacks are 0 here, calls that it lacks are replaced by the nearest thing it has,
so that every other module is written once. On Windows there are no directory descriptors, no
owners and no modes: paths are used instead, and the guarantees that rest on those are not given.
"""

from __future__ import annotations

import os
import stat
import sys

DIRECTORY = getattr(os, "O_DIRECTORY", 0)
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK = getattr(os, "O_NONBLOCK", 0)
CLOEXEC = getattr(os, "O_CLOEXEC", 0)
# A terminal that is opened by mistake must not become the one that controls this process.
NOCTTY = getattr(os, "O_NOCTTY", 0)
BINARY = getattr(os, "O_BINARY", 0)
# A directory that may be searched but not listed can still be a workspace.
SEARCH_ONLY = getattr(os, "O_PATH", 0)

HAS_DIRECTORY_DESCRIPTORS = (
    bool(DIRECTORY)
    and {
        os.open,
        os.stat,
        os.mkdir,
        os.link,
        os.rename,
        os.unlink,
    }
    <= os.supports_dir_fd
)


def is_link(status: os.stat_result) -> bool:
    """Say whether `lstat` saw a symbolic link or, on Windows, anything that leads elsewhere."""
    attributes: int = getattr(status, "st_file_attributes", 0)
    return stat.S_ISLNK(status.st_mode) or bool(attributes & stat.FILE_ATTRIBUTE_REPARSE_POINT)


if sys.platform == "win32":
    import msvcrt

    def current_user() -> int | None:
        """Return None: files have no numeric owner here."""
        return None

    def set_mode(_descriptor: int, _mode: int) -> None:
        """Do nothing: modes are not what protects files here."""

    def flush(descriptor: int) -> None:
        """Make the content of an open file durable."""
        os.fsync(descriptor)

    def try_lock(descriptor: int) -> bool:
        """Lock the first byte for this process; False when somebody else has it."""
        os.lseek(descriptor, 0, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

    def unlock(descriptor: int) -> None:
        """Give the lock back."""
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def current_user() -> int | None:
        """Return the effective user id, which is who owns what this process creates."""
        return os.geteuid()

    def set_mode(descriptor: int, mode: int) -> None:
        """Set the permission bits of an open file."""
        os.fchmod(descriptor, mode)

    def flush(descriptor: int) -> None:
        """Make the content of an open file durable; on macOS fsync alone leaves it in the drive."""
        if sys.platform == "darwin":
            try:
                fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            except OSError:  # a filesystem that has no such call has fsync
                os.fsync(descriptor)
        else:
            os.fsync(descriptor)

    def try_lock(descriptor: int) -> bool:
        """Lock the open file exclusively; False when another opening of it holds the lock."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(descriptor: int) -> None:
        """Give the lock back, also on behalf of a child that inherited the descriptor."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)
