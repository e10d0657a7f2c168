"""Opening a workspace: gather evidence, decide, carry the decision out.

What is usual (`known`) is read without the registry's lock and writes nothing. Everything else is
gathered again under the lock, which is held until it is written. Order of writing: marker, history,
record; a crash between any two of them leaves what the next open decides the same way.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from workspace_identity.decision import Decision, Evidence, Verdict, decide
from workspace_identity.directory import Directory
from workspace_identity.errors import (
    MarkerDamaged,
    UnsafeWorkspace,
    WorkspaceIdentityError,
    WorkspaceMissing,
)
from workspace_identity.evidence import gather
from workspace_identity.git import is_unignored
from workspace_identity.hazards import hint_against
from workspace_identity.history import History, HistoryEntry
from workspace_identity.lock import LOCK_TIMEOUT_S, registry_lock
from workspace_identity.marker import MarkerState, write_marker
from workspace_identity.notices import hints_for, marker_problem, notice_for, shown
from workspace_identity.place import place_of
from workspace_identity.record import Record
from workspace_identity.registry import Registry
from workspace_identity.state_home import (
    WorkspacePaths,
    prepare_rooms,
    prepare_state_home,
    resolve_state_home,
    state_home_errors,
)
from workspace_identity.workspace import Inspection, Workspace
from workspace_identity.workspace_id import new_workspace_id

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

LAST_SEEN_EVERY = timedelta(days=1)

# Another state home may create or replace the marker while this one decides; each round then starts
# from what it left. More rounds than this mean that somebody rewrites it without end.
_ROUNDS = 8


def utc_now() -> datetime:
    """Return the current time, aware, in UTC."""
    return datetime.now(UTC)


def open_workspace(
    path: str | os.PathLike[str],
    *,
    state_home: str | os.PathLike[str] | None = None,
    clock: Callable[[], datetime] = utc_now,
    new_id: Callable[[], str] = new_workspace_id,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
) -> Workspace:
    """Decide which workspace the directory *path* is, and make that so.

    Writes the marker and the registry's record where the decision needs it and returns after they
    would survive power loss; a workspace that is known costs two small reads and no write (once a
    day its record notes that it was seen). Creates `paths.state_dir` and `paths.journal_dir`. Safe
    to call from any number of threads and processes at once; holds nothing when it returns.

    Raises UnsafeWorkspace, WorkspaceMissing, MarkerDamaged, RegistryBusy (after *lock_timeout_s*),
    StateHomeUnusable.
    """
    home = resolve_state_home(state_home)
    evidence = gather(path, home)
    decision = decide(evidence)
    _refuse(decision, evidence)
    if decision.writes_nothing:
        _refresh(evidence, decision, home, clock())
        return _opened(evidence, decision, home)
    prepare_state_home(home)
    with state_home_errors(home), registry_lock(home, timeout_s=lock_timeout_s):
        for _ in range(_ROUNDS):
            evidence = gather(path, home)
            decision = decide(evidence)
            _refuse(decision, evidence)
            if decision.writes_nothing:
                break
            with contextlib.suppress(FileExistsError):
                evidence, decision = _carry_out(evidence, decision, home, clock(), new_id)
                break
        else:
            raise _rewritten_without_end(evidence)
    return _opened(evidence, decision, home)


def inspect_workspace(
    path: str | os.PathLike[str], *, state_home: str | os.PathLike[str] | None = None
) -> Inspection:
    """Say what `open_workspace` would decide now; writes and creates nothing, waits for nobody.

    Raises UnsafeWorkspace, WorkspaceMissing, MarkerDamaged, StateHomeUnusable.
    """
    home = resolve_state_home(state_home)
    evidence = gather(path, home)
    decision = decide(evidence)
    _refuse(decision, evidence)
    workspace_id = decision.workspace_id
    return Inspection(
        id=workspace_id,
        root=Path(evidence.path),
        verdict=decision.verdict,
        notice=notice_for(decision, evidence),
        previous_path=_path(decision.previous_path),
        paths=None if workspace_id is None else WorkspacePaths.of(home, workspace_id),
        state_home=home,
        reason=decision.reason,
        row=decision.row,
        evidence=evidence,
    )


def _refuse(decision: Decision, evidence: Evidence) -> None:
    if decision.verdict is not Verdict.REFUSED:
        return
    path = Path(evidence.path)
    if evidence.hazard is not None:
        raise UnsafeWorkspace(
            f"{shown(evidence.path)} cannot be a workspace: {evidence.hazard}",
            hint=hint_against(evidence.hazard),
            path=path,
            hazard=evidence.hazard,
        )
    problem = marker_problem(evidence.marker)
    if evidence.marker.state is MarkerState.UNSAFE:
        raise UnsafeWorkspace(
            f"{shown(evidence.path)} cannot be a workspace: {problem}",
            hint="look at it, remove it if it is not yours to keep, then try again; "
            "or name another directory with --workspace DIR (-w)",
            path=path,
            hazard=problem,
        )
    raise MarkerDamaged(
        f"the marker of {shown(evidence.path)} cannot be read: {problem}",
        hint="make it readable for you, or remove it to start with an empty history",
        path=path,
        problem=problem,
    )


def _carry_out(
    evidence: Evidence,
    decision: Decision,
    home: Path,
    now: datetime,
    new_id: Callable[[], str],
) -> tuple[Evidence, Decision]:
    """Write what *decision* needs; FileExistsError when somebody else made the marker first."""
    workspace_id = decision.workspace_id or new_id()
    if decision.writes_marker and not _mark(evidence, workspace_id):
        evidence = replace(evidence, writable=False)
        decision = decide(evidence)
        workspace_id = decision.workspace_id or workspace_id
    decision = replace(decision, workspace_id=workspace_id)
    record = _record(evidence, decision, workspace_id, now)
    History(home).append(history_entry(record, decision.verdict, decision, evidence, now))
    Registry(home).write(record)
    return evidence, decision


def _mark(evidence: Evidence, workspace_id: str) -> bool:
    """Write the marker; False where the workspace does not let itself be written."""
    must_replace = evidence.marker.state is not MarkerState.ABSENT
    try:
        with Directory.open(evidence.path) as root:
            _require_unchanged(root, evidence)
            write_marker(root, workspace_id, replace=must_replace)
    except FileExistsError:
        raise
    except OSError:
        return False
    return True


def _require_unchanged(root: Directory, evidence: Evidence) -> None:
    if place_of(root) != evidence.place:
        raise FileExistsError("another directory stands there now: look again")


def _record(evidence: Evidence, decision: Decision, workspace_id: str, now: datetime) -> Record:
    former = next(
        (
            record
            for record in (evidence.record_here, evidence.claimed)
            if record is not None and record.workspace_id == workspace_id
        ),
        None,
    )
    return Record(
        workspace_id=workspace_id,
        path=evidence.path,
        place=evidence.place,
        marked=decision.verdict is not Verdict.UNMARKED,
        created_at=now if former is None else former.created_at,
        last_seen_at=now,
    )


def history_entry(
    record: Record, action: str, decision: Decision, evidence: Evidence, now: datetime
) -> HistoryEntry:
    """Return the line of the registry's history for a decision."""
    return HistoryEntry(
        at=now,
        action=str(action),
        workspace_id=record.workspace_id,
        path=record.path,
        place=record.place,
        marked=record.marked,
        previous_path=decision.previous_path,
        marker_id=evidence.marker.workspace_id,
        reason=f"row {decision.row}: {decision.reason}",
    )


