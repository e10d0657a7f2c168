"""Where chat's lines come from: a terminal, one without a cursor, or any stream.

Invariant: a reader returns what was typed without its newline, or None at the end; Ctrl-C passes
through as KeyboardInterrupt. The terminal with a cursor is `terminal.PromptLines`; what is here
imports nothing and writes nothing that was typed to a file.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from sessions_api.chat.picker import Picker


class Lines(Protocol):
    """A source of lines. `asks` says whether a person sits there and sees the prompts.

    `picker` lets that person choose a session on the whole screen, where that is possible.
    """

    @property
    def asks(self) -> bool:
        """Whether questions can be asked."""

    @property
    def picker(self) -> Picker | None:
        """What chooses a session on the whole screen."""

    def read(self, prompt: str = "") -> str | None:
        """Return the next message or command, or None at the end."""

    def ask(self, question: str) -> str | None:
        """Return the answer to a question, or None at the end."""

    def unseen(self) -> AbstractContextManager[None]:
        """Keep what is typed inside the block for the next `read`, and do not show it yet."""


class StreamLines:
    """Lines of a stream; prompts go to *prompts*, where there is one."""

    picker = None

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

    ask = read

    def unseen(self) -> AbstractContextManager[None]:
        """Do nothing: a stream shows nothing."""
        return nullcontext()


class TerminalLines:
    """Lines typed at a terminal without a cursor, with readline's editing where it exists."""

    asks = True
    picker = None

    def __init__(self) -> None:
        with suppress(ImportError):  # a Python without it still reads lines
            import readline  # noqa: F401, PLC0415 - importing it is what turns editing on

    def read(self, prompt: str = "") -> str | None:
        """Return the next line, or None at the end."""
        try:
            return input(prompt)
        except EOFError:
            return None

    ask = read

    def unseen(self) -> AbstractContextManager[None]:
        """Do nothing: such a terminal may be a person's only sight of what they type."""
        return nullcontext()
