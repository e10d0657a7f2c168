"""What was typed in the chats of one workspace, for recall with the arrow keys.

Owns the file `chat-history.jsonl`: one JSON string a line, the newest last. Invariants: 0600 from
the moment it exists; a torn or foreign line is no line; the file stays small. It is a convenience:
where it cannot be read or written nothing is recalled, and the chat goes on.

Must not: hold answers, what was typed as the answer to a question, or, once a session is deleted,
what was said in it.
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container
    from pathlib import Path

FILE_NAME = "chat-history.jsonl"
_LONGEST_LINE = 10_000  # characters; what is longer was pasted, and is in the session
_MOST_BYTES = 1_000_000
_KEPT_BYTES = 250_000
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW


class TypedLines:
    """The lines typed in one workspace, kept at *path*; None keeps them nowhere."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def newest_first(self) -> list[str]:
        """Return the lines of the file's end, the newest first."""
        lines: list[str] = []
        with suppress(OSError):
            for written in reversed(self._last_bytes().split(b"\n")):
                with suppress(ValueError):
                    if isinstance(line := json.loads(written), str):
                        lines.append(line)
        return lines

    def add(self, line: str) -> None:
        """Keep a line for later chats."""
        path = self._path
        if path is None or len(line) > _LONGEST_LINE:
            return
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _FLAGS
            with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
                # The newline before it ends a line that a crash has torn.
                file.write(b"\n" + json.dumps(line).encode("ascii") + b"\n")
                too_large = file.tell() > _MOST_BYTES
            if too_large:
                self._shorten(path)

    @property
    def exist(self) -> bool:
        """Whether anything is kept."""
        return self._path is not None and self._path.exists()

    def forget(self, lines: Container[str]) -> None:
        """Keep none of *lines* any more."""
        if self._path is None:
            return
        with suppress(OSError):
            kept = [one for one in reversed(self.newest_first()) if one not in lines]
            self._replace(self._path, b"".join(json.dumps(one).encode() + b"\n" for one in kept))

    def _last_bytes(self) -> bytes:
        if self._path is None:
            return b""
        with os.fdopen(os.open(self._path, os.O_RDONLY | _FLAGS), "rb") as file:
            begin = max(0, file.seek(0, os.SEEK_END) - _KEPT_BYTES)
            file.seek(begin)
            read = file.read()
        return read.partition(b"\n")[2] if begin else read

    def _shorten(self, path: Path) -> None:
        self._replace(path, self._last_bytes())

    def _replace(self, path: Path, kept: bytes) -> None:
        building = path.with_name(f".{FILE_NAME}.{uuid.uuid4().hex}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS
        try:
            with os.fdopen(os.open(building, flags, 0o600), "wb") as file:
                file.write(kept)
            building.replace(path)
        finally:
            building.unlink(missing_ok=True)
