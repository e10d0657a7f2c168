"""What the search index holds: for each message its words, and how far it has got.

A contentless FTS5 table: it knows which message has which words, and no text. Its row ids are those
of the messages; `source` says of which database they are, of which generation (a restore gives row
ids anew), in which Unicode they were folded, up to which message all are in, and how many
tombstones were seen to. Messages too long for a slice of indexing are listed in `long_messages`
and proposed to every search.

Invariants: all messages up to `indexed_to` are in or are listed, or were deleted; rows are read
from the truth under this index's write lock, so that whoever deletes a session and then gets the
lock finds all that was ever indexed of it.
Source: SQLite documentation, FTS5, "Contentless-Delete Tables" and "The 'optimize' Command".
"""

from __future__ import annotations

import unicodedata
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import apsw

from state_store.sqlite import policy
from state_store.sqlite.search.query import INDEXED_WORD_LENGTH
from state_store.sqlite.search.words import joined_words
from state_store.sqlite.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from state_store.sqlite.search.query import Query
    from state_store.sqlite.search.truth import Source

APPLICATION_ID = 0x74416749  # "tAgI"
FORMAT = 1
# In characters. Indexing a longer one could take much longer than a slice may: of Chinese, where
# each character is a word, one of this length takes about two of them.
LONG_MESSAGE_LENGTH = 1 << 18
# "ascii" takes every character beyond ASCII for part of a word, and so splits at spaces alone.
_SCHEMA = """
CREATE TABLE source (
  generation      TEXT NOT NULL,
  unicode         TEXT NOT NULL,
  indexed_to      INTEGER NOT NULL,
  tombstone_count INTEGER NOT NULL
) STRICT;
CREATE TABLE long_messages (id INTEGER PRIMARY KEY) STRICT;
CREATE VIRTUAL TABLE words USING fts5(text, content='', contentless_delete=1, tokenize='ascii');
"""
_INSERT = "INSERT INTO words (rowid, text) VALUES (?, ?)"
_INSERT_LONG = "INSERT INTO long_messages VALUES (?)"
_PROPOSE = (
    "SELECT rowid FROM words WHERE words MATCH ? AND rowid < ? AND rowid >= ?"
    " ORDER BY rowid DESC LIMIT ?"
)
_PROPOSE_LONG = "SELECT id FROM long_messages WHERE id < ? AND id >= ? ORDER BY id DESC LIMIT ?"
_READING = (policy.distrust_schema, policy.check_cells, policy.map_nothing)
_WRITING = (*_READING, policy.overwrite_deleted, policy.bound_journal)


@dataclass(frozen=True, slots=True)
class Progress:
    """Up to which message id all are indexed, and how many deletions have been seen to."""

    indexed_to: int
    tombstone_count: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """Ids, newest first, of messages up to `indexed_to` that may match."""

    indexed_to: int
    ids: list[int]


class Index:
    """One connection to the index, for one call and its thread."""

    def __init__(self, connection: apsw.Connection, path: Path, *, writing: bool) -> None:
        self._connection = connection
        self._waiting = Waiting()
        for rule in _WRITING if writing else _READING:
            rule(connection, path)
        if writing:
            # It can be made anew: that it is never half written is enough.
            connection.pragma("synchronous", 1)

    def create(self, source: Source) -> None:
        """Make the tables in an empty file."""
        self._connection.pragma("journal_mode", "wal")
        with self.changing():
            self._connection.execute(_SCHEMA)
            self._connection.execute(
                "INSERT INTO source VALUES (?, ?, 0, ?)",
                (source.generation, unicodedata.unidata_version, source.tombstone_count),
            )
            self._connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            self._connection.execute(f"PRAGMA user_version={FORMAT}")

    def is_of(self, source: Source) -> bool:
        """Say whether this is an index of this format, and of this database as it is now."""
        if self._connection.pragma("application_id") != APPLICATION_ID:
            return False
        if self._connection.pragma("user_version") != FORMAT:
            return False
        found = self._connection.execute(
            "SELECT generation, unicode, indexed_to FROM source"
        ).fetchone()
        return (
            found is not None
            and found[:2] == (source.generation, unicodedata.unidata_version)
            and 0 <= found[2] <= source.last_id
        )

    @property
    def progress(self) -> Progress:
        """How far the index has got."""
        row = self._connection.execute("SELECT indexed_to, tombstone_count FROM source").fetchone()
        if row is None:
            raise apsw.CorruptError
        return Progress(*row)

    @contextmanager
    def changing(self, *, wait_ms: int = 0) -> Iterator[None]:
        """Hold the write lock for one transaction; `apsw.BusyError` when another one keeps it."""
        self._waiting.wait_up_to(self._connection, wait_ms)
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def add(self, key: int, text: str) -> None:
        """Index the message with the id *key*, while `changing`."""
        if len(text) > LONG_MESSAGE_LENGTH:
            self._connection.execute(_INSERT_LONG, (key,))
        elif words := joined_words(text).split():
            indexed = " ".join(word[:INDEXED_WORD_LENGTH] for word in words)
            self._connection.execute(_INSERT, (key, indexed))

    def note_indexed(self, indexed_to: int) -> None:
        """Note, while `changing`, that all messages up to *indexed_to* are in."""
        self._connection.execute("UPDATE source SET indexed_to = ?", (indexed_to,))

    def note_erased(self, tombstone_count: int) -> None:
        """Note, while `changing`, that nothing is left of so many deleted sessions."""
        self._connection.execute("UPDATE source SET tombstone_count = ?", (tombstone_count,))

    def ids(self, after: int, count: int) -> list[int]:
        """Return the next ids beyond *after* of which something is here, in order."""
        rows = self._connection.execute(
            "SELECT id FROM words_docsize WHERE id > ?1 UNION"
            " SELECT id FROM long_messages WHERE id > ?1 ORDER BY 1 LIMIT ?2",
            (after, count),
        )
        return _ids(rows)

    def remove(self, ids: Iterable[int]) -> None:
        """Forget the messages with these ids, while `changing`, words and all.

        Deleting alone marks them: their words would stay until segments happen to be merged.
        """
        rows = [(key,) for key in ids]
        self._connection.executemany("DELETE FROM words WHERE rowid = ?", rows)
        self._connection.executemany("DELETE FROM long_messages WHERE id = ?", rows)
        self._connection.execute("INSERT INTO words (words) VALUES ('optimize')")

    def empty_log(self, *, wait_ms: int) -> None:
        """Cut the log to nothing: `apsw.BusyError` while another process reads in it."""
        self._waiting.wait_up_to(self._connection, wait_ms)
        self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def propose(self, query: Query, *, below: int, down_to: int, count: int) -> Proposal:
        """Return the next messages below *below* that may match, newest first."""
        indexed_to = self.progress.indexed_to
        bounds = (min(below, indexed_to + 1), down_to, count)
        found = _ids(self._connection.execute(_PROPOSE, (query.expression(), *bounds)))
        found += _ids(self._connection.execute(_PROPOSE_LONG, bounds))
        return Proposal(indexed_to=indexed_to, ids=sorted(found, reverse=True)[:count])


def _ids(rows: apsw.Cursor) -> list[int]:
    return [key for (key,) in rows.fetchall() if isinstance(key, int)]
