"""Format version 1 of a journal line: how it is built, sealed and taken apart.

Owns the bytes. A line is one JSON object in ASCII without spaces, at most 4096 bytes with its
newline. Its first members are `v` and `seq`, its last is `chain`, 64 hex digits: SHA-256 over
the previous line's `chain` (as its 64 ASCII bytes) followed by this line's bytes without the
member `chain` and without the newline. Before the first line stands `GENESIS`, 64 zeros.

Must not: touch files or clocks. Source: `README.md`, "Format"; RFC 8259; FIPS 180-4.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from run_journal.errors import EventInvalid
from run_journal.event_base import fact_names
from run_journal.events import SessionDeleted
from run_journal.failures import CollapsedFrames, Frame
from run_journal.fields import MAX_INTEGER

if TYPE_CHECKING:
    from run_journal.event_base import Event
    from run_journal.names import Id

FORMAT_VERSION = 1
GENESIS = "0" * 64
MAX_LINE_BYTES = 4096
DELETED_SESSION_ID = "deleted_session_id"

_COMMON_MEMBERS = ("ts", "event", "workspace_id", "session_id", "run_id", "phase", "duration_ms")
_TIMESTAMP = "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ"
_CHAIN_OPENING = b',"chain":"'
_CHAIN_LENGTH = len(_CHAIN_OPENING) + 64 + len(b'"}')
_SEALED = re.compile(rb'\{"v":(\d{1,9}),"seq":(\d{1,18}),[^\n]*,"chain":"([0-9a-f]{64})"\}')


@dataclass(frozen=True, slots=True)
class Head:
    """Where a journal file stands: its last line's `seq` and `chain`. (0, GENESIS) if empty."""

    seq: int
    chain: str


EMPTY = Head(0, GENESIS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """What the frame of a line says, before its content is parsed."""

    version: int
    head: Head


def timestamp(moment: datetime) -> str:
    """Return *moment* as fixed-width UTC text: `2026-01-02T03:04:05.000006Z`."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    # `isoformat` takes twice as long.
    return _TIMESTAMP % (
        *(moment.year, moment.month, moment.day),
        *(moment.hour, moment.minute, moment.second, moment.microsecond),
    )


def body_of(
    event: Event, *, moment: datetime, workspace_id: Id, duration_ms: int | None = None
) -> str:
    """Return the JSON object of *event* without `v`, `seq` and `chain`, which the file decides."""
    if duration_ms is not None and not (
        type(duration_ms) is int and 0 <= duration_ms <= MAX_INTEGER
    ):
        raise EventInvalid(
            event=type(event).__name__,
            field="duration_ms",
            rule="an integer from 0 to 2**63-1, or None",
        )
    cls: Any = type(event)  # mypy takes it for unhashable
    template, fetch = _plan_of(cls)
    name, phase, *facts = fetch(event)
    session_id = getattr(event, "session_id", None)
    run_id = getattr(event, "run_id", None)
    about = (None, run_id) if cls is SessionDeleted else (session_id, run_id)
    if cls is SessionDeleted:
        facts.insert(0, session_id)
    values = (timestamp(moment), name, workspace_id, *about, phase, duration_ms, *facts)
    # To make the JSON of one dict takes twice as long, and most values are one of these three.
    texts = [
        value
        if type(value) is int
        else "null"
        if value is None
        else _text(value)
        if isinstance(value, str)
        else _to_json(value)
        for value in values
    ]
    return template % tuple(texts)


@cache
def _plan_of(cls: Any) -> tuple[str, attrgetter[tuple[Any, ...]]]:
    """Return the JSON of an event of *cls* with a `%s` a value, and what gets its own values."""
    facts = fact_names(cls)
    names = [*_COMMON_MEMBERS, *([DELETED_SESSION_ID] if cls is SessionDeleted else []), *facts]
    members = ",".join(f'"{name}":%s' for name in names)
    return f"{{{members}}}", attrgetter("name", "phase", *facts)


def seal(body: bytes, *, after: Head) -> tuple[bytes, Head]:
    """Return the finished line that follows *after*, with its newline, and the new head."""
    seq = after.seq + 1
    unsealed = b'{"v":%d,"seq":%d,%b' % (FORMAT_VERSION, seq, body[1:])
    chain = hashlib.sha256(after.chain.encode("ascii") + unsealed).hexdigest()
    line = b'%b%b%b"}\n' % (unsealed[:-1], _CHAIN_OPENING, chain.encode("ascii"))
    return line, Head(seq, chain)


def chain_of(line: bytes, *, previous: str) -> str:
    """Return the chain that *line* (without its newline) ought to carry after *previous*."""
    return hashlib.sha256(previous.encode("ascii") + line[:-_CHAIN_LENGTH] + b"}").hexdigest()


def sealed_at(window: bytes, start: int, end: int) -> Sealed | None:
    """Return what the frame of the line at window[start:end] says; None if it is no line."""
    match = _SEALED.fullmatch(window, start, end)
    if match is None:
        return None
    version, seq, chain = match.groups()
    return Sealed(version=int(version), head=Head(int(seq), chain.decode("ascii")))


def _plain(item: object) -> object:
    match item:
        case Frame():
            return [item.module, item.function, item.line]
        case CollapsedFrames():
            return item.count
        case _:
            raise TypeError(f"{type(item).__name__} has no place in a journal line")


_text = json.encoder.encode_basestring_ascii
_to_json = json.JSONEncoder(
    ensure_ascii=True, allow_nan=False, separators=(",", ":"), default=_plain
).encode
