"""A directory held open, and the few things done to the names in it.

Every name is looked up relative to the descriptor and never through a symbolic link, so that
nobody can swap a directory for a link between a check and its use. Files are read up to a bound
and published whole: temporary file, fsync, then `link` (exactly one creator wins) or `rename`
(an inode that other names share is never written). Modes are 0700 and 0600 from the first moment.
Where a system has no directory descriptors the same calls go by path.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, Self

from workspace_identity import system

if TYPE_CHECKING:
    from types import TracebackType

PRIVATE_DIR_MODE = 0o700
PRIVATE_FILE_MODE = 0o600

_NO_HARD_LINKS = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL}
)


class Directory:
    """An open directory; use it in a `with` block. Not for sharing between threads."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int | None) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Open *path*, whose last component must be a directory and no symbolic link."""
        text = os.fspath(path)
        return cls(text, _open_directory(text, None))

    def subdirectory(self, name: str) -> Directory:
        """Open the directory *name* in this one, not through a link."""
        return Directory(self._path_of(name), _open_directory(self._at(name), self._descriptor))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @property
    def descriptor(self) -> int | None:
        """The open descriptor, None where the system has none."""
        return self._descriptor

    def status(self) -> os.stat_result:
        """Return what `fstat` says about the directory itself."""
        return os.lstat(self.path) if self._descriptor is None else os.fstat(self._descriptor)

    def is_writable(self) -> bool:
        """Say whether this user may create names in the directory."""
        where = self.path if self._descriptor is None else "."
        effective = os.access in os.supports_effective_ids
        return os.access(where, os.W_OK | os.X_OK, dir_fd=self._descriptor, effective_ids=effective)

    def make_subdirectory(self, name: str) -> None:
        """Create *name* with mode 0700; FileExistsError if there is anything of that name."""
        os.mkdir(self._at(name), PRIVATE_DIR_MODE, dir_fd=self._descriptor)
        with self.subdirectory(name) as made:
            # Only a strange umask, one that takes bits from the owner, makes a difference here.
            if made.status().st_mode & 0o777 != PRIVATE_DIR_MODE and made.descriptor is not None:
                os.chmod(self._at(name), PRIVATE_DIR_MODE, dir_fd=self._descriptor)
        self.sync()

    def read(self, name: str, *, max_bytes: int) -> tuple[bytes, os.stat_result]:
        """Return at most *max_bytes* of the file *name* and its status.

        Never blocks on a FIFO and reads nothing that is no regular file: then the bytes are empty
        and the status says what it is.
        """
        flags = os.O_RDONLY | system.NOFOLLOW | system.NONBLOCK | system.NOCTTY
        flags |= system.CLOEXEC | system.BINARY
        seen = None if system.NOFOLLOW else self._status_of(name)
        descriptor = os.open(self._at(name), flags, dir_fd=self._descriptor)
        try:
            status = os.fstat(descriptor)
            if seen is not None and not os.path.samestat(seen, status):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
            if not stat.S_ISREG(status.st_mode):
                return b"", status
            content = b""
            while len(content) < max_bytes:
                piece = os.read(descriptor, max_bytes - len(content))
                if not piece:
                    break
                content += piece
            return content, status
        finally:
            os.close(descriptor)

    def publish(self, name: str, content: bytes, *, replace: bool) -> None:
        """Make *name* hold *content*, whole or not at all, with mode 0600.

        With *replace* an existing file is exchanged; without it FileExistsError is raised if
        there is one. Returns after fsync of file and directory: survives power loss.
        """
        temporary = f".{name}.{os.urandom(8).hex()}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | system.NOFOLLOW
        flags |= system.CLOEXEC | system.BINARY
        descriptor = os.open(self._at(temporary), flags, PRIVATE_FILE_MODE, dir_fd=self._descriptor)
        try:
            try:
                system.set_mode(descriptor, PRIVATE_FILE_MODE)
                _write_all(descriptor, content)
                system.flush(descriptor)
            finally:
                os.close(descriptor)
            if replace:
                self._rename(temporary, name)
            else:
                self._link(temporary, name)
        except BaseException:
            with contextlib.suppress(OSError):
                self.remove(temporary)
            raise
        self.sync()

    def append(self, name: str, content: bytes) -> None:
        """Add *content* to the end of *name* (mode 0600, made if need be) in one write, fsynced.

        A last line that a crash cut short is closed first, so that it damages no other line.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | system.NOFOLLOW
        flags |= system.CLOEXEC | system.BINARY
        descriptor = os.open(self._at(name), flags, PRIVATE_FILE_MODE, dir_fd=self._descriptor)
        try:
            size = os.fstat(descriptor).st_size
            if size == 0:
                system.set_mode(descriptor, PRIVATE_FILE_MODE)
            else:
                os.lseek(descriptor, size - 1, os.SEEK_SET)
                if os.read(descriptor, 1) != b"\n":
                    content = b"\n" + content
            _write_all(descriptor, content)
            system.flush(descriptor)
        finally:
            os.close(descriptor)
        if size == 0:
            self.sync()

    def remove(self, name: str) -> None:
        """Remove the file *name*."""
        os.unlink(self._at(name), dir_fd=self._descriptor)

    def remove_subdirectory(self, name: str) -> None:
        """Remove the directory *name*, which must be empty."""
        os.rmdir(self._at(name), dir_fd=self._descriptor)

    def sync(self) -> None:
        """Make the names in the directory durable, where the system can."""
        if self._descriptor is None:
            return
        # A descriptor that only searches cannot be synced, and some filesystems cannot sync a
        # directory at all: then the names are as durable as that filesystem makes them.
        with contextlib.suppress(OSError):
            descriptor = os.open(
                ".",
                os.O_RDONLY | system.DIRECTORY | system.CLOEXEC,
                dir_fd=self._descriptor,
            )
            try:
                system.flush(descriptor)
            finally:
                os.close(descriptor)

    def _status_of(self, name: str) -> os.stat_result:
        """Return what `lstat` says of *name*; ELOOP where that is a link."""
        status = os.lstat(self._at(name))
        if system.is_link(status):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        return status

    def _at(self, name: str) -> str:
        return self._path_of(name) if self._descriptor is None else name

    def _path_of(self, name: str) -> str:
        return f"{self.path}{os.sep}{name}"

    def _rename(self, source: str, target: str) -> None:
        os.replace(
            self._at(source),
            self._at(target),
            src_dir_fd=self._descriptor,
            dst_dir_fd=self._descriptor,
        )

    def _link(self, source: str, target: str) -> None:
        try:
            os.link(
                self._at(source),
                self._at(target),
                src_dir_fd=self._descriptor,
                dst_dir_fd=self._descriptor,
            )
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            # FAT and some network filesystems have no hard links. Inside one state home the
            # registry's lock still lets only one process create; across state homes the last wins.
            with contextlib.suppress(FileNotFoundError):
                os.stat(self._at(target), dir_fd=self._descriptor, follow_symlinks=False)
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from error
            self._rename(source, target)
        else:
            self.remove(source)


def _open_directory(path: str, parent: int | None) -> int | None:
    if not system.HAS_DIRECTORY_DESCRIPTORS:
        status = os.lstat(path)
        if system.is_link(status) or not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return None
    flags = os.O_RDONLY | system.SEARCH_ONLY | system.DIRECTORY | system.NOFOLLOW | system.CLOEXEC
    return os.open(path, flags, dir_fd=parent)


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
