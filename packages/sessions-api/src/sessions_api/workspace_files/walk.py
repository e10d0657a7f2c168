"""Finding a file of the workspace, one name at a time, without ever leaving it.

Each name is opened relative to the descriptor of the directory before it and never through a
symbolic link (openat(2), O_NOFOLLOW), so there is no moment between a check and a use. Links are
read and walked here: a relative one from where it stands, an absolute one only when it leads into
the workspace; `..` goes back to a descriptor that is already held and never above the root. Text
like `/proc/self/root` is therefore text and no way out.

Invariant: every descriptor on the stack was reached from the root by names that were no links, and
is none of the forbidden directories. Must not: look at a path as a whole, or open a file.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from sessions_api.runs.tools import ToolArgumentsInvalid
from sessions_api.workspace_files.forbidden import Forbidden, Identity, identity
from sessions_api.workspace_files.names import named, shown_briefly

if TYPE_CHECKING:
    from types import TracebackType

MAX_DEPTH = 64  # a descriptor each; some systems allow a process no more than 256
MAX_LINKS = 40  # as many as Linux follows
MAX_PATH = 4096

CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)
NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK: int = getattr(os, "O_NONBLOCK", 0)
# A directory that may be searched but not listed is passed through by O_PATH, where there is one.
_STEP: int = getattr(os, "O_PATH", os.O_RDONLY | NONBLOCK)
_STEP |= getattr(os, "O_DIRECTORY", 0) | NOFOLLOW | CLOEXEC
_NEW_DIRECTORY_MODE = 0o755


class PathRefused(ToolArgumentsInvalid):
    """A path cannot be used; the message tells the model why, and what to do instead."""


def is_supported() -> bool:
    """Say whether this system can open, stat, make, rename and remove names in a descriptor."""
    needed = {os.open, os.stat, os.mkdir, os.rename, os.unlink, os.readlink}
    has_flags = bool(NOFOLLOW and getattr(os, "O_DIRECTORY", 0))
    return has_flags and needed <= os.supports_dir_fd and os.scandir in os.supports_fd


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """The workspace: its real path, which directory that was, and what is forbidden in it."""

    path: str
    identity: Identity
    forbidden: Forbidden


class Walk:
    """One way through the workspace; use it in a `with` block, in one thread."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._stack: list[int] = []
        self._names: list[str] = []
        self._forbidden: frozenset[Identity] = frozenset()

    def __enter__(self) -> Self:
        self._stack.append(os.open(self._root.path, _STEP))
        try:
            self._require_same_root()
            self._forbidden = self._root.forbidden.directories(self.descriptor)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._back_to(0)

    @property
    def descriptor(self) -> int:
        """The open directory that was reached."""
        return self._stack[-1]

    @property
    def directory_path(self) -> str:
        """The path of that directory from the root, "" for the root itself."""
        return "/".join(self._names)

    @property
    def forbidden(self) -> Forbidden:
        """What must not be reached."""
        return self._root.forbidden

    def into(self, path: str) -> None:
        """Go into the directory *path*."""
        self._follow(path, is_file=False, create=False)

    def beside(self, path: str, *, create: bool = False) -> str:
        """Go into the directory that holds, or would hold, the file *path*; return its name there.

        The name is no symbolic link now; whoever opens it must not follow one either. With
        *create*, directories that are missing on the way are made.
        """
        name = self._follow(path, is_file=True, create=create)
        if name is None:
            raise PathRefused(f"{shown_briefly(named(path))} is a directory, not a file.")
        return name

    def step(self, name: str) -> None:
        """Go into the directory *name* of this one, which is not followed if it is a link."""
        if len(self._stack) > MAX_DEPTH:
            raise PathRefused(f"that is more than {MAX_DEPTH} directories deep.")
        descriptor = os.open(name, _STEP, dir_fd=self.descriptor)
        if identity(os.fstat(descriptor)) in self._forbidden:
            os.close(descriptor)
            raise self._refusal(name)
        self._stack.append(descriptor)
        self._names.append(name)

    def back(self) -> None:
        """Go back to where the last step came from."""
        if not self._names:
            raise PathRefused("that path leads out of the workspace; stay inside of it.")
        self._back_to(len(self._stack) - 1)

    def is_forbidden(self, name: str, status: os.stat_result) -> bool:
        """Say whether *name* of this directory must not even be named."""
        return identity(status) in self._forbidden or self._root.forbidden.has_path(
            self._real_path(name)
        )

    def _require_same_root(self) -> None:
        if identity(os.fstat(self.descriptor)) != self._root.identity:
            raise PathRefused("the workspace is not the directory any more that it was.")

    def _follow(self, path: str, *, is_file: bool, create: bool) -> str | None:
        waiting = _checked_parts(path)
        links = 0
        while waiting:
            name = waiting.pop()
            if name == "..":
                self.back()
                continue
            if self._root.forbidden.has_path(self._real_path(name)):
                raise self._refusal(name)
            target = self._link_target(name)
            if target is not None:
                links += 1
                if links > MAX_LINKS:
                    raise PathRefused(f"{shown_briefly(named(path))} is a loop of symbolic links.")
                waiting += self._parts_of_target(name, target)
            elif is_file and not waiting:
                return name
            else:
                self._step_or_make(name, waiting, create=create)
        return None

    def _step_or_make(self, name: str, waiting: list[str], *, create: bool) -> None:
        try:
            self.step(name)
        except FileNotFoundError:
            if not create:
                raise
            # All that follows would be made as well, so all of it is judged before any of it is.
            rest = [name, *reversed(waiting)]
            ahead = "/".join(rest)
            if ".." in rest or self._root.forbidden.has_path(self._real_path(ahead)):
                raise self._refusal(ahead) from None
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, _NEW_DIRECTORY_MODE, dir_fd=self.descriptor)
            sync(self.descriptor)
            self.step(name)

    def _link_target(self, name: str) -> str | None:
        try:
            return os.readlink(name, dir_fd=self.descriptor)
        except OSError:  # no link, or nothing at all: opening it says which
            return None

    def _parts_of_target(self, name: str, target: str) -> list[str]:
        if not target.startswith("/"):
            return _parts(target)
        root = self._root.path.rstrip("/")
        if target != root and not target.startswith(f"{root}/"):
            raise PathRefused(
                f"{shown_briefly(name)} is a symbolic link that leads out of the workspace."
            )
        self._back_to(1)
        return _parts(target.removeprefix(root))

    def _back_to(self, count: int) -> None:
        while len(self._stack) > count:
            os.close(self._stack.pop())
        del self._names[max(count - 1, 0) :]

    def _real_path(self, name: str) -> str:
        return "/".join((self._root.path.rstrip("/"), *self._names, name))

    def _refusal(self, name: str) -> PathRefused:
        return PathRefused(f"{shown_briefly(name)} cannot be used: it is not part of the project.")


def _checked_parts(path: str) -> list[str]:
    name = named(path)
    if "\0" in name or len(name) > MAX_PATH:
        raise PathRefused(f"a path has no NUL in it, and at most {MAX_PATH} characters.")
    if name.startswith("/"):
        raise PathRefused(
            f"{shown_briefly(name)} is an absolute path; give one relative to the workspace, such"
            " as 'src/main.py'."
        )
    return _parts(name)


def _parts(path: str) -> list[str]:
    """Return the names of *path*, the first one last, as a stack."""
    return [part for part in reversed(path.split("/")) if part not in {"", "."}]


def sync(directory: int) -> None:
    """Make the names in an open directory durable, where the filesystem can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(".", os.O_RDONLY | CLOEXEC, dir_fd=directory)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
