"""`tinyagent sessions verify`: whether rows, calls, journals and runs agree with one another.

Invariants: it changes nothing and may be stopped at any moment; findings name ids, files and places
and never content. Exit code 1 when one of them is an error, 5 when the database cannot be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sessions_api.cli.exporting import OptionalRef  # noqa: TC001 - Typer reads it
from sessions_api.cli.failures import DAMAGED, FAILED, UsageInvalid
from sessions_api.cli.opened import reading
from sessions_api.cli.options import JSON, PLACE, Call, command
from sessions_api.showing import findings
from sessions_api.showing.terminal_text import one_line

if TYPE_CHECKING:
    from sessions_api.verifying.report import Report

All = Annotated[
    bool, typer.Option("--all", help="The database and every session; so it is without a REF.")
]


def add_to(sessions: typer.Typer) -> None:
    """Add `verify` to `tinyagent sessions`."""
    command(sessions, "verify", PLACE, JSON)(verify)


def verify(call: Call, ref: OptionalRef = None, *, everything: All = False) -> None:
    """Check a session, or all: its rows, its tool calls, its journal, and that against its runs."""
    if everything and ref is not None:
        raise UsageInvalid("REF and --all exclude each other.", hint="Leave one of them out.")
    with reading(call) as opened, call.out.progress() as progress:
        if ref is None:
            report = opened.sessions.verify_all(progress=progress)
        else:
            progress("verifying the session", 0, 0)
            report = opened.sessions.verify(ref)
    _tell(call, report)
    if any(one.kind == "damaged" for one in report.findings):
        raise typer.Exit(DAMAGED)
    if not report.ok:
        raise typer.Exit(FAILED)


def _tell(call: Call, report: Report) -> None:
    if call.json:
        from sessions_api.cli.json_shapes import as_json  # noqa: PLC0415 - for --json alone

        call.out.record(as_json(report))
        return
    call.out.lines(map(findings.line, report.findings))
    call.out.note(findings.verdict(report.findings))
    for hint in dict.fromkeys(one.hint for one in report.findings):
        call.out.note(one_line(hint))
