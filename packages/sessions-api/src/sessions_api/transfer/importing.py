"""Import: sessions of an archive, or messages alone, into the store.

Invariants: everything is read and checked before anything is written; each session is one
transaction, and what a crash leaves out comes with the next import of the same source, because
what is there already is recognised and not made twice. Ids from outside are checked to be UUIDs,
and one that is taken by another session gives way to a new one.

A session that lost something in a damaged database is imported as one: it carries the mark of a
salvage, by which checks and people know that.

A masked archive is refused: a model that reads a mask as data would use it as such.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sessions_api.transfer.archive_reading import SessionReader, is_header, read_header
from sessions_api.transfer.archive_writing import digest_of
from sessions_api.transfer.jsonl_reading import MessagesReader
from sessions_api.transfer.moment import StoredMoment
from sessions_api.transfer.source_lines import source_lines
from sessions_api.transfer.strict_json import Unfit
from state_store import (
    Clock,
    IdSource,
    Imported,
    Message,
    Progress,
    Session,
    SessionNotFound,
    SqliteStore,
    as_salvaged,
    new_id,
    silent,
    utc_now,
)
from state_store import ImportInvalid as StoreImportInvalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from sessions_api.transfer.source_lines import Source, SourceLines


class ImportedSessions(list[Session]):
    """The sessions of an import, as they are now, in the order of the source.

    `outcomes` says of each, in the same order, what was done: "new", "already_there", or
    "renamed", when its id was taken and it got a new one; `source_id` is the one it came with.
    """

    def __init__(self, outcomes: Iterable[Imported]) -> None:
        self.outcomes = tuple(outcomes)
        super().__init__(one.session for one in self.outcomes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A session that was found good: where it begins, and how to read it again."""

    place: tuple[int, int]
    session: Session
    digest: str
    is_archived: bool
    open: Callable[[], Any]


class CheckedSource:
    """A source in which everything was found good, and that is still open. Made by `checked`."""

    def __init__(self, lines: SourceLines, entries: list[_Entry], size: int) -> None:
        self._lines = lines
        self._entries = entries
        self._size = size

    def import_into(self, store: SqliteStore, *, progress: Progress = silent) -> Iterator[Imported]:
        """Write the sessions, each in one transaction, and yield what became of each after it."""
        writing = _Writing(store, self._lines, lambda done: progress("importing", done, self._size))
        yield from map(writing.imported, self._entries)


@contextmanager
def checked(
    source: Source | CheckedSource,
    *,
    progress: Progress = silent,
    clock: Clock = utc_now,
    new_id: IdSource = new_id,
) -> Iterator[CheckedSource]:
    """Open *source* and check all of it; ImportInvalid names what is wrong, and on which line.

    *progress* is told how many bytes are read, of how many. What was checked already passes.
    """
    if isinstance(source, CheckedSource):
        yield source
        return
    with source_lines(source) as (lines, size):

        def tell(done: int) -> None:
            progress("checking", done, size)

        first = lines.next()
        if first is None:
            raise lines.invalid("there is nothing in it", line=1)
        lines.put_back(first)
        if is_header(first):
            entries = _checked_archive(lines, tell)
        else:
            entries = _checked_messages(lines, tell, now=clock(), session_id=new_id())
        yield CheckedSource(lines, entries, size)


def _checked_archive(lines: SourceLines, tell: Callable[[int], None]) -> list[_Entry]:
    header = read_header(lines)
    if header.redacted:
        raise lines.invalid(
            "it was exported with its secrets masked, and a mask must not become data",
            hint="Export it again with --no-redact (redact=False).",
        )
    entries: list[_Entry] = []
    known: set[str] = set()
    for _ in range(header.session_count):
        reader = SessionReader(lines)
        if reader.session.id in known:
            raise lines.invalid("this session was there before", line=reader.place[1] + 1)
        known.add(reader.session.id)
        for _ in reader.messages():
            tell(lines.byte_count)
        entries.append(
            _Entry(
                place=reader.place,
                session=reader.session if reader.is_complete else _marked(reader.session),
                digest=reader.digest,
                is_archived=True,
                open=lambda: SessionReader(lines),
            )
        )
    if lines.next() is not None:
        raise lines.invalid("there is more than the header says")
    return entries


def _checked_messages(
    lines: SourceLines, tell: Callable[[int], None], *, now: datetime, session_id: str
) -> list[_Entry]:
    def read() -> MessagesReader:
        return MessagesReader(lines, session_id=session_id, now=now)

    reader = read()
    for _ in reader.messages():
        tell(lines.byte_count)
    return [
        _Entry(
            place=reader.place,
            session=reader.session,
            digest=reader.digest,
            is_archived=False,
            open=read,
        )
    ]


def _marked(session: Session) -> Session:
    return replace(session, metadata=as_salvaged(session.metadata))


class _Writing:
    """The second reading, which writes what the first one found good."""

    def __init__(self, store: SqliteStore, lines: SourceLines, tell: Callable[[int], None]) -> None:
        self._store = store
        self._lines = lines
        self._tell = tell
        self._new_ids: dict[str, str] = {}

    def imported(self, entry: _Entry) -> Imported:
        """Write a session, or find that it is there."""
        session = entry.session
        if entry.is_archived and self._is_there(session.id, entry.digest):
            there = self._store.get_session(session.id)
            return Imported(session=there, outcome="already_there", source_id=session.id)
        if session.forked_from is not None:
            parent, seq = session.forked_from
            session = replace(session, forked_from=(self._new_ids.get(parent, parent), seq))
        self._lines.go_to(entry.place)
        reader = entry.open()
        try:
            imported = self._store.import_session(
                session,
                messages=self._same(reader, entry),
                runs=getattr(reader, "runs", ()),
                executions=getattr(reader, "executions", ()),
                digest=entry.digest,
            )
        except StoreImportInvalid as error:
            what = f"{error.record} {error.number} of the session that begins here"
            line = entry.place[1] + 1
            raise self._lines.invalid(f"{what}: {error.field} cannot be kept", line=line) from error
        self._new_ids[session.id] = imported.session.id
        return imported

    def _is_there(self, session_id: str, digest: str) -> bool:
        """Whether the session itself, from which the source was made, is here and unchanged."""
        try:
            return digest_of(StoredMoment(self._store, session_id)) == digest
        except (SessionNotFound, Unfit):  # not there, or damaged beyond what can be written
            return False

    def _same(self, reader: Any, entry: _Entry) -> Iterator[Message]:
        """Yield the messages, and make sure that they are those which were checked."""
        for message in reader.messages():
            self._tell(self._lines.byte_count)
            yield message
        if reader.digest != entry.digest:
            raise self._lines.invalid("it was changed while it was read")
