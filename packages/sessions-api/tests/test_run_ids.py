"""Ids that are taken, or none: a run that cannot begin says so, and is no other run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from faces import Looker, calling, core_of, said
from state_store import IdInvalid, RunExists, SessionExists, new_id

OpenAgent = Callable[..., Any]


class Ids:
    """Makes ids; the next one can be set."""

    def __init__(self) -> None:
        self.next: list[str] = []
        self.made: list[str] = []

    def __call__(self) -> str:
        """Return the next id."""
        self.made.append(self.next.pop(0) if self.next else new_id())
        return self.made[-1]


def test_a_run_whose_id_is_taken_is_not_told_the_result_of_the_other(
    open_agent: OpenAgent, look: Looker
) -> None:
    """Nothing of it is stored, and the next run works."""
    ids = Ids()
    agent = open_agent([said("first"), said("third")], new_id=ids)
    ids.next = [agent.run("one").run_id]
    with pytest.raises(RunExists):
        agent.run("two")
    assert look.texts() == [("user", "one"), ("assistant", "first")]
    assert agent.run("three").text == "third"
    assert look.endings() == [("completed", None)] * 2


def test_a_run_whose_id_is_taken_does_not_end_the_other(
    open_agent: OpenAgent, look: Looker
) -> None:
    """Not even one of its own agent, which is under way in another session."""
    ids = Ids()
    refused: list[Any] = []

    def never(_: Any) -> Any:
        raise AssertionError("a run that has not begun asks nobody")

    async def beside() -> str:
        """Begin a run in another session of the same agent."""
        core = core_of(agent)
        run_id = core._store.runs(core.active.id).items[0].id
        core.leave()
        ids.next = [new_id(), run_id]
        refused.append(await run_beside(agent))
        return "tried"

    agent = open_agent(
        [calling(("beside", "{}")), said("first"), never], new_id=ids, tools=[beside]
    )
    assert agent.run("one").text == "first"
    assert isinstance(refused[0], RunExists)
    assert look.endings() == [("completed", None)]


async def run_beside(agent: Any) -> BaseException | None:
    """Run in the middle of a run of the same agent; return what that raised."""
    try:
        if agent.is_async:
            await agent.agent.run("two")
        else:
            await asyncio.to_thread(agent.run, "two")
    except Exception as error:  # noqa: BLE001 - it is what is looked at
        return error
    return None


def test_a_session_whose_id_is_taken_is_not_begun(open_agent: OpenAgent, look: Looker) -> None:
    """Its first run is refused with it."""
    ids = Ids()
    agent = open_agent([said("first"), said("other")], new_id=ids)
    taken = agent.run("one").session_id
    agent.sessions.leave()
    ids.next = [taken]
    with pytest.raises(SessionExists):
        agent.run("two")
    assert agent.sessions.active is None
    assert look.texts() == [("user", "one"), ("assistant", "first")]
    assert agent.run("three").text == "other"


def test_an_id_that_is_none_is_refused_before_anything_is_stored(
    open_agent: OpenAgent, look: Looker
) -> None:
    """Whoever brings ids along is told."""
    ids = Ids()
    agent = open_agent([said("first"), said("second")], new_id=ids)
    agent.run("one")
    ids.next = ["none"]
    with pytest.raises(IdInvalid):
        agent.run("two")
    assert agent.run("three").text == "second"
    assert look.endings() == [("completed", None)] * 2
