from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from faces import calling, said
from sessions_api import (
    Agent,
    AsyncAgent,
    AsyncRunStream,
    AsyncSessions,
    RunFailed,
    RunStream,
    Sessions,
    SessionsError,
)
from sessions_api.testing import AsyncScriptedProvider, ScriptedProvider
from state_store import StateStoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LIMIT_S = 2.0
HANGING_S = 60.0
# Arguments for methods that need some; a new method that needs others fails here by name.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "run": ("hello",),
    "stream": ("hello",),
    "delete": ("latest",),
    "rename": ("latest", "title"),
    "archive": ("latest",),
    "unarchive": ("old",),
    "import_": (b'{"role":"user","content":"x"}\n',),
    "search": ("setup",),
    "summarize": ("what was said", 2),
    "show_reasoning": (True,),
    "__exit__": (None, None, None),
}
ENTRANCES = {"__enter__", "__exit__", "__iter__", "__next__"}


def methods(*kinds: type[Any]) -> list[tuple[type[Any], str]]:
    """Return the public methods of *kinds*, and those behind `with` and `for`."""
    found = []
    for kind in kinds:
        names = {name for name, value in inspect.getmembers(kind) if callable(value)}
        found += [(kind, name) for name in sorted(names) if not name.startswith("_")]
        found += [(kind, name) for name in sorted(names & ENTRANCES)]
    return found


def within_a_loop(work: Callable[[], Any]) -> float:
    """Do *work* in a running loop under a watchdog; return how long it blocked the loop."""
    outcome: list[Any] = []

    async def main() -> None:
        outcome.append(work())

    def guarded() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 - it is raised by the test
            outcome.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    thread.join(HANGING_S)
    assert not thread.is_alive(), "it waits for the loop that it blocks"
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return float(outcome[0])


def arguments_for(agent: Agent, name: str) -> tuple[Any, ...]:
    """Return what *name* is called with; what it needs is made first."""
    if name in {"used", "changed"}:
        active = agent.sessions.active
        return (active.id if active else "",)
    if name == "save":
        return agent.sessions.load(), timedelta()
    if name == "retry":
        with pytest.raises(RunFailed) as caught:
            agent.run("fail")
        return (caught.value.run_id,)
    return ARGUMENTS.get(name, ())


@pytest.mark.parametrize(
    ("kind", "name"),
    methods(Agent, Sessions, RunStream),
    ids=lambda one: getattr(one, "__name__", one),
)
def test_c32_every_synchronous_method_works_or_fails_at_once_inside_a_running_loop(
    workspace: Path, state_home: Path, kind: type[Any], name: str
) -> None:
    """None waits for the loop that it blocks; the quickest of three tries is at once."""

    async def slow_tool() -> str:
        """Wait on a loop."""
        await asyncio.sleep(0.01)
        return "slept"

    def work() -> float:
        number = next(tries)
        there = workspace / str(number)
        there.mkdir()
        failing = [TimeoutError()] if name == "retry" else []
        calls = calling(("slow_tool", "{}"))
        provider = ScriptedProvider([said("x"), *failing, calls, *(said("x") for _ in range(4))])
        options: dict[str, Any] = {"provider": provider, "tools": [slow_tool]}
        with Agent(there, state_home=state_home / str(number), **options) as agent:
            agent.sessions.create("old")
            agent.sessions.archive("old")
            agent.sessions.leave()
            agent.run("setup")
            target: Any = {Agent: agent, Sessions: agent.sessions}.get(kind) or agent.stream("s")
            given = arguments_for(agent, name)
            began = time.monotonic()
            with suppress(SessionsError, StateStoreError):  # a clear error would do as well
                answer = getattr(target, name)(*given)
                if isinstance(answer, Iterator):
                    list(answer)
            return time.monotonic() - began

    tries = iter(range(3))
    assert min(within_a_loop(work) for _ in range(3)) < LIMIT_S


@pytest.mark.parametrize("kind", [AsyncAgent, AsyncSessions, AsyncRunStream])
def test_c32_what_is_synchronous_of_the_asynchronous_face_waits_for_nothing(
    workspace: Path, state_home: Path, kind: type[Any]
) -> None:
    """Its properties, its constructor and `stream` are used on the loop, before a run and in it."""

    async def look(agent: AsyncAgent) -> None:
        target = {AsyncAgent: agent, AsyncSessions: agent.sessions}.get(kind)
        target = target or agent.stream("y")
        for name, value in inspect.getmembers(kind):
            if isinstance(value, property) and not name.startswith("_"):
                getattr(target, name)
        if isinstance(target, AsyncRunStream):
            await target.close()

    async def main() -> None:
        provider = AsyncScriptedProvider([said("a b c")] * 2)
        async with AsyncAgent(workspace, provider=provider, state_home=state_home) as agent:
            await look(agent)
            async with agent.stream("x") as stream:
                await anext(aiter(stream))
                await look(agent)

    asyncio.run(asyncio.wait_for(main(), HANGING_S))


@pytest.mark.parametrize(
    ("kind", "name"),
    methods(AsyncAgent, AsyncSessions, AsyncRunStream),
    ids=lambda one: getattr(one, "__name__", one),
)
def test_c32_no_asynchronous_method_works_before_it_is_awaited(kind: type[Any], name: str) -> None:
    """`stream` returns at once what does nothing yet; all others are to be awaited or iterated."""
    method = getattr(kind, name)
    waits = inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)
    assert waits or name in {"stream", "__aiter__"}


def test_c32_an_asynchronous_tool_does_not_need_the_blocked_loop(
    workspace: Path, state_home: Path
) -> None:
    """The synchronous agent gives it a loop of its own."""

    async def nap() -> str:
        """Wait on a loop."""
        await asyncio.sleep(0.01)
        return "slept"

    async def main() -> str:
        provider = ScriptedProvider([calling(("nap", "{}")), said("done")])
        with Agent(workspace, provider=provider, tools=[nap], state_home=state_home) as agent:
            return agent.run("go").text

    assert asyncio.run(asyncio.wait_for(main(), HANGING_S)) == "done"


def test_the_watchdog_finds_what_waits_for_the_loop_that_it_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that the tests above could fail."""
    monkeypatch.setitem(globals(), "HANGING_S", 0.2)

    def bridge() -> float:
        loop = asyncio.get_running_loop()
        waiting = asyncio.run_coroutine_threadsafe(asyncio.sleep(0, 1.0), loop)
        return waiting.result(5)

    with pytest.raises(AssertionError, match="waits for the loop"):
        within_a_loop(bridge)
