"""A stable identity for a directory: moved it keeps its id, copied it gets a new one.

`open_workspace` decides and writes, `inspect_workspace` decides and writes nothing. `relink` and
`forget` undo decisions, `list_workspaces` shows them. Nothing in this package deletes history, and
a directory that is, or contains, the state home is refused. Standard library only.
"""

from workspace_identity.decision import Decision, Evidence, Original, decide
from workspace_identity.errors import (
    MarkerDamaged,
    RegistryBusy,
    StateHomeUnusable,
    UnknownWorkspace,
    UnsafeWorkspace,
    WorkspaceIdentityError,
    WorkspaceMissing,
)
from workspace_identity.git import is_tracked
from workspace_identity.marker import Marker, MarkerState
from workspace_identity.place import Place
from workspace_identity.relink import forget, list_workspaces, relink
from workspace_identity.resolve import inspect_workspace, open_workspace
from workspace_identity.state_home import WorkspacePaths, resolve_state_home
from workspace_identity.table import Verdict
from workspace_identity.workspace import Inspection, Workspace, WorkspaceRecord
from workspace_identity.workspace_id import is_workspace_id

__all__ = [
    "Decision",
    "Evidence",
    "Inspection",
    "Marker",
    "MarkerDamaged",
    "MarkerState",
    "Original",
    "Place",
    "RegistryBusy",
    "StateHomeUnusable",
    "UnknownWorkspace",
    "UnsafeWorkspace",
    "Verdict",
    "Workspace",
    "WorkspaceIdentityError",
    "WorkspaceMissing",
    "WorkspacePaths",
    "WorkspaceRecord",
    "decide",
    "forget",
    "inspect_workspace",
    "is_tracked",
    "is_workspace_id",
    "list_workspaces",
    "open_workspace",
    "relink",
    "resolve_state_home",
]
