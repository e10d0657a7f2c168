"""`tinyagent` on a terminal that draws: what a person sees, and what scrolled away above it.

Invariant: nothing waits for a time to pass; a test waits for what must come to be on the screen.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import termios
import time
from typing import TYPE_CHECKING, Any

import pyte

from tinyagent_process import PROGRAM, TIMEOUT_S, Terminal, Tinyagent

if TYPE_CHECKING:
    from collections.abc import Callable

CTRL_A, CTRL_C, CTRL_D, CTRL_R = "\x01", "\x03", "\x04", "\x12"
ENTER, ESC, TAB, BACKSPACE, UP, DOWN = "\r", "\x1b", "\t", "\x7f", "\x1b[A", "\x1b[B"
PASTE, PASTED = "\x1b[200~", "\x1b[201~"


def drawing(tinyagent: Tinyagent, **environment: str) -> Tinyagent:
    """Return the command in an environment whose terminal has a cursor and colours."""
    kept = {name: value for name, value in tinyagent.environment.items() if name != "COLUMNS"}
    return Tinyagent(
        workspace=tinyagent.workspace,
        environment={**kept, "TERM": "xterm-256color", **environment},
    )


class Screen(Terminal):
    """A command on a terminal of 24 rows and 80 columns that keeps what scrolls away."""

    def __init__(
        self, tinyagent: Tinyagent, *arguments: str, program: tuple[str, ...] = PROGRAM
    ) -> None:
        self._screen: Any = pyte.HistoryScreen(80, 24, history=100_000, ratio=0.001)
        self._drawn: Any = pyte.Stream(self._screen)
        self._drawn_count = 0
        super().__init__(tinyagent, *arguments, program=program)

    @property
    def rows(self) -> list[str]:
        """What is on the screen, without the spaces at the ends."""
        self._draw()
        return [row.rstrip() for row in self._screen.display]

    @property
    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(self.rows)

    @property
    def everything(self) -> str:
        """What scrolled away and what is on the screen."""
        self._draw()
        gone = [
            "".join(row[column].data for column in range(self._screen.columns)).rstrip()
            for row in self._screen.history.top
        ]
        return "\n".join([*gone, *self.rows])

    def until(self, seen: Callable[[], bool], *, pressing: str = "") -> None:
        """Read until *seen* is true, pressing keys again and again where they are given."""
        deadline = time.monotonic() + TIMEOUT_S
        while not seen():
            assert time.monotonic() < deadline, f"it never came; the screen:\n{self.text}"
            assert self._read(pressing) or seen(), f"it left; the screen:\n{self.text}"

    def see(self, *texts: str, pressing: str = "") -> None:
        """Read until all *texts* are on the screen."""
        self.until(lambda: all(one in self.text for one in texts), pressing=pressing)

    def read_what_is_there(self) -> None:
        """Read what was shown up to now; a terminal echoes a key while it is typed."""
        while select.select([self._ours], [], [], 0)[0] and self._read(""):
            pass

    def prompt(self) -> None:
        """Read until the cursor stands behind an empty prompt."""
        self.until(lambda: self.rows[self._screen.cursor.y] == ">" and self._screen.cursor.x == 2)

    def hang_up(self) -> None:
        """Close the window."""
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, self._ours)
        os.close(nothing)

    def resize(self, *, rows: int, columns: int) -> None:
        """Make the window another size."""
        self._draw()
        self._screen.resize(rows, columns)
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def settings(self) -> list[Any]:
        """Return how the terminal is set, without what it is set to by opening it."""
        return termios.tcgetattr(self._ours)[:4]

    def paste(self, text: str) -> None:
        """Paste *text* as terminals do, reading what is shown meanwhile."""
        left = f"{PASTE}{text}{PASTED}".encode()
        os.set_blocking(self._ours, False)
        try:
            while left:
                shows, takes, _ = select.select([self._ours], [self._ours], [], TIMEOUT_S)
                assert shows or takes, f"{len(left)} bytes were not taken"
                if shows:
                    self._read("")
                if takes:
                    left = left[os.write(self._ours, left[:4096]) :]
        finally:
            os.set_blocking(self._ours, True)

    def _draw(self) -> None:
        new = self.shown[self._drawn_count :]
        self._drawn_count = len(self.shown)
        self._drawn.feed(new.replace("\n", "\r\n"))
