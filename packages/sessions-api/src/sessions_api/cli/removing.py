"""`tinyagent workspace delete`: a workspace's whole history, for good.

Invariant: it asks first, default no, and says what goes; without anybody to ask it needs `--yes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sessions_api.cli.consent import Yes, require_consent
from sessions_api.cli.options import JSON, PLACE, Call, command
from sessions_api.cli.places import WorkspaceId  # noqa: TC001 - Typer reads it
from sessions_api.showing import figures
from sessions_api.showing.terminal_text import one_line

if TYPE_CHECKING:
    from sessions_api.removal import Removal

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would go, and change nothing.")]
Exports = Annotated[bool, typer.Option("--exports", help="Its exports too, which else stay.")]


def add_to(workspace: typer.Typer) -> None:
    """Add `delete` to `tinyagent workspace`."""
    command(workspace, "delete", PLACE, JSON)(delete_workspace)


def delete_workspace(
    call: Call,
    workspace_id: WorkspaceId,
    *,
    exports: Exports = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete a workspace's sessions, backups, journals and record for good; asks first.

    Of its directory only the marker goes. It is refused while any program has it open.
    """
    from sessions_api.removal import plan_removal, remove_workspace  # noqa: PLC0415 - not for --help

    planned = plan_removal(workspace_id, exports=exports)
    if dry_run:
        _tell(call, planned, said="Would be deleted", dry_run=True)
        return
    if not yes:
        require_consent(
            call.out,
            "Delete the whole workspace for good?",
            lines=_facts(planned),
            refused=f"Deleting workspace {planned.id} was not confirmed.",
            nothing="Nothing was deleted.",
        )
    _tell(call, remove_workspace(workspace_id, exports=exports), said="Deleted", dry_run=False)


def _tell(call: Call, removal: Removal, *, said: str, dry_run: bool) -> None:
    if call.json:
        from sessions_api.cli.json_shapes import as_json  # noqa: PLC0415 - for --json alone

        told: dict[str, Any] = {"deleted": as_json(removal), "dry_run": dry_run}
        call.out.record(told)
        return
    call.out.note(f"{said}:")
    for line in _facts(removal):
        call.out.note(line)


def _facts(removal: Removal) -> list[str]:
    count = removal.session_count
    sessions = (
        "sessions that cannot be counted" if count is None else figures.count(count, "session")
    )
    kept = removal.kept
    return [
        f"  Workspace  {removal.id}",
        f"  Directory  {one_line(str(removal.path or 'unknown'))} (its files stay, but the marker)",
        f"  History    {sessions}, {figures.size(removal.size_bytes)}: database, backups, journals",
        *([] if kept is None else [f"  Kept       its exports, in {one_line(str(kept))}"]),
    ]
