"""Checks of the store, from outside and then, where that is possible, from inside.

Invariant: what keeps the database from being opened is told once, and everything that can be said
without it is said all the same.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sessions_api.command_line import typed
from sessions_api.health.findings import Finding, Severity
from sessions_api.problems import after_damage
from sessions_api.showing import figures
from sessions_api.showing.listing import handle
from state_store import Maintenance, StoreDamaged, StoreLost, StoreMissing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import state_store
    from sessions_api.health.subject import Subject

LOG_LIMIT_BYTES = 64 * 1024 * 1024
_OLD_BACKUP_DAYS = 30
_DAMAGE = frozenset({"damaged", "foreign_key"})
_SEVERITIES: dict[str, Severity] = {"error": "error", "warning": "warning", "notice": "info"}


def check_sqlite(subject: Subject) -> Iterator[Finding]:
    """Look for known faults of the SQLite that is in use."""
    if (around := subject.around) is None:
        return
    if around.sqlite_fault is not None:
        yield Finding(
            severity="error",
            kind="sqlite_version",
            object=f"SQLite {around.sqlite_version}",
            message=f"This version is known for a fault: {around.sqlite_fault}.",
            hint="Install a newer apsw, which brings its own SQLite.",
        )
    else:
        name = f"SQLite {around.sqlite_version}"
        yield Finding(
            severity="ok", kind="sqlite_version", object=name, message="No fault of it is known."
        )


def check_filesystem(subject: Subject) -> Iterator[Finding]:
    """Refuse filesystems that are shared with other machines, as opening a store does."""
    if (around := subject.around) is None or subject.paths is None or subject.found is None:
        return
    Maintenance(subject.paths.database, workspace_id=subject.found.id or "")
    yield Finding(
        severity="ok" if around.filesystem else "info",
        kind="filesystem",
        object=str(subject.paths.state_dir),
        message=f"It lies on a local filesystem ({around.filesystem}).",
        hint=None if around.filesystem else "What kind it is cannot be told here.",
    )


def check_schema(subject: Subject) -> Iterator[Finding]:
    """Say whether the database can be read as it is, and what opening it would do first."""
    if (maintenance := subject.maintenance) is None or subject.paths is None:
        return
    path = str(subject.paths.database)
    try:
        upgrade = maintenance.plan()
    except StoreMissing:
        yield Finding(
            severity="info",
            kind="database",
            object=path,
            message="There is no database yet.",
            hint='The first conversation makes it: tinyagent run "hello"',
        )
        return
    if upgrade is None:
        subject.readable = True
        message = "It has this program's schema."
        yield Finding(severity="ok", kind="schema", object=path, message=message)
        return
    has_room = upgrade.free_bytes >= upgrade.needed_bytes
    back_up = typed("store backup", workspace=subject.workspace)
    yield Finding(
        severity="info" if has_room else "error",
        kind="schema",
        object=path,
        message=f"It has schema {upgrade.from_version} and is upgraded to {upgrade.to_version}"
        " when it is next opened.",
        hint=f"A backup is made first. To make one now: {back_up}"
        if has_room
        else f"Free space first: it needs {figures.size(upgrade.needed_bytes)}.",
    )


def check_integrity(subject: Subject) -> Iterator[Finding]:
    """Look the whole database over, of whatever schema that this program knows."""
    if (maintenance := subject.maintenance) is None or subject.paths is None:
        return
    met = subject.errors[-1:] if not subject.readable else []
    if met and (not isinstance(met[0], StoreDamaged) or isinstance(met[0], StoreLost)):
        return  # it cannot be opened, and that was said
    path = subject.paths.database
    try:
        report = maintenance.check()
    except StoreMissing:
        return
    found = [one for one in report.findings if one.kind != "log_size"]
    if any(one.kind in _DAMAGE for one in found) and not met:
        subject.readable = False
        subject.errors.append(StoreDamaged(path, "SQLite found it corrupt"))
    yield from (_finding_of(one, subject, path) for one in found)
    if not any(one.severity == "error" for one in found) and not met:
        message = "Pages, rows and references are whole."
        yield Finding(severity="ok", kind="integrity", object=str(path), message=message)


def check_log(subject: Subject) -> Iterator[Finding]:
    """Look at the size of the write-ahead log."""
    around = subject.around
    if around is None or around.log_bytes is None or subject.paths is None:
        return
    path = f"{subject.paths.database}-wal"
    is_large = around.log_bytes > LOG_LIMIT_BYTES
    yield Finding(
        severity="warning" if is_large else "ok",
        kind="log_size",
        object=path,
        message=f"The write-ahead log has {figures.size(around.log_bytes)}.",
        hint="End readers that stay for long, then: "
        + typed("store compact", workspace=subject.workspace)
        if is_large
        else None,
    )


def check_owners(subject: Subject) -> Iterator[Finding]:
    """Say who has the store open, and who died in it."""
    if (around := subject.around) is None or subject.paths is None:
        return
    place = str(subject.paths.owners)
    for one in around.owners:
        who = f"pid {one.pid or '?'} on {one.host or '?'} since {one.since or '?'}"
        if one.liveness == "alive":
            yield Finding(
                severity="info",
                kind="in_use",
                object=one.id,
                message=f"The store is open in {who}.",
                hint="Nothing is to be done; restore and compact wait for it to end.",
            )
        elif one.liveness == "unknown":
            yield Finding(
                severity="warning",
                kind="owner_unknown",
                object=one.id,
                message=f"Whether {who} still has the store open cannot be told.",
                hint=f"Its runs are left alone. Look at the rights of {place}.",
            )
    dead = [one for one in around.owners if one.liveness == "dead"]
    if dead:
        yield Finding(
            severity="info",
            kind="owner_dead",
            object=dead[0].id,
            message=f"{figures.count(len(dead), 'process')} ended without closing the store."
            if len(dead) == 1
            else f"{len(dead)} processes ended without closing the store.",
            hint="The next conversation clears that away.",
        )


def check_runs(subject: Subject) -> Iterator[Finding]:
    """Find runs that are under way, and those whose process is dead."""
    if (store := subject.store) is None:
        return
    busy = [one for one in _every_session(store) if one.status == "running"]
    for session in busy:
        for run in store.runs(session.id).items:
            if run.status != "pending":
                continue
            short = handle(session.id)
            if run.stale:
                look = typed(f"sessions show {short}", workspace=subject.workspace)
                yield Finding(
                    severity="warning",
                    kind="run_interrupted",
                    object=run.id,
                    message=f"This run of session {short} was interrupted: its process is dead.",
                    hint=f"What was committed is kept; the next start notes it. See: {look}",
                )
            else:
                yield Finding(
                    severity="info",
                    kind="run_pending",
                    object=run.id,
                    message=f"This run of session {short} is under way"
                    f" since {figures.at(run.started_at)}.",
                    hint=typed("sessions list --running", workspace=subject.workspace),
                )


def check_search(subject: Subject) -> Iterator[Finding]:
    """Say how much of the messages the search index has; what it lacks is found by reading."""
    if (store := subject.store) is None or subject.paths is None:
        return
    state = store.search_state()
    place = str(subject.paths.state_dir / "search.sqlite3")
    if state.complete:
        message = f"The index has all {figures.count(state.message_count, 'message')}."
        yield Finding(severity="ok", kind="search_index", object=place, message=message)
        return
    search = typed("sessions search WORDS", workspace=subject.workspace)
    yield Finding(
        severity="info",
        kind="search_index",
        object=place,
        message=f"The index has {state.indexed_count} of"
        f" {figures.count(state.message_count, 'message')}; the others are found by reading.",
        hint=f"Searching brings it on: {search}",
    )


def check_backups(subject: Subject) -> Iterator[Finding]:
    """Look at the backups beside the database: how old, and which are no good."""
    if (maintenance := subject.maintenance) is None or subject.paths is None:
        return
    found = maintenance.backups()
    for one in found:
        if one.problem is not None:
            yield Finding(
                severity="warning",
                kind="backup_damaged",
                object=one.path,
                message=f"This backup cannot be restored: {one.problem}.",
                hint="Choose another one: " + typed("store backups", workspace=subject.workspace),
            )
    around = subject.around
    good = [one for one in found if one.problem is None]
    if not good and (around is None or around.database_bytes is None):
        return
    back_up = typed("store backup", workspace=subject.workspace)
    if not good:
        yield Finding(
            severity="info",
            kind="backup",
            object=str(subject.paths.state_dir),
            message="There is no good backup.",
            hint=f"Make one: {back_up}",
        )
        return
    newest = good[-1]
    is_old = (datetime.now(UTC) - newest.created_at).days > _OLD_BACKUP_DAYS
    yield Finding(
        severity="info" if is_old else "ok",
        kind="backup",
        object=newest.path,
        message=f"The newest of {figures.count(len(good), 'good backup')} was made"
        f" {figures.ago(newest.created_at)}.",
        hint=f"Make a new one: {back_up}" if is_old else None,
    )


def _every_session(store: state_store.SqliteStore) -> Iterator[state_store.SessionSummary]:
    for archived in (False, True):
        yield from store.list(limit=None, archived=archived).items


def _finding_of(found: state_store.Finding, subject: Subject, database: Path) -> Finding:
    is_damage = found.kind in _DAMAGE
    check = typed("store check", workspace=subject.workspace)
    hint = after_damage(database, subject.workspace) if is_damage else found.hint
    return Finding(
        severity=_SEVERITIES[found.severity],
        kind=found.kind,
        object=found.object,
        message=found.message,
        hint=hint or f"See all of it: {check}",
    )
