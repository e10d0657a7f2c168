"""The picker on a terminal: keys in, the whole screen out, sessions read in between.

Invariants: the first picture waits for one page; after it a page is read between two keys, so that
no key waits for more; the terminal is as it was before afterwards, however it ends.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from prompt_toolkit.application import Application
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Layout, Window

from sessions_api.chat.picker.mode import FAILURES
from sessions_api.chat.picker.places import Arrivals
from sessions_api.chat.picker.view import picture
from sessions_api.problems import problem_of
from sessions_api.showing.terminal_text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding import KeyPressEvent
    from prompt_toolkit.output import Output

    from sessions_api.chat.picker.mode import Picking
    from sessions_api.chat.picker.places import Place
    from state_store import SessionSummary

_PICTURE_S = 0.1
_STYLES = {"dim": "ansibrightblack"}  # prompt_toolkit knows "dim" only from 3.0.51 on
_ESCAPE_S = 0.05  # how long a lone Esc waits for what would make it the beginning of another key


class PickerScreen:
    """One use of the picker on *output*; `run` returns when a key ends it."""

    def __init__(
        self, picking: Picking, here: Place, *, output: Output, keyboard: Input | None = None
    ) -> None:
        self._picking = picking
        self._here = here
        self._everywhere = False
        self._generation = 0
        control = FormattedTextControl(self._text, focusable=True, show_cursor=False)
        self._application: Application[None] = Application(
            layout=Layout(Window(control, always_hide_cursor=True)),
            key_bindings=self._keys(),
            full_screen=True,
            output=output,
            input=keyboard,
        )
        self._application.ttimeoutlen = _ESCAPE_S
        self._application.timeoutlen = _ESCAPE_S

    def run(self) -> None:
        """Let a person choose; KeyboardInterrupt on Ctrl-C."""
        pages = self._begin()
        self._take(pages)
        self._application.run(pre_run=lambda: self._read_on(pages))

    # --- sessions -----------------------------------------------------------------------------

    def _begin(self) -> Iterator[tuple[Place, list[SessionSummary]]]:
        self._generation += 1
        self._arrivals = Arrivals(here=self._here, everywhere=self._everywhere)
        self._picking.listing.all_known = False
        return iter(self._arrivals)

    def _take(self, pages: Iterator[tuple[Place, list[SessionSummary]]]) -> bool:
        """Take a page; False when there is none."""
        listing = self._picking.listing
        try:
            found = next(pages, None)
        except FAILURES as error:
            self._picking.said = one_line(problem_of(error).message)
            found = None
        if found is None:
            listing.all_known = True
            if count := self._arrivals.unreadable_count:
                self._picking.said = f"Workspaces that could not be read: {count}"
            return False
        listing.add(*found)
        return True

    def _read_on(self, pages: Iterator[tuple[Place, list[SessionSummary]]]) -> None:
        self._application.create_background_task(self._rest(pages, self._generation))

    async def _rest(
        self, pages: Iterator[tuple[Place, list[SessionSummary]]], generation: int
    ) -> None:
        painted = time.monotonic()
        while generation == self._generation and self._take(pages):
            if time.monotonic() - painted > _PICTURE_S:
                self._application.invalidate()
                painted = time.monotonic()
            await asyncio.sleep(0)
        self._application.invalidate()

    def _toggle_everywhere(self) -> None:
        self._everywhere = not self._everywhere
        query = self._picking.listing.query
        self._picking.restart()
        pages = self._begin()
        self._picking.listing.filter(query)
        self._read_on(pages)

    # --- the screen ---------------------------------------------------------------------------

    def _text(self) -> StyleAndTextTuples:
        size = self._application.output.get_size()
        lines = picture(
            self._picking, columns=size.columns, rows=size.rows, everywhere=self._everywhere
        )
        pieces: StyleAndTextTuples = []
        for number, (weight, text) in enumerate(lines):
            pieces.append(
                (_STYLES.get(weight, weight), text if number == len(lines) - 1 else f"{text}\n")
            )
        return pieces

    def _page(self) -> int:
        return max(1, self._application.output.get_size().rows - 4)

    def _keys(self) -> KeyBindings:
        keys, picking = KeyBindings(), self._picking

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            if picking.enter():
                event.app.exit()

        @keys.add("escape", eager=False)
        def _(event: KeyPressEvent) -> None:
            if picking.escape():
                event.app.exit()

        @keys.add("c-c")
        @keys.add("<sigint>")
        def _(event: KeyPressEvent) -> None:
            event.app.exit(exception=KeyboardInterrupt)

        for key, work in {
            "up": lambda: picking.move(-1),
            "c-p": lambda: picking.move(-1),
            "down": lambda: picking.move(1),
            "c-n": lambda: picking.move(1),
            "pageup": lambda: picking.move(-self._page()),
            "pagedown": lambda: picking.move(self._page()),
            "home": lambda: picking.move(-picking.listing.count),
            "end": lambda: picking.move(picking.listing.count),
            " ": picking.space,
            "backspace": picking.erase,
            "c-u": lambda: picking.erase(all_of_it=True),
            "c-r": picking.begin_rename,
            "c-d": picking.begin_delete,
            "c-a": self._toggle_everywhere,
        }.items():
            keys.add(key)(lambda _, work=work: work())

        @keys.add(Keys.BracketedPaste)
        @keys.add(Keys.Any)
        def _(event: KeyPressEvent) -> None:
            pasted = event.key_sequence[0].key is Keys.BracketedPaste
            if pasted or event.data.isprintable():
                picking.type(event.data)

        return keys
