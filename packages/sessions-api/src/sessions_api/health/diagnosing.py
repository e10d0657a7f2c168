"""All checks, one after the other, each of which may fail without keeping the next from its turn.

Owns their order and what an error in one of them means. Invariant: whatever a check raises becomes
a finding; whatever is wrong, this returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.health.configuration import check_provider
from sessions_api.health.findings import Finding, Health
from sessions_api.health.home import (
    check_permissions,
    check_sizes,
    check_space,
    check_state_home,
)
from sessions_api.health.identity import check_git, check_workspace
from sessions_api.health.journals import check_journals, check_lost_lines
from sessions_api.health.store import (
    check_backups,
    check_filesystem,
    check_integrity,
    check_log,
    check_owners,
    check_runs,
    check_schema,
    check_search,
    check_sqlite,
)
from sessions_api.health.subject import Subject
from sessions_api.problems import problem_of
from state_store import Progress, silent

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable
    from pathlib import Path

    Check = Callable[[Subject], Iterable[Finding]]

CHECKS: tuple[Check, ...] = (
    check_state_home,
    check_workspace,
    check_git,
    check_permissions,
    check_space,
    check_sqlite,
    check_filesystem,
    check_schema,
    check_integrity,
    check_log,
    check_owners,
    check_runs,
    check_search,
    check_backups,
    check_journals,
    check_lost_lines,
    check_sizes,
    check_provider,
)


def diagnose(
    workspace: str | os.PathLike[str],
    *,
    state_home: Path | None = None,
    every_journal: bool = False,
    progress: Progress = silent,
) -> Health:
    """Look at all that can be wrong with *workspace* and say what is. Changes and creates nothing.

    Of the journals those of the newest sessions are read, or *every_journal*. SQLite may make and
    remove its own -wal and -shm beside a database that nobody has open. Costs a few passes over
    the whole database. Raises nothing that is about the workspace.
    """
    with Subject(
        workspace=str(workspace),
        state_home=state_home,
        every_journal=every_journal,
        progress=progress,
    ) as subject:
        for check in CHECKS:
            try:
                subject.findings.extend(check(subject))
            except Exception as error:  # noqa: BLE001 - what one check meets is a finding
                subject.errors.append(error)
                subject.findings.append(_finding_of(error, check, subject))
        return Health(findings=tuple(subject.findings), errors=tuple(subject.errors))


def _finding_of(error: Exception, check: Check, subject: Subject) -> Finding:
    problem = problem_of(error, workspace=subject.workspace)
    return Finding(
        severity="error",
        kind=problem.kind,
        object=str(getattr(error, "path", None) or check.__name__.removeprefix("check_")),
        message=problem.message,
        hint=problem.hint,
    )
