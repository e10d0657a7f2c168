"""Journals as sessions leave them, by chance, with what a database would know of their runs."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from run_journal import (
    ErrorType,
    ExpectedRun,
    ProviderFailed,
    ProviderRequested,
    ProviderResponded,
    RunCompleted,
    RunFailed,
    RunRecovered,
    RunRedone,
    RunStarted,
    RunUndone,
    SessionArchived,
    SessionCreated,
    SessionRenamed,
    SessionResumed,
    ToolFinished,
    ToolOutcome,
    ToolStarted,
    id_of,
    name_of,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path

    from run_journal import Event, Head, Id, Journal

OPENAI, MODEL, LOOK = map(name_of, ("openai", "m-1", "look"))


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One session's journal, the runs as the database has them, and the lines of each run's end."""

    path: Path
    expected_runs: tuple[ExpectedRun, ...]
    last_end: int
    """The number of the last line that a run's head stands before."""


def _id_by(chance: random.Random) -> Id:
    return id_of(str(uuid.UUID(int=chance.getrandbits(128), version=4)))


def make_history(journals: Sequence[Journal], chance: random.Random) -> History:
    """Write a session's journal as processes do that take turns; the last run has ended."""
    session_id = _id_by(chance)
    writer = _Writer(session_id, chance, journals)
    writer.write(SessionCreated(session_id=session_id, provider=OPENAI))
    run_count = chance.randint(1, 6)
    expected = [writer.run(may_be_recovered=n < run_count - 1) for n in range(run_count)]
    last_end = writer.head.seq
    writer.between(id_of(expected[0].run_id))
    path = journals[0].path_for(session_id)
    return History(path=path, expected_runs=tuple(expected), last_end=last_end)


class _Writer:
    """One session that is written to by several journals."""

    head: Head

    def __init__(self, session_id: Id, chance: random.Random, journals: Sequence[Journal]) -> None:
        self._session_id = session_id
        self._chance = chance
        self._journals = journals

    def write(self, event: Event) -> Head:
        head = self._chance.choice(self._journals).write(event)
        assert head is not None
        self.head = head
        return head

    def between(self, run_id: Id) -> None:
        """Write what may stand between two runs, or in the midst of one."""
        about: dict[str, Any] = {"session_id": self._session_id}
        events = (
            SessionRenamed(**about),
            SessionResumed(model=MODEL, **about),
            SessionArchived(archived=False, **about),
            RunUndone(run_id=run_id, **about),
            RunRedone(run_id=run_id, **about),
        )
        for event in self._chance.sample(events, self._chance.choice((0, 0, 1, 2))):
            self.write(event)

    def run(self, *, may_be_recovered: bool) -> ExpectedRun:
        """Write a run; return it as the database has it."""
        chance = self._chance
        run_id = _id_by(chance)
        about: dict[str, Any] = {"session_id": self._session_id, "run_id": run_id}
        self.between(run_id)
        head = self.write(RunStarted(provider=OPENAI, model=MODEL, **about))
        for attempt in range(1, chance.randint(1, 4)):
            self.write(ProviderRequested(provider=OPENAI, attempt=attempt, **about))
            head = self.write(ProviderResponded(provider=OPENAI, input_tokens=attempt, **about))
            for index in range(chance.choice((0, 1, 2))):
                self.write(ToolStarted(tool=LOOK, call_index=index, **about))
                head = self.write(ToolFinished(tool=LOOK, outcome=ToolOutcome.OK, **about))
        ending = chance.choice(("completed", "completed", "failed", "recovered"))
        if ending == "recovered" and may_be_recovered:
            self.write(RunRecovered(**about))
            return ExpectedRun(run_id=run_id, status="failed")
        if ending == "completed":
            if chance.random() < 0.2:  # somebody renames the session meanwhile
                self.write(SessionRenamed(session_id=self._session_id))
            self.write(RunCompleted(output_tokens=3, **about))
            return ExpectedRun(run_id=run_id, status="completed", head=head)
        kind = ErrorType.PROVIDER_RATE_LIMIT
        head = self.write(ProviderFailed(provider=OPENAI, error_type=kind, **about))
        self.write(RunFailed(error_type=kind, **about))
        return ExpectedRun(run_id=run_id, status="failed", head=head)
