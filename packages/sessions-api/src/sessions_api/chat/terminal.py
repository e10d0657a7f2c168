"""Lines typed at a terminal that has a cursor: edited, recalled, completed, pasted.

Owns the keyboard of a chat. Invariants: the terminal is as it was before after each call, however
it ends, by a signal too; nothing but a message that was sent is kept for recall; Ctrl-C clears
what is typed and, where nothing is, raises KeyboardInterrupt.

Imported only when standard input and output are such a terminal: prompt_toolkit costs a quarter
of a second. The terminal is never asked where its cursor is: what it answers late, or into the
next program, is text that nobody typed.
"""

from __future__ import annotations

import os
import sys
import termios
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.data_structures import Size
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.vt100 import Vt100_Output

from sessions_api.chat.completing import SlashCompleter
from sessions_api.chat.pasting import Pastes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TextIO

    from prompt_toolkit.key_binding import KeyPressEvent

    from sessions_api.chat.picker import Picker
    from sessions_api.sessions import Sessions
    from sessions_api.typed_lines import TypedLines

_NO_SIZE = os.terminal_size((80, 24))


class PromptLines:
    """Lines of the person at the terminal of *output*, and of standard input."""

    asks = True

    def __init__(
        self, output: TextIO, *, typed_lines: TypedLines, sessions: Sessions, picker: Picker
    ) -> None:
        self.picker = picker
        self._pastes = Pastes()
        screen = terminal_output(output)
        self._messages: PromptSession[str] = PromptSession(
            output=screen,
            history=_Recall(typed_lines, self._pastes),
            completer=SlashCompleter(sessions),
            complete_while_typing=False,
            reserve_space_for_menu=6,
            multiline=True,
            key_bindings=_keys(self._pastes),
            prompt_continuation=_continuation,
        )
        self._answers: PromptSession[str] = PromptSession(output=screen)

    def read(self, prompt: str = "") -> str | None:
        """Return the next message, which may have several lines, or None at the end."""
        with suppress(EOFError):
            return self._pastes.whole(self._messages.prompt(prompt))
        return None

    def ask(self, question: str) -> str | None:
        """Return the answer to a question, or None at the end."""
        with suppress(EOFError):
            return self._answers.prompt(question)
        return None

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """Do not echo what is typed inside the block; key by key it stays for the next `read`."""
        try:
            before = termios.tcgetattr(sys.stdin)
        except (termios.error, ValueError, OSError):  # it is gone; a signal says so soon
            yield
            return
        silent = [*before]
        silent[3] &= ~(termios.ECHO | termios.ICANON)
        try:
            termios.tcsetattr(sys.stdin, termios.TCSANOW, silent)
            yield
        finally:
            with suppress(termios.error, ValueError, OSError):
                termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


def terminal_output(stream: TextIO) -> Vt100_Output:
    """Return the terminal of *stream*, which is not asked for the place of its cursor."""

    def size() -> Size:
        found = _NO_SIZE
        with suppress(OSError, ValueError):
            found = os.get_terminal_size(stream.fileno())
        return Size(rows=found.lines or 24, columns=found.columns or 80)

    return Vt100_Output(stream, size, term=os.environ.get("TERM"), enable_cpr=False)


def _continuation(width: int, line_number: int, wrap_count: int) -> str:
    del line_number
    return " " * width if wrap_count else ".".ljust(width)


class _Recall(History):
    """Lines of earlier chats, and of this one; a long paste is recalled in this one alone."""

    def __init__(self, typed_lines: TypedLines, pastes: Pastes) -> None:
        super().__init__()
        self._typed_lines = typed_lines
        self._pastes = pastes

    def load_history_strings(self) -> Iterable[str]:
        return self._typed_lines.newest_first()

    def store_string(self, string: str) -> None:
        self._typed_lines.add(self._pastes.whole(string))


def _keys(pastes: Pastes) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        typed = event.current_buffer
        offered = typed.complete_state
        if offered is not None and offered.current_completion and len(offered.completions) > 1:
            typed.complete_state = None  # one of several is taken; the next Enter sends
        else:
            typed.validate_and_handle()

    @keys.add("escape", "enter")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("c-c")
    @keys.add("<sigint>")
    def clear_or_interrupt(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    @keys.add(Keys.BracketedPaste)
    def paste(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(pastes.shown(event.data))

    return keys
