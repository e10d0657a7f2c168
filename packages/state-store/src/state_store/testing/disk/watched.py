"""Standing between a program and its disk: every operation on a directory passes through here.

Invariant: while a `WatchedDisk` is active, what SQLite does to files below its directory passes
through `before` (which may raise, or shorten a write) and `after`, and so do the functions of `os`
that make, link, rename, remove and sync names there; everything else is untouched, shared memory
included. Afterwards all is as it was.

SQLite's fsync is not carried out: nobody pulls the plug of the machine that runs the tests.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self
from unittest import mock

import apsw

if TYPE_CHECKING:
    from collections.abc import Callable

    from apsw import URIFilename

# What SQLite does to files, then what it and Python do to names.
Kind = Literal[
    "open",
    "read",
    "write",
    "truncate",
    "sync",
    "sync_failed",
    "delete",
    "create",
    "mkdir",
    "link",
    "rename",
    "unlink",
    "sync_directory",
]
_REAL_VFS = "unix"
_NEW_JOURNAL = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation on *path*, relative to the watched directory.

    `target` is the second name of a link or rename; a truncation's size is its `offset`.
    """

    kind: Kind
    path: str
    offset: int = 0
    content: bytes = b""
    target: str = ""


class WatchedDisk:
    """Base: passes all through. Subclasses override `before` and `after`.

    A context manager; one at a time in a process. `sees_writing` is whether what Python writes to
    files with `os.write` and syncs passes through as well.
    """

    sees_writing = False

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        self._undo = ExitStack()

    def before(self, operation: Operation) -> None:
        """Raise to make *operation* fail; `ShortWrite` for a write that is done in part."""

    def after(self, operation: Operation) -> None:
        """Take note of an *operation* that succeeded."""

    def __enter__(self) -> Self:
        vfs = _Vfs(self)
        self._undo.callback(vfs.unregister)
        names = ["open", "mkdir", "link", "rename", "unlink", "fsync"]
        for name in [*names, "write"] if self.sees_writing else names:
            self._undo.enter_context(mock.patch.object(os, name, self._watching(name)))
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def inside(self, path: object) -> str | None:
        """Return *path* relative to the directory; None for one elsewhere."""
        if not isinstance(path, str | os.PathLike):
            return None
        whole = Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` would ask the disk
        return str(whole.relative_to(self.directory)) if self.directory in whole.parents else None

    def _watching(self, name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*args: Any, **options: Any) -> Any:
            operation = self._operation_of(name, *args)
            if operation is None:
                return real(*args, **options)
            self.before(operation)
            result = real(*args, **options)
            self.after(operation)
            return result

        return call

    def _operation_of(self, name: str, *args: Any) -> Operation | None:
        """Return what a call of `os.<name>` does to names in the directory."""
        if name in ("fsync", "write"):
            file = Path(f"/proc/self/fd/{args[0]}").readlink()
            path = "." if file == self.directory else self.inside(file)
            if path is None or not (file.is_dir() or self.sees_writing):
                return None
            if name == "write":
                offset = os.lseek(args[0], 0, os.SEEK_CUR)
                return Operation(kind="write", path=path, offset=offset, content=bytes(args[1]))
            return Operation(kind="sync_directory" if file.is_dir() else "sync", path=path)
        path = self.inside(args[0])
        if path is None:
            return None
        if name in ("link", "rename"):
            kind: Kind = "link" if name == "link" else "rename"
            return Operation(kind=kind, path=path, target=self.inside(args[1]) or "")
        if name == "open":
            return Operation(kind="create", path=path) if args[1] & os.O_CREAT else None
        return Operation(kind="mkdir" if name == "mkdir" else "unlink", path=path)


class _Vfs(apsw.VFS):
    def __init__(self, disk: WatchedDisk) -> None:
        super().__init__("watched", base=_REAL_VFS, makedefault=True)
        self._disk = disk

    def xOpen(self, name: str | URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - apsw's name
        filename = name.filename() if isinstance(name, apsw.URIFilename) else name
        path = self._disk.inside(filename)
        if filename is None or path is None:
            return apsw.VFSFile(_REAL_VFS, name, flags)
        operation = Operation(kind="open", path=path)
        self._disk.before(operation)
        is_new = not os.path.lexists(filename)
        file = _File(self._disk, path, name, flags)
        if is_new:
            self._disk.after(Operation(kind="create", path=path))
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802, FBT001 - apsw's
        path = self._disk.inside(filename)
        if path is not None:
            self._disk.before(Operation(kind="delete", path=path))
        super().xDelete(filename, syncdir)
        if path is not None:
            self._disk.after(Operation(kind="unlink", path=path))
            if syncdir:
                self._disk.after(Operation(kind="sync_directory", path=str(Path(path).parent)))


class _File(apsw.VFSFile):
    def __init__(
        self, disk: WatchedDisk, path: str, name: str | URIFilename | None, flags: list[int]
    ) -> None:
        super().__init__(_REAL_VFS, name, flags)
        self._disk = disk
        self._path = path
        # SQLite's unix VFS syncs the directory with the first sync of a journal that it may make.
        self._syncs_directory = bool(flags[0] & _NEW_JOURNAL and flags[0] & apsw.SQLITE_OPEN_CREATE)

    def xLock(self, level: int) -> None:  # noqa: N802 - apsw's name
        try:
            super().xLock(level)
        except apsw.IOError:
            # A reader that closes asks for a lock that it cannot get. SQLite passes over the error,
            # apsw would raise it; the other answer that SQLite passes over, it does not raise.
            raise apsw.BusyError from None

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802 - apsw's name
        self._disk.before(Operation(kind="read", path=self._path, offset=offset))
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - apsw's name
        operation = Operation(kind="write", path=self._path, offset=offset, content=bytes(data))
        try:
            self._disk.before(operation)
        except ShortWrite as short:
            super().xWrite(operation.content[: short.done], offset)
            raise short.error from None
        super().xWrite(data, offset)
        self._disk.after(operation)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - apsw's name
        operation = Operation(kind="truncate", path=self._path, offset=newsize)
        self._disk.before(operation)
        super().xTruncate(newsize)
        self._disk.after(operation)

    def xSync(self, flags: int) -> None:  # noqa: N802 - apsw's name
        del flags
        operation = Operation(kind="sync", path=self._path)
        self._disk.before(operation)
        self._disk.after(operation)
        if self._syncs_directory:
            self._syncs_directory = False
            self._disk.after(Operation(kind="sync_directory", path=str(Path(self._path).parent)))


class ShortWrite(Exception):
    """Raised by `before` for a write of which only *done* bytes reach the file."""

    def __init__(self, done: int, error: BaseException) -> None:
        super().__init__()
        self.done = done
        self.error = error
