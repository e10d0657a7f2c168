"""Thousands of runs with faults in them, on real stores: the rows always tell what happened."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from cancelling import CancelledAt
from faces import AsyncFace, Face, SyncFace
from generated_runs import AsyncStage, Course, SqliteFault, Stage, make_course
from run_invariants import check_run, check_session
from run_journal import ExpectedRun, Head, verify
from run_scale import (
    AGENTS_IN_MEMORY,
    AGENTS_ON_DISK,
    LONG_TIMEOUT_S,
    RUNS_PER_AGENT,
    SEED,
    tell,
)
from sessions_api import RunResult, Usage
from sessions_api.runs.replay import replay

if TYPE_CHECKING:
    from pathlib import Path


class Play:
    """One agent that plays course after course, and what is checked after each."""

    def __init__(self, random: Random, *, asynchronous: bool, place: Path | None) -> None:
        self.random = random
        self.asynchronous = asynchronous
        self.place = place
        self.stage: Stage = (AsyncStage if asynchronous else Stage)(asynchronous=asynchronous)
        self.faults: Counter[str] = Counter()
        self.last = ""
        self.face = self.open()

    def open(self) -> Face:
        """Open an agent on the same place."""
        where: dict[str, Any] = {"persistence": "ephemeral"}
        if self.place is not None:
            where = {"state_home": self.place / "home"}
        kind: type[Face] = AsyncFace if self.asynchronous else SyncFace
        workspace = self.place / "ws" if self.place is not None else "."
        return kind(workspace, provider=self.stage, tools=self.stage.tools(), **where)  # type: ignore[arg-type]  # a path or "."

    @property
    def core(self) -> Any:
        """The conversation of the agent."""
        agent: Any = self.face.agent
        return agent._opened[0] if self.asynchronous else agent._conversation

    @property
    def store(self) -> Any:
        """The agent's own store."""
        return self.core._state.store

    def run_ids(self) -> dict[str, str]:
        """Return the ids of all runs there are, each with its session's."""
        sessions = self.store.list(limit=None).items
        return {
            run.id: session.id for session in sessions for run in self.store.runs(session.id).items
        }

    def one(self) -> None:
        """Play one course, check it, and see that the next run works."""
        if self.random.random() < 0.15:
            self.core.sessions.leave()
        course = make_course(
            self.random, asynchronous=self.asynchronous, on_disk=self.place is not None
        )
        before = self.run_ids()
        past = self.past()
        with SqliteFault(self.store._database._connection, course) as fault:
            told, outcome = self.play(course)
        self.stage.release.set()
        self.last = f"{course}; it ended with {outcome!r}, told {told}"
        self.faults[course.fault + (" struck" if fault.struck else "")] += 1
        if course.fault == "close":
            self.face.close()
            self.face = self.open()
            self.face.sessions.resume("latest")
        unwritable = fault.struck and course.fault in {"sqlite", "sqlite lasting"}
        if not unwritable or getattr(outcome, "saved", "") == "all":
            self.check_nothing_pending()
        probe = Course(
            text="probe",
            rounds=[],
            end="answer",
            end_type=None,
            deltas=0,
            usages=[Usage()],
            streaming=False,
            fault="none",
            moment=0,
            second=None,
            sqlite_error="internal",
        )
        after = {run_id: at for run_id, at in self.run_ids().items() if run_id not in before}
        _, next_outcome = self.play(probe)
        assert isinstance(next_outcome, RunResult), next_outcome
        self.check_nothing_pending()
        assert len(after) <= 1
        self.check(course, after, (told, outcome), struck=fault.struck)
        if course.requests:
            assert course.requests[0].messages[:-1] == past
        for session in self.store.list(limit=None).items:
            check_session(self.store, session.id)

    def check(
        self, course: Course, new: dict[str, str], seen: tuple[Any, Any], *, struck: bool
    ) -> None:
        """Check the rows of the run that *course* has made, if it has made one."""
        if not new:
            check_run(course, None, (), (), seen, struck=struck)
            return
        ((run_id, session_id),) = new.items()
        check_run(
            course,
            self.store.get_run(run_id),
            [
                message
                for message in self.store.messages(session_id, view="all").items
                if message.run_id == run_id
            ],
            [one for one in self.store.tool_executions(session_id) if one.run_id == run_id],
            seen,
            struck=struck,
        )

    def past(self) -> Any:
        """Return what the rows say that the next run has to send first."""
        active = self.core.sessions.active
        if active is None:
            return ()
        return replay(
            self.store.messages(active.id, view="all").items,
            self.store.runs(active.id).items,
            self.store.tool_executions(active.id),
        )

    def check_nothing_pending(self) -> None:
        """Check that no run is pending, and no transaction open."""
        assert not self.store._database._connection.in_transaction
        for session in self.store.list(limit=None).items:
            runs = self.store.runs(session.id).items
            assert "pending" not in {run.status for run in runs}

    def play(self, course: Course) -> tuple[list[Any], Any]:
        """Play *course*; return what the caller was told, and what it got or was raised."""
        self.stage.course, self.stage.task = course, None
        self.stage.release.clear()
        told: list[Any] = []
        try:
            outcome = self._async(course, told) if self.asynchronous else self._sync(course, told)
        except BaseException as error:  # noqa: BLE001 - it is what is checked
            outcome = error
        return told, outcome

    def _sync(self, course: Course, told: list[Any]) -> Any:
        agent: Any = self.face.agent
        self.stage.close = agent.close
        try:
            if not course.streaming:
                return agent.run(course.text)
            with agent.stream(course.text) as stream:
                for event in stream:
                    told.append(event)
                    if course.fault == "leave" and len(told) == course.moment:
                        break
            return stream.result
        finally:
            self.stage.strikes_over.wait(10)  # the second Ctrl-C strikes here at the latest

    def _async(self, course: Course, told: list[Any]) -> Any:
        agent: Any = self.face.agent

        async def go() -> Any:
            if not course.streaming:
                return await agent.run(course.text)
            async with agent.stream(course.text) as stream:
                async for event in stream:
                    told.append(event)
                    if course.fault == "leave" and len(told) == course.moment:
                        break
            return stream.result

        async def main() -> Any:
            loop = asyncio.get_running_loop()

            def close() -> None:
                asyncio.run_coroutine_threadsafe(agent.close(), loop).result(10)

            self.stage.close = close
            places = (course.moment, course.moment + (course.second or 0))
            run = CancelledAt(go(), *(places if course.fault == "cancel" else ()))

            async def waiting() -> Any:
                return await run

            self.stage.task = asyncio.create_task(waiting())
            outcomes = await asyncio.gather(self.stage.task, return_exceptions=True)
            await asyncio.to_thread(self.stage.strikes_over.wait, 10)
            return outcomes[0]

        assert isinstance(self.face, AsyncFace)
        return self.face._runner.run(main())

    def check_journals(self) -> int:
        """Check every journal against the rows; return how many lines they have."""
        journal = self.core._state.story.journal
        line_count = 0
        for session in self.store.list(limit=None).items:
            expected = [
                ExpectedRun(
                    run_id=run.id,
                    status=run.status,
                    head=Head(*run.journal_head) if run.journal_head else None,
                    lost_count=run.journal_lost_count,
                )
                for run in self.store.runs(session.id).items
            ]
            report = verify(journal.path_for(session.id), expected_runs=expected)
            assert report.ok, report.findings
            line_count += report.line_count
        return line_count


