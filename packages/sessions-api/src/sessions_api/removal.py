"""Removing a whole workspace for good: its database, backups, index, journals and record.

Owns the order. Nobody else may have the store open; then the registry lets the workspace go, so
that its directory begins anew; then the journals go, and the store's directory last: whatever a
crash leaves is still listed, and removed by doing it again.

Invariant: of the workspace's own directory nothing goes but the marker, which would name what is
no more; the exports, which somebody made to keep them, go only when that was said.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessions_api.sizes import sizes_of
from state_store import Maintenance, SqliteStore, StateStoreError
from workspace_identity import UnknownWorkspace, forget, list_workspaces

if TYPE_CHECKING:
    from pathlib import Path

    from workspace_identity import WorkspaceRecord

_PATIENCE_MS = 2_000
_EXPORTS = frozenset({"exports"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What removing the workspace `id` takes, or took, away.

    `path` is its directory as last seen. `session_count` is None when the database cannot be read
    as it is. `kept` is the directory of exports that stays, None when there are none.
    """

    id: str
    path: Path | None
    session_count: int | None
    size_bytes: int
    kept: Path | None


def plan_removal(workspace_id: str, *, exports: bool = False) -> Removal:
    """Return what `remove_workspace` would take away; changes nothing. UnknownWorkspace."""
    record = _record_of(workspace_id)
    sizes = sizes_of(record.paths)
    stays = not exports and sizes["exports"] > 0
    return Removal(
        id=record.id,
        path=record.path,
        session_count=_session_count(record),
        size_bytes=sum(size for name, size in sizes.items() if name != "exports" or exports),
        kept=record.paths.exports if stays else None,
    )


def remove_workspace(workspace_id: str, *, exports: bool = False) -> Removal:
    """Remove the workspace for good, with its *exports* only when told so; return what went.

    UnknownWorkspace; StoreInUse, and nothing is changed, while any process has its store open.
    """
    removal = plan_removal(workspace_id, exports=exports)
    paths = _record_of(workspace_id).paths

    def let_go() -> None:
        forget(workspace_id)
        if paths.journal_dir.is_symlink() or paths.journal_dir.is_file():
            paths.journal_dir.unlink()
        elif paths.journal_dir.exists():
            shutil.rmtree(paths.journal_dir)

    kept = frozenset[str]() if removal.kept is None else _EXPORTS
    _maintenance(workspace_id, paths.database).remove(first=let_go, kept=kept)
    return removal


def _record_of(workspace_id: str) -> WorkspaceRecord:
    for record in list_workspaces():
        if record.id == workspace_id:
            return record
    raise UnknownWorkspace(
        f"No workspace has the id {workspace_id[:64]!r}.",
        hint="See the ids that exist with: tinyagent workspace list",
        workspace_id=workspace_id,
    )


def _session_count(record: WorkspaceRecord) -> int | None:
    try:
        if _maintenance(record.id, record.paths.database).plan() is not None:
            return None  # counting would upgrade it first
        store = SqliteStore.open(record.paths.database, workspace_id=record.id, writing=False)
        with store:
            return sum(len(store.list(limit=None, archived=one).items) for one in (False, True))
    except FileNotFoundError:
        return 0
    except (StateStoreError, OSError):
        return None


def _maintenance(workspace_id: str, database: Path) -> Maintenance:
    return Maintenance(
        database,
        workspace_id=workspace_id,
        busy_timeout_ms=_PATIENCE_MS,
        allow_network_filesystem=True,
    )
