"""Recoverable, auditable conversations for AI agents.

`Agent` and `AsyncAgent` run conversations that survive a crash; `agent.sessions` lists, resumes
and inspects them. Names are resolved on first use (PEP 562), so that a command which only lists
sessions does not pay for what it does not need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sessions_api.agent import Agent, RunStream
    from sessions_api.agent_options import AgentOptions
    from sessions_api.async_agent import AsyncAgent
    from sessions_api.async_sessions import AsyncSessions
    from sessions_api.async_stream import AsyncRunStream
    from sessions_api.errors import (
        AgentClosed,
        ArgumentInvalid,
        ArgumentTypeInvalid,
        EndpointChanged,
        ImportInvalid,
        InputInvalid,
        NoActiveSession,
        ProviderError,
        ProviderUnavailable,
        ProviderUnknown,
        ReferenceAmbiguous,
        ReferenceNotFound,
        RetryRefused,
        RunFailed,
        SelectionInvalid,
        SessionsError,
        SettingsInvalid,
        ToolDefinitionInvalid,
        UnsafeRetry,
    )
    from sessions_api.loaded import LoadedState
    from sessions_api.providers import make_provider
    from sessions_api.providers.base import (
        ModelMessage,
        ModelReply,
        ModelRequest,
        Provider,
        ReasoningDelta,
        StreamingProvider,
        TextDelta,
        ToolSpec,
    )
    from sessions_api.runs.events import (
        RunEvent,
        RunFinished,
        RunResult,
        ToolFinished,
        ToolStarted,
    )
    from sessions_api.runs.exchanges import Exchange
    from sessions_api.runs.tool_output import ToolOutput
    from sessions_api.runs.tools import Tool, tool
    from sessions_api.sessions import Sessions
    from sessions_api.verifying.report import Finding, Report
    from sessions_api.workspace_files.tools import workspace_tools
    from state_store import (
        BoundaryInvalid,
        Deleted,
        Hit,
        Message,
        ModelTotals,
        NewMessage,
        NewSession,
        NothingToRedo,
        NothingToUndo,
        Page,
        Run,
        Session,
        SessionBusy,
        SessionState,
        SessionSummary,
        ToolCall,
        ToolExecution,
        Totals,
        Usage,
    )

_HOMES = {
    "agent": ("Agent", "RunStream"),
    "async_agent": ("AsyncAgent",),
    "async_sessions": ("AsyncSessions",),
    "async_stream": ("AsyncRunStream",),
    "agent_options": ("AgentOptions",),
    "errors": (
        "AgentClosed",
        "ArgumentInvalid",
        "ArgumentTypeInvalid",
        "EndpointChanged",
        "ImportInvalid",
        "InputInvalid",
        "NoActiveSession",
        "ProviderError",
        "ProviderUnavailable",
        "ProviderUnknown",
        "ReferenceAmbiguous",
        "ReferenceNotFound",
        "RetryRefused",
        "RunFailed",
        "SelectionInvalid",
        "SessionsError",
        "SettingsInvalid",
        "ToolDefinitionInvalid",
        "UnsafeRetry",
    ),
    "loaded": ("LoadedState",),
    "providers": ("make_provider",),
    "providers.base": (
        "ModelMessage",
        "ModelReply",
        "ModelRequest",
        "Provider",
        "ReasoningDelta",
        "StreamingProvider",
        "TextDelta",
        "ToolSpec",
    ),
    "runs.events": ("RunEvent", "RunFinished", "RunResult", "ToolFinished", "ToolStarted"),
    "runs.exchanges": ("Exchange",),
    "runs.tool_output": ("ToolOutput",),
    "runs.tools": ("Tool", "tool"),
    "sessions": ("Sessions",),
    "verifying.report": ("Finding", "Report"),
    "workspace_files.tools": ("workspace_tools",),
}
_FROM_STORE = (
    "BoundaryInvalid",
    "Deleted",
    "Hit",
    "Message",
    "ModelTotals",
    "NewMessage",
    "NewSession",
    "NothingToRedo",
    "NothingToUndo",
    "Page",
    "Run",
    "Session",
    "SessionBusy",
    "SessionState",
    "SessionSummary",
    "ToolCall",
    "ToolExecution",
    "Totals",
    "Usage",
)
_PLACES = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}
_PLACES |= dict.fromkeys(_FROM_STORE, "state_store")

__all__ = [
    "Agent",
    "AgentClosed",
    "AgentOptions",
    "ArgumentInvalid",
    "ArgumentTypeInvalid",
    "AsyncAgent",
    "AsyncRunStream",
    "AsyncSessions",
    "BoundaryInvalid",
    "Deleted",
    "EndpointChanged",
    "Exchange",
    "Finding",
    "Hit",
    "ImportInvalid",
    "InputInvalid",
    "LoadedState",
    "Message",
    "ModelMessage",
    "ModelReply",
    "ModelRequest",
    "ModelTotals",
    "NewMessage",
    "NewSession",
    "NoActiveSession",
    "NothingToRedo",
    "NothingToUndo",
    "Page",
    "Provider",
    "ProviderError",
    "ProviderUnavailable",
    "ProviderUnknown",
    "ReasoningDelta",
    "ReferenceAmbiguous",
    "ReferenceNotFound",
    "Report",
    "RetryRefused",
    "Run",
    "RunEvent",
    "RunFailed",
    "RunFinished",
    "RunResult",
    "RunStream",
    "SelectionInvalid",
    "Session",
    "SessionBusy",
    "SessionState",
    "SessionSummary",
    "Sessions",
    "SessionsError",
    "SettingsInvalid",
    "StreamingProvider",
    "TextDelta",
    "Tool",
    "ToolCall",
    "ToolDefinitionInvalid",
    "ToolExecution",
    "ToolFinished",
    "ToolOutput",
    "ToolSpec",
    "ToolStarted",
    "Totals",
    "UnsafeRetry",
    "Usage",
    "make_provider",
    "tool",
    "workspace_tools",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if (place := _PLACES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(place), name)


def __dir__() -> list[str]:
    return __all__
