"""Durable state for conversations: sessions, messages and runs that survive a crash.

`SqliteStore` keeps them in one SQLite file; `AsyncSqliteStore` is the same with `await`. What any
store promises is written in `state_store.protocol.SessionStore`, and `state_store.testing` is the
suite that proves it.
"""

from state_store.asynchronous import AsyncSqliteStore
from state_store.clock import Clock, IdSource, new_id, to_text, utc_now
from state_store.errors import (
    CursorInvalid,
    HistoryConflict,
    RunNotFound,
    RunNotPending,
    SessionBusy,
    SessionExists,
    SessionNotFound,
    SessionWasDeleted,
    StateStoreError,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreForeign,
    StoreForked,
    StoreFull,
    StoreMissing,
    StoreNewer,
    StoreUnavailable,
    WalUnsupported,
)
from state_store.export import in_call_order, jsonl_lines
from state_store.protocol import SessionStore
from state_store.records import (
    Deleted,
    Message,
    MessageKind,
    NewMessage,
    NewSession,
    Page,
    ReplayPolicy,
    Run,
    RunStatus,
    Session,
    SessionState,
    SessionStatus,
    SessionSummary,
    ToolCall,
    ToolExecution,
    ToolOutcome,
    Usage,
    View,
)
from state_store.sqlite.store import SqliteStore
from state_store.threads import OwnedThread, hop, iterate, settled

__all__ = [
    "AsyncSqliteStore",
    "Clock",
    "CursorInvalid",
    "Deleted",
    "HistoryConflict",
    "IdSource",
    "Message",
    "MessageKind",
    "NewMessage",
    "NewSession",
    "OwnedThread",
    "Page",
    "ReplayPolicy",
    "Run",
    "RunNotFound",
    "RunNotPending",
    "RunStatus",
    "Session",
    "SessionBusy",
    "SessionExists",
    "SessionNotFound",
    "SessionState",
    "SessionStatus",
    "SessionStore",
    "SessionSummary",
    "SessionWasDeleted",
    "SqliteStore",
    "StateStoreError",
    "StoreBusy",
    "StoreClosed",
    "StoreDamaged",
    "StoreForeign",
    "StoreForked",
    "StoreFull",
    "StoreMissing",
    "StoreNewer",
    "StoreUnavailable",
    "ToolCall",
    "ToolExecution",
    "ToolOutcome",
    "Usage",
    "View",
    "WalUnsupported",
    "hop",
    "in_call_order",
    "iterate",
    "jsonl_lines",
    "new_id",
    "settled",
    "to_text",
    "utc_now",
]
__version__ = "0.1.0"
