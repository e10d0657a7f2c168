"""What can be found, read from the database itself: titles, and messages as they are now.

Originals only, and none that was undone. Invariant: a read takes a bounded number of rows and
bytes, and between two of them the database is free for others; however long a search looks, no
transaction is long. Messages are never changed and ids only grow, so that it adds up all the same.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from state_store.sqlite.faults import UnreadableValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from state_store.sqlite.database import Database

T = TypeVar("T")
ROWS_A_READ = 500
LENGTH_A_READ = 1 << 19  # in characters
BEYOND_ALL = 2**63 - 1  # a bound above every row id
ABOVE_ALL_IDS = "g"  # a bound above every session id, which is hexadecimal
_MESSAGES = (
    "SELECT m.id, m.session_id, m.seq, m.role, m.created_at, m.content, m.parts"
    " FROM messages m WHERE m.kind = 'original'"
)
_NOT_UNDONE = (
    " AND m.undone_at IS NULL AND NOT EXISTS"
    " (SELECT 1 FROM runs r WHERE r.id = m.run_id AND r.undone_at IS NOT NULL)"
)
_ARCHIVED = {
    None: "",
    True: " AND s.archived_at IS NOT NULL",
    False: " AND s.archived_at IS NULL",
}
_IN_ARCHIVED = {
    archived: condition
    and f" AND EXISTS (SELECT 1 FROM sessions s WHERE s.id = m.session_id{condition})"  # noqa: S608 - constants alone
    for archived, condition in _ARCHIVED.items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What an index has to fit: the database's generation, its last message id, its deletions."""

    generation: str
    last_id: int
    tombstone_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where to look: in one session or in all, archived ones or not or (None) both."""

    session_id: str | None = None
    archived: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A title or a message with its text. A title has no id, seq and role."""

    id: int | None
    session_id: str
    seq: int | None
    role: str | None
    text: str
    created_at: str | None


class Truth:
    """Reads of the database that a search makes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def source(self) -> Source:
        """Return what an index has to fit now."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT generation, (SELECT count(*) FROM tombstones),"
                " coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0)"
                " FROM store"
            ).fetchone()
        if row is None:
            raise UnreadableValue
        return Source(generation=row[0], tombstone_count=row[1], last_id=row[2])

    def counts(self, indexed_to: int) -> tuple[int, int]:
        """Return how many messages there are up to *indexed_to*, and in all."""
        with self._database.read() as connection:
            indexed, total = connection.execute(
                "SELECT count(*) FILTER (WHERE id <= ?), count(*) FROM messages", (indexed_to,)
            ).fetchone() or (0, 0)
        return indexed, total

    def present(self, ids: Sequence[int]) -> set[int]:
        """Return those of *ids* that are ids of messages."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT id FROM messages WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps(ids),),
            ).fetchall()
        return {key for (key,) in rows if isinstance(key, int)}

    def texts_after(self, key: int) -> Iterator[tuple[int, str | None]]:
        """Yield the ids of the messages after *key* with their texts, None for a stand-in.

        Undone ones are among them: they may come back.
        """
        sql = "SELECT id, kind, content, parts FROM messages WHERE id > :id ORDER BY id"
        while found := self._read(sql, {"id": key}, _id_and_text):
            yield from found
            key = found[-1][0]

    def messages(self, scope: Scope, *, below: int, down_to: int) -> Iterator[Found]:
        """Yield the messages in *scope* with ids below *below*, newest first."""
        sql = (
            f"{_MESSAGES}{_NOT_UNDONE}{_IN_ARCHIVED[scope.archived]}"
            " AND m.id < :below AND m.id >= :down_to"
            f"{'' if scope.session_id is None else ' AND m.session_id = :session_id'}"
            # Within a session both are the same order, and for seq there is an index.
            f" ORDER BY {'m.id' if scope.session_id is None else 'm.seq'} DESC"
        )
        asked = {"down_to": down_to, "session_id": scope.session_id}
        while found := self._read(sql, {**asked, "below": below}, _message):
            yield from found
            below = found[-1].id or 0

    def messages_of(self, scope: Scope, ids: Sequence[int]) -> Iterator[Found]:
        """Yield those of the messages *ids* that are in *scope*, in the order of *ids*."""
        sql = f"{_MESSAGES}{_NOT_UNDONE}{_IN_ARCHIVED[scope.archived]} AND m.id = :id"
        for key in ids:
            yield from self._read(sql, {"id": key}, _message)

    def titles(self, scope: Scope, *, below: str | None) -> Iterator[Found]:
        """Yield titles in *scope* of sessions with an id below *below*, the highest id first."""
        sql = (
            "SELECT s.id, s.created_at, CAST(s.title AS BLOB) FROM sessions s"  # noqa: S608 - constants alone
            f" WHERE s.title IS NOT NULL{_ARCHIVED[scope.archived]}"
            f"{'' if scope.session_id is None else ' AND s.id = :session_id'}"
            " AND s.id < :below ORDER BY s.id DESC"
        )
        below = below or ABOVE_ALL_IDS
        while found := self._read(sql, {"below": below, "session_id": scope.session_id}, _title):
            yield from found
            below = found[-1].session_id

    def _read(
        self,
        sql: str,
        bindings: dict[str, Any],
        reading: Callable[[tuple[Any, ...]], T],
    ) -> list[T]:
        """Return what *reading* makes of the first rows; fewer of them if they are long."""
        taken: list[T] = []
        size = 0
        with self._database.read() as connection:
            for row in connection.execute(sql, bindings):
                taken.append(reading(row))  # in here an unreadable value is the database's damage
                size += sum(len(value) for value in row if isinstance(value, str | bytes))
                if len(taken) == ROWS_A_READ or size >= LENGTH_A_READ:
                    break
        return taken


def _id_and_text(row: tuple[Any, ...]) -> tuple[int, str | None]:
    """Return the id of a message, and its text if it is an original."""
    key, kind, content, parts = row
    return key, _text(content, parts) if kind == "original" else None


def _message(row: tuple[Any, ...]) -> Found:
    key, session_id, seq, role, created_at, content, parts = row
    return Found(
        id=key,
        session_id=session_id,
        seq=seq,
        role=role,
        text=_text(content, parts),
        created_at=created_at,
    )


def _title(row: tuple[Any, ...]) -> Found:
    session_id, created_at, title = row
    return Found(
        id=None,
        session_id=session_id,
        seq=None,
        role=None,
        text=title.decode("utf-8", "replace"),
        created_at=created_at,
    )


def _text(content: str | None, parts: str | None) -> str:
    """Return what a message says: its content, and the text of its parts."""
    texts = [content or ""]
    if parts is not None:
        try:
            texts += [
                text for part in json.loads(parts) if isinstance(text := part.get("text"), str)
            ]
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise UnreadableValue from error  # no list of objects
    return "\n".join(texts)
