"""Checks of the run journals: are they whole, and do they agree with the runs in the database.

Owns which journals are read: those of the newest sessions, or all. What speaks against one is the
judgement of `verifying`, and without a database that of `run_journal` about the file alone.
Invariant: of many journals with the same fault one finding tells, so that the page stays one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import state_store
from run_journal import verify
from sessions_api.command_line import typed
from sessions_api.health.findings import Finding, Severity
from sessions_api.showing import figures
from sessions_api.showing.listing import handle
from sessions_api.state import WorkspaceState
from sessions_api.verifying.report import of_journal
from sessions_api.verifying.verify import verify_session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sessions_api.health.subject import Subject
    from sessions_api.verifying import report

NEWEST_COUNT = 20
_WORKSPACE_JOURNAL = "workspace.jsonl"  # of what belongs to no session
_SEVERITIES: dict[str, Severity] = {"error": "error", "warning": "warning", "notice": "info"}
# What is told by other checks: what rows say of one another, runs that were left, lost lines.
_TOLD_ELSEWHERE = frozenset({*get_args(state_store.FindingKind), "run_left", "lines_lost"})


def check_journals(subject: Subject) -> Iterator[Finding]:
    """Verify the newest journals, with what the database knows of their runs if it can be read."""
    if (paths := subject.paths) is None:
        return
    count, found = _without_database(subject, paths.journal_dir)
    if subject.store is not None:
        sessions = _sessions(subject.store, subject)
        count += len(sessions)
        for number, session in enumerate(sessions, 1):
            subject.progress("checking the journals", number, len(sessions))
            found += verify_session(_state_of(subject, subject.store), session.id).findings
    alike: dict[tuple[Severity, str], list[report.Finding]] = {}
    for one in found:
        if one.kind not in _TOLD_ELSEWHERE:
            alike.setdefault((_SEVERITIES[one.severity], one.kind), []).append(one)
    look = typed("sessions verify --all", workspace=subject.workspace)
    for (severity, kind), such in alike.items():
        more = "" if len(such) == 1 else f" (and {len(such) - 1} more such)"
        yield Finding(
            severity=severity,
            kind=kind,
            object=such[0].object,
            message=f"{such[0].message}{more}.",
            hint=f"{such[0].hint} See all: {look}",
        )
    if count and not any(severity == "error" for severity, _ in alike):
        yield Finding(
            severity="ok",
            kind="journal",
            object=str(paths.journal_dir),
            message=f"{figures.count(count, 'journal')} checked; none was changed.",
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


def _without_database(subject: Subject, journal_dir: Path) -> tuple[int, list[report.Finding]]:
    """Verify the workspace's own journal, and those of sessions that only the files can tell of."""
    files = [journal_dir / _WORKSPACE_JOURNAL]
    if subject.store is None:
        others = [one for one in journal_dir.glob("*.jsonl") if one != files[0]]
        others.sort(key=lambda file: -file.stat().st_mtime_ns)
        files += others if subject.every_journal else others[:NEWEST_COUNT]
    there = [file for file in files if file.exists()]
    return len(there), [of_journal(one) for file in there for one in verify(file).findings]


def _state_of(subject: Subject, store: state_store.SqliteStore) -> WorkspaceState:
    found = subject.found
    if found is None:
        raise AssertionError("a store is open in a workspace that is known")
    return WorkspaceState(
        root=found.root,
        workspace_id=found.id,
        paths=found.paths,
        store=store,
        story=None,
        saving=False,
    )


def _sessions(
    store: state_store.SqliteStore, subject: Subject
) -> Sequence[state_store.SessionSummary]:
    limit = None if subject.every_journal else NEWEST_COUNT
    return store.list(limit=limit).items
