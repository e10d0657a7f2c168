"""What Tab completes at the prompt: names of commands, and which session is meant.

Invariant: what is inserted is accepted as it stands: a command's name, or a session's handle. A
store that cannot be read completes nothing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion

from sessions_api.chat.commands import COMMANDS, CommandUnknown, find_command
from sessions_api.showing.listing import handle, shown_title
from sessions_api.showing.terminal_text import cut
from state_store import StateStoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prompt_toolkit.document import Document

    from sessions_api.sessions import Sessions

_LOOKED_AT = 500
_OFFERED = 50
_TITLE_COLUMNS = 50


class SlashCompleter(Completer):
    """Completes the commands of chat over the sessions of a workspace."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        """Yield what may stand where the cursor is."""
        del complete_event
        typed = document.text_before_cursor
        if not typed.startswith("/"):
            return
        word, space, rest = typed[1:].partition(" ")
        if not space:
            for name, (_, does) in COMMANDS.items():
                if name.startswith(word.lower()):
                    yield Completion(name, -len(word), display=f"/{name}", display_meta=does)
            return
        with suppress(CommandUnknown, StateStoreError):
            if find_command(word) == "resume":
                yield from self._references(rest.lstrip())

    def _references(self, typed: str) -> Iterator[Completion]:
        wanted, offered = typed.casefold(), 0
        for one in self._sessions.list(_LOOKED_AT).items:
            title = shown_title(one.title)
            if handle(one.id).startswith(wanted) or wanted in title.casefold():
                yield Completion(
                    handle(one.id), -len(typed), display_meta=cut(title, _TITLE_COLUMNS)
                )
                offered += 1
            if offered == _OFFERED:
                return
