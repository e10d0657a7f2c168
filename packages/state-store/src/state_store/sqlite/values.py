"""What a stored value can be: the rules by which a row is told from damage.

One rule a column, for those whose values are of a closed form: ids, names from closed lists, times,
flags, numbers in order, JSON. Any other text may hold anything. Invariant: whatever this package
writes passes, in every schema version; a column that a later version adds has no rule before it
is given one here, so that it never makes a row impossible.

Rules ask about one value or row at a time; what rows say about one another is `consistency`'s.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from state_store.clock import from_text
from state_store.records import (
    MessageKind,
    ReplayPolicy,
    RunStatus,
    SessionStatus,
    TitleSource,
    ToolOutcome,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import apsw

TABLES = ("tombstones", "sessions", "runs", "messages", "tool_executions")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {"TEXT": (str,), "INTEGER": (int,), "REAL": (float,)}


def is_id(value: Any) -> bool:
    """Say whether *value* is the canonical text of a UUID."""
    return _ID.fullmatch(value) is not None


def is_time(value: Any) -> bool:
    """Say whether *value* is an instant in the fixed-width form."""
    if _TIME.fullmatch(value):
        with suppress(ValueError):
            from_text(value)
            return True
    return False


def is_json(value: Any) -> bool:
    """Say whether *value* is JSON text."""
    return _parsed(value) is not _NOTHING


_NOTHING = object()


def _parsed(value: str) -> object:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return _NOTHING


def _is_object(value: Any) -> bool:
    return isinstance(_parsed(value), dict)


def _is_list_of_objects(value: Any) -> bool:
    found = _parsed(value)
    return isinstance(found, list) and all(isinstance(one, dict) for one in found)


def _is_list_of_calls(value: Any) -> bool:
    found = _parsed(value)
    return isinstance(found, list) and all(_is_call(one) for one in found)


def _is_call(value: object) -> bool:
    match value:
        case {"id": str(), "function": {"name": str(), "arguments": str()}}:
            return True
    return False


def _is_flag(value: Any) -> bool:
    return value in {0, 1}


def _counts(value: Any) -> bool:
    return bool(value >= 0)


def _is_ordinal(value: Any) -> bool:
    return bool(1 <= value < 1 << 53)


def _one_of(names: Any) -> Callable[[Any], bool]:
    return frozenset(get_args(names)).__contains__


RULES: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    "sessions": {
        "id": is_id,
        "model_config": _is_object,
        "parameters": _is_object,
        "status": _one_of(SessionStatus),
        "show_reasoning": _is_flag,
        "message_count": _counts,
        "total_tokens": _counts,
        "created_at": is_time,
        "updated_at": is_time,
        "title_source": _one_of(TitleSource),
        "usage_complete": _is_flag,
        "archived_at": is_time,
        "metadata": _is_object,
        "revision": _is_ordinal,
        "inherited_tokens": _counts,
    },
    "runs": {
        "id": is_id,
        "session_id": is_id,
        "first_seq": _is_ordinal,
        "status": _one_of(RunStatus),
        "started_at": is_time,
        "finished_at": is_time,
        "owner": is_id,
        "undone_at": is_time,
        "undone_after": _counts,
        "journal_lost_count": _counts,
        "copied_from": is_id,
    },
    "messages": {
        "id": _is_ordinal,
        "session_id": is_id,
        "tool_calls": _is_list_of_calls,
        "created_at": is_time,
        "seq": _is_ordinal,
        "run_id": is_id,
        "kind": _one_of(MessageKind),
        "parts": _is_list_of_objects,
        "repaired": _is_flag,
        "imported_at": is_time,
        "undone_at": is_time,
        "undone_after": _counts,
        "extra": _is_object,
    },
    "tool_executions": {
        "run_id": is_id,
        "session_id": is_id,
        "call_seq": _is_ordinal,
        "call_index": _counts,
        "replay": _one_of(ReplayPolicy),
        "started_at": is_time,
        "finished_at": is_time,
        "outcome": _one_of(ToolOutcome),
        "result_seq": _is_ordinal,
    },
    "tombstones": {
        "session_id": is_id,
        "deleted_at": is_time,
        "erased_at": is_time,
        "message_count": _counts,
        "run_count": _counts,
    },
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column as the schema declares it."""

    name: str
    type: str
    is_required: bool
    check: Callable[[Any], bool] | None


@dataclass(frozen=True, slots=True)
class Table:
    """One table as the schema declares it. `columns` are in the order of a stored record.

    `key` is the column that is the row's number, which the record itself does not repeat.
    """

    name: str
    columns: tuple[Column, ...]
    key: str | None
    has_rows_in_index: bool

    def wrong_columns(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the columns whose value in *row* cannot have been stored, in order.

        A column that *row* lacks has its default. Rules over several columns name all of them.
        """
        wrong = [
            column.name
            for column in self.columns
            if column.name in row and not _is_possible(column, row[column.name])
        ]
        if not wrong:
            wrong += _wrong_together(self.name, row)
        return tuple(wrong)


def _is_possible(column: Column, value: object) -> bool:
    if value is None:
        return not column.is_required
    if not isinstance(value, _PYTHON_TYPES[column.type]):
        return False
    return column.check is None or column.check(value)


def _wrong_together(table: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    if table == "runs":
        if (row["status"] == "failed") != (row["error_type"] is not None):
            return ("status", "error_type")
        if (row["status"] == "pending") != (row["finished_at"] is None):
            return ("status", "finished_at")
    if table == "tool_executions" and (row["outcome"] is None) != (row["finished_at"] is None):
        return ("outcome", "finished_at")
    return ()


def tables_of(connection: apsw.Connection, names: tuple[str, ...] = TABLES) -> dict[str, Table]:
    """Return those of the tables *names* that the schema of *connection* has, in that order."""
    listed = {
        str(row[1]): bool(row[4])
        for row in connection.execute("PRAGMA table_list").fetchall()
        if row[0] == "main"
    }
    return {
        name: _table(connection, name, has_rows_in_index=listed[name])
        for name in names
        if name in listed
    }


def _table(connection: apsw.Connection, name: str, *, has_rows_in_index: bool) -> Table:
    # cid, name, type, notnull, default, place in the primary key, hidden
    described: list[Any] = connection.execute(f"PRAGMA table_xinfo({name})").fetchall()
    keys = sorted((row for row in described if row[5]), key=lambda row: row[5])
    is_row_number = not has_rows_in_index and len(keys) == 1 and keys[0][2].upper() == "INTEGER"
    if has_rows_in_index:
        described = keys + [row for row in described if not row[5]]
    rules = RULES.get(name, {})
    return Table(
        name=name,
        columns=tuple(
            Column(
                name=row[1],
                type=row[2].upper(),
                is_required=bool(row[3] or row[5]),
                check=rules.get(row[1]),
            )
            for row in described
        ),
        key=keys[0][1] if is_row_number else None,
        has_rows_in_index=has_rows_in_index,
    )
