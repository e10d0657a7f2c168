"""A search: where candidates come from, how hits are ordered, and where the next page goes on.

Invariant: whatever state the index is in, the hits are those that reading every message would
find. The index only says which messages need not be read; what it has not got to yet is read, and
each candidate is judged by its row, so that what was deleted or undone is no hit.

Titles come first, of the newest session first; they are few, change, and are always read. Then
messages, in the order in which they were stored, newest first; by relevance the newest
`RANKED_COUNT` matches are ordered by score, then the next ones. A cursor holds what never changes,
ids and scores, so that pages neither skip nor repeat.
"""

from __future__ import annotations

import binascii
import json
import time
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, get_args

from state_store.cursor import Key, decode_cursor, encode_cursor, fetch_count
from state_store.errors import StateStoreError
from state_store.records import Hit, Page, SearchOrder, SearchState
from state_store.sqlite.beside import search_of
from state_store.sqlite.rows import instant
from state_store.sqlite.search import SLICE_MS
from state_store.sqlite.search.catching_up import Timer, add_new, remove_deleted
from state_store.sqlite.search.file import IndexFile
from state_store.sqlite.search.query import Query
from state_store.sqlite.search.snippet import snippet
from state_store.sqlite.search.truth import BEYOND_ALL, Found, Scope, Truth

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state_store.sqlite.database import Database
    from state_store.sqlite.search.index import Index, Proposal

RANKED_COUNT = 1_000
ERASE_WAIT_MS = 2_000  # for who is indexing at that moment
# The newest are read before an index is asked: of a frequent word they fill a page, and of all
# the words that begin with a letter FTS5 makes one list first.
READ_FIRST = 500
_FIRST_PROPOSALS, _MOST_PROPOSALS = 128, 8_192
_SHAPES: dict[SearchOrder, tuple[type, ...]] = {
    "newest": (str, int),
    "relevance": (str, int, int, int, int),
}

Keyed = tuple[Key, Found]


