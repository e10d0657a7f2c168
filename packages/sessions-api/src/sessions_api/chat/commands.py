"""The slash commands of chat: their names, what they take, what they do; finding the one meant.

Invariant: a line that begins with "/" is never sent to a model. A whole name wins, else a prefix
that fits one name alone; anything else is refused with the nearest names.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMANDS: Mapping[str, tuple[str, str]] = {
    "new": ("[TITLE]", "start a new session"),
    "sessions": ("", "list the sessions of this workspace"),
    "resume": ("[REF]", "go on with a session: latest, id, last digits or exact title"),
    "search": ("WORDS", "find words in all sessions"),
    "rename": ("TITLE", "give this session a title"),
    "fork": ("[TITLE]", "go on in a copy of this session; this one stays as it is"),
    "undo": ("[N]", "take the last turn back, or the last N; nothing is deleted"),
    "redo": ("[N]", "bring undone turns back, until something new is said"),
    "retry": ("[--allow-unsafe]", "try the last turn again, if it failed"),
    "usage": ("", "what this session and the workspace have used"),
    "reasoning": ("", "show the model's reasoning, or hide it again"),
    "export": ("[FILE] [--format F]", "write this session: jsonl, archive, markdown or html"),
    "delete": ("", "delete this session for good; asks first"),
    "help": ("", "show this"),
    "exit": ("", "leave; Ctrl-D does too"),
}


class CommandUnknown(ValueError):
    """No command, or more than one, is meant; the message says which ones are near."""


def find_command(typed: str) -> str:
    """Return the command that *typed*, without its slash, means; CommandUnknown otherwise."""
    name = typed.lower()
    if name in COMMANDS:
        return name
    fitting = [one for one in COMMANDS if name and one.startswith(name)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise CommandUnknown(f"It could be {_listed(fitting)}.")
    near = difflib.get_close_matches(name, COMMANDS, n=2, cutoff=0.5)
    if near:
        raise CommandUnknown(f"Did you mean {_listed(near)}?")
    raise CommandUnknown("All commands: /help")


def help_lines() -> list[str]:
    """Return what /help shows."""
    shown = {f"/{name} {takes}".rstrip(): does for name, (takes, does) in COMMANDS.items()}
    wide = max(map(len, shown))
    return [
        *(f"{usage:<{wide}}  {does}" for usage, does in shown.items()),
        "Names may be shortened while they stay unique. Begin a message with // to send a slash.",
    ]


def _listed(names: list[str]) -> str:
    return " or ".join(f"/{name}" for name in names)
