"""A tree of the workspace in one fixed order, a page at a time.

The entries of a directory are sorted by name, and what a directory holds follows it. Links are
named and never followed. Bounds: *depth* directories deep, `MAX_SCANNED` names looked at for one
page, `MAX_PAGE_CHARACTERS` on it, and each of them is said when it was met. Must not: name what
is forbidden.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from sessions_api.workspace_files.names import shown
from sessions_api.workspace_files.walk import CLOEXEC, NONBLOCK, PathRefused

if TYPE_CHECKING:
    from collections.abc import Generator

    from sessions_api.workspace_files.walk import Walk

MAX_SCANNED = 250_000
MAX_PAGE_CHARACTERS = 100_000


@dataclass(slots=True, kw_only=True)
class Listing:
    """A page under way: its lines, and whether names were left out because there are too many."""

    walk: Walk
    depth: int
    left_to_scan: int = MAX_SCANNED
    is_cut: bool = False
    unreadable_count: int = field(default=0, init=False)

    def page(self, *, offset: int, limit: int) -> tuple[list[str], bool]:
        """Return at most *limit* lines from number *offset*, and whether more follow."""
        lines: list[str] = []
        character_count = 0
        with contextlib.closing(self._lines(self.depth)) as found:
            for line in islice(found, offset, None):
                character_count += len(line) + 1
                if len(lines) == limit or (lines and character_count > MAX_PAGE_CHARACTERS):
                    return lines, True
                lines.append(line)
        return lines, False

    def _lines(self, depth: int) -> Generator[str, None, None]:
        where = self.walk.directory_path
        for name in self._names():
            try:
                status = os.stat(name, dir_fd=self.walk.descriptor, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if self.walk.is_forbidden(name, status):
                continue
            path = shown(f"{where}/{name}" if where else name)
            yield f"{_kind(status)} {path}"
            if depth > 1 and stat.S_ISDIR(status.st_mode):
                yield from self._lines_of(name, depth - 1)

    def _lines_of(self, name: str, depth: int) -> Generator[str, None, None]:
        try:
            self.walk.step(name)
        except (OSError, PathRefused):  # gone, swapped for a link, closed to us, or too deep
            self.unreadable_count += 1
            return
        try:
            yield from self._lines(depth)
        except PermissionError:
            self.unreadable_count += 1
        finally:
            with contextlib.suppress(PathRefused):
                self.walk.back()

    def _names(self) -> list[str]:
        descriptor = os.open(".", os.O_RDONLY | NONBLOCK | CLOEXEC, dir_fd=self.walk.descriptor)
        try:
            with os.scandir(descriptor) as entries:
                names = [entry.name for entry in islice(entries, self.left_to_scan)]
                self.is_cut = self.is_cut or next(entries, None) is not None
        finally:
            os.close(descriptor)
        self.left_to_scan -= len(names)
        return sorted(names)


def _kind(status: os.stat_result) -> str:
    if stat.S_ISREG(status.st_mode):
        return f"file {status.st_size}"
    if stat.S_ISDIR(status.st_mode):
        return "dir"
    return "link" if stat.S_ISLNK(status.st_mode) else "other"
