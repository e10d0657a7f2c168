"""Verifying one session, or the whole workspace.

Owns the order of looking, and that what looks wrong beside a journal is looked at again before it
is told: another process may be between its commit and its line. Invariant: reads only, and is
complete or raises; stopping it in the middle leaves nothing behind.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sessions_api.verifying.pairing import pairing_findings
from sessions_api.verifying.report import Finding, Report, of_journal, of_store
from state_store import Maintenance, SessionNotFound, silent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sessions_api.state import WorkspaceState
    from state_store import Progress

RECHECK_S = 0.2
_LOOKS = 5


def verify_session(state: WorkspaceState, session_id: str) -> Report:
    """Verify the rows of a session, its calls and results, and its journal."""
    rows = map(of_store, state.store.check_session(session_id))
    return Report.of([*rows, *_beside(state, session_id, _restored_at(state))])


def verify_workspace(state: WorkspaceState, *, progress: Progress = silent) -> Report:
    """Verify the database, every session of the workspace, and every journal."""
    findings: list[Finding] = []
    session_ids = [
        one.id
        for archived in (False, True)
        for one in state.store.list(limit=None, archived=archived).items
    ]
    if state.paths is None or state.workspace_id is None:
        for session_id in session_ids:
            findings += map(of_store, state.store.check_session(session_id))
    else:
        maintenance = Maintenance(
            state.paths.database,
            workspace_id=state.workspace_id,
            owners_dir=state.paths.owners,
            progress=progress,
        )
        findings += map(of_store, maintenance.check().findings)
        findings += _workspace_journal(state.paths.journal_dir)
    restored_at = _restored_at(state)
    for number, session_id in enumerate(session_ids, 1):
        progress("verifying sessions", number, len(session_ids))
        try:
            findings += _beside(state, session_id, restored_at)
        except SessionNotFound:  # it was deleted meanwhile
            continue
    if state.paths is not None:
        findings += _strays(state, state.paths.journal_dir, set(session_ids))
    return Report.of(findings)


def _beside(state: WorkspaceState, session_id: str, restored_at: str | None) -> list[Finding]:
    """Return what is wrong beside the rows: what two looks, one after the other, both saw."""
    before, found = [], list(_look(state, session_id, restored_at))
    for _ in range(_LOOKS):
        if all(one.kind in {"result_missing", "result_surplus"} for one in found):
            return found
        time.sleep(RECHECK_S)
        before, found = found, list(_look(state, session_id, restored_at))
        if found == before:
            return found
    return [one for one in found if one in before]  # others write it, faster than it is read


def _look(state: WorkspaceState, session_id: str, restored_at: str | None) -> Iterator[Finding]:
    then = state.store.snapshot(session_id)
    stored = state.store.messages(session_id, view="all").items
    messages = [one for one in stored if one.seq <= then.last_seq]
    yield from pairing_findings(messages, then)
    if state.paths is not None:
        from run_journal import session_file_name  # noqa: PLC0415 - not where there is no journal
        from sessions_api.verifying.journals import journal_findings  # noqa: PLC0415 - the same

        path = state.paths.journal_dir / session_file_name(session_id)
        yield from journal_findings(path, then, messages, restored_at=restored_at)


def _restored_at(state: WorkspaceState) -> str | None:
    """Return when a backup last took the place of the database, as the workspace's journal has it.

    A restore that a program did without telling is not known of.
    """
    from run_journal import Entry, EventName, RunJournalError, read  # noqa: PLC0415 - see above

    path = None if state.paths is None else state.paths.journal_dir / "workspace.jsonl"
    found: str | None = None
    if path is not None and path.exists():
        try:
            for line in read(path):
                if isinstance(line, Entry) and line.event == EventName.STORE_RESTORED:
                    found = line.ts
        except (RunJournalError, OSError):
            return found
    return found


def _workspace_journal(journal_dir: Path) -> Iterator[Finding]:
    from run_journal import verify  # noqa: PLC0415 - see above

    path = journal_dir / "workspace.jsonl"
    if path.exists():
        yield from map(of_journal, verify(path).findings)


def _strays(state: WorkspaceState, journal_dir: Path, known: set[str]) -> Iterator[Finding]:
    """Yield journals of sessions that the database does not have, and no delete is about to take.

    A session that was begun since the list was made is asked for.
    """
    from run_journal import Entry, read, session_file_name  # noqa: PLC0415 - see above

    names = {session_file_name(one) for one in (*known, *state.store.unerased())}
    for path in sorted(journal_dir.glob("*.jsonl")):
        if path.name in names or path.name == "workspace.jsonl":
            continue
        first = next((one for one in read(path) if isinstance(one, Entry)), None)
        session_id = None if first is None else first.session_id
        if session_id is None or not _is_there(state, session_id):
            yield Finding(
                severity="warning",
                kind="journal_stray",
                object=str(path),
                message="it is the journal of a session that the database does not have",
                hint="If the database was restored from a backup, the session came after it, and is"
                " in the one that was replaced, beside it. It can be read: tinyagent logs FILE",
            )


def _is_there(state: WorkspaceState, session_id: str) -> bool:
    try:
        state.store.get_session(session_id)
    except SessionNotFound:
        return False
    return True
