"""The rows that were found, each key once, and the account of what became of every one of them.

Messages, which may be many and long, go into the new database at once; all other rows wait in
memory until it is known which of them belong together. Invariants: of two rows with one key the
later state is kept where the rows themselves tell, otherwise the first, and those come first that
trees lead to; every row that was found is either saved or refused for one reason, and counted.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import apsw

from state_store.findings import RefusalReason, TableSalvage
from state_store.sqlite.values import is_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from state_store.sqlite.salvage.recognition import FoundRow, Row
    from state_store.sqlite.values import Table

_KEYS: Mapping[str, tuple[str, ...]] = {
    "tombstones": ("session_id",),
    "sessions": ("id",),
    "runs": ("id",),
    "tool_executions": ("session_id", "call_seq", "call_index"),
}
_SAME_PLACE = "SELECT * FROM messages WHERE id = :id OR (session_id = :session_id AND seq = :seq)"
# In the order of ids there is nobody of the session who would have to be on the other side.
_IS_IN_ORDER = (
    "SELECT NOT EXISTS (SELECT 1 FROM messages WHERE session_id = :session_id AND id <> :id"
    " AND seq <> :seq AND (id < :id) <> (seq < :seq))"
)


class Collection:
    """What was found in one damaged database. For one thread."""

    def __init__(self, connection: apsw.Connection, tables: Mapping[str, Table]) -> None:
        self._connection = connection
        self._tables = tables
        self._found: Counter[str] = Counter()
        self._rebuilt: Counter[str] = Counter()
        self._mended: Counter[str] = Counter()
        self._refused: dict[str, Counter[RefusalReason]] = {name: Counter() for name in tables}
        self._rows: dict[str, dict[tuple[Any, ...], Row]] = {name: {} for name in _KEYS}
        self._disputed: list[FoundRow] = []
        self.touched: set[str] = set()

    def take(self, rows: Iterable[FoundRow]) -> None:
        """Keep what was not found before."""
        for found in rows:
            self._found[found.table] += 1
            if found.refused is not None:
                self.refuse(found.table, found.refused, found.row)
            elif found.table == "messages":
                self._take_message(found)
            else:
                self._take_row(found)

    def take_missing(self, rows: Iterable[FoundRow]) -> None:
        """Keep what was not found before, or is a later state of it, and account for no more.

        For rows from another image of pages whose rows were taken already.
        """
        for found in rows:
            if found.refused is not None:
                continue
            if found.table == "messages":
                if not self._at_place_of(found.row):
                    self.take([found])
                continue
            held, key = self._rows[found.table], self._key_of(found)
            if key not in held:
                self.take([found])
            elif _is_later(found, held[key]):
                held[key] = found.row

    def _key_of(self, found: FoundRow) -> tuple[Any, ...]:
        return tuple(found.row[name] for name in _KEYS[found.table])

    def _take_row(self, found: FoundRow) -> None:
        rows = self._rows[found.table]
        key = self._key_of(found)
        if key in rows:
            self.refuse(found.table, "duplicate")
            if _is_later(found, rows[key]):
                rows[key] = found.row
        else:
            rows[key] = found.row
            self._note_mended(found)

    def _take_message(self, found: FoundRow) -> None:
        if self.insert("messages", found.row):
            self._note_mended(found)
            return
        rivals = self._at_place_of(found.row)
        if not rivals:
            self.refuse("messages", "impossible", found.row)
        elif found.row in rivals:
            self.refuse("messages", "duplicate")
        else:
            self._disputed.append(found)

    def decide_disputes(self) -> None:
        """Of two messages with one place keep the one that fits between its neighbours.

        Asked when all messages are there. The ids of a session's messages and their numbers grow
        together; a damaged one of either rarely still fits.
        """
        for found in self._disputed:
            rivals = self._at_place_of(found.row)
            if any(self._is_in_order(one) for one in rivals) or not self._is_in_order(found.row):
                self.refuse("messages", "duplicate", found.row)
                continue
            for rival in rivals:
                self._connection.execute("DELETE FROM messages WHERE id = :id", rival)
                self.refuse("messages", "contradicting", rival)
            self.insert("messages", found.row)
            self._note_mended(found)
        self._disputed.clear()

    def _at_place_of(self, row: Row) -> list[Row]:
        names = [column.name for column in self._tables["messages"].columns]
        return [
            dict(zip(names, values, strict=True))
            for values in self._connection.execute(_SAME_PLACE, row).fetchall()
        ]

    def _is_in_order(self, row: Row) -> bool:
        return bool(self._connection.execute(_IS_IN_ORDER, row).get)

    def insert(self, table: str, row: Row) -> bool:
        """Write *row*; False when the database's own rules forbid it.

        A column that it lacks gets its default.
        """
        names = [column.name for column in self._tables[table].columns if column.name in row]
        statement = (
            f"INSERT INTO {table} ({', '.join(names)})"  # noqa: S608 - names of the schema
            f" VALUES ({', '.join(f':{name}' for name in names)})"
        )
        try:
            self._connection.execute(statement, row)
        except apsw.ConstraintError:
            return False
        return True

    def refuse(
        self, table: str, reason: RefusalReason, row: Row | None = None, *, count: int = 1
    ) -> None:
        """Account for *count* rows that are not saved; *row* says whose loss it is."""
        self._refused[table][reason] += count
        if row:
            self.touch(row.get("id" if table == "sessions" else "session_id"))

    def touch(self, session_id: object) -> None:
        """Note that something of the session is not as it was stored."""
        if isinstance(session_id, str) and is_id(session_id):
            self.touched.add(session_id)

    def note_rebuilt(self, table: str, session_id: str) -> None:
        """Account for a row that was made so that others could be kept."""
        self._rebuilt[table] += 1
        self.touch(session_id)

    def note_mended(self, table: str, session_id: str, *, count: int = 1) -> None:
        """Account for rows that are saved with something unknown in them."""
        self._mended[table] += count
        self.touch(session_id)

    def _note_mended(self, found: FoundRow) -> None:
        if found.is_mended:
            row = found.row
            self.note_mended(found.table, row["id" if found.table == "sessions" else "session_id"])

    def rows(self, table: str) -> Iterator[Row]:
        """Yield the rows that wait in memory, in the order in which they were found."""
        return iter(list(self._rows[table].values()))

    def drop(self, table: str, row: Row, reason: RefusalReason) -> None:
        """Refuse a row that waits in memory."""
        del self._rows[table][tuple(row[name] for name in _KEYS[table])]
        self.refuse(table, reason, row)

    @property
    def found_anything(self) -> bool:
        """Whether there is any row that was not refused."""
        return self._found.total() > sum(one.total() for one in self._refused.values())

    def saved_count(self, table: str) -> int:
        """Return how many rows the new database has."""
        count = self._connection.execute(f"SELECT count(*) FROM {table}").get  # noqa: S608 - a table's name
        return count if isinstance(count, int) else 0

    def report(self) -> tuple[TableSalvage, ...]:
        """Return the account, table by table."""
        return tuple(
            TableSalvage(
                table=name,
                found=self._found[name],
                saved=self.saved_count(name),
                rebuilt=self._rebuilt[name],
                mended=self._mended[name],
                refused=dict(self._refused[name]),
            )
            for name in self._tables
        )


def _is_later(found: FoundRow, kept: Row) -> bool:
    """Say whether a row is a later state of the *kept* one: each of them only goes one way."""
    match found.table:
        case "sessions":
            return bool(found.row["revision"] > kept["revision"])
        case "runs":
            return bool(kept["status"] == "pending" and found.row["status"] != "pending")
        case "tool_executions":
            return kept["outcome"] is None and found.row["outcome"] is not None
    return False
