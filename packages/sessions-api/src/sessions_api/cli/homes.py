"""Which module has which command, so that a start imports no more than it needs.

Invariant: the tables name every command once; a test goes through them. What cannot be told at a
glance, options before the command say, is worth the import of all.

Must not: import a module of a command before its turn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import typer

# In the order of the help. The groups that each adds commands to; "" is the program itself.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "runs": ("runs",),
    "conversing": ("", "sessions", "runs"),
    "listing": ("sessions",),
    "inspecting": ("sessions",),
    "searching": ("sessions",),
    "changing": ("sessions",),
    "branching": ("sessions",),
    "exporting": ("sessions",),
    "importing": ("sessions",),
    "verifying": ("sessions",),
    "journals": ("",),
    "doctor": ("",),
    "places": ("", "workspace"),
    "removing": ("workspace",),
    "storing": ("store",),
    "restoring": ("store",),
    "recovering": ("store",),
}
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "runs": ("runs list", "runs show"),
    "conversing": ("chat", "run", "runs retry", "sessions new", "sessions resume"),
    "listing": ("sessions list",),
    "inspecting": ("sessions show",),
    "searching": ("sessions search",),
    "changing": ("sessions rename", "sessions archive", "sessions unarchive", "sessions delete"),
    "branching": ("sessions fork", "sessions undo", "sessions redo"),
    "exporting": ("sessions export",),
    "importing": ("sessions import",),
    "verifying": ("sessions verify",),
    "journals": ("logs",),
    "doctor": ("doctor",),
    "places": ("path", *(f"workspace {one}" for one in ("show", "list", "relink", "forget"))),
    "removing": ("workspace delete",),
    "storing": ("store backup", "store backups", "store compact"),
    "restoring": ("store restore",),
    "recovering": ("store check", "store recover"),
}
ALL = tuple(GROUPS)
_OF_THE_PROGRAM = frozenset({"--version"})


def needed(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the modules that this command line needs; all of them where that is not plain."""
    first, second = (*arguments[:2], "", "")[:2]
    if first in _OF_THE_PROGRAM:
        return ()
    second = second or ("list" if first == "sessions" else "")
    words = {first, f"{first} {second}"}
    found = tuple(home for home, commands in COMMANDS.items() if words & {*commands})
    return found or ALL


def add(modules: Iterable[str], groups: Mapping[str, typer.Typer]) -> None:
    """Import *modules* and let each add its commands to the groups that it is for."""
    for name in modules:
        module = importlib.import_module(f"sessions_api.cli.{name}")
        first, *others = GROUPS[name]
        module.add_to(groups[first], **{other: groups[other] for other in others})
