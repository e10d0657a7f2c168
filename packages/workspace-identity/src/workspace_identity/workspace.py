"""What a caller gets: the workspace that was opened, or what an inspection found.

Plain records, safe to pickle and to share between threads; they hold nothing open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from workspace_identity.decision import Evidence
    from workspace_identity.place import Place
    from workspace_identity.state_home import WorkspacePaths
    from workspace_identity.table import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A workspace with an id that is in force.

    `root` is the real path. `notice` is one line for people or None; `hints` are lines worth
    showing once. `reason` says why the verdict was given and `row` which row of the decision table
    it was; `evidence` is all that it rested on.
    """

    id: str
    root: Path
    verdict: Verdict
    notice: str | None
    hints: tuple[str, ...]
    previous_path: Path | None
    paths: WorkspacePaths
    state_home: Path
    reason: str
    row: int
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What opening a workspace would decide now; nothing was written.

    `id` and `paths` are None exactly when opening it would make a new id. The directories that
    `paths` names need not exist.
    """

    id: str | None
    root: Path
    verdict: Verdict
    notice: str | None
    previous_path: Path | None
    paths: WorkspacePaths | None
    state_home: Path
    reason: str
    row: int
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceRecord:
    """One workspace of the registry, as `list_workspaces` reports it.

    `problem` is None for a whole record. Otherwise it says what is wrong, and the fields that could
    not be read are None: the history of such a workspace is still there, and `relink` gives it a
    directory again.
    """

    id: str
    path: Path | None
    place: Place | None
    marked: bool | None
    created_at: datetime | None
    last_seen_at: datetime | None
    paths: WorkspacePaths
    problem: str | None