@pytest.mark.timeout(LONG_TIMEOUT_S)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
def test_whatever_strikes_a_run_its_rows_tell_what_happened(
    tmp_path: Path, *, asynchronous: bool, on_disk: bool
) -> None:
    """300 runs; 10,500 with SESSIONS_API_LONG=1. A failure names the seed of its agent.

    Checked after each: the rows are what its course allows and nothing else, its tools have
    outcomes, the session's counts are right and its replay legal, what the model was sent is what
    the rows say, nothing is pending or open, and the next run works; on disk also the journal.
    """
    faults: Counter[str] = Counter()
    line_count = 0
    for number in range((AGENTS_ON_DISK if on_disk else AGENTS_IN_MEMORY) // 2):
        seed = f"{SEED}-{asynchronous}-{on_disk}-{number}"
        place = tmp_path / str(number) if on_disk else None
        if place is not None:
            (place / "ws").mkdir(parents=True)
        play = Play(Random(seed), asynchronous=asynchronous, place=place)
        try:
            for _ in range(RUNS_PER_AGENT):
                play.one()
            if on_disk:
                line_count += play.check_journals()
        except BaseException as error:
            error.add_note(f"SESSIONS_API_SEED={SEED}, agent {seed}: {play.last}")
            raise
        finally:
            play.face.close()
        faults += play.faults
    tell(f"{faults.total()} runs, {line_count} journal lines, {dict(sorted(faults.items()))}")
