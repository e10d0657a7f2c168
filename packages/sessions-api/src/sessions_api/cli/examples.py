"""An example for each command: the first thing that its help shows.

Invariant: every command has one, and it can be typed as it stands; a test goes through both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = {
    "chat": "tinyagent chat --continue",
    "run": 'tinyagent run "What does this project do?" --json',
    "logs": "tinyagent logs latest --follow",
    "doctor": "tinyagent doctor",
    "path": "tinyagent path --json",
    "sessions new": 'tinyagent sessions new --title "The slow query"',
    "sessions resume": "tinyagent sessions resume 5f3a91c2",
    "sessions list": "tinyagent sessions list -n 5",
    "sessions show": "tinyagent sessions show latest --view all",
    "sessions search": "tinyagent sessions search slow query --order relevance",
    "sessions rename": 'tinyagent sessions rename 5f3a91c2 "The slow query"',
    "sessions archive": "tinyagent sessions archive 5f3a91c2",
    "sessions unarchive": "tinyagent sessions unarchive 5f3a91c2",
    "sessions delete": "tinyagent sessions delete 5f3a91c2 --dry-run",
    "sessions fork": "tinyagent sessions fork 5f3a91c2 --at 4",
    "sessions undo": "tinyagent sessions undo -n 2",
    "sessions redo": "tinyagent sessions redo",
    "sessions export": "tinyagent sessions export latest --format html -o talk.html",
    "sessions import": "tinyagent sessions import talk.jsonl",
    "sessions verify": "tinyagent sessions verify --all",
    "runs list": "tinyagent runs latest",
    "runs show": "tinyagent runs show latest",
    "runs retry": "tinyagent runs retry latest",
    "workspace show": "tinyagent workspace show",
    "workspace list": "tinyagent workspace list",
    "workspace relink": "tinyagent workspace relink 2110e110-a907-4454-b975-605c1ae477df",
    "workspace forget": "tinyagent workspace forget 2110e110-a907-4454-b975-605c1ae477df",
    "workspace delete": "tinyagent workspace delete 2110e110-a907-4454-b975-605c1ae477df --dry-run",
    "store backup": "tinyagent store backup",
    "store backups": "tinyagent store backups",
    "store compact": "tinyagent store compact",
    "store restore": "tinyagent store restore 20260102T0304",
    "store check": "tinyagent store check --json",
    "store recover": "tinyagent store recover",
}


def commands_of(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield every command below *group* with its words: "sessions list"."""
    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            yield from commands_of(one, (*path, name))
        else:
            yield " ".join((*path, name)), one


def put_before_help(root: Any) -> None:
    """Let the help of every command begin with its example; lists of commands stay as they are."""
    for words, command in commands_of(root):
        if (example := EXAMPLES.get(words)) is not None:
            command.short_help = command.short_help or (command.help or "").partition("\n")[0]
            command.help = f"Example: {example}\n\n{command.help or ''}"
