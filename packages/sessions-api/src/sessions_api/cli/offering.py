"""Which tools a model is offered on the command line: files of the workspace, to look at.

Invariants: writing has to be asked for, with `--allow-writes`; `--no-tools` offers nothing. What
cannot be offered, on a system or in a directory where nothing would keep the tools inside, is named
and the conversation goes on without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.cli.failures import UsageInvalid
from sessions_api.errors import ToolDefinitionInvalid
from workspace_identity import WorkspaceIdentityError

if TYPE_CHECKING:
    from sessions_api.cli.options import Call
    from sessions_api.runs.tools import Tool


def offered(call: Call) -> tuple[tuple[Tool, ...], str | None]:
    """Return the tools for *call* and, if there should be some and cannot, a line that says why."""
    if call.no_tools and call.allow_writes:
        raise UsageInvalid(
            "--no-tools and --allow-writes exclude each other.", hint="Leave one of them out."
        )
    if call.no_tools or call.provider == "offline":  # nobody there would use them
        return (), None
    from sessions_api.workspace_files.tools import workspace_tools  # noqa: PLC0415 - not for --help

    try:
        return workspace_tools(call.workspace, writes=call.allow_writes), None
    except (ToolDefinitionInvalid, WorkspaceIdentityError) as error:
        return (), f"The model is offered no files. {error}"
