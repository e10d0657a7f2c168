"""What a person decides instead: give a workspace a directory, take it away, list them all.

`relink` and `forget` undo decisions. Neither removes any history: a workspace without a directory
keeps its database and its journal until somebody deletes those by name. Both hold the registry's
lock and write in the order marker, history, record.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from workspace_identity.decision import Decision, Evidence
from workspace_identity.directory import Directory
from workspace_identity.errors import UnknownWorkspace
from workspace_identity.evidence import gather, records_of
from workspace_identity.history import FORGOTTEN, RELINKED, History, HistoryEntry
from workspace_identity.lock import LOCK_TIMEOUT_S, registry_lock
from workspace_identity.marker import read_marker, remove_marker, write_marker
from workspace_identity.notices import shown
from workspace_identity.patience import in_time
from workspace_identity.place import place_of, same_place
from workspace_identity.record import NewerRecordError, Record
from workspace_identity.refusal import require_safe
from workspace_identity.registry import Registry, Unusable
from workspace_identity.resolve import history_entry, utc_now
from workspace_identity.state_home import (
    WorkspacePaths,
    prepare_rooms,
    prepare_state_home,
    resolve_state_home,
    state_home_errors,
)
from workspace_identity.table import Verdict
from workspace_identity.workspace import Workspace, WorkspaceRecord
from workspace_identity.workspace_id import is_workspace_id

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

_NEVER = datetime.min.replace(tzinfo=UTC)


def list_workspaces(*, state_home: str | os.PathLike[str] | None = None) -> list[WorkspaceRecord]:
    """Return every workspace of the registry, the one seen last first; writes nothing.

    A workspace whose record is missing or damaged is in the list, at the end, and says so in
    `problem`. Raises StateHomeUnusable where the registry cannot be read.
    """
    home = resolve_state_home(state_home)
    with state_home_errors(home):
        records = [_public(found, home) for found in Registry(home).scan()]
    records.sort(key=lambda record: record.id)
    records.sort(key=lambda record: record.last_seen_at or _NEVER, reverse=True)
    return records


def relink(
    workspace_id: str,
    path: str | os.PathLike[str],
    *,
    state_home: str | os.PathLike[str] | None = None,
    clock: Callable[[], datetime] = utc_now,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
) -> Workspace:
    """Make the directory *path* the workspace *workspace_id*, with its history.

    Another workspace that was recorded for this directory loses it and keeps its own history. Where
    the marker cannot be written the registry alone keeps the identity. Returns after it would
    survive power loss. Raises UnknownWorkspace, UnsafeWorkspace, WorkspaceMissing, RegistryBusy,
    StateHomeUnusable.
    """
    home = resolve_state_home(state_home)
    _require_known(workspace_id, home)
    require_safe(gather(path, home))
    prepare_state_home(home)
    with state_home_errors(home), registry_lock(home, timeout_s=lock_timeout_s):
        evidence = gather(path, home)
        require_safe(evidence)
        registry, history, now = Registry(home), History(home), clock()
        former = _find_whole(workspace_id, registry, history)
        with Directory.open(evidence.path) as root:
            here = records_of(evidence.path, evidence.place, root.status(), registry)
        displaced = [record for record in here if record.workspace_id != workspace_id]
        record = Record(
            workspace_id=workspace_id,
            path=evidence.path,
            place=evidence.place,
            marked=_try_mark(evidence, workspace_id),
            created_at=now if former is None else former.created_at,
            last_seen_at=now,
            git_asked=former is not None and former.git_asked,
        )
        decision = Decision(
            row=0,
            verdict=Verdict.KNOWN,
            workspace_id=workspace_id,
            previous_path=None if former is None else former.path,
            reason="somebody relinked it",
        )
        history.append(history_entry(record, RELINKED, decision, evidence, now))
        registry.write(record)
        # Last, so that a crash never leaves the directory with a marker that no record supports.
        for loser in displaced:
            history.append(_forgotten(loser, now, f"its directory was given to {workspace_id}"))
            registry.remove(loser.workspace_id)
    paths = WorkspacePaths.of(home, workspace_id)
    prepare_rooms(home, paths)
    return Workspace(
        id=workspace_id,
        root=Path(evidence.path),
        verdict=decision.verdict,
        notice=None,
        hints=(),
        previous_path=None if former is None else Path(former.path),
        paths=paths,
        state_home=home,
        reason=decision.reason,
        row=decision.row,
        evidence=replace(evidence, record_here=record),
    )


def forget(
    workspace_id: str,
    *,
    state_home: str | os.PathLike[str] | None = None,
    clock: Callable[[], datetime] = utc_now,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
) -> WorkspaceRecord:
    """Take its directory from the workspace *workspace_id*; return the record that is gone.

    The directory gets a new id when it is opened next; the history stays and `relink` gives it a
    directory again. Raises UnknownWorkspace, RegistryBusy, StateHomeUnusable.
    """
    home = resolve_state_home(state_home)
    _require_known(workspace_id, home)
    with state_home_errors(home), registry_lock(home, timeout_s=lock_timeout_s):
        registry, history = Registry(home), History(home)
        record = _find_whole(workspace_id, registry, history)
        if record is not None:
            in_time(partial(_unmark, record))
            history.append(_forgotten(record, clock(), "somebody asked for it"))
        if registry.has(workspace_id):
            registry.remove(workspace_id)
    found = record or Unusable(workspace_id=workspace_id, problem="it has no record")
    return _public(found, home)


def _require_known(workspace_id: str, home: Path) -> None:
    if is_workspace_id(workspace_id):
        with state_home_errors(home):
            if Registry(home).has(workspace_id) or History(home).mentions(workspace_id):
                return
    raise UnknownWorkspace(
        f"No workspace has the id {shown(workspace_id[:64])!r}.",
        hint="See the ids that exist with: tinyagent workspace list",
        workspace_id=workspace_id,
    )


def _find_whole(workspace_id: str, registry: Registry, history: History) -> Record | None:
    try:
        found = registry.find(workspace_id)
    except NewerRecordError as error:
        raise OSError(str(error)) from error
    return found if isinstance(found, Record) else history.last_record(workspace_id)


def _try_mark(evidence: Evidence, workspace_id: str) -> bool:
    try:
        with Directory.open(evidence.path) as root:
            write_marker(root, workspace_id, replace=True)
    except OSError:
        return False
    return True


def _unmark(record: Record) -> None:
    """Remove the marker from the recorded directory, if that is still the one."""
    with contextlib.suppress(OSError), Directory.open(record.path) as root:
        if (
            same_place(place_of(root), record.place)
            and read_marker(root).workspace_id == record.workspace_id
        ):
            remove_marker(root)


def _forgotten(record: Record, now: datetime, reason: str) -> HistoryEntry:
    return HistoryEntry(
        at=now,
        action=FORGOTTEN,
        workspace_id=record.workspace_id,
        path=record.path,
        place=record.place,
        marked=record.marked,
        previous_path=record.path,
        marker_id=record.workspace_id,
        reason=reason,
        evidence={},
    )


def _public(found: Record | Unusable, home: Path) -> WorkspaceRecord:
    paths = WorkspacePaths.of(home, found.workspace_id)
    if isinstance(found, Unusable):
        return WorkspaceRecord(
            id=found.workspace_id,
            path=None,
            place=None,
            marked=None,
            created_at=None,
            last_seen_at=None,
            paths=paths,
            problem=found.problem,
        )
    return WorkspaceRecord(
        id=found.workspace_id,
        path=Path(found.path),
        place=found.place,
        marked=found.marked,
        created_at=found.created_at,
        last_seen_at=found.last_seen_at,
        paths=paths,
        problem=None,
    )
