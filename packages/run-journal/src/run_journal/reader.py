r"""Reading: the lines of a journal file as values, damaged ones included.

Owns turning bytes into `Entry` or `Damage`. Invariant: every byte of the file is accounted for,
in order; damage is never skipped silently and never stops the reading; records are split on
`\n` only. A damaged line's bytes are not passed on, since nobody knows what stands in them.

Reading while others write is safe: a line is taken from one read, because a repair may replace a
torn one between two, and what looks damaged is looked at again before it is told.

Must not: write, lock or import loguru.
"""

from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from io import FileIO
from typing import TYPE_CHECKING, Any

from run_journal.errors import JournalMissing, JournalUnavailable
from run_journal.lines import FORMAT_VERSION, MAX_LINE_BYTES, Head, sealed_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

_ENVELOPE = frozenset(
    {
        "v",
        "seq",
        "ts",
        "event",
        "workspace_id",
        "session_id",
        "run_id",
        "phase",
        "duration_ms",
        "chain",
    }
)
# What a system lacks is left out, so that a journal that was sent to somebody can be read there.
_READING = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_BINARY")
)
_WINDOW_BYTES = 65536
_NULLABLE = ("workspace_id", "session_id", "run_id", "phase")


class DamageKind(StrEnum):
    """What is wrong with a stretch of a journal file."""

    NOT_A_LINE = "not_a_line"
    TOO_LONG = "too_long"
    NEWER_FORMAT = "newer_format"
    TORN_TAIL = "torn_tail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One good line. `fields` holds what the event adds to the members that all lines have.

    `line` is the line as it stands in the file, without its newline; `offset` where it begins.
    """

    seq: int
    ts: str
    event: str
    workspace_id: str | None
    session_id: str | None
    run_id: str | None
    phase: str | None
    duration_ms: int | None
    fields: Mapping[str, Any]
    chain: str
    offset: int
    line: bytes

    @property
    def at(self) -> datetime:
        """The time of the event, aware, in UTC."""
        return datetime.fromisoformat(self.ts)

    @property
    def head(self) -> Head:
        """Where the file stood after this line."""
        return Head(self.seq, self.chain)

    @property
    def end(self) -> int:
        """The offset behind this line's newline."""
        return self.offset + len(self.line) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A stretch of the file that is no good line: where, how long, of what kind."""

    kind: DamageKind
    offset: int
    byte_count: int

    @property
    def end(self) -> int:
        """The offset behind this stretch."""
        return self.offset + self.byte_count


def read(path: Path) -> Iterator[Entry | Damage]:
    """Yield what stands in *path*, in file order, to the end that it has when it is reached.

    Raises `JournalMissing`, or `JournalUnavailable` for what cannot be read, before the first
    item. Keeps 64 KB in memory. The file is closed when the iterator ends or is closed.
    """
    with _opened(path) as file:
        yield from _lines(file, offset=0, torn_tail=True)


def follow(
    path: Path, *, stop: Callable[[], bool] = lambda: False, poll_s: float = 0.2
) -> Iterator[Entry | Damage]:
    """Yield what stands in *path* and what comes, until `stop()` is true or it is gone from there.

    It is gone when it was deleted, moved away or replaced; what was written before that is told.

    Waits for a file that is not there yet. Looks every *poll_s* seconds; `stop` is asked as
    often, and once more is read after it said so. A line that has no newline yet is waited for.
    A file that was cut shorter than what was told of it is told from its beginning.
    """
    file = _awaited(path, stop=stop, poll_s=poll_s)
    if file is None:
        return
    with file:
        offset = 0
        stopping = False
        while True:
            if os.fstat(file.fileno()).st_size < offset:
                offset = 0  # it was emptied and written anew
            for item in _lines(file, offset=offset, torn_tail=False):
                offset = item.end
                yield item
            if stopping:
                return
            stopping = stop() or not _stands_at(path, file)
            if not stopping:
                time.sleep(poll_s)


def _stands_at(path: Path, file: FileIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except OSError:
        return False


def _awaited(path: Path, *, stop: Callable[[], bool], poll_s: float) -> FileIO | None:
    while True:
        stopping = stop()
        try:
            return _opened(path)
        except JournalMissing:
            if stopping:
                return None
        time.sleep(poll_s)


def _opened(path: Path) -> FileIO:
    try:
        fd = os.open(path, _READING)
    except FileNotFoundError:
        raise JournalMissing(path) from None
    except OSError as error:
        raise JournalUnavailable(
            path, reason=error.strerror or "unknown", hint="Check the file and its rights."
        ) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise JournalUnavailable(
            path, reason="it is no regular file", hint="Give the path of a journal file."
        )
    return FileIO(fd, "rb")


def _lines(file: FileIO, *, offset: int, torn_tail: bool) -> Iterator[Entry | Damage]:
    while window := _read_at(file, offset, _WINDOW_BYTES):
        lines = window.split(b"\n")[:-1]  # what follows the last line end is read again, whole
        if not lines:
            byte_count, ends = _measured(file, offset)
            if not ends:
                if torn_tail:
                    yield Damage(kind=DamageKind.TORN_TAIL, offset=offset, byte_count=byte_count)
                return
            yield Damage(kind=DamageKind.TOO_LONG, offset=offset, byte_count=byte_count)
            offset += byte_count
        for line in lines:
            item = _parsed(line, offset)
            if isinstance(item, Damage) and _read_at(file, offset, len(line)) != line:
                break  # a repair was putting its report there
            yield item
            offset = item.end


def _read_at(file: FileIO, offset: int, count: int) -> bytes:
    file.seek(offset)
    return file.read(count)


def _measured(file: FileIO, offset: int) -> tuple[int, bool]:
    """Return how long the line at *offset* is, and whether it ends."""
    byte_count = 0
    while window := _read_at(file, offset + byte_count, _WINDOW_BYTES):
        end = window.find(b"\n") + 1
        if end:
            return byte_count + end, True
        byte_count += len(window)
    return byte_count, False


def _parsed(line: bytes, offset: int) -> Entry | Damage:
    if len(line) >= MAX_LINE_BYTES:
        return Damage(kind=DamageKind.TOO_LONG, offset=offset, byte_count=len(line) + 1)
    sealed = sealed_at(line, 0, len(line))
    kind = DamageKind.NOT_A_LINE
    if sealed is not None and sealed.version == FORMAT_VERSION:
        entry = _entry(line, sealed.head, offset)
        if entry is not None:
            return entry
    elif sealed is not None and sealed.version > FORMAT_VERSION:
        kind = DamageKind.NEWER_FORMAT
    return Damage(kind=kind, offset=offset, byte_count=len(line) + 1)


def _entry(line: bytes, head: Head, offset: int) -> Entry | None:
    try:
        members = json.loads(line.decode("ascii"))
        if not _well_typed(members) or (members["seq"], members["chain"]) != (head.seq, head.chain):
            return None
        datetime.fromisoformat(members["ts"])
        return Entry(
            seq=head.seq,
            ts=members["ts"],
            event=members["event"],
            workspace_id=members["workspace_id"],
            session_id=members["session_id"],
            run_id=members["run_id"],
            phase=members["phase"],
            duration_ms=members["duration_ms"],
            fields={name: value for name, value in members.items() if name not in _ENVELOPE},
            chain=head.chain,
            offset=offset,
            line=line,
        )
    except (ValueError, KeyError, RecursionError):
        return None


def _well_typed(members: Mapping[str, Any]) -> bool:
    duration_ms = members["duration_ms"]
    return (
        isinstance(members["ts"], str)
        and isinstance(members["event"], str)
        and all(members[name] is None or isinstance(members[name], str) for name in _NULLABLE)
        and (duration_ms is None or type(duration_ms) is int)
    )
