"""Where chat writes: answers to `output`, everything else to `aside`.

Invariant: what is streamed piece by piece is ended with a newline before anything else is written,
to whichever of the two; only text that is safe for a terminal comes here. On a terminal that can
show it answers are Markdown and grow in place; anywhere else they are the text as it comes.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, TextIO

from sessions_api.problems import problem_of
from sessions_api.showing.terminal_text import Ink, one_line, prints_on_terminal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessions_api.chat.live import LiveAnswer


class Screen:
    """Both streams of a chat; *live* is where answers grow, if they do."""

    def __init__(
        self, *, output: TextIO, aside: TextIO, ink: Ink, live: LiveAnswer | None = None
    ) -> None:
        self._output = output
        self._aside = aside
        self._live = live
        self._mid_line: TextIO | None = None
        self.ink = ink

    @property
    def columns_wide(self) -> int | None:
        """How wide a table may be; None where nobody looks at it."""
        return shutil.get_terminal_size().columns if prints_on_terminal(self._aside) else None

    def answer(self, text: str) -> None:
        """Write a piece of an answer."""
        if self._live is not None and self._live.fits and self._mid_line is not self._output:
            self._end_plain_line()
            self._live.feed(text)
        else:
            self._piece(self._output, text, text)

    def think(self, text: str) -> None:
        """Write a piece of a model's reasoning."""
        self._piece(self._aside, text, self.ink.dim(text))

    def say(self, line: str) -> None:
        """Write one line beside the answers."""
        self.end_line()
        self._aside.write(f"{line}\n")
        self._aside.flush()

    def say_all(self, lines: Iterable[str]) -> None:
        """Write lines beside the answers."""
        for line in lines:
            self.say(line)

    def problem(self, error: BaseException) -> None:
        """Say what failed, and what to do."""
        problem = problem_of(error)
        self.say(self.ink.alarm(f"Error: {one_line(problem.message)}"))
        self.say(one_line(problem.hint))

    def end_line(self) -> None:
        """End what was streamed, so that something else can follow."""
        if self._live is not None:
            self._live.finish()
        self._end_plain_line()

    def _end_plain_line(self) -> None:
        stream, self._mid_line = self._mid_line, None
        if stream is not None:
            stream.write("\n")
            stream.flush()

    def drop_line(self) -> None:
        """Forget what was streamed: its stream cannot be written any more."""
        if self._live is not None:
            self._live.drop()
        self._mid_line = None

    def _piece(self, stream: TextIO, text: str, shown: str) -> None:
        if not text:
            return
        if self._mid_line is not stream:
            self.end_line()
        stream.write(shown)
        stream.flush()
        self._mid_line = None if text.endswith("\n") else stream
