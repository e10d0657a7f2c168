"""A stream that is closed by somebody else than its reader, wherever its reader is at."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from faces import Looker, said
from sessions_api import Agent, AsyncAgent, ModelReply, ModelRequest, RunFailed
from sessions_api.testing import AsyncScriptedProvider, ScriptedProvider

if TYPE_CHECKING:
    from pathlib import Path


def test_a_stream_is_closed_by_a_thread_while_its_reader_waits_for_the_model(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """The run is over when `close` returns; the reader learns it when the model comes back."""
    asked, go_on = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def wait(_: ModelRequest) -> ModelReply:
        asked.set()
        go_on.wait(10)
        return said("late")

    with Agent(
        workspace, provider=ScriptedProvider([wait, said("next")]), state_home=state_home
    ) as agent:
        stream = agent.stream("go")

        def read() -> None:
            with pytest.raises(RunFailed) as caught:
                list(stream)
            raised.append(caught.value)

        reader = threading.Thread(target=read)
        reader.start()
        assert asked.wait(10)
        stream.close()
        assert look.endings() == [("failed", "cancelled")]
        go_on.set()
        reader.join(10)
        assert len(raised) == 1
        assert agent.run("more").text == "next"


def test_a_reader_that_comes_while_its_stream_is_being_closed_finds_its_end(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """It waits for the end of the closing, and is not told that a generator is executing."""
    closing, tried = threading.Event(), threading.Event()
    with Agent(workspace, provider=ScriptedProvider([said("a b")]), state_home=state_home) as agent:
        connection = agent._conversation._state.store._database._connection

        def hold(_: object, sql: str, __: object) -> bool:
            if sql.startswith("UPDATE runs"):
                closing.set()
                tried.wait(10)
                threading.Event().wait(0.1)  # for the reader to get from there into the stream
            return True

        stream = agent.stream("go")
        next(stream)
        connection.exec_trace = hold
        closer = threading.Thread(target=stream.close)
        closer.start()
        assert closing.wait(10)
        tried.set()
        assert list(stream) == []
        closer.join(10)
        connection.exec_trace = None
        assert stream.result is None
    assert look.endings() == [("failed", "cancelled")]


class Waits:
    """A provider that answers when it may."""

    name = "waits"
    endpoint = None

    def __init__(self) -> None:
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def reply(self, _: ModelRequest) -> ModelReply:
        """Wait, and answer."""
        self.asked.set()
        await self.go_on.wait()
        return said("an answer")


@pytest.mark.parametrize("from_both", [False, True])
def test_a_stream_is_closed_by_a_task_while_its_reader_waits_for_the_model(
    workspace: Path, state_home: Path, look: Looker, *, from_both: bool
) -> None:
    """As a button that says "stop" does; who presses it twice, or leaves too, gets no error."""

    async def main() -> None:
        provider = Waits()
        async with AsyncAgent(workspace, provider=provider, state_home=state_home) as agent:
            stream = agent.stream("go")

            async def read() -> list[Any]:
                async with stream:
                    return [event async for event in stream]

            reader = asyncio.create_task(read())
            await provider.asked.wait()
            await asyncio.gather(*[stream.close() for _ in range(1 + from_both)])
            assert look.endings() == [("failed", "cancelled")]
            provider.go_on.set()
            with pytest.raises(RunFailed) as caught:
                await reader
            assert caught.value.error_type == "cancelled"
            assert (await agent.run("more")).text == "an answer"

    asyncio.run(main())


@pytest.mark.parametrize("steps", range(12))
def test_a_stream_is_closed_by_a_task_whatever_its_reader_does(
    workspace: Path, state_home: Path, look: Looker, steps: int
) -> None:
    """The reader gets RunFailed, the stream's end, or its result; never an error of generators."""

    async def main() -> None:
        provider = AsyncScriptedProvider([said("a b c d"), said("next")])
        async with AsyncAgent(workspace, provider=provider, state_home=state_home) as agent:
            stream = agent.stream("go")

            async def read() -> None:
                async with stream:
                    async for _ in stream:
                        await asyncio.sleep(0)

            reader = asyncio.create_task(read())
            for _ in range(steps):
                await asyncio.sleep(0)
            await stream.close()
            ended = look.endings()
            assert {status for status, _ in ended} <= {"completed", "failed"}
            (outcome,) = await asyncio.gather(reader, return_exceptions=True)
            assert outcome is None or isinstance(outcome, RunFailed), outcome
            assert look.endings() == ended
            await agent.run("more")

    asyncio.run(main())


def test_a_reader_that_comes_while_another_task_closes_finds_the_end(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """It waits for the closing, which is in the middle of its commit."""
    closing, tried = threading.Event(), threading.Event()

    def hold(_: object, sql: str, __: object) -> bool:
        if sql.startswith("UPDATE runs"):
            closing.set()
            tried.wait(10)
        return True

    async def main() -> None:
        provider = AsyncScriptedProvider([said("a b")])
        async with AsyncAgent(workspace, provider=provider, state_home=state_home) as agent:
            stream = agent.stream("go")
            await anext(stream)
            connection = agent._parts[0]._state.store._database._connection
            connection.exec_trace = hold
            closer = asyncio.create_task(stream.close())
            await asyncio.to_thread(closing.wait, 10)
            reader = asyncio.create_task(_all(stream))
            for _ in range(5):
                await asyncio.sleep(0)
            tried.set()
            assert await reader == []
            await closer
            connection.exec_trace = None

    asyncio.run(main())
    assert look.endings() == [("failed", "cancelled")]


def test_a_stream_that_is_closed_before_its_run_begins_stores_nothing(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """Its plan is made in the store's thread; a run that is not wanted any more does not begin."""
    planning, go_on = threading.Event(), threading.Event()
    held: list[bool] = []

    async def main() -> None:
        provider = AsyncScriptedProvider([said("first"), said("next")])
        async with AsyncAgent(workspace, provider=provider, state_home=state_home) as agent:
            await agent.run("first")

            def block() -> None:
                planning.set()
                held.append(go_on.wait(10))

            blocking = asyncio.create_task(agent._thread.call(block))
            await asyncio.to_thread(planning.wait, 10)
            stream = agent.stream("go")
            reader = asyncio.create_task(_all(stream))
            await asyncio.sleep(0)
            await stream.close()
            go_on.set()
            await blocking
            assert await reader == []
            assert look.endings() == [("completed", None)]

    asyncio.run(main())
    assert held == [True]


async def _all(stream: Any) -> list[Any]:
    return [event async for event in stream]
