"""Measure the picker: how soon it is seen, and how soon a key is answered, with very many sessions.

    uv run python benchmarks/picker.py
    uv run python benchmarks/picker.py --sessions 1000000

The picker runs as on a terminal, with a pipe for a keyboard and a screen of which only the times
of its pictures are kept. "first paint" is from the call to the first picture, imports apart; "all
known" until the last session was read. A key takes from its press to the picture that answers it:
"while reading" are pressed as soon as there is a picture, "when known" after the last session.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import tempfile
import threading
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from sessions_api.chat.picker.mode import Picking
from sessions_api.chat.picker.places import Workspace
from sessions_api.chat.picker.screen import PickerScreen
from sessions_api.state import open_state
from state_store import NewSession, SessionState, new_id

if TYPE_CHECKING:
    from prompt_toolkit.input.base import PipeInput

BACKSPACE, DOWN, PAGE_DOWN, ESC = "\x7f", "\x1b[B", "\x1b[6~", "\x1b"
KEYS = ("t", "i", "t", "7", "7", BACKSPACE, BACKSPACE, DOWN, PAGE_DOWN, "\x15", "会", "9", "\x15")
PATIENCE_S = 60.0


class CountedScreen(io.StringIO):
    """A terminal that throws away what it is shown, and says when it was."""

    def __init__(self) -> None:
        super().__init__()
        self.painted = threading.Condition()
        self.painted_at: list[float] = []

    def write(self, text: str) -> int:
        """Note a picture and throw it away; what comes before the first whole one is none."""
        with self.painted:
            if self.painted_at or "shown" in text:
                self.painted_at.append(time.perf_counter())
                self.painted.notify()
        return len(text)

    def wait_for_picture(self, after: float) -> float:
        """Return when the first picture later than *after* was shown."""
        with self.painted:
            if not self.painted.wait_for(
                lambda: self.painted_at and self.painted_at[-1] > after, PATIENCE_S
            ):
                raise TimeoutError("no picture came")
            return next(one for one in self.painted_at if one > after)


def main() -> None:
    """Fill a workspace, open the picker, press keys, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["TINYAGENT_STATE_HOME"] = f"{directory}/home"
        workspace = Path(directory) / "workspace"
        workspace.mkdir()
        fill(workspace, options.sessions)
        for _ in range(options.rounds):
            use(workspace)


def fill(workspace: Path, count: int) -> None:
    """Make so many sessions with titles, a tenth of them in Chinese characters alone."""
    began = time.perf_counter()
    with closing(open_state(workspace)) as state:
        for number in range(count):
            title = f"A title of some length, {number} 会話" if number % 10 else f"会{number}"
            settings = NewSession(title=title, title_source="user")
            state.store.save(SessionState(id=new_id(), settings=settings), timedelta(0))
    print(f"{count:,} sessions made in {time.perf_counter() - began:.0f} s")


def use(workspace: Path) -> None:
    """Open the picker, press keys early and late, and print how long each took."""
    shown, picking = CountedScreen(), Picking()
    output = Vt100_Output(shown, lambda: Size(rows=40, columns=120), enable_cpr=False)
    taken: dict[str, list[float]] = {"while reading": [], "when known": []}
    known_at: list[float] = []

    def press(keyboard: PipeInput) -> None:
        shown.wait_for_picture(0)
        for name, times in taken.items():
            if name == "when known":
                while not picking.listing.all_known:
                    time.sleep(0.001)
                known_at.append(time.perf_counter())
                time.sleep(0.2)
            for key in KEYS:
                pressed = time.perf_counter()
                keyboard.send_text(key)
                times.append(shown.wait_for_picture(pressed) - pressed)
        keyboard.send_text(ESC)

    with create_pipe_input() as keyboard:
        hand = threading.Thread(target=press, args=(keyboard,))
        hand.start()
        began = time.perf_counter()
        here = Workspace(directory=workspace)
        PickerScreen(picking, here, output=output, keyboard=keyboard).run()
        hand.join()
    facts = [f"first paint {milliseconds(shown.painted_at[0] - began)}"]
    facts.append(f"all {picking.listing.count:,} known {milliseconds(known_at[0] - began)}")
    for name, times in taken.items():
        middle, worst = milliseconds(statistics.median(times)), milliseconds(max(times))
        facts.append(f"a key {name} {middle}, at worst {worst}")
    print("; ".join(facts))


def milliseconds(seconds: float) -> str:
    """Return a time for people."""
    return f"{seconds * 1000:,.0f} ms"


if __name__ == "__main__":
    main()
