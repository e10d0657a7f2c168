"""From the start of the process to its exit code.

Owns what belongs to the process and not to a command: the encoding of the three streams, the
signals, and the last flush. Invariants: output is UTF-8 whatever the locale says; a reader that
went away ends the command quietly with 0, a full disk does not; no traceback ends a command
unless `--debug` asked for it.

Must not: import Typer or the SDK before the streams and signals are in order.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING

from sessions_api.cli.completion.scripts import VARIABLE
from sessions_api.cli.signals import INTERRUPTED, Stopped, ignore_interrupts, signals_that_stop

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out the command line *arguments*, by default the process's own; return its exit code.

    It sets up the streams and, in the main thread, handles signals while the command runs. Without
    *arguments* the process is taken to end with the command, and Ctrl-C no longer counts then.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    _use_utf8()
    try:
        with signals_that_stop():
            if VARIABLE in os.environ:
                return _completed(given)
            from sessions_api.cli.app import carry_out  # noqa: PLC0415 - Typer costs 0.1 s

            code = carry_out(given)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Stopped as stopped:
        code = stopped.exit_code
    if arguments is None:
        ignore_interrupts()
    return _last_flush(code)


def _completed(given: Sequence[str]) -> int:
    """Answer the script of a shell."""
    from sessions_api.cli.completion.answering import answer  # noqa: PLC0415 - for a Tab alone

    return _last_flush(answer(os.environ[VARIABLE], given))


def _use_utf8() -> None:
    # What a locale cannot express must not stop a command, in either direction.
    for stream, errors in (
        (sys.stdin, "surrogateescape"),
        (sys.stdout, "backslashreplace"),
        (sys.stderr, "backslashreplace"),
    ):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)


def _last_flush(code: int) -> int:
    """Flush what the commands left, so that the interpreter has nothing to complain about."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except BrokenPipeError:
            _point_at_nothing(stream)
        except OSError:
            _point_at_nothing(stream)
            code = code or 1
    return code


def _point_at_nothing(stream: object) -> None:
    with suppress(OSError, ValueError, AttributeError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())  # type: ignore[attr-defined]  # a stream, if not closed
        os.close(nothing)
