"""Faults put into a good workspace, one each: rows and lines removed, changed, doubled, moved.

Each takes a `Broken` place and chance, and says which session it has broken, None if there was
nothing of its kind there. What a fault changes is always a change of meaning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import apsw

from run_journal import session_file_name

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

Fault = Callable[["Broken"], "str | None"]


@dataclass(frozen=True, slots=True)
class Broken:
    """A state home that is to be broken."""

    database: Path
    journal_dir: Path
    chance: Random

    def rows(self, statement: str, *bindings: Any) -> list[Any]:
        """Perform a statement without any of the rules that keep rows together."""
        with closing(apsw.Connection(str(self.database))) as connection:
            connection.execute("PRAGMA foreign_keys=OFF")
            connection.execute("PRAGMA ignore_check_constraints=ON")
            return connection.execute(statement, bindings).fetchall()

    def one(self, table: str, condition: str = "1") -> dict[str, Any] | None:
        """Return a row of *table*, by chance."""
        names = [row[1] for row in self.rows(f"PRAGMA table_info({table})")]
        statement = f"SELECT {', '.join(names)} FROM {table} WHERE {condition}"  # noqa: S608 - constants alone
        found = self.rows(statement)
        return dict(zip(names, self.chance.choice(found), strict=True)) if found else None

    def lines(self, condition: Callable[[bytes], bool] = bool) -> tuple[Path, str, list[bytes]]:
        """Return a session's journal that has runs, its session, and its lines."""
        for path in self.chance.sample(files := sorted(self.journal_dir.iterdir()), len(files)):
            lines = path.read_bytes().splitlines(keepends=True)
            if any(b'"run.started"' in one and condition(one) for one in lines):
                session_id = json.loads(lines[0])["session_id"]
                assert path.name == session_file_name(session_id)
                return path, session_id, lines
        raise AssertionError("no journal has a run")


def changing(table: str, assignment: str, condition: str = "1") -> Fault:
    """Return the fault that *assignment* is in a row of *table*."""

    def fault(broken: Broken) -> str | None:
        row = broken.one(table, condition)
        if row is None:
            return None
        keys = {
            "sessions": ("id",),
            "runs": ("id",),
            "messages": ("id",),
            "tool_executions": ("session_id", "call_seq", "call_index"),
        }[table]
        where = " AND ".join(f"{key} = ?" for key in keys)
        statement = f"UPDATE {table} SET {assignment} WHERE {where}"  # noqa: S608 - constants alone
        if not assignment:
            statement = f"DELETE FROM {table} WHERE {where}"  # noqa: S608 - the same
        broken.rows(statement, *(row[key] for key in keys))
        return str(row["id"] if table == "sessions" else row["session_id"])

    return fault


def removing(table: str, condition: str = "1") -> Fault:
    """Return the fault that a row of *table* is gone."""
    return changing(table, "", condition)


def _doubled_message(broken: Broken) -> str | None:
    row = broken.one("messages")
    assert row is not None
    last = broken.rows("SELECT max(seq) FROM messages WHERE session_id = ?", row["session_id"])
    del row["id"]
    row["seq"] = last[0][0] + 1
    broken.rows(
        f"INSERT INTO messages ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",  # noqa: S608 - columns of the schema
        *row.values(),
    )
    return str(row["session_id"])


def _swapped_messages(broken: Broken) -> str | None:
    """Let the input of a run and what stands before it change places."""
    run = broken.one("runs", "first_seq > 1")
    if run is None:
        return None
    session_id, seq = run["session_id"], run["first_seq"]
    for old, new in ((seq, 10**6), (seq - 1, seq), (10**6, seq - 1)):
        broken.rows(
            "UPDATE messages SET seq = ? WHERE session_id = ? AND seq = ?", new, session_id, old
        )
    return str(session_id)


def on_lines(change: Callable[[list[bytes], Random], Any]) -> Fault:
    """Return the fault that *change* makes of the lines of a journal."""

    def fault(broken: Broken) -> str | None:
        path, session_id, lines = broken.lines()
        before = list(lines)
        change(lines, broken.chance)
        if lines == before:
            return None
        path.write_bytes(b"".join(lines))
        return session_id

    return fault


def _remove(lines: list[bytes], chance: Random) -> None:
    del lines[chance.randrange(len(lines) - 1)]


def _ends(lines: list[bytes]) -> list[int]:
    """Return where runs end."""
    return [
        at for at, one in enumerate(lines) if b'"run.completed"' in one or b'"run.failed"' in one
    ]


def _remove_end(lines: list[bytes], chance: Random) -> None:
    del lines[chance.choice(_ends(lines))]


def _change(lines: list[bytes], chance: Random) -> None:
    at = chance.randrange(len(lines))
    lines[at] = re.sub(rb'"ts":"2', b'"ts":"1', lines[at], count=1)


def _swap(lines: list[bytes], chance: Random) -> None:
    at = chance.randrange(len(lines) - 1)
    lines[at], lines[at + 1] = lines[at + 1], lines[at]


def _double(lines: list[bytes], chance: Random) -> None:
    at = chance.randrange(len(lines))
    lines.insert(chance.randint(at, len(lines)), lines[at])


def _cut(lines: list[bytes], chance: Random) -> None:
    """Cut off the end, the last line of the last run with it."""
    last = _ends(lines)[-1]
    del lines[chance.randint(max(1, last - 5), last) :]


def _tear(lines: list[bytes], chance: Random) -> None:
    lines[-1] = lines[-1][: chance.randrange(1, len(lines[-1]) - 1)]


