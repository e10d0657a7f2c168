"""Agents that come and go leave no file and no thread behind (C33).

The counts are those of a short run; `SESSIONS_API_LONG=1` opens two thousand times.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from faces import said
from sessions_api import Agent, AsyncAgent, ModelRequest, RunFailed
from sessions_api.testing import AsyncScriptedProvider, ScriptedProvider
from state_store import utc_now

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

LONG = bool(os.environ.get("SESSIONS_API_LONG"))
OPENING_COUNT = 2000 if LONG else 60
THREAD_COUNT = 500
FAILING_COUNT = 500 if LONG else 60
SLACK = 5

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="counts what is open in /proc"),
    pytest.mark.timeout(600 if LONG else 120),
]


def open_count() -> tuple[int, int]:
    """Return how many descriptors and threads there are, once garbage is gone."""
    gc.collect()
    # The kernel's own lists: ours say what we believe.
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))  # noqa: PTH208


def require_nothing_left(count: int, once: Callable[[int], None]) -> None:
    """Do something so many times; afterwards as much is open as after the first time."""
    once(0)
    before = open_count()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        for number in range(1, count):
            once(number)
        after = open_count()
    assert after[0] - before[0] <= SLACK
    assert after[1] - before[1] <= SLACK


def test_c33_agents_that_are_opened_listed_and_closed_leave_nothing(
    workspace: Path, state_home: Path
) -> None:
    """However often; nor does a run, or a stream that is left."""

    def once(number: int) -> None:
        provider = ScriptedProvider(["a b", "c d"])
        with Agent(workspace, provider=provider, state_home=state_home) as agent:
            agent.sessions.list()
            if number % 10 == 0:
                agent.run("x")
                with agent.stream("y") as stream:
                    next(iter(stream))

    require_nothing_left(OPENING_COUNT, once)
    assert list(state_home.glob("workspaces/*/owners/*")) == []


def test_c33_asynchronous_agents_leave_no_thread_either(workspace: Path, state_home: Path) -> None:
    """Each has one of its own, which ends with it; on one loop or on many."""

    async def use(number: int) -> None:
        provider = AsyncScriptedProvider(["a b", "c d"])
        async with AsyncAgent(workspace, provider=provider, state_home=state_home) as agent:
            await agent.sessions.list()
            if number % 10 == 0:
                await agent.run("x")
                async with agent.stream("y") as stream:
                    await anext(aiter(stream))

    require_nothing_left(OPENING_COUNT // 2, lambda number: asyncio.run(use(number)))

    async def many() -> None:
        await use(0)
        before = open_count()
        for number in range(OPENING_COUNT // 2):
            await use(number)
        after = open_count()
        assert max(left - right for left, right in zip(after, before, strict=True)) <= SLACK

    asyncio.run(many())


def test_c33_short_threads_that_read_once_leave_nothing(workspace: Path, state_home: Path) -> None:
    """Five hundred threads use one agent, one read each, ten at a time."""
    provider = ScriptedProvider(["x"])
    with Agent(workspace, provider=provider, state_home=state_home) as agent:
        agent.run("hello")
        counts: list[int] = []

        def once(_: int) -> None:
            threads = [
                threading.Thread(target=lambda: counts.append(len(agent.sessions.list().items)))
                for _ in range(10)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        require_nothing_left(THREAD_COUNT // 10, once)
    assert counts == [1] * THREAD_COUNT


def late_clocks() -> Iterator[Callable[[], datetime]]:
    """Return clocks that stop at their first, second, third … reading, over and over."""
    for readings in iter(lambda: range(4), None):
        for allowed in readings:
            left = iter(range(allowed))

            def clock(left: Iterator[int] = left) -> datetime:
                if next(left, None) is None:
                    raise ZeroDivisionError
                return utc_now()

            yield clock


def test_c33_openings_that_fail_half_way_leave_nothing(workspace: Path, state_home: Path) -> None:
    """Before the store, in the middle of it, and after it, in both faces."""
    with Agent(workspace, provider="offline", state_home=state_home) as agent:
        agent.run("hello")
    blocked = workspace.with_name("file")
    blocked.write_text("no directory")
    clocks = late_clocks()
    failed_count = 0

    def once(number: int) -> None:
        nonlocal failed_count
        options: dict[str, Any] = {"provider": "offline", "state_home": state_home}
        options |= {"state_home": blocked} if number % 5 == 4 else {"clock": next(clocks)}
        try:
            if number % 2:
                Agent(workspace, **options).close()
            else:
                asyncio.run(opened(AsyncAgent(workspace, **options)))
        except (ZeroDivisionError, OSError):
            failed_count += 1

    async def opened(agent: AsyncAgent) -> None:
        await agent.open()
        await agent.close()

    require_nothing_left(FAILING_COUNT, once)
    assert failed_count >= FAILING_COUNT // 5


def test_c33_runs_that_fail_leave_nothing(workspace: Path, state_home: Path) -> None:
    """A provider that raises, with whatever it raises, costs no handle and no thread."""

    def fail(_: ModelRequest) -> object:
        raise ConnectionResetError

    script: Any = [step for _ in range(OPENING_COUNT) for step in (fail, said("fine"))]
    provider = ScriptedProvider(script)
    with Agent(workspace, provider=provider, state_home=state_home) as agent:

        def once(_: int) -> None:
            with pytest.raises(RunFailed):
                agent.run("x")
            agent.run("y")

        require_nothing_left(OPENING_COUNT // 2, once)
