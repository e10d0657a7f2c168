"""The few forms of the command line that Typer does not know by itself.

Owns three of them: a group that is called without a command means its usual one (`tinyagent` is
`tinyagent chat`, `tinyagent sessions` is `sessions list`); options of a command may stand before
it (`tinyagent --json sessions list`); `--resume` may stand without its value. Invariant: nothing
behind `--` is touched, and no option means anything different for its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typer.core import TyperGroup

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

# No argument can hold a NUL, so this is no reference that anybody could type.
CHOOSE = "\0choose"
_RESUME = ("--resume", "-r")


class UsualCommandGroup(TyperGroup):
    """A group whose `usual` command need not be named.

    The options that it declares itself are those of its commands, except for those that end the
    program at once (`--help`, `--version`): declared for help and completion, and because the
    ones that take a value must be known to find the command behind them.
    """

    usual = ""
    takes_words = False  # whether a word that is no command is one for the usual command

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command first, then read as any group does."""
        own, valued = set(ctx.help_option_names), set[str]()
        for option in self.params:
            if option.is_eager or not option.expose_value:
                own.update(option.opts)
            elif not getattr(option, "is_flag", False):
                valued.update(option.opts)
        usual = "" if ctx.resilient_parsing else self.usual
        args = command_first(args, own=own, valued=valued, usual=usual)
        if self.takes_words and usual and args[0] not in {*self.commands, *own}:
            args = [usual, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Offer the commands, and the words that the usual one takes where it need not be named."""
        found = super().shell_complete(ctx, incomplete)
        if self.takes_words:
            usual = self.commands[self.usual]
            first = next(one for one in usual.params if one.param_type_name == "argument")
            found += first.shell_complete(ctx, incomplete)
        return found


class RootGroup(UsualCommandGroup):
    """The whole command line."""

    usual = "chat"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give a bare `--resume` its value, wherever it stands."""
        return super().parse_args(ctx, bare_resume_filled(args))


class SessionsGroup(UsualCommandGroup):
    """`tinyagent sessions`."""

    usual = "list"


class RunsGroup(UsualCommandGroup):
    """`tinyagent runs`: `runs REF` lists the runs of a session."""

    usual = "list"
    takes_words = True


class WorkspaceGroup(UsualCommandGroup):
    """`tinyagent workspace`; one of its commands has to be named."""


class StoreGroup(UsualCommandGroup):
    """`tinyagent store`; one of its commands has to be named."""


def command_first(
    args: Sequence[str], *, own: Container[str], valued: Container[str], usual: str
) -> list[str]:
    """Return *args* with the command before the options that stood before it.

    *own* are options of the group itself, *valued* those of commands that take a value; *usual*
    is the command that is meant when none is named.
    """
    place = 0
    while place < len(args) and args[place].startswith("-") and args[place] not in {"-", "--"}:
        if args[place].split("=", 1)[0] in own:
            return list(args)
        place += 2 if args[place] in valued else 1
    named = args[place : place + 1]
    # A word that is no command comes first as well, so that it is reported as such.
    if named and named[0] not in {"-", "--"}:
        return [*named, *args[:place], *args[place + 1 :]]
    return [usual, *args] if usual else list(args)


def bare_resume_filled(args: Sequence[str]) -> list[str]:
    """Return *args* with `CHOOSE` behind each `--resume` that has no value."""
    filled: list[str] = []
    for place, one in enumerate(args):
        if one == "--":
            return [*filled, *args[place:]]
        filled.append(one)
        follows = args[place + 1 : place + 2]
        if one in _RESUME and (not follows or follows[0].startswith("-")):
            filled.append(CHOOSE)
    return filled