def _zero(lines: list[bytes], chance: Random) -> None:
    at = chance.randrange(len(lines))
    lines[at] = b"\0" * (len(lines[at]) - 1) + b"\n"


def _no_journal(broken: Broken) -> str | None:
    path, session_id, _ = broken.lines()
    path.unlink()
    return session_id


def _other_journal(broken: Broken) -> str | None:
    path, session_id, _ = broken.lines()
    other, other_id, _ = broken.lines()
    path.write_bytes(other.read_bytes())
    return None if other_id == session_id else session_id


_RUN = "copied_from IS NULL AND owner NOT LIKE '00000000-0000%' AND status = 'completed'"
_OF_RUN = f"run_id IN (SELECT id FROM runs WHERE {_RUN})"  # noqa: S608 - constants alone
FAULTS: dict[str, Fault] = {
    "message removed": removing("messages"),
    "result removed": removing("messages", f"role = 'tool' AND {_OF_RUN}"),
    "answer removed": removing("messages", f"role = 'assistant' AND {_OF_RUN}"),
    "message doubled": _doubled_message,
    "messages swapped": _swapped_messages,
    "role changed": changing("messages", "role = 'user'", f"role <> 'user' AND {_OF_RUN}"),
    "message of no run": changing("messages", "run_id = NULL", "run_id IS NOT NULL"),
    "original hidden": changing("messages", "kind = 'derived'", "kind = 'original'"),
    "summary became original": changing("messages", "kind = 'original'", "kind = 'summary'"),
    "range turned": changing("messages", "covers_first = covers_last + 1", "kind = 'summary'"),
    "half a range": changing("messages", "covers_first = NULL", "kind = 'summary'"),
    "input changed": changing(
        "messages", "content = content || '!'", f"role = 'user' AND {_OF_RUN}"
    ),
    "result changed": changing(
        "messages", "content = content || '!'", f"role = 'tool' AND {_OF_RUN}"
    ),
    "message undone alone": changing(
        "messages", "undone_at = created_at, undone_after = seq", "run_id IS NOT NULL"
    ),
    "message count": changing("sessions", "message_count = message_count + 1"),
    "tokens": changing("sessions", "total_tokens = total_tokens + 1"),
    "cost": changing("sessions", "cost = coalesce(cost, 0) + 0.5"),
    "completeness": changing("sessions", "usage_complete = 1 - usage_complete"),
    "inherited tokens": changing("sessions", "inherited_tokens = inherited_tokens + 7"),
    "running without a run": changing("sessions", "status = 'running'"),
    "failed without a failure": changing(
        "sessions",
        "status = 'failed'",
        "status <> 'failed' AND 'completed' IS (SELECT status FROM runs"
        " WHERE session_id = sessions.id AND undone_at IS NULL ORDER BY first_seq DESC LIMIT 1)",
    ),
    "impossible status": changing("sessions", "status = 'asleep'"),
    "half a fork": changing("sessions", "forked_from_seq = NULL", "forked_from_seq IS NOT NULL"),
    "fork beyond its parent": changing(
        "sessions", "forked_from_seq = 9999", "forked_from_seq IS NOT NULL"
    ),
    "run removed": removing("runs"),
    "run failed": changing("runs", "status = 'failed', error_type = 'internal'", _RUN),
    "run completed": changing(
        "runs", "status = 'completed', error_type = NULL", "status = 'failed' AND journal_seq"
    ),
    "run's error": changing(
        "runs", "error_type = 'provider.auth'", "status = 'failed' AND journal_seq"
    ),
    "run's usage": changing("runs", "input_tokens = coalesce(input_tokens, 0) + 1", _RUN),
    "run's cached tokens": changing("runs", "cached_input_tokens = 1", _RUN),
    "run's cost": changing("runs", "cost = coalesce(cost, 0) + 1", _RUN),
    "run's model": changing("runs", "model = 'another'", _RUN),
    "run's beginning": changing("runs", "first_seq = first_seq + 1", _RUN),
    "run's head": changing("runs", "journal_seq = journal_seq + 1", _RUN),
    "run's chain": changing("runs", "journal_chain = hex(randomblob(32))", _RUN),
    "run's head gone": changing("runs", "journal_seq = NULL, journal_chain = NULL", _RUN),
    "run undone": changing(
        "runs",
        "undone_at = finished_at, undone_after = first_seq",
        f"{_RUN} AND undone_at IS NULL",
    ),
    "run not undone": changing(
        "runs", "undone_at = NULL, undone_after = NULL", f"{_RUN} AND undone_at IS NOT NULL"
    ),
    "half undone": changing("runs", "undone_at = NULL", "undone_at IS NOT NULL"),
    "execution removed": removing("tool_executions"),
    "outcome removed": changing("tool_executions", "outcome = NULL, finished_at = NULL"),
    "outcome changed": changing(
        "tool_executions", "outcome = 'cancelled'", f"outcome <> 'cancelled' AND {_OF_RUN}"
    ),
    "execution's tool": changing("tool_executions", "name = 'another'", _OF_RUN),
    "execution's call": changing("tool_executions", "call_id = call_id || 'x'"),
    "result unknown": changing("tool_executions", "result_seq = NULL", _OF_RUN),
    "result of another": changing("tool_executions", "result_seq = 1", "result_seq IS NOT NULL"),
    "line removed": on_lines(_remove),
    "last line of a run removed": on_lines(_remove_end),
    "line changed": on_lines(_change),
    "lines swapped": on_lines(_swap),
    "line doubled": on_lines(_double),
    "line zeroed": on_lines(_zero),
    "tail cut": on_lines(_cut),
    "tail torn": on_lines(_tear),
    "journal removed": _no_journal,
    "another's journal": _other_journal,
}
