"""The events of the journal: one closed class for each.

Owns which facts each event carries. Invariant: an event holds only enumerations, integers,
booleans, UUIDs, bounded identifiers and facts of exceptions; its constructor refuses all else,
so there is no way to hand the journal a text. A model's, tool's or provider's name that is no
identifier becomes `<invalid>` and is never an error. `None` means "not reported", never zero.

Must not: know files, clocks or loguru. Adding a field or an event is a minor change of the
format; changing what one means needs a new format version.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from run_journal.event_base import PHASE, Event, RunEvent, SessionEvent
from run_journal.fields import (
    COUNT,
    FLAG,
    HTTP_STATUS,
    IDENTIFIER,
    NAME,
    STACK,
    TYPE_NAMES,
    UUID_TEXT,
    one_of,
)
from run_journal.vocabulary import (
    ErrorType,
    EventName,
    FinishReason,
    Phase,
    ReplayPolicy,
    ToolOutcome,
    TripReason,
    WorkspaceVerdict,
)

if TYPE_CHECKING:
    from run_journal.failures import Stack
    from run_journal.names import Id, Identifier, Name

_ERROR_TYPE = one_of(ErrorType)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport(RunEvent):
    """Base of events that report tokens; None where the provider reported nothing."""

    input_tokens: int | None = field(default=None, metadata=COUNT)
    output_tokens: int | None = field(default=None, metadata=COUNT)
    cached_input_tokens: int | None = field(default=None, metadata=COUNT)
    reasoning_tokens: int | None = field(default=None, metadata=COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(RunEvent):
    """A pending run and its user message were committed."""

    EVENT = EventName.RUN_STARTED

    provider: Name | None = field(default=None, metadata=NAME)
    model: Name | None = field(default=None, metadata=NAME)
    retry_of: Id | None = field(default=None, metadata=UUID_TEXT)
    message_bytes: int | None = field(default=None, metadata=COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCompleted(UsageReport):
    """The final message and the completed run were committed. A run's last line."""

    EVENT = EventName.RUN_COMPLETED

    phase: Phase = field(default=Phase.COMMIT, metadata=PHASE)
    message_count: int | None = field(default=None, metadata=COUNT)
    tool_count: int | None = field(default=None, metadata=COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed(UsageReport):
    """The run was committed as failed. A run's last line."""

    EVENT = EventName.RUN_FAILED

    phase: Phase = field(default=Phase.COMMIT, metadata=PHASE)
    error_type: ErrorType = field(metadata=_ERROR_TYPE)
    http_status: int | None = field(default=None, metadata=HTTP_STATUS)
    exception_types: tuple[Name, ...] = field(default=(), metadata=TYPE_NAMES)
    stack: Stack = field(default=(), metadata=STACK)
    message_count: int | None = field(default=None, metadata=COUNT)
    tool_count: int | None = field(default=None, metadata=COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecovered(RunEvent):
    """A run whose owner had died was made failed by another process. A run's last line."""

    EVENT = EventName.RUN_RECOVERED

    phase: Phase = field(default=Phase.RECOVERY, metadata=PHASE)
    error_type: ErrorType = field(default=ErrorType.INTERRUPTED, metadata=_ERROR_TYPE)
    owner_pid: int | None = field(default=None, metadata=COUNT)
    unknown_tool_count: int | None = field(default=None, metadata=COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUndone(RunEvent):
    """A run was marked undone; nothing of it was deleted."""

    EVENT = EventName.RUN_UNDONE

    phase: Phase = field(default=Phase.COMMIT, metadata=PHASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRedone(RunEvent):
    """The undo of a run was taken back."""

    EVENT = EventName.RUN_REDONE

    phase: Phase = field(default=Phase.COMMIT, metadata=PHASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRequested(RunEvent):
    """A request is about to be sent. `attempt` counts from 1 within the run."""

    EVENT = EventName.PROVIDER_REQUESTED

    phase: Phase = field(default=Phase.PROVIDER, metadata=PHASE)
    provider: Name = field(metadata=NAME)
    model: Name | None = field(default=None, metadata=NAME)
    attempt: int | None = field(default=None, metadata=COUNT)
    streaming: bool | None = field(default=None, metadata=FLAG)
    message_count: int | None = field(default=None, metadata=COUNT)
    tool_count: int | None = field(default=None, metadata=COUNT)
    request_bytes: int | None = field(default=None, metadata=COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderResponded(UsageReport):
    """A whole reply arrived. A `finish_reason` that is no `FinishReason` becomes `other`."""

    EVENT = EventName.PROVIDER_RESPONDED

    phase: Phase = field(default=Phase.PROVIDER, metadata=PHASE)
    provider: Name = field(metadata=NAME)
    model: Name | None = field(default=None, metadata=NAME)
    attempt: int | None = field(default=None, metadata=COUNT)
    http_status: int | None = field(default=None, metadata=HTTP_STATUS)
    finish_reason: FinishReason | None = field(default=None, metadata=one_of(FinishReason))
    tool_call_count: int | None = field(default=None, metadata=COUNT)
    response_bytes: int | None = field(default=None, metadata=COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFailed(RunEvent):
    """A request did not bring a usable reply."""

    EVENT = EventName.PROVIDER_FAILED

    phase: Phase = field(default=Phase.PROVIDER, metadata=PHASE)
    provider: Name = field(metadata=NAME)
    model: Name | None = field(default=None, metadata=NAME)
    attempt: int | None = field(default=None, metadata=COUNT)
    error_type: ErrorType = field(metadata=_ERROR_TYPE)
    http_status: int | None = field(default=None, metadata=HTTP_STATUS)
    retryable: bool | None = field(default=None, metadata=FLAG)
    exception_types: tuple[Name, ...] = field(default=(), metadata=TYPE_NAMES)
    stack: Stack = field(default=(), metadata=STACK)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(RunEvent):
    """A tool call was committed as started. `call_index` counts from 0 within its message."""

    EVENT = EventName.TOOL_STARTED

    phase: Phase = field(default=Phase.TOOL, metadata=PHASE)
    tool: Name = field(metadata=NAME)
    call_seq: int | None = field(default=None, metadata=COUNT)
    call_index: int | None = field(default=None, metadata=COUNT)
    replay: ReplayPolicy | None = field(default=None, metadata=one_of(ReplayPolicy))
    argument_bytes: int | None = field(default=None, metadata=COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished(RunEvent):
    """A tool call ended and its result was committed."""

    EVENT = EventName.TOOL_FINISHED

    phase: Phase = field(default=Phase.TOOL, metadata=PHASE)
    tool: Name = field(metadata=NAME)
    outcome: ToolOutcome = field(metadata=one_of(ToolOutcome))
    call_seq: int | None = field(default=None, metadata=COUNT)
    call_index: int | None = field(default=None, metadata=COUNT)
    result_bytes: int | None = field(default=None, metadata=COUNT)
    error_type: ErrorType | None = field(default=None, metadata=_ERROR_TYPE)
    exception_types: tuple[Name, ...] = field(default=(), metadata=TYPE_NAMES)
    stack: Stack = field(default=(), metadata=STACK)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCreated(SessionEvent):
    """A session was created or, with `imported`, came from a file."""

    EVENT = EventName.SESSION_CREATED

    provider: Name | None = field(default=None, metadata=NAME)
    model: Name | None = field(default=None, metadata=NAME)
    imported: bool = field(default=False, metadata=FLAG)
    message_count: int | None = field(default=None, metadata=COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResumed(SessionEvent):
    """A session was made active again."""

    EVENT = EventName.SESSION_RESUMED

    provider: Name | None = field(default=None, metadata=NAME)
    model: Name | None = field(default=None, metadata=NAME)
    message_count: int | None = field(default=None, metadata=COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRenamed(SessionEvent):
    """A session got another title, which is content and not told."""

    EVENT = EventName.SESSION_RENAMED


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionArchived(SessionEvent):
    """A session was archived or, with `archived` False, taken back."""

    EVENT = EventName.SESSION_ARCHIVED

    archived: bool = field(default=True, metadata=FLAG)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionForked(SessionEvent):
    """`session_id` was made from `parent_id` up to and with message `parent_seq`."""

    EVENT = EventName.SESSION_FORKED

    parent_id: Id = field(metadata=UUID_TEXT)
    parent_seq: int | None = field(default=None, metadata=COUNT)
    message_count: int | None = field(default=None, metadata=COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDeleted(SessionEvent):
    """A session was deleted for good. The line goes to the workspace's file.

    There `session_id` is null, as for all lines of that file, and the id stands in
    `deleted_session_id`.
    """

    EVENT = EventName.SESSION_DELETED

    phase: Phase = field(default=Phase.COMMIT, metadata=PHASE)
    message_count: int | None = field(default=None, metadata=COUNT)
    run_count: int | None = field(default=None, metadata=COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOpened(Event):
    """The database was opened."""

    EVENT = EventName.STORE_OPENED

    schema_version: int | None = field(default=None, metadata=COUNT)
    pid: int | None = field(default=None, metadata=COUNT)
    recovered_run_count: int | None = field(default=None, metadata=COUNT)
    pruned_backup_count: int | None = field(default=None, metadata=COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreMigrated(Event):
    """The database was brought to another schema version."""

    EVENT = EventName.STORE_MIGRATED

    from_version: int = field(metadata=COUNT)
    to_version: int = field(metadata=COUNT)
    backed_up: bool | None = field(default=None, metadata=FLAG)
    pruned_backup_count: int | None = field(default=None, metadata=COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRestored(Event):
    """The database was replaced by a backup."""

    EVENT = EventName.STORE_RESTORED

    phase: Phase = field(default=Phase.RECOVERY, metadata=PHASE)
    schema_version: int | None = field(default=None, metadata=COUNT)
    session_count: int | None = field(default=None, metadata=COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceDecided(Event):
    """Something was decided about a workspace; its event is `workspace.` and the verdict."""

    verdict: WorkspaceVerdict = field(metadata=one_of(WorkspaceVerdict))
    previous_workspace_id: Id | None = field(default=None, metadata=UUID_TEXT)

    @property
    def name(self) -> EventName:
        """`workspace.moved`, `workspace.copied` and so on."""
        return EventName(f"workspace.{self.verdict}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRepaired(Event):
    """A torn last line was moved to the file `set_aside`, beside the journal."""

    EVENT = EventName.JOURNAL_REPAIRED

    phase: Phase = field(default=Phase.RECOVERY, metadata=PHASE)
    session_id: Id | None = field(default=None, metadata=UUID_TEXT)
    torn_bytes: int = field(metadata=COUNT)
    set_aside: Identifier = field(metadata=IDENTIFIER)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionTripped(Event):
    """The last check before the disk stopped an event named `tripped_event`. This is a bug."""

    EVENT = EventName.REDACTION_TRIPPED

    session_id: Id | None = field(default=None, metadata=UUID_TEXT)
    run_id: Id | None = field(default=None, metadata=UUID_TEXT)
    tripped_event: EventName = field(metadata=one_of(EventName))
    reason: TripReason = field(metadata=one_of(TripReason))


EVENT_CLASSES: frozenset[type[Event]] = frozenset(
    {
        RunStarted,
        RunCompleted,
        RunFailed,
        RunRecovered,
        RunUndone,
        RunRedone,
        ProviderRequested,
        ProviderResponded,
        ProviderFailed,
        ToolStarted,
        ToolFinished,
        SessionCreated,
        SessionResumed,
        SessionRenamed,
        SessionArchived,
        SessionForked,
        SessionDeleted,
        StoreOpened,
        StoreMigrated,
        StoreRestored,
        WorkspaceDecided,
        JournalRepaired,
        RedactionTripped,
    }
)
"""All events of format version 1. A journal writes these and no subclass of them."""
