"""`tinyagent store check` and `recover`: what is wrong with a database, and what it still holds.

Invariants: neither changes the database; what is recovered becomes a new file, which is put in its
place only by `restore`, where a person says so. Findings name ids and never content.
"""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from sessions_api.cli.failures import FAILED
from sessions_api.cli.kept import kept
from sessions_api.cli.options import JSON, PLACE, Call, command
from sessions_api.command_line import typed
from sessions_api.showing import figures, findings
from sessions_api.showing.terminal_text import columns, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from state_store import Finding, SalvageReport

_HEADER = ("TABLE", "FOUND", "SAVED", "REBUILT", "MENDED", "REFUSED")
_DAMAGE = frozenset({"damaged", "foreign_key"})
_STAMP = "%Y%m%dT%H%M%S%fZ"


def add_to(store: typer.Typer) -> None:
    """Add the commands to `tinyagent store`."""
    command(store, "check", PLACE, JSON)(check)
    command(store, "recover", PLACE, JSON)(recover)


def check(call: Call) -> None:
    """Look the whole database over and say what is wrong; exit code 1 when something is."""
    with kept(call) as store:
        report = store.maintenance.check()
    database = store.paths.database
    hints = [_hint_of(one, database, call.workspace) for one in report.findings]
    if call.json:
        from sessions_api.cli.json_shapes import as_json  # noqa: PLC0415 - for --json alone

        found = [
            {**as_json(one), "hint": hint} for one, hint in zip(report.findings, hints, strict=True)
        ]
        call.out.record({"ok": report.ok, "findings": found})
    else:
        call.out.lines(map(findings.line, report.findings))
        call.out.note(findings.verdict(report.findings))
        for hint in dict.fromkeys(filter(None, hints)):
            call.out.note(one_line(hint))
    if not report.ok:
        raise typer.Exit(FAILED)


def recover(call: Call) -> None:
    """Save what a damaged database still holds into a new file; the old one stays as it is."""
    with kept(call) as store:
        database = store.paths.database
        stamp = datetime.now(UTC).strftime(_STAMP)
        report = store.maintenance.salvage(database.with_name(f"{database.name}.salvaged-{stamp}"))
    restore = typed(
        f"store restore --over-damaged {shlex.quote(report.into)}", workspace=call.workspace
    )
    if call.json:
        from sessions_api.cli.json_shapes import as_json  # noqa: PLC0415 - for --json alone

        call.out.record({"recovered": as_json(report), "restore": restore})
        return
    header, *lines = columns([_HEADER, *_rows(report)], right=frozenset(range(1, len(_HEADER) - 1)))
    call.out.lines([call.out.ink.bold(header), *lines])
    _tell(call, report)
    call.out.note(f"To put it in the place of the damaged one: {restore}")


def _hint_of(finding: Finding, database: Path, workspace: str) -> str | None:
    from sessions_api.problems import after_damage  # noqa: PLC0415 - not for --help

    return after_damage(database, workspace) if finding.kind in _DAMAGE else finding.hint


def _rows(report: SalvageReport) -> list[tuple[str, ...]]:
    return [
        (
            one.table,
            *map(str, (one.found, one.saved, one.rebuilt, one.mended)),
            ", ".join(f"{number} {reason}" for reason, number in one.refused.items() if number),
        )
        for one in report.tables
    ]


def _tell(call: Call, report: SalvageReport) -> None:
    note = call.out.note
    note(f"Saved: {figures.count(report.session_count, 'session')} in {one_line(report.into)}")
    if report.damaged_page_count:
        pages = figures.count(report.damaged_page_count, "page")
        note(f"Damaged: {pages} of {report.page_count}")
    if report.log_damaged:
        note("The log ends in what cannot be read, as after a power loss.")
    for session_id in report.incomplete:
        note(f"Something of it is missing or was rebuilt: {session_id}")
