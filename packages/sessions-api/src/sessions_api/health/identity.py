"""Checks of the workspace's identity: which one it is, and whether its marker travels with git."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.health.findings import Finding
from workspace_identity import inspect_workspace, is_tracked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions_api.health.subject import Subject


def check_workspace(subject: Subject) -> Iterator[Finding]:
    """Decide which workspace the directory is, and write nothing of it."""
    if subject.state_home is None:
        return  # without a state home nobody can tell, and that was said
    found = inspect_workspace(subject.workspace, state_home=subject.state_home)
    subject.found = found
    root = str(found.root)
    if found.id is None:
        message = f"It is no workspace yet ({found.verdict}: {found.reason})."
        hint = found.notice or "The first conversation makes it one."
        severity = "info" if found.notice is None else "warning"
        yield Finding(
            severity="info" if severity == "info" else "warning",
            kind="workspace",
            object=root,
            message=message,
            hint=hint,
        )
    elif found.notice is not None:
        yield Finding(
            severity="warning",
            kind="workspace",
            object=root,
            message=f"It counts as {found.verdict}: {found.reason}.",
            hint=found.notice,
        )
    else:
        message = f"Workspace {found.id} ({found.verdict})."
        yield Finding(severity="ok", kind="workspace", object=root, message=message)


def check_git(subject: Subject) -> Iterator[Finding]:
    """Ask git whether the marker is committed: then every clone claims to be this workspace."""
    if subject.found is None or not is_tracked(str(subject.found.root)):
        return
    yield Finding(
        severity="warning",
        kind="marker_tracked",
        object=str(subject.found.root / ".tinyagent" / "workspace-id"),
        message="git tracks the marker, so that every clone carries this workspace's id.",
        hint="Run: git rm --cached .tinyagent/workspace-id"
        " and add .tinyagent/ to the ignored files.",
    )
