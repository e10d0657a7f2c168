from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from cancelling import CancelledAt
from faces import Looker, calling, said
from sessions_api import Agent, AsyncAgent, ModelReply, ModelRequest, RunFailed, SessionBusy
from sessions_api.testing import AsyncScriptedProvider, ScriptedProvider

if TYPE_CHECKING:
    from pathlib import Path

OpenAgent = Callable[..., Any]
ENDINGS = {("failed", "cancelled"), ("completed", None)}


def tools_then_answer(request: ModelRequest) -> ModelReply:
    """Call both tools, then answer."""
    if request.messages[-1].role == "tool":
        return said("done")
    return calling(("quick", "{}"), ("slow", "{}"))


def quick() -> str:
    """Be done."""
    return "quick"


async def slow() -> str:
    """Wait a little."""
    await asyncio.sleep(0.001)
    return "slow"


@pytest.mark.parametrize("streaming", [False, True])
def test_a_run_cancelled_at_any_await_is_over_when_the_cancellation_goes_on(
    workspace: Path, state_home: Path, look: Looker, *, streaming: bool
) -> None:
    """Wherever it strikes, nothing is pending, what is stored is whole, and the next run works."""

    async def one_run(agent: AsyncAgent) -> None:
        if not streaming:
            await agent.run("go")
            return
        async with agent.stream("go") as stream:
            async for _ in stream:
                pass

    async def main() -> int:
        provider = AsyncScriptedProvider(tools_then_answer for _ in count())
        options: Any = {"provider": provider, "tools": [quick, slow], "state_home": state_home}
        async with AsyncAgent(workspace, **options) as agent:
            for place in count(1):
                run = CancelledAt(one_run(agent), place)

                async def waiting(run: CancelledAt = run) -> None:
                    await run

                (outcome,) = await asyncio.gather(
                    asyncio.create_task(waiting()), return_exceptions=True
                )
                if run.waited < place:
                    assert outcome is None
                    return place
                assert isinstance(outcome, asyncio.CancelledError)
                if agent.sessions.active is not None:
                    assert set(look.endings()) <= ENDINGS
                    assert None not in look.outcomes()
                    assert agent.sessions.active.status in {"idle", "failed"}
        raise AssertionError("every place was tried")

    assert asyncio.run(main()) > 6  # else the run waits where it cannot be cancelled
    assert look.endings()[-1] == ("completed", None)
    assert ("failed", "cancelled") in look.endings()