class Search:
    """Searching one store, and keeping its index. Thread-safe like the database that it reads."""

    def __init__(self, database: Database, *, timer: Timer = time.monotonic) -> None:
        self._truth = Truth(database)
        self._timer = timer
        self._writing = database.is_written
        self._file = (
            IndexFile(search_of(database.path), writing=database.is_written)
            if database.is_on_disk
            else None
        )

    def page(
        self,
        text: str,
        *,
        limit: int | None,
        cursor: str | None,
        order: SearchOrder,
        session_id: str | None,
        archived: bool | None,
    ) -> Page[Hit]:
        """Return hits, at most *limit*, after *cursor*."""
        if order not in get_args(SearchOrder):
            raise ValueError(f"hits have no order {order!r}; it is one of newest and relevance")
        wanted = fetch_count(limit)
        asked = json.dumps([text, session_id, archived]).encode()
        listing = f"search.{order}.{binascii.crc32(asked):08x}"
        after = None if cursor is None else decode_cursor(listing, cursor, _SHAPES[order])
        query = Query.parse(text)
        if not query.phrases:
            return Page(items=())
        if session_id is None:
            self.catch_up(create=True)
        scope = Scope(session_id=session_id, archived=archived)
        found = (self._newest if order == "newest" else self._ranked)(query, scope, after)
        taken = list(found if wanted < 0 else islice(found, wanted))
        items, rest = (taken, []) if limit is None else (taken[:limit], taken[limit:])
        return Page(
            items=tuple(_hit(one, query) for _, one in items),
            next_cursor=encode_cursor(listing, items[-1][0]) if rest else None,
        )

    def catch_up(self, *, create: bool, slice_ms: int = SLICE_MS) -> None:
        """Bring the index on for at most *slice_ms*; only with *create* make one."""
        if self._file is None or not self._writing or not (create or self._file.is_there):
            return
        source = self._truth.source()
        work = partial(self._bring_on, last_id=source.last_id, slice_s=slice_ms / 1000)
        self._file.use(source, work, create=create and source.last_id > 0)

    def _bring_on(self, index: Index, *, last_id: int, slice_s: float) -> None:
        remove_deleted(index, self._truth, wait_ms=0)
        add_new(index, self._truth, last_id=last_id, slice_s=slice_s, timer=self._timer)

    def settle(self) -> None:
        """Bring an index that is there on, at the end of something that must not fail by it."""
        with suppress(StateStoreError):
            self.catch_up(create=False)

    def erase(self) -> bool:
        """Take what was deleted out of the index's bytes, or the whole index if that cannot be.

        False when that cannot be either; the next `catch_up` tries again.
        """
        if self._file is None or not self._file.is_there:
            return True
        done = self._file.use(self._truth.source(), self._erase)
        if done or not self._file.is_there:
            return True
        return self._file.discard(wait_ms=ERASE_WAIT_MS)

    def _erase(self, index: Index) -> bool:
        remove_deleted(index, self._truth, wait_ms=ERASE_WAIT_MS)
        return True

    def state(self) -> SearchState:
        """Return how far the index has got."""
        indexed_to, size = 0, 0
        if self._file is not None and self._file.is_there:
            indexed_to = self._file.use(self._truth.source(), _indexed_to) or 0
            size = self._file.size_bytes
        indexed, total = self._truth.counts(indexed_to)
        return SearchState(indexed_count=indexed, message_count=total, size_bytes=size)

    def _newest(self, query: Query, scope: Scope, after: Key | None) -> Iterator[Keyed]:
        session_id, below = after or (None, 0)
        for one in self._titles(query, scope, session_id):
            yield (one.session_id, 0), one
        for one in self._matching(query, scope, below=_id(below) or BEYOND_ALL):
            yield ("", one.id or 0), one

    def _ranked(self, query: Query, scope: Scope, after: Key | None) -> Iterator[Keyed]:
        session_id, *rest = after or (None,)
        for one in self._titles(query, scope, session_id):
            yield (one.session_id, 0, 0, 0, 0), one
        below, down_to, *last = map(_id, rest or (0, 0))
        below = below or BEYOND_ALL
        while below > 1:
            matching = self._matching(query, scope, below=below, down_to=down_to)
            block = [
                (query.score(one.text), one.id or 0)
                for one in islice(matching, None if down_to else RANKED_COUNT)
            ]
            if not down_to:  # a new block: from here on its bounds go along in the cursor
                ids = [key for _, key in block]
                down_to = min(ids) if len(ids) == RANKED_COUNT else 1
                below = min(below, max(ids, default=0) + 1)
            for score, key in sorted(block, reverse=True):
                if any(last) and (score, key) >= tuple(last):
                    continue
                for one in self._truth.messages_of(scope, [key]):
                    yield ("", below, down_to, score, key), one
            below, down_to, last = down_to, 0, []

    def _titles(self, query: Query, scope: Scope, after: object) -> Iterator[Found]:
        """Yield the titles that match after that of the session *after*; all if it is None."""
        if after == "":
            return
        below = after if isinstance(after, str) else None
        for one in self._truth.titles(scope, below=below):
            if query.matches(one.text):
                yield one

    def _matching(
        self, query: Query, scope: Scope, *, below: int, down_to: int = 0
    ) -> Iterator[Found]:
        """Yield the messages that match with ids from *below* (not it) *down_to*, newest first."""
        below = min(below, self._truth.source().last_id + 1)
        floor = max(down_to, below - READ_FIRST)
        yield from self._read(query, scope, below=below, down_to=floor)
        below, count = floor, _FIRST_PROPOSALS
        while below > down_to:
            proposal = self._propose(query, scope, below=below, down_to=down_to, count=count)
            if proposal is None:
                yield from self._read(query, scope, below=below, down_to=down_to)
                return
            floor = max(down_to, min(below, proposal.indexed_to + 1))
            yield from self._read(query, scope, below=below, down_to=floor)
            for one in self._truth.messages_of(scope, proposal.ids):
                if query.matches(one.text):
                    yield one
            if len(proposal.ids) < count:
                return
            below = proposal.ids[-1]
            count = min(4 * count, _MOST_PROPOSALS)

    def _read(self, query: Query, scope: Scope, *, below: int, down_to: int) -> Iterator[Found]:
        """Yield the messages that match, found by reading them all."""
        for one in self._truth.messages(scope, below=below, down_to=down_to):
            if query.matches(one.text):
                yield one

    def _propose(
        self, query: Query, scope: Scope, *, below: int, down_to: int, count: int
    ) -> Proposal | None:
        """Ask the index; None when there is none, or when one session is read as quickly."""
        if self._file is None or scope.session_id is not None or not self._file.is_there:
            return None

        def ask(index: Index) -> Proposal:
            return index.propose(query, below=below, down_to=down_to, count=count)

        return self._file.use(self._truth.source(), ask)


def _hit(found: Found, query: Query) -> Hit:
    line, matches = snippet(found.text, query)
    return Hit(
        session_id=found.session_id,
        seq=found.seq,
        role=found.role,
        snippet=line,
        matches=matches,
        created_at=instant(found.created_at),
    )


def _indexed_to(index: Index) -> int:
    return index.progress.indexed_to


def _id(value: str | int) -> int:
    return value if isinstance(value, int) else 0
