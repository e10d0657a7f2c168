"""The program that lets invented secrets in, in a process of its own.

`redaction_program.py DIRECTORY ENTRANCE NAME …` lets each secret in that is named;
`redaction_program.py DIRECTORY modes NAME …` puts marked texts through each mode of failure that is
named. Every cell has its own standard output and error. `--unguarded` takes the guards away: a
search must then find what was let in, or it would prove nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from redaction_cell import Cell
from redaction_entrances import ENTRANCES
from redaction_modes import MODES
from run_journal.event_base import Event
from run_journal.redact import Guard
from sessions_api.cli import debug
from sessions_api.providers import http_provider
from sessions_api.runs import recorder, story

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = Path(__file__).parents[1] / "packages"
WIRE_SERVER = PACKAGES / "sessions-api/tests/wire_server.py"
JOURNAL_TESTS = PACKAGES / "run-journal/tests"
UNGUARDED = "--unguarded"


def shapes() -> Any:
    """Return the invented secrets of the journal's own tests, and the search for them."""
    return SimpleNamespace(**runpy.run_path(str(JOURNAL_TESTS / "invented_secrets.py")))


def _let_in(directory: Path, entrance: str, names: list[str]) -> None:
    """Let each secret in, or go through each mode, with a cell's own standard output and error."""
    sys.path.insert(0, str(WIRE_SERVER.parent))
    served = importlib.import_module("wire_server")
    for name in names:
        cell = Cell(directory / name)
        cell.workspace.mkdir(parents=True)
        os.chdir(cell.workspace)
        for number, file_name in ((1, "printed"), (2, "stderr")):
            output = os.open(cell.root / file_name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(output, number)
            os.close(output)
        with served.WireServer() as wire:
            wire.say = lambda *turns, wire=wire: wire.script(*(served.Turn(**one) for one in turns))
            if entrance == "modes":
                MODES[name](cell, wire)
            else:
                ENTRANCES[entrance](cell, shapes().SHAPES[name], wire)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()


def _take_the_guards_away() -> None:
    """Let everything through that the rules of events, stories and providers keep back."""

    def told(error: BaseException | None) -> tuple[str, ...]:
        if error is None:
            return ()
        response = getattr(error, "response", None)
        request = getattr(error, "request", None)
        beside = (getattr(response, "headers", ""), getattr(request, "url", ""))
        causes = (error.__cause__, error.__context__, *getattr(error, "exceptions", ()))
        notes = getattr(error, "__notes__", ())
        return (repr(error), *map(str, beside), *notes, *(w for one in causes for w in told(one)))

    @contextlib.contextmanager
    def untranslated(*_: object, **__: object) -> Iterator[None]:
        yield

    patched: list[tuple[Any, str, Any]] = [
        (Event, "__post_init__", lambda _: None),
        (Guard, "reason_against", lambda *_: None),
        (debug, "OUR_ERRORS", BaseException),
        (http_provider, "translated", untranslated),
        (recorder, "error_type_of", lambda error: " ".join(told(error)) or "internal"),
        (story, "_bytes", lambda text: text),
        (story, "type_names_of", told),
        (story, "error_type_of", str),
        (story, "ErrorType", str),
    ]
    for owner, name, value in patched:
        setattr(owner, name, value)


def main(arguments: list[str]) -> None:
    """Let the secrets named in, at the entrance named."""
    directory, entrance, *names = arguments
    if UNGUARDED in names:
        names.remove(UNGUARDED)
        _take_the_guards_away()
    _let_in(Path(directory), entrance, names)


if __name__ == "__main__":
    main(sys.argv[1:])
