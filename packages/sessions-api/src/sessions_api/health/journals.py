"""Checks of the run journals: are they whole, and do they agree with the runs in the database.

Owns which journals are read: those of the newest sessions, or all. Invariant: journals are checked
without a database as well, for what the files alone prove; of many journals with the same fault
one finding tells, so that the page stays one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from run_journal import ExpectedRun, Head, Report, session_file_name, verify
from sessions_api.command_line import typed
from sessions_api.health.findings import Finding
from sessions_api.showing import figures
from sessions_api.showing.listing import handle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import run_journal
    from sessions_api.health.subject import Subject
    from state_store import Run, SessionSummary, SqliteStore

NEWEST_COUNT = 20
_WORKSPACE_JOURNAL = "workspace.jsonl"  # of what belongs to no session
# A run that ends while it is looked at makes the two differ for a moment.
_ATTEMPTS = 3


def check_journals(subject: Subject) -> Iterator[Finding]:
    """Verify the newest journals, with what the database knows of their runs if it can be read."""
    if (paths := subject.paths) is None:
        return
    reports = list(_reports(subject, paths.journal_dir))
    alike: dict[tuple[str, str], list[tuple[Path, run_journal.Finding]]] = {}
    for report in reports:
        for one in report.findings:
            alike.setdefault((one.severity, one.kind), []).append((report.path, one))
    for (severity, kind), found in alike.items():
        path, first = found[0]
        places = len({journal for journal, _ in found})
        more = "" if places == 1 else f" ({len(found)} such in {places} journals)"
        look = typed(f"logs {path}", workspace=subject.workspace)
        yield Finding(
            severity="error"
            if severity == "error"
            else "warning"
            if severity == "warning"
            else "info",
            kind=f"journal_{kind}",
            object=first.object,
            message=f"{first.message}{more}.",
            hint=f"{first.hint} See: {look}",
        )
    if reports and not any(severity == "error" for severity, _ in alike):
        count = figures.count(len(reports), "journal")
        yield Finding(
            severity="ok",
            kind="journal",
            object=str(paths.journal_dir),
            message=f"The chains of {count} were checked; none is broken.",
        )


def check_lost_lines(subject: Subject) -> Iterator[Finding]:
    """Count lines of journals that could not be written when they were due."""
    if (store := subject.store) is None or subject.paths is None:
        return
    for session in _sessions(store, subject):
        lost = sum(run.journal_lost_count for run in store.runs(session.id).items)
        if lost:
            yield Finding(
                severity="warning",
                kind="journal_lost",
                object=session.id,
                message=f"{figures.count(lost, 'journal line')} of session {handle(session.id)}"
                " could not be written; the conversation itself is saved.",
                hint=f"Check the rights of {subject.paths.journal_dir}, and the space on its disk.",
            )


def _reports(subject: Subject, journal_dir: Path) -> Iterator[Report]:
    common = journal_dir / _WORKSPACE_JOURNAL
    if common.exists():
        yield verify(common)
    if (store := subject.store) is None:
        files = [one for one in journal_dir.glob("*.jsonl") if one != common]
        files.sort(key=lambda file: -file.stat().st_mtime_ns)
        yield from map(verify, files if subject.every_journal else files[:NEWEST_COUNT])
        return
    for number, session in enumerate(_sessions(store, subject), 1):
        subject.progress("checking the journals", number, 0)
        yield _verified(store, session, journal_dir / session_file_name(session.id))


def _verified(store: SqliteStore, session: SessionSummary, path: Path) -> Report:
    runs = store.runs(session.id).items
    for _ in range(_ATTEMPTS):
        report = verify(path, expected_runs=[_expected(run) for run in runs])
        if not report.findings:
            break
        before, runs = runs, store.runs(session.id).items
        if runs == before:
            break
    return report


def _expected(run: Run) -> ExpectedRun:
    head = None if run.journal_head is None else Head(*run.journal_head)
    return ExpectedRun(
        run_id=run.id, status=run.status, head=head, lost_count=run.journal_lost_count
    )


def _sessions(store: SqliteStore, subject: Subject) -> tuple[SessionSummary, ...]:
    limit = None if subject.every_journal else NEWEST_COUNT
    return store.list(limit=limit).items
