"""The records of the store: what a conversation is made of.

Owns the shapes that go in and come out of a store, free of SQL and of any engine. Invariant: a
record is an immutable copy of committed rows; changing one changes nothing on disk. Times are
aware `datetime` values in UTC, the start of 1970 where one was stored that cannot be read; `None`
always means "not known", never zero. Message order is `seq`, given at commit; no clock and no id
says anything about order.

Must not: know an engine, read a clock, or decide what a provider is sent.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - record types resolve at run time
from dataclasses import dataclass, field
from datetime import datetime  # noqa: TC003 - the same
from typing import Any, Generic, Literal, TypeVar

SessionStatus = Literal["idle", "running", "failed", "closed"]
TitleSource = Literal["auto", "user"]
MessageKind = Literal["original", "summary", "derived"]
RunStatus = Literal["pending", "completed", "failed"]
ToolOutcome = Literal["ok", "error", "cancelled", "unknown"]
ReplayPolicy = Literal["safe", "unsafe"]
View = Literal["original", "all"]
StandInKind = Literal["summary", "derived"]
ImportOutcome = Literal["new", "already_there", "renamed"]
ImportRecord = Literal["session", "message", "run", "execution"]
SearchOrder = Literal["newest", "relevance"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """One page of a listing.

    `items` come in the order the listing promises; `next_cursor` is opaque text for the call
    that continues after the last item, or None at the end.
    """

    items: tuple[T, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one run as the provider reported them; None where it reported nothing.

    `cached_input_tokens` is a part of `input_tokens`, `reasoning_tokens` a part of
    `output_tokens`; neither is added to a total.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def complete(self) -> bool:
        """Whether both numbers that make a total were reported."""
        return self.input_tokens is not None and self.output_tokens is not None

    @property
    def total_tokens(self) -> int | None:
        """Input plus output tokens; None when neither was reported."""
        if self.input_tokens is None and self.output_tokens is None:
            return None
        return (self.input_tokens or 0) + (self.output_tokens or 0)

    def __add__(self, other: Usage) -> Usage:
        """Add call by call; a number that one side lacks makes the sum unknown."""
        return Usage(
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
            cached_input_tokens=_sum(self.cached_input_tokens, other.cached_input_tokens),
            reasoning_tokens=_sum(self.reasoning_tokens, other.reasoning_tokens),
        )


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call that the model asked for. `arguments` is the exact JSON text it sent.

    `id` is the provider's and may be empty or used again later in the session: pair calls and
    results by position, never by id alone.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message on its way into the store, before it has a place in a session.

    `role` is one of system, developer, user, assistant and tool; any other is kept as it is.
    `covers` is the range (first, last) of sequence numbers that a summary stands for.
    `provider_data` is JSON text that the provider needs back byte for byte. `extra` is the text of
    a JSON object, in one line, with the fields of an imported message that have no place here: it
    is kept exactly and exported again. ValueError for one that is none, or has a field of ours.
    """

    role: str
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    kind: MessageKind = "original"
    covers: tuple[int, int] | None = None
    parts: tuple[Mapping[str, Any], ...] | None = None
    provider_data: str | None = None
    created_at: datetime | None = None
    imported_at: datetime | None = None
    extra: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A stored message. `seq` is its place in the session: 1, 2, 3 … in commit order.

    `run_id` is None for messages that were saved or imported rather than made by a run.
    `repaired` says that text which was not valid Unicode was replaced by U+FFFD on the way in.
    `undone_at` and `undone_after` are set only for one without a run; see `Run`.
    """

    id: int
    session_id: str
    seq: int
    run_id: str | None
    role: str
    content: str | None
    reasoning_content: str | None
    tool_calls: tuple[ToolCall, ...] | None
    tool_call_id: str | None
    name: str | None
    kind: MessageKind
    covers: tuple[int, int] | None
    parts: tuple[Mapping[str, Any], ...] | None
    provider_data: str | None
    repaired: bool
    created_at: datetime | None
    imported_at: datetime | None
    undone_at: datetime | None = None
    undone_after: int | None = None
    extra: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """What a session is created with. Keys and other secrets have no field here on purpose."""

    title: str | None = None
    title_source: TitleSource = "auto"
    provider: str | None = None
    endpoint: str | None = None
    model_id: str | None = None
    model_config: Mapping[str, Any] | None = None
    system_prompt: str | None = None
    parameters: Mapping[str, Any] | None = None
    show_reasoning: bool = False
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """One row of a list of sessions. Reading it never touches the messages.

    `message_count` counts originals, `total_tokens` is input plus output over all runs, `cost`
    is in USD and None when no run had a price.
    """

    id: str
    title: str | None
    model_id: str | None
    provider: str | None
    created_at: datetime
    updated_at: datetime
    status: SessionStatus
    message_count: int
    total_tokens: int
    cost: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One conversation with everything about it but its messages.

    `message_count` counts originals, undone ones too, since nothing is removed. `usage_complete` is
    False when a run reported no usage, so that the totals are a lower bound. `revision` grows with
    every committed change of the session. `forked_from` is the parent's (session id, message seq);
    `inherited_tokens` and `inherited_cost` are what the runs copied from it had used, and in no
    other total.
    """

    id: str
    title: str | None
    title_source: TitleSource
    provider: str | None
    endpoint: str | None
    model_id: str | None
    model_config: Mapping[str, Any]
    system_prompt: str | None
    parameters: Mapping[str, Any]
    show_reasoning: bool
    status: SessionStatus
    message_count: int
    total_tokens: int
    cost: float | None
    usage_complete: bool
    duration_ms: int
    created_at: datetime
    updated_at: datetime
    archived_at: datetime | None
    forked_from: tuple[str, int] | None
    metadata: Mapping[str, Any]
    revision: int
    inherited_tokens: int = 0
    inherited_cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One attempt to answer one input. `first_seq` is the seq of its user message.

    `error_type` is a stable, closed name such as "provider.timeout", and None unless failed.
    `owner` names the store that ran it. `journal_head` is the (seq, chain) of the last journal
    line before the run's last one, and `journal_lost_count` counts lines that could not be
    written. `stale` is True when the run is pending in the database although its owner is dead:
    a reader shows it as interrupted, the next writer makes it so. `undone_after` is the session's
    last seq when it was undone: whatever has a higher one was made since. `copied_from` is the run
    of which this one is a copy, in the session that was forked; its usage counts there.
    """

    id: str
    session_id: str
    first_seq: int
    status: RunStatus
    error_type: str | None
    started_at: datetime
    finished_at: datetime | None
    owner: str
    usage: Usage
    cost: float | None
    provider: str | None
    model: str | None
    retry_of: str | None
    undone_at: datetime | None
    journal_head: tuple[int, str] | None
    journal_lost_count: int
    stale: bool = False
    undone_after: int | None = None
    copied_from: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecution:
    """What became of one tool call.

    `call_seq` and `call_index` place it: the seq of the assistant message that carries it, and its
    position there, from 0. `outcome` is None while it runs, and "unknown" when the process died or
    let go in the middle.
    """

    run_id: str
    session_id: str
    call_seq: int
    call_index: int
    call_id: str
    name: str
    replay: ReplayPolicy
    started_at: datetime
    finished_at: datetime | None
    outcome: ToolOutcome | None
    result_seq: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything about a session but its messages, as of one commit.

    `last_seq` is the seq of its last message then, 0 when it had none. What messages up to it say
    never changes, so that reading them by pages later still gives the session as it was, with the
    `undone_at` and `undone_after` that *undone* has by seq: of the undone messages without a run.
    """

    session: Session
    runs: tuple[Run, ...]
    executions: tuple[ToolExecution, ...]
    last_seq: int
    undone: Mapping[int, tuple[datetime | None, int | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What became of a session that was brought in.

    `outcome`: "new" with its own id, "renamed" because that was taken or no id, or "already_there"
    because the same was imported before, and `session` is what that made. `source_id` is the id
    that it came with.
    """

    session: Session
    outcome: ImportOutcome
    source_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """What a delete removed; a tombstone with the same facts, and no content, stays.

    `erased`: the content is out of the bytes of the store's files already. False when another
    process was reading; it follows with this store's next write or its close. `backups` are the
    paths of backups that hold the session still, or cannot be read, oldest first.
    """

    id: str
    deleted_at: datetime
    message_count: int
    run_count: int
    erased: bool = True
    backups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A title or a message that a search found.

    `seq` is the message's place in its session; with the title of a session `seq` and `role` are
    None, and `created_at` is when the session was made. `snippet` is one line of plain text, about
    160 characters around the first match, and `matches` says where in it words were found, as
    (first, end) in characters, in order.
    """

    session_id: str
    seq: int | None
    role: str | None
    snippet: str
    matches: tuple[tuple[int, int], ...]
    created_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchState:
    """How many of the store's messages are in its search index, and the index's bytes on disk.

    Those that are not in it are found too, by reading them.
    """

    indexed_count: int
    message_count: int
    size_bytes: int

    @property
    def complete(self) -> bool:
        """Whether nothing is left to be indexed."""
        return self.indexed_count == self.message_count


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """A whole session as a value: what `load` returns and `save` takes.

    For `save`, `messages` are the originals in order; see `SessionStore.save` for what it does
    with those that are stored already.
    """

    id: str
    settings: NewSession = field(default_factory=NewSession)
    messages: tuple[NewMessage, ...] = ()
    created_at: datetime | None = None
