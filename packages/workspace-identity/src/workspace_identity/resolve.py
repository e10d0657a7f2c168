"""Opening a workspace: gather evidence, decide, carry the decision out.

What is usual (`known`) is read without the registry's lock and writes nothing. Everything else is
gathered again under the lock, which is held until it is written. Order of writing: marker, history,
record; a crash between any two of them leaves what the next open decides the same way.
"""

from __future__ import annotations

import contextlib
import errno
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from workspace_identity.decision import Decision, Evidence, decide
from workspace_identity.directory import Directory
from workspace_identity.errors import WorkspaceIdentityError, WorkspaceMissing
from workspace_identity.evidence import gather
from workspace_identity.git import is_in_repository, is_unignored
from workspace_identity.history import History, HistoryEntry
from workspace_identity.lock import LOCK_TIMEOUT_S, registry_lock
from workspace_identity.marker import MarkerState, write_marker
from workspace_identity.notices import git_hint, notice_for, parent_hint, shown
from workspace_identity.place import place_of
from workspace_identity.record import Record, place_to_json
from workspace_identity.refusal import require_accepted
from workspace_identity.registry import Registry, Unusable
from workspace_identity.state_home import (
    WorkspacePaths,
    prepare_rooms,
    prepare_state_home,
    resolve_state_home,
    state_home_errors,
)
from workspace_identity.table import Verdict
from workspace_identity.workspace import Inspection, Workspace
from workspace_identity.workspace_id import new_workspace_id

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

LAST_SEEN_EVERY = timedelta(days=1)

# Another state home may create or replace the marker while this one decides; each round then starts
# from what it left. More rounds than this mean that somebody rewrites it without end.
_ROUNDS = 8

