"""One redacted, hash-chained JSONL journal a session, safe to hand to a stranger.

Write events with `Journal`; `read`, `follow` and `verify` take a file's path. loguru is imported
when the first `Journal` is made, never by importing or reading.
"""

from __future__ import annotations

from run_journal.errors import (
    EventInvalid,
    JournalBusy,
    JournalMissing,
    JournalUnavailable,
    RunJournalError,
)
from run_journal.event_base import Event
from run_journal.events import (
    JournalRepaired,
    ProviderFailed,
    ProviderRequested,
    ProviderResponded,
    RedactionTripped,
    RunCompleted,
    RunFailed,
    RunRecovered,
    RunRedone,
    RunStarted,
    RunUndone,
    SessionArchived,
    SessionCreated,
    SessionDeleted,
    SessionForked,
    SessionRenamed,
    SessionResumed,
    StoreMigrated,
    StoreOpened,
    StoreRestored,
    ToolFinished,
    ToolStarted,
    WorkspaceDecided,
)
from run_journal.failures import (
    CodeName,
    CollapsedFrames,
    Frame,
    Stack,
    stack_of,
    type_names_of,
)
from run_journal.file_names import (
    session_file_name,
)
from run_journal.journal import (
    Journal,
)
from run_journal.lines import (
    Head,
)
from run_journal.names import (
    Id,
    Identifier,
    Name,
    id_of,
    identifier_of,
    name_of,
)
from run_journal.reader import (
    Damage,
    DamageKind,
    Entry,
    follow,
    read,
)
from run_journal.redact import (
    forms_of,
    key_shapes,
)
from run_journal.schema import (
    line_schema,
)
from run_journal.uninterrupted import (
    Uninterrupted,
)
from run_journal.verify import (
    ExpectedRun,
    Finding,
    FindingKind,
    Report,
    Severity,
    verify,
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

__all__ = [
    "CodeName",
    "CollapsedFrames",
    "Damage",
    "DamageKind",
    "Entry",
    "ErrorType",
    "Event",
    "EventInvalid",
    "EventName",
    "ExpectedRun",
    "Finding",
    "FindingKind",
    "FinishReason",
    "Frame",
    "Head",
    "Id",
    "Identifier",
    "Journal",
    "JournalBusy",
    "JournalMissing",
    "JournalRepaired",
    "JournalUnavailable",
    "Name",
    "Phase",
    "ProviderFailed",
    "ProviderRequested",
    "ProviderResponded",
    "RedactionTripped",
    "ReplayPolicy",
    "Report",
    "RunCompleted",
    "RunFailed",
    "RunJournalError",
    "RunRecovered",
    "RunRedone",
    "RunStarted",
    "RunUndone",
    "SessionArchived",
    "SessionCreated",
    "SessionDeleted",
    "SessionForked",
    "SessionRenamed",
    "SessionResumed",
    "Severity",
    "Stack",
    "StoreMigrated",
    "StoreOpened",
    "StoreRestored",
    "ToolFinished",
    "ToolOutcome",
    "ToolStarted",
    "TripReason",
    "Uninterrupted",
    "WorkspaceDecided",
    "WorkspaceVerdict",
    "follow",
    "forms_of",
    "id_of",
    "identifier_of",
    "key_shapes",
    "line_schema",
    "name_of",
    "read",
    "session_file_name",
    "stack_of",
    "type_names_of",
    "verify",
]