def _refresh(evidence: Evidence, decision: Decision, home: Path, now: datetime) -> None:
    """Note that a known workspace was seen, at most daily; failing to is nobody's trouble."""
    record = evidence.record_here
    if decision.verdict is not Verdict.KNOWN or record is None:
        return
    is_recent = abs(now - record.last_seen_at) < LAST_SEEN_EVERY
    if is_recent and record.place == evidence.place:
        return
    with contextlib.suppress(WorkspaceIdentityError, OSError), registry_lock(home, timeout_s=0):
        if Registry(home).find(record.workspace_id) == record:
            Registry(home).write(replace(record, place=evidence.place, last_seen_at=now))


def _opened(evidence: Evidence, decision: Decision, home: Path) -> Workspace:
    workspace_id = decision.workspace_id
    if workspace_id is None:
        raise AssertionError("a decision that was carried out has an id")
    paths = WorkspacePaths.of(home, workspace_id)
    prepare_rooms(home, paths)
    return Workspace(
        id=workspace_id,
        root=Path(evidence.path),
        verdict=decision.verdict,
        notice=notice_for(decision, evidence),
        hints=_hints(evidence, decision),
        previous_path=_path(decision.previous_path),
        paths=paths,
        state_home=home,
        reason=decision.reason,
        row=decision.row,
        evidence=evidence,
    )


def _hints(evidence: Evidence, decision: Decision) -> tuple[str, ...]:
    if not decision.writes_marker or decision.verdict is Verdict.HEALED:
        return ()
    return hints_for(evidence.path, is_unignored=is_unignored(evidence.path))


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _rewritten_without_end(evidence: Evidence) -> WorkspaceMissing:
    return WorkspaceMissing(
        f"{shown(evidence.path)} changed under every attempt to open it",
        hint="find out what keeps replacing the directory or its marker, then try again",
        path=Path(evidence.path),
    )
