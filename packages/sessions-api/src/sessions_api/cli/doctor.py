"""`tinyagent doctor`: everything that can be wrong, on one page, with the next command to type.

Renders what `sessions_api.health` finds and decides nothing. Invariant: it works where nothing else
does: without a workspace, with a damaged or newer database, in a home that cannot be written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sessions_api.cli.failures import FAILED, exit_code_of
from sessions_api.cli.options import JSON, PLACE, Call, command
from sessions_api.showing import figures
from sessions_api.showing.terminal_text import Ink, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions_api.health import Finding, Health

Everything = Annotated[
    bool, typer.Option("--all", help="Read the journals of all sessions, not of the newest 20.")
]
# Which of the exit codes stands for a store as a whole, the one that hinders most first.
_CODES = (5, 6, 7)
_COUNTED = ("error", "warning")
_ASIDE = " " * 29  # below the messages


def add_to(app: typer.Typer) -> None:
    """Add `doctor` to the command line."""
    command(app, "doctor", PLACE, JSON)(doctor)


def doctor(call: Call, *, everything: Everything = False) -> None:
    """Look at everything that can be wrong, change nothing, and say what to type next.

    Exit code 1 when something is wrong, 5 for a damaged database, 6 for a newer one, 7 for one
    that is in use.
    """
    from sessions_api.health import diagnose  # noqa: PLC0415 - not for --help

    out = call.out
    with out.progress() as progress:
        health = diagnose(call.workspace, every_journal=everything, progress=progress)
    if call.json:
        from sessions_api.cli.json_shapes import as_json  # noqa: PLC0415 - for --json alone

        out.record({"ok": health.ok, "findings": as_json(health.findings)})
    else:
        for finding in health.findings:
            out.lines(_lines(finding, out.ink))
        out.flush()  # before the line on standard error that sums it up
        out.note(_verdict(health))
    if not health.ok:
        raise typer.Exit(_exit_code(health))


def _exit_code(health: Health) -> int:
    met = {exit_code_of(error) for error in health.errors}
    return next((code for code in _CODES if code in met), FAILED)


def _lines(finding: Finding, ink: Ink) -> Iterator[str]:
    mark = f"{finding.severity:<7}"
    if finding.severity in _COUNTED:
        mark = ink.alarm(mark)
    yield f"{mark}  {finding.kind.replace('_', ' '):<18}  {one_line(finding.message)}"
    if finding.severity == "ok":
        return
    yield f"{_ASIDE}{one_line(finding.object)}"
    if finding.hint is not None:
        yield f"{_ASIDE}{one_line(finding.hint)}"


def _verdict(health: Health) -> str:
    counts = [
        figures.count(number, severity)
        for severity in _COUNTED
        if (number := sum(one.severity == severity for one in health.findings))
    ]
    return f"Found: {', '.join(counts)}" if counts else "Nothing is wrong."
