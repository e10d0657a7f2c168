"""Where chat's lines come from: a terminal with line editing, or any stream.

Invariant: a reader returns one line without its newline, or None at the end; Ctrl-C passes
through as KeyboardInterrupt. Nothing that was typed is written to a file.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol, TextIO


class Lines(Protocol):
    """A source of lines. `asks` says whether a person sits there and sees the prompts."""

    @property
    def asks(self) -> bool:
        """Whether questions can be asked."""

    def read(self, prompt: str = "") -> str | None:
        """Return the next line, or None at the end."""


class StreamLines:
    """Lines of a stream; prompts go to *prompts*, where there is one."""

    def __init__(self, stream: TextIO, *, prompts: TextIO | None = None) -> None:
        self._stream = stream
        self._prompts = prompts

    @property
    def asks(self) -> bool:
        """Whether questions can be asked."""
        return self._prompts is not None

    def read(self, prompt: str = "") -> str | None:
        """Return the next line, or None at the end."""
        if self._prompts is not None:
            self._prompts.write(prompt)
            self._prompts.flush()
        line = self._stream.readline()
        return line.rstrip("\n").removesuffix("\r") if line else None


class TerminalLines:
    """Lines typed at the terminal, with the editing and the recall of readline where it exists."""

    asks = True

    def __init__(self) -> None:
        with suppress(ImportError):  # a Python without it still reads lines
            import readline  # noqa: F401, PLC0415 - importing it is what turns editing on

    def read(self, prompt: str = "") -> str | None:
        """Return the next line, or None at the end."""
        try:
            return input(prompt)
        except EOFError:
            return None
