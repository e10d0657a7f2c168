"""Upgrades and restores that end at a chosen effect, and what must be found afterwards.

A job for a process of its own. For each scenario there is a base of files, a program that changes
them, and a start, which is what whoever comes next does. The program dies at its first effect, at
its second, and so on (see `state_store.testing.effects`), and so does the start that follows each
of these deaths.

Invariant: after every death the database is exactly one of the states that the scenario names, or
a restore waits to be finished; the start that goes through leads from there to the one state that
the scenario says; whatever has the name of a backup is whole; nobody's run was touched. States are
told apart by a digest of all rows, taken by SQLite alone from a copy of the files.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from state_store import Maintenance, UpgradeFailed
from state_store.sqlite.beside import SIDECARS, backups_of, intent_of
from state_store.sqlite.opening import bring_up_to_date
from state_store.sqlite.place import Place
from state_store.sqlite.schema import SCHEMA, Migration, Schema
from state_store.testing import SteppingClock
from state_store.testing.children import Children, Listen, Say
from state_store.testing.effects import Effects, Program, die_at, effects_of
from state_store.testing.family import (
    FIRST,
    OldStore,
    digest_of,
    family,
    fill,
    old_database,
    open_store,
)
from state_store.testing.sqlite_engine import WORKSPACE_ID
from state_store.testing.turns import turn

if TYPE_CHECKING:
    from collections.abc import Callable

    import apsw

    from state_store.testing.address import StoreAddress

UNFINISHED = "a restore waits to be finished"
LATER = datetime(2027, 1, 2, 3, 4, 5, 6, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Files, what changes them, and what is right.

    `states` are programs that bring the base into each state that may be found; `after` says to
    which of them a start leads from each, `UNFINISHED` included.
    """

    base: Callable[[Path], None]
    program: Program
    start: Program
    states: dict[str, tuple[Program, ...]]
    after: dict[str, str]
    backup_counts: dict[str, int]
    touches_runs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What is there after a death or a start."""

    state: str
    backups: list[str]
    replaced: list[str]
    owners: list[str]


def die_everywhere(
    addresses: list[StoreAddress],
    *,
    scenario: str,
    chances: float,
    again: float,
    seed: int,
    kind: str = "",
) -> dict[str, Any]:
    """Die at *chances* of the effects of *kind*, and at *again* of those of each start after it."""
    (address,) = addresses
    trial = Trial(SCENARIOS[scenario], Path(address.location), chances, again, seed)
    trial.run(kind)
    return {
        "scenario": scenario,
        "seed": seed,
        "effects": len(trial.effects),
        "deaths": trial.deaths,
        "deaths_in_recovery": trial.deaths_in_recovery,
        "states": trial.counted,
        "kinds": sorted({one.split()[0] for one in trial.effects}),
    }


class Trial:
    """One scenario, gone through again and again from copies of its base."""

    def __init__(
        self, scenario: Scenario, root: Path, chances: float, again: float, seed: int
    ) -> None:
        self.scenario = scenario
        self.root = root
        self.chances, self.again = chances, again
        self.source = random.Random(seed)
        self.children = Children()
        self.deaths = self.deaths_in_recovery = 0
        self.counted: Counter[str] = Counter()
        self.base = root / "base"
        self.base.mkdir(parents=True)
        self.do(partial(_made, scenario.base, self.base))
        self.names: dict[str, str] = {}
        self.first = self.look(self.base)
        for name, programs in scenario.states.items():
            place = self.copy(self.base)
            for program in programs:
                self.do(partial(_gone_through, program, place))
            self.names[self.look(place).state] = name
        assert len(self.names) == len(scenario.states), "two states look the same"
        self.effects: list[str] = []

    def run(self, kind: str) -> None:
        """Die, look, start, look; and die in the start as well."""
        self.effects = effects_of(self.children, self.copy(self.base), self.scenario.program)
        for number, effect in enumerate(self.effects):
            if not effect.startswith(kind) or self.source.random() >= self.chances:
                continue
            dead = self.copy(self.base)
            die_at(self.children, dead, self.scenario.program, number)
            self.deaths += 1
            story = f"death at {number} ({effect})"
            state = self.judged(dead, story)
            starting = effects_of(self.children, self.copy(dead), self.scenario.start)
            self.settle(self.copy(dead), state, story)
            for second, name in enumerate(starting):
                if self.source.random() < self.again:
                    place = self.copy(dead)
                    die_at(self.children, place, self.scenario.start, second)
                    self.deaths_in_recovery += 1
                    both = f"{story}, then at {second} ({name})"
                    state = self.judged(place, both)
                    self.settle(place, state, both)

    def judged(self, place: Path, story: str) -> str:
        """Return the state that is found; it has to be one that the scenario knows."""
        found = self.look(place)
        if not self.scenario.touches_runs:
            assert found.owners == self.first.owners, story
        state = found.state if found.state == UNFINISHED else self.names.get(found.state)
        assert state is not None, f"neither the old nor the new content after {story}"
        self.counted[state] += 1
        return state

    def settle(self, place: Path, state: str, story: str) -> None:
        """Start, and see that this led to where it has to lead."""
        facts = self.do(partial(_started_and_looked_at, self.scenario.start, place))
        found = Found(**facts[-1][0])
        reached = self.names.get(found.state, found.state)
        assert reached == self.scenario.after[state], f"{reached} after {story}, found {state}"
        backup_count = self.scenario.backup_counts[reached]
        assert len(found.backups) == backup_count, f"{found.backups} after {story}"
        # What a restore replaced is kept as it was, and so is what a migration made.
        assert set(found.replaced) <= set(self.names), f"what was replaced changed: {story}"
        assert state != UNFINISHED or found.replaced, f"what was replaced is gone: {story}"
        shutil.rmtree(place)

    def copy(self, files: Path) -> Path:
        """Return a copy of *files*, in a place that nobody used before."""
        place = self.root / f"{self.source.getrandbits(64):x}"
        shutil.copytree(files, place)
        return place

    def do(self, work: Callable[[Say, Listen], None]) -> list[list[Any]]:
        """Let a child do *work* to its end, or to its end by its own hand."""
        return self.children.ask(work)

    def look(self, place: Path) -> Found:
        """Return what is there, without changing it."""
        copy = self.copy(place)
        facts = self.do(partial(_looked_at, copy))
        shutil.rmtree(copy)
        return Found(**facts[-1][0])


def _made(base: Callable[[Path], None], place: Path, say: Say, listen: Listen) -> None:
    del say, listen
    base(place)
    os._exit(0)  # without closing anything


def _gone_through(program: Program, place: Path, say: Say, listen: Listen) -> None:
    del listen
    program(place, Effects(None), say)


def _started_and_looked_at(start: Program, place: Path, say: Say, listen: Listen) -> None:
    start(place, Effects(None), say)
    _looked_at(place, say, listen)


def _looked_at(place: Path, say: Say, listen: Listen) -> None:
    del listen
    path = path_in(place)
    unfinished = intent_of(path).exists()
    backups = backups_of(path)
    for backup in backups:
        digest_of(backup)
    replaced = [
        one
        for one in path.parent.glob(f"{path.name}.replaced-*")
        if not unfinished and not one.name.endswith(SIDECARS)
    ]
    say(
        {
            "state": UNFINISHED if unfinished else digest_of(path),
            "backups": [one.name for one in backups],
            "replaced": [digest_of(one) for one in replaced],
            "owners": sorted(one.name for one in (path.parent / "owners").iterdir()),
        }
    )


def path_in(place: Path) -> Path:
    """Return where a base has its database."""
    return place / "home" / "state.sqlite3"


def place_in(place: Path, schema: Schema = SCHEMA) -> Place:
    """Return how the store is opened there, at a time that stands still."""
    clock = SteppingClock(now=LATER, step=timedelta(0))
    return Place.at(path_in(place), workspace_id=WORKSPACE_ID, schema=schema, clock=clock)


def old_and_closed(place: Path) -> None:
    """Leave an old database whose processes have all ended in good order."""
    old_database(path_in(place), workspace_id=WORKSPACE_ID)


def old_and_killed(place: Path) -> None:
    """Leave an old database whose newest commits are in its log."""
    old_and_closed(place)
    OldStore(place_in(place, FIRST)).write(fill)
    assert path_in(place).with_name("state.sqlite3-wal").stat().st_size


def worked_on(schema: Schema, place: Path) -> None:
    """Leave a database with a backup of *schema*, and newer commits, a deletion too, in its log."""
    old_database(path_in(place), workspace_id=WORKSPACE_ID, schema=schema)
    Maintenance(path_in(place), workspace_id=WORKSPACE_ID).back_up()
    bring_up_to_date(place_in(place))
    store = open_store(place_in(place))
    store.delete(store.list().items[0].id)
    turn(store, store.create_session().id)
    assert path_in(place).with_name("state.sqlite3-wal").stat().st_size


def upgrade(schema: Schema, place: Path, effects: Effects, say: Say) -> None:
    """Bring the database to *schema*; it may fail, as a migration does that is made to."""
    del effects, say
    with suppress(UpgradeFailed):
        bring_up_to_date(place_in(place, schema))


def opened(place: Path, effects: Effects, say: Say) -> None:
    """Open the store, which upgrades it and then recovers the run of the dead owner."""
    del effects, say
    with closing(open_store(place_in(place))):
        pass


def restore(place: Path, effects: Effects, say: Say) -> None:
    """Put the only backup in the place of the database."""
    del effects, say
    clock = SteppingClock(now=LATER, step=timedelta(0))
    Maintenance(path_in(place), workspace_id=WORKSPACE_ID, clock=clock).restore()


def _fail(connection: apsw.Connection) -> None:
    raise ValueError(connection.total_changes())


FAILING = Schema(
    (*family().migrations[:-2], Migration(name="bad", apply=lambda _: None, check=_fail))
)
PASSING = Schema((*family().migrations[:-2], Migration(name="bad", apply=lambda _: None)))
TO_REAL, TO_FAMILY = partial(upgrade, SCHEMA), partial(upgrade, family())
TO_NEW = {"old": "new", "new": "new"}
SCENARIOS = {
    "real": Scenario(
        base=old_and_closed,
        program=TO_REAL,
        start=TO_REAL,
        states={"old": (), "new": (TO_REAL,)},
        after=TO_NEW,
        backup_counts={"new": 1},
    ),
    "family": Scenario(
        base=old_and_killed,
        program=TO_FAMILY,
        start=TO_FAMILY,
        states={"old": (), "new": (TO_FAMILY,)},
        after=TO_NEW,
        backup_counts={"new": 1},
    ),
    "opened": Scenario(
        base=old_and_killed,
        program=opened,
        start=opened,
        states={"old": (), "upgraded": (TO_REAL,), "new": (opened,)},
        after={"old": "new", "upgraded": "new", "new": "new"},
        backup_counts={"new": 1},
        touches_runs=True,
    ),
    "put back": Scenario(
        base=old_and_killed,
        program=partial(upgrade, FAILING),
        start=partial(upgrade, FAILING),
        states={"old": (), "committed": (partial(upgrade, PASSING),)},
        after={"old": "old", "committed": "old", UNFINISHED: "old"},
        backup_counts={"old": 1},
    ),
    "restored": Scenario(
        base=partial(worked_on, SCHEMA),
        program=restore,
        start=TO_REAL,
        states={"old": (), "new": (restore,)},
        after={"old": "old", "new": "new", UNFINISHED: "new"},
        backup_counts={"old": 1, "new": 1},
    ),
    "an older one restored": Scenario(
        base=partial(worked_on, FIRST),
        program=restore,
        start=TO_REAL,
        states={"old": (), "restored": (restore,), "new": (restore, TO_REAL)},
        after={"old": "old", "restored": "new", UNFINISHED: "new", "new": "new"},
        backup_counts={"old": 1, "new": 2},
    ),
}
