"""A question from a shell's script, answered: what may stand at the cursor.

Owns the protocol between the scripts and the program: which shell asks stands in the variable of
the environment; bash passes its line as one argument and its word breaks as another, zsh and fish
pass the words as they are written. The answer is a line each: for bash ready to be put in place,
for the others value, tab, description.

Invariant: it takes at most a moment, and trouble of any kind is an empty answer.
"""

from __future__ import annotations

import importlib
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sessions_api.cli.completion.quoting import Word, quoted, taken_apart, unquoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PATIENCE_S = 1.0
_DESCRIPTION_COLUMNS = 60


class _TooLateError(Exception):
    """Nobody waits any longer for a completion."""


def answer(shell: str, arguments: Sequence[str]) -> int:
    """Write the completions for *shell* to standard output; return 0 whatever happened."""
    with suppress(Exception), _patience():
        for line in _lines(shell, arguments):
            sys.stdout.write(f"{line}\n")
    return 0


def _lines(shell: str, arguments: Sequence[str]) -> list[str]:
    if shell == "bash":
        line, breaks = arguments
        (_, *words), word = taken_apart(line, breaks=breaks)
        return [quoted(value, word) for value, _ in offered(words, word)]
    *before, last = map(unquoted, arguments)
    word = Word(value=last, quote="", replaced_from=0)
    return [f"{value}\t{told}" for value, told in offered(before, word)]


def offered(words: Sequence[str], word: Word) -> list[tuple[str, str]]:
    """Return what may stand in the place of *word* behind the command's *words*, with its help."""
    import typer  # noqa: PLC0415 - costs 0.1 s

    from sessions_api.cli.app import NAME, build  # noqa: PLC0415 - the same
    from sessions_api.showing.terminal_text import cut, one_line  # noqa: PLC0415 - the same

    root = typer.main.get_command(build())
    asking = _shell_completion(root)(root, {}, NAME, "")
    # Typer answers `--option=beg` with values alone; the shell wants the whole word.
    option, equals, _ = word.value.partition("=")
    before = option + equals if equals and option.startswith("-") else ""
    return [
        (before + one.value, cut(one_line(one.help or ""), _DESCRIPTION_COLUMNS))
        for one in asking.get_completions(list(words), word.value)
        if one.type == "plain" and one.value.isprintable()
    ]


def _shell_completion(root: Any) -> Any:
    """Return the class that knows where on the line the cursor is.

    It is that of the click which Typer uses: in newer versions one of its own.
    """
    command = next(base for base in type(root).__mro__ if base.__name__ == "Command")
    package = command.__module__.rpartition(".")[0]
    base: Any = importlib.import_module(f"{package}.shell_completion").ShellComplete
    # What it would need to talk to a shell is never asked of it.
    unused = dict.fromkeys(base.__abstractmethods__)
    return type("Asking", (base,), {"name": "asking", **unused})


@contextmanager
def _patience() -> Iterator[None]:
    """Raise inside the block when it takes too long: somebody upgrades the store, a disk hangs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise _TooLateError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