# What writing a marker fails with where names came or went since they were looked at. A workspace
# that is not writable fails otherwise.
_CHANGED_MEANWHILE = frozenset({errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


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
    require_accepted(decision, evidence)
    if decision.writes_nothing:
        hints = _refresh(evidence, decision, home, clock())
        return _opened(evidence, decision, home, hints)
    record = None
    prepare_state_home(home)
    with state_home_errors(home), registry_lock(home, timeout_s=lock_timeout_s):
        for _ in range(_ROUNDS):
            evidence = gather(path, home)
            decision = decide(evidence)
            require_accepted(decision, evidence)
            if decision.writes_nothing:
                break
            with contextlib.suppress(FileExistsError):
                evidence, decision, record = _carry_out(evidence, decision, home, clock(), new_id)
                break
        else:
            raise _rewritten_without_end(evidence)
    # Outside of the lock, because git may take its time.
    hints = () if record is None else _first_hints(evidence, record)
    return _opened(evidence, decision, home, hints)


def inspect_workspace(
    path: str | os.PathLike[str], *, state_home: str | os.PathLike[str] | None = None
) -> Inspection:
    """Say what `open_workspace` would decide now; writes and creates nothing, waits for nobody.

    Raises UnsafeWorkspace, WorkspaceMissing, MarkerDamaged, StateHomeUnusable.
    """
    home = resolve_state_home(state_home)
    evidence = gather(path, home)
    decision = decide(evidence)
    require_accepted(decision, evidence)
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


def _carry_out(
    evidence: Evidence,
    decision: Decision,
    home: Path,
    now: datetime,
    new_id: Callable[[], str],
) -> tuple[Evidence, Decision, Record]:
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
    return evidence, decision, record


def _mark(evidence: Evidence, workspace_id: str) -> bool:
    """Write the marker; False where the workspace does not let itself be written."""
    must_replace = evidence.marker.state is not MarkerState.ABSENT
    try:
        with Directory.open(evidence.path) as root:
            _require_unchanged(root, evidence)
            write_marker(root, workspace_id, replace=must_replace)
    except OSError as error:
        if error.errno in _CHANGED_MEANWHILE:
            raise _changed() from error
        return False
    return True


def _require_unchanged(root: Directory, evidence: Evidence) -> None:
    if place_of(root) != evidence.place:
        raise _changed()


def _changed() -> FileExistsError:
    return FileExistsError(errno.EEXIST, "something else stands there now: look again")


def _record(evidence: Evidence, decision: Decision, workspace_id: str, now: datetime) -> Record:
    former, marked = _former(evidence, workspace_id), decision.verdict is not Verdict.UNMARKED
    in_place = former is not None and former is evidence.record_here
    return Record(
        workspace_id=workspace_id,
        path=former.path if former is not None and in_place else evidence.path,
        place=evidence.place,
        marked=marked,
        created_at=now if former is None else former.created_at,
        last_seen_at=now,
        git_asked=_has_asked_git(former) or (marked and is_in_repository(evidence.path)),
    )


def _former(evidence: Evidence, workspace_id: str) -> Record | None:
    """Return what the registry believed of this workspace so far."""
    for record in (evidence.record_here, evidence.claimed):
        if record is not None and record.workspace_id == workspace_id:
            return record
    return None


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
        evidence=_facts(evidence),
    )


def _facts(evidence: Evidence) -> dict[str, object]:
    claimed, there = evidence.claimed, evidence.original_place
    return {
        "marker": evidence.marker.state,
        "recorded_path": None if claimed is None else claimed.path,
        "recorded_place": None if claimed is None else place_to_json(claimed.place),
        "original": evidence.original,
        "original_place": None if there is None else place_to_json(there),
        "tracked": evidence.tracked,
        "writable": evidence.writable,
    }


def _refresh(evidence: Evidence, decision: Decision, home: Path, now: datetime) -> tuple[str, ...]:
    """Note that a known workspace was seen, at most daily; return the hint about git, once.

    Nothing of this is worth waiting for the registry, or failing.
    """
    record = evidence.record_here or evidence.claimed
    if decision.verdict is not Verdict.KNOWN or record is None:
        return ()
    asks = not record.git_asked and is_in_repository(evidence.path)
    is_recent = abs(now - record.last_seen_at) < LAST_SEEN_EVERY
    if is_recent and not asks and not evidence.record_lost and record.place == evidence.place:
        return ()
    seen = replace(
        record, place=evidence.place, last_seen_at=now, git_asked=record.git_asked or asks
    )
    with contextlib.suppress(WorkspaceIdentityError, OSError):
        with registry_lock(home, timeout_s=0):
            found = Registry(home).find(record.workspace_id)
            is_current = found == record or (evidence.record_lost and isinstance(found, Unusable))
            if is_current:
                Registry(home).write(seen)
        return _git_hints(evidence) if asks and is_current else ()
    return ()


def _first_hints(evidence: Evidence, record: Record) -> tuple[str, ...]:
    """Return what is worth saying when a workspace was first seen, or first seen with git."""
    former = _former(evidence, record.workspace_id)
    above = parent_hint(evidence.path) if former is None else None
    asks = record.git_asked and not _has_asked_git(former)
    return (_git_hints(evidence) if asks else ()) + (() if above is None else (above,))


def _has_asked_git(former: Record | None) -> bool:
    return former is not None and former.git_asked


def _git_hints(evidence: Evidence) -> tuple[str, ...]:
    return (git_hint(),) if is_unignored(evidence.path) else ()


def _opened(
    evidence: Evidence, decision: Decision, home: Path, hints: tuple[str, ...]
) -> Workspace:
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
        hints=hints,
        previous_path=_path(decision.previous_path),
        paths=paths,
        state_home=home,
        reason=decision.reason,
        row=decision.row,
        evidence=evidence,
    )


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _rewritten_without_end(evidence: Evidence) -> WorkspaceMissing:
    return WorkspaceMissing(
        f"Cannot open the workspace {shown(evidence.path)}: it changed under every attempt.",
        hint="Find out what keeps replacing the directory or its marker, then try again.",
        path=Path(evidence.path),
    )
