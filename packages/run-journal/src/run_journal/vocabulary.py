"""The closed sets of words that a journal line may use.

Owns every enumeration of format version 1. Invariant: a word on disk is a member of one of these
sets; a member is never renamed or given another meaning, only added. Nothing here depends on an
exception's text, a provider or a database.
"""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """The part of a run, or of a process's life, in which an event happened."""

    SETUP = "setup"
    PROVIDER = "provider"
    TOOL = "tool"
    COMMIT = "commit"
    RECOVERY = "recovery"
    CLOSE = "close"


class ErrorType(StrEnum):
    """Why something failed. Stable names: users filter and alert on them."""

    PROVIDER_AUTH = "provider.auth"
    PROVIDER_RATE_LIMIT = "provider.rate_limit"
    PROVIDER_TIMEOUT = "provider.timeout"
    PROVIDER_UNAVAILABLE = "provider.unavailable"
    PROVIDER_BAD_RESPONSE = "provider.bad_response"
    TOOL_ERROR = "tool.error"
    TOOL_TIMEOUT = "tool.timeout"
    TOOL_UNKNOWN = "tool.unknown"
    STORAGE_BUSY = "storage.busy"
    STORAGE_FULL = "storage.full"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    INTERNAL = "internal"


class ToolOutcome(StrEnum):
    """How a tool call ended. `unknown`: the process died, or let go of it, in the middle."""

    OK = "ok"
    ERROR = "error"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class ReplayPolicy(StrEnum):
    """Whether a tool may be run a second time for the same call."""

    SAFE = "safe"
    UNSAFE = "unsafe"


class FinishReason(StrEnum):
    """Why a model stopped, in the words of the services.

    `FinishReason(word)` raises nothing: a word of a service that is not here is `other`.
    """

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    FUNCTION_CALL = "function_call"
    CONTENT_FILTER = "content_filter"
    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    TOOL_USE = "tool_use"
    PAUSE_TURN = "pause_turn"
    REFUSAL = "refusal"
    SAFETY = "safety"
    ABORT = "abort"
    ERROR = "error"
    OTHER = "other"

    @classmethod
    def _missing_(cls, value: object) -> FinishReason:
        lowered = value.lower() if isinstance(value, str) else ""
        return next((member for member in cls if member.value == lowered), cls.OTHER)


class WorkspaceVerdict(StrEnum):
    """What was decided about a workspace when it was opened."""

    MOVED = "moved"
    COPIED = "copied"
    HEALED = "healed"
    RESTORED = "restored"
    ADOPTED = "adopted"
    FOREIGN = "foreign"
    NEW = "new"
    UNMARKED = "unmarked"
    RELINKED = "relinked"
    FORGOTTEN = "forgotten"


class TripReason(StrEnum):
    """What the last check before the disk found in a line."""

    LIVE_KEY = "live_key"
    KEY_SHAPE = "key_shape"


class EventName(StrEnum):
    """Every event of format version 1, as it stands in a line's `event`."""

    SESSION_CREATED = "session.created"
    SESSION_RESUMED = "session.resumed"
    SESSION_RENAMED = "session.renamed"
    SESSION_ARCHIVED = "session.archived"
    SESSION_FORKED = "session.forked"
    SESSION_DELETED = "session.deleted"
    RUN_STARTED = "run.started"
    RUN_COMPLETED = "run.completed"
    RUN_FAILED = "run.failed"
    RUN_RECOVERED = "run.recovered"
    RUN_UNDONE = "run.undone"
    RUN_REDONE = "run.redone"
    PROVIDER_REQUESTED = "provider.requested"
    PROVIDER_RESPONDED = "provider.responded"
    PROVIDER_FAILED = "provider.failed"
    TOOL_STARTED = "tool.started"
    TOOL_FINISHED = "tool.finished"
    STORE_OPENED = "store.opened"
    STORE_MIGRATED = "store.migrated"
    STORE_RESTORED = "store.restored"
    WORKSPACE_MOVED = "workspace.moved"
    WORKSPACE_COPIED = "workspace.copied"
    WORKSPACE_HEALED = "workspace.healed"
    WORKSPACE_RESTORED = "workspace.restored"
    WORKSPACE_ADOPTED = "workspace.adopted"
    WORKSPACE_FOREIGN = "workspace.foreign"
    WORKSPACE_NEW = "workspace.new"
    WORKSPACE_UNMARKED = "workspace.unmarked"
    WORKSPACE_RELINKED = "workspace.relinked"
    WORKSPACE_FORGOTTEN = "workspace.forgotten"
    JOURNAL_REPAIRED = "journal.repaired"
    REDACTION_TRIPPED = "redaction.tripped"