def test_a_second_cancellation_cannot_keep_the_end_from_being_written(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """The store is busy with other calls while the task is cancelled again and again."""

    async def main() -> None:
        asked = asyncio.Event()

        class Waits:
            name = "waits"
            endpoint = None

            async def reply(self, _: ModelRequest) -> ModelReply:
                """Wait for ever."""
                asked.set()
                await asyncio.sleep(60)
                return said("never")

        async with AsyncAgent(workspace, provider=Waits(), state_home=state_home) as agent:
            task = asyncio.create_task(agent.run("go"))
            await asked.wait()
            busy = asyncio.create_task(agent._thread.call(time.sleep, 0.15))
            await asyncio.sleep(0.02)
            for _ in range(3):
                task.cancel()
                await asyncio.sleep(0.02)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert look.endings() == [("failed", "cancelled")]
            await busy

    asyncio.run(main())


def test_a_cancellation_during_a_commit_waits_for_its_end(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """A write that has begun is not abandoned; the row and the caller agree in the end."""

    async def main() -> None:
        provider = AsyncScriptedProvider([said("one"), said("two")])
        async with AsyncAgent(workspace, provider=provider, state_home=state_home) as agent:
            await agent.run("a")
            path = look.database()
            other = apsw.Connection(str(path))  # its own SQLite would not see our locks
            other.execute("BEGIN IMMEDIATE")
            task = asyncio.create_task(agent.run("b"))
            await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.sleep(0.05)
            assert not task.done()
            other.execute("ROLLBACK")
            other.close()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert look.endings() == [("completed", None), ("failed", "cancelled")]
            assert [content for _, content in look.texts()] == ["a", "one", "b"]
            assert (await agent.run("c")).text == "two"

    asyncio.run(main())


def test_a_time_out_of_the_caller_is_a_cancellation(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """A synchronous provider is left behind in its thread; nobody waits for it."""
    go_on, came_back = threading.Event(), threading.Event()

    def wait(_: ModelRequest) -> ModelReply:
        go_on.wait(60)
        came_back.set()
        return said("late")

    async def main() -> None:
        provider = ScriptedProvider([wait, said("next")])
        async with AsyncAgent(workspace, provider=provider, state_home=state_home) as agent:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await agent.run("go")
            assert not came_back.is_set()
            assert look.endings() == [("failed", "cancelled")]
            go_on.set()
            assert (await agent.run("again")).text == "next"

    asyncio.run(main())


def test_a_cancelled_opening_leaves_nothing_open(workspace: Path, state_home: Path) -> None:
    """The store that was being opened is closed again, and its claim given back."""

    async def main() -> None:
        agent = AsyncAgent(workspace, provider=ScriptedProvider(), state_home=state_home)
        task = asyncio.create_task(agent.open())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert list(state_home.glob("workspaces/*/owners/*")) == []


def test_two_runs_at_once_on_one_agent_do_not_interleave(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """The second one of a session is refused at once; what the first says stays whole."""

    async def main() -> list[Any]:
        provider = AsyncScriptedProvider([said("0"), said("1"), said("2")])
        async with AsyncAgent(workspace, provider=provider, state_home=state_home) as agent:
            await agent.run("first")
            runs = (agent.run(text) for text in ("a", "b"))
            return await asyncio.gather(*runs, return_exceptions=True)

    outcomes = asyncio.run(main())
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["RunResult", "SessionBusy"]
    assert issubclass(SessionBusy, TimeoutError)
    assert len(look.texts()) == 4


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_ctrl_c_in_the_provider_goes_on_as_itself(
    workspace: Path, state_home: Path, look: Looker, error: BaseException
) -> None:
    """It is committed as a cancellation first, and the agent still works afterwards."""
    provider = ScriptedProvider([error, said("fine")])
    with Agent(workspace, provider=provider, state_home=state_home) as agent:
        with pytest.raises(type(error)):
            agent.run("go")
        assert look.endings() == [("failed", "cancelled")]
        assert agent.run("again").text == "fine"


def test_a_real_ctrl_c_stops_the_wait_for_a_tool(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """Nobody waits for the tool's thread; what it did is unknown."""
    go_on = threading.Event()

    def stuck() -> str:
        """Press Ctrl-C and hang."""
        os.kill(os.getpid(), signal.SIGINT)
        go_on.wait(5)
        return "late"

    provider = ScriptedProvider([calling(("stuck", "{}")), said("fine")])
    with Agent(workspace, provider=provider, tools=[stuck], state_home=state_home) as agent:
        with pytest.raises(KeyboardInterrupt):
            agent.run("go")
        assert not go_on.is_set()
        assert look.endings() == [("failed", "cancelled")]
        assert look.outcomes() == ["unknown"]
        go_on.set()
        assert agent.run("again").text == "fine"


def test_ctrl_c_while_a_stream_is_read_ends_the_run(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """It strikes in the caller's own code, between two events."""
    provider = ScriptedProvider([said("a b c")])

    def read(agent: Agent) -> None:
        with agent.stream("go") as stream:
            for _ in stream:
                signal.raise_signal(signal.SIGINT)

    with Agent(workspace, provider=provider, state_home=state_home) as agent:
        with pytest.raises(KeyboardInterrupt):
            read(agent)
        assert look.endings() == [("failed", "cancelled")]


def test_ctrl_c_in_an_event_loop_is_committed(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """`asyncio.run` turns it into a cancellation of the main task."""

    async def reply_never(_: ModelRequest) -> ModelReply:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)
        return said("never")

    class Waits:
        name = "waits"
        endpoint = None
        reply = staticmethod(reply_never)

    async def main() -> None:
        async with AsyncAgent(workspace, provider=Waits(), state_home=state_home) as agent:
            await agent.run("go")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert look.endings() == [("failed", "cancelled")]


def test_a_provider_that_runs_out_of_its_iterator_fails_the_run_and_does_not_hang_it(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """StopIteration cannot cross a future; the run must not wait for it for ever."""

    def empty(_: ModelRequest) -> ModelReply:
        return next(iter(()))

    async def main() -> None:
        provider = ScriptedProvider([empty])
        async with AsyncAgent(workspace, provider=provider, state_home=state_home) as agent:
            with pytest.raises(RunFailed):
                await asyncio.wait_for(agent.run("go"), timeout=3)

    asyncio.run(main())
    assert look.endings() == [("failed", "internal")]


class Struck(KeyboardInterrupt):
    """One of which can be seen whether it is still somewhere."""


def test_an_interrupt_leaves_nothing_to_the_garbage_collector(
    workspace: Path, state_home: Path
) -> None:
    """Its frames may hold locks, which a collector in another thread could not let go."""
    seen: list[weakref.ref[Struck]] = []

    def strike(_: ModelRequest) -> ModelReply:
        error = Struck()
        seen.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    with Agent(workspace, state_home=state_home, provider=ScriptedProvider([strike])) as agent:
        gc.disable()
        try:
            with pytest.raises(KeyboardInterrupt) as struck:
                agent.run("go")
            assert seen[0]() is struck.value
            del struck
            assert seen[0]() is None
        finally:
            gc.enable()
