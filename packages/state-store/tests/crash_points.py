"""A life of a store that ends at a chosen effect, and what must be found afterwards.

A job for a process of its own. Where a process can die is not listed by hand: while a child goes
through `LIFE`, everything that it does to the disk is counted: each statement that may write, each
end of a commit, each file that is made, named, locked or removed. The job then repeats the life
with a child that dies at the first effect, at the second, and so on, and does the same with the
recovery from each of these deaths.

Invariant: what is found is what was acknowledged, or that and the one step that was under way;
whole steps, as if the process had died between them. Recovering from a death in the recovery gives
the same, and recovering once more changes nothing. What deaths between steps leave is found out
with the code under test, so what must hold of any recovered store is asked on its own: see `WRONG`.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from state_store import NewMessage, NewSession, SqliteStore, ToolCall, Usage
from state_store.testing.children import Children, Listen, Say
from state_store.testing.effects import Effects, Program, die_at, effects_of
from state_store.testing.sqlite_engine import WORKSPACE_ID
from state_store.testing.turns import assistant, source, source_messages, user

if TYPE_CHECKING:
    from collections.abc import Callable

    from state_store.testing.address import StoreAddress

SESSION, DELETED, LAST, IMPORTED = (f"00000000-0000-7000-8000-00000000000{n}" for n in range(4))
RUNS = tuple(f"00000000-0000-7000-8000-00000000001{n}" for n in range(5))
USAGE = Usage(input_tokens=2, output_tokens=1)


def die_everywhere(
    addresses: list[StoreAddress], *, chances: float, seed: int, part: int, part_count: int
) -> dict[str, Any]:
    """Die at every effect of this part's share, and at *chances* of those of each recovery."""
    (address,) = addresses
    children = Children()
    source = random.Random(seed + part)
    root = Path(address.location).parent
    effects = effects_of(children, _new(root / "life"), live)
    legal = [
        _found_after(children, _new(root / f"step-{count}"), step_count=count)
        for count in range(len(LIFE) + 1)
    ]
    counted = {"seed": seed, "points": len(effects), "deaths": 0, "deaths_in_recovery": 0}
    for number in range(part, len(effects), part_count):
        place = _new(root / f"death-{number}")
        acknowledged = _die(children, place, live, number)
        name = f"effect {number}, {effects[number]}"
        dead = place.with_name(f"{place.name}-dead")
        shutil.copytree(place, dead)
        in_recovery = effects_of(children, place, recover)
        found = _look(children, place, name)
        steps = acknowledged, min(acknowledged + 1, len(LIFE))
        assert found in [legal[step] for step in steps], f"half a step is there after {name}"
        counted["deaths"] += 1
        for again, second in enumerate(in_recovery):
            if source.random() < chances:
                copy = place.with_name(f"{place.name}-{again}")
                shutil.copytree(dead, copy)
                _die(children, copy, recover, again)
                assert _look(children, copy, f"{name}, then {second}") == found, (name, second)
                shutil.rmtree(copy)
                counted["deaths_in_recovery"] += 1
        shutil.rmtree(dead)
        shutil.rmtree(place)
    return {**counted, "kinds": Counter(one.split()[0] for one in effects)}


def _new(place: Path) -> Path:
    place.mkdir(parents=True)
    return place


