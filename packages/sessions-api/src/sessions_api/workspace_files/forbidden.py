"""What no tool may reach although it may lie in the workspace: the marker and the state home.

A directory is recognised by its name as any filesystem might fold it, and by device and inode,
which are the same however a path is spelled. A file with several hard links is compared by device
and inode with every file of the state home: most such files are harmless (package managers link
them from a cache), so a link count alone refuses nothing. Must not open any of these files:
closing one would cancel the locks that SQLite holds on it in this process ("How To Corrupt An
SQLite Database File", section 2.2).

Known limits: what is mounted into the workspace counts as its content, so a mount of only a part
of the state home is not recognised, nor is a link whose other name in the state home is gone.
"""

from __future__ import annotations

import contextlib
import os
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MARKER_DIR = ".tinyagent"

Identity = tuple[int, int]


def identity(status: os.stat_result) -> Identity:
    """Return what is the same for every name of one file."""
    return status.st_dev, status.st_ino


def folded(text: str) -> str:
    """Return *text* without what some filesystem ignores: case, composition, invisible marks."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKC", text).casefold()
    return "".join(one for one in plain if unicodedata.category(one) != "Cf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Forbidden:
    """The state homes, as absolute real paths; they need not exist. Any thread may use one."""

    homes: tuple[str, ...]

    def has_path(self, real_path: str) -> bool:
        """Say whether *real_path* names a marker directory or a state home, or lies in one."""
        parts = folded(real_path).split("/")
        return MARKER_DIR in (part.rstrip(" .") for part in parts) or any(
            parts[: len(home)] == home for home in (folded(home).split("/") for home in self.homes)
        )

    def existing_homes(self) -> frozenset[Identity]:
        """Return the identities of the state homes that exist now."""
        found = set()
        for home in self.homes:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                found.add(identity(Path(home).stat()))
        return frozenset(found)

    def directories(self, root: int) -> frozenset[Identity]:
        """Return the identities of the state homes and of the marker directory in open *root*."""
        found = self.existing_homes()
        with contextlib.suppress(FileNotFoundError):
            found |= {identity(os.stat(MARKER_DIR, dir_fd=root, follow_symlinks=False))}
        return found

    def has_file(self, status: os.stat_result) -> bool:
        """Say whether a file is also in a state home under another name (a hard link).

        Looks at every name there, but only when the file has more than one. Raises OSError when
        a part of the state home cannot be read: then nobody knows.
        """
        if status.st_nlink <= 1:
            return False
        sought = identity(status)
        return any(
            entry.inode() == sought[1] and identity(entry.stat(follow_symlinks=False)) == sought
            for home in self.homes
            for entry in _entries(home)
        )


def _entries(home: str) -> Iterator[os.DirEntry[str]]:
    waiting = [home]
    while waiting:
        # What disappears under our eyes, or a home that nobody has made, holds no file.
        with contextlib.suppress(FileNotFoundError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    yield entry