class Life:
    """What the steps of `LIFE` share: where they are, and the store that is open."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.store: SqliteStore

    def open(self) -> None:
        """Open the store, for the first time or again; again it recovers what was left."""
        self.store = open_at(self.place)

    def close(self) -> None:
        """Close it, as it is."""
        self.store.close()

    def begin(self, run_id: str, session_id: str, create: NewSession | None = None) -> None:
        """Commit a message and a pending run."""
        message = NewMessage(role="user", content=f"question {run_id}")
        self.store.begin_run(session_id, message, run_id=run_id, create=create)

    def start_tools(self, run_id: str) -> None:
        """Commit two calls."""
        calls = tuple(ToolCall(id=f"c{n}", name="look", arguments="{}") for n in range(2))
        message = NewMessage(role="assistant", tool_calls=calls)
        self.store.start_tools(run_id, message, ["safe", "unsafe"])

    def finish_tool(self, run_id: str) -> None:
        """Commit the result of the second."""
        result = NewMessage(role="tool", content="seen", tool_call_id="c1")
        self.store.finish_tool(run_id, call_seq=2, call_index=1, outcome="ok", message=result)

    def complete(self, run_id: str) -> None:
        """Commit the answer and the end."""
        answer = NewMessage(role="assistant", content=f"answer {run_id}")
        self.store.complete_run(run_id, answer, usage=USAGE)

    def fail(self, run_id: str) -> None:
        """Commit the failure."""
        self.store.fail_run(run_id, "provider.error", usage=USAGE)

    def fork(self, session_id: str) -> None:
        """Begin a session with what was said in another one."""
        self.store.fork_session(session_id)

    def take_back(self, session_id: str) -> None:
        """Undo the last turn."""
        self.store.undo(session_id)

    def bring_back(self, session_id: str) -> None:
        """Redo it."""
        self.store.redo(session_id)

    def sum_up(self, session_id: str) -> None:
        """Commit a message that stands for the first run."""
        self.store.summarize(session_id, "in short", through=4)

    def bring_in(self, session_id: str, run_id: str) -> None:
        """Import a session with a run."""
        run = replace(self.store.get_run(RUNS[0]), id=run_id, session_id=session_id)
        said = user("question"), assistant(f"answer {run_id}")
        self.store.import_session(
            source(session_id),
            messages=source_messages(*said, run_id=run_id),
            runs=(run,),
            digest="of what is imported",
        )

    def delete(self, session_id: str) -> None:
        """Delete a session for good."""
        self.store.delete(session_id)


# What no recovered store holds, whatever happened before.
WRONG = {
    "a pending run": "SELECT id FROM runs WHERE status = 'pending'",
    "a tool under way": "SELECT call_id FROM tool_executions WHERE outcome IS NULL",
    "a run without its first message": (
        "SELECT id FROM runs WHERE NOT EXISTS (SELECT 1 FROM messages"
        " WHERE messages.run_id = runs.id AND seq = first_seq AND role = 'user')"
    ),
    "a message without a run": (
        "SELECT id FROM messages WHERE kind = 'original'"
        " AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = run_id)"
    ),
    "a completed run without its answer": (
        "SELECT id FROM runs WHERE status = 'completed' AND NOT EXISTS"
        " (SELECT 1 FROM messages WHERE run_id = runs.id"
        " AND content = 'answer ' || coalesce(copied_from, runs.id))"
    ),
    "a session that counts wrongly": (
        "SELECT id FROM sessions WHERE message_count !="
        " (SELECT count(*) FROM messages WHERE session_id = sessions.id AND kind = 'original')"
        " OR total_tokens != (SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM runs"
        " WHERE session_id = sessions.id AND copied_from IS NULL)"
    ),
    "a session that runs": "SELECT id FROM sessions WHERE status = 'running'",
    "a deleted session": "SELECT id FROM sessions JOIN tombstones ON session_id = id",
}

LIFE: tuple[tuple[str, Callable[[Life], None]], ...] = (
    ("open for the first time", Life.open),
    ("begin with a session", lambda life: life.begin(RUNS[0], SESSION, NewSession(title="one"))),
    ("start tools", lambda life: life.start_tools(RUNS[0])),
    ("finish a tool", lambda life: life.finish_tool(RUNS[0])),
    ("complete", lambda life: life.complete(RUNS[0])),
    ("begin", lambda life: life.begin(RUNS[1], SESSION)),
    ("fail", lambda life: life.fail(RUNS[1])),
    ("fork", lambda life: life.fork(SESSION)),
    ("undo", lambda life: life.take_back(SESSION)),
    ("redo", lambda life: life.bring_back(SESSION)),
    ("summarize", lambda life: life.sum_up(SESSION)),
    ("import", lambda life: life.bring_in(IMPORTED, RUNS[4])),
    ("begin what is deleted", lambda life: life.begin(RUNS[2], DELETED, NewSession())),
    ("complete it", lambda life: life.complete(RUNS[2])),
    ("delete", lambda life: life.delete(DELETED)),
    ("begin what is left behind", lambda life: life.begin(RUNS[3], LAST, NewSession())),
    ("start its tools", lambda life: life.start_tools(RUNS[3])),
    ("close with a run under way", Life.close),
    ("open and recover", Life.open),
    ("close", Life.close),
)


def open_at(place: Path) -> SqliteStore:
    """Open the store of a life."""
    numbers = itertools.count()
    return SqliteStore.open(
        place / "home" / "state.sqlite3",
        workspace_id=WORKSPACE_ID,
        new_id=lambda: f"00000000-0000-7000-8000-00000001{next(numbers):04}",
    )


def live(place: Path, effects: Effects, say: Say) -> None:
    """Go through `LIFE` and acknowledge each step."""
    life = Life(place)
    for number, (name, step) in enumerate(LIFE, start=1):
        step(life)
        effects.about_to(f"acknowledge {name}")
        say("done", number)


def recover(place: Path, effects: Effects, say: Say) -> None:
    """Open and close."""
    del effects
    with closing(open_at(place)) as store:
        say("recovered", [run.id for run in store.recovered])


def _die(children: Children, place: Path, program: Program, number: int) -> int:
    """Let *program* die at effect *number*; return the last step that it acknowledged."""
    facts = die_at(children, place, program, number)
    return max((fact[1] for fact in facts if fact[0] == "done"), default=0)


def _look(children: Children, place: Path, name: str) -> Any:
    """Recover, return what is found, and see that recovering again changes nothing."""

    def work(say: Say, listen: Listen) -> None:
        del listen
        open_at(place).close()
        found = _rows(place)
        before = (place / "home" / "state.sqlite3").read_bytes()
        with closing(open_at(place)) as store:
            assert store.recovered == (), f"recovered twice after {name}"
        assert (place / "home" / "state.sqlite3").read_bytes() == before, f"rewritten after {name}"
        left = [one.name for one in (place / "home" / "owners").iterdir()]
        assert left == [], f"{left} left after {name}"
        say(found)

    ((found,),) = children.ask(work)
    return found


def _found_after(children: Children, place: Path, *, step_count: int) -> Any:
    """Return what is found when the process dies between two steps."""

    def work(say: Say, listen: Listen) -> None:
        del say, listen
        life = Life(place)
        for _, step in LIFE[:step_count]:
            step(life)
        os._exit(0)

    children.ask(work)
    return _look(children, place, f"step {step_count}")


def _rows(place: Path) -> dict[str, Any]:
    """Return all rows, without times, owners and the like, which differ from life to life."""
    connection = apsw.Connection(str(place / "home" / "state.sqlite3"))
    try:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        for what, query in WRONG.items():
            assert connection.execute(query).fetchall() == [], f"{what} is there"
        tables = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        ).fetchall()
        rows: dict[str, Any] = {}
        for (table,) in tables:
            named = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
            columns = [
                column
                for (column,) in named
                if column not in ("owner", "generation") and not column.endswith("_at")
            ]
            rows[str(table)] = sorted(
                connection.execute(f"SELECT {', '.join(columns)} FROM {table}"),  # noqa: S608 - names of the schema
                key=repr,
            )
        return rows
    finally:
        connection.close()
