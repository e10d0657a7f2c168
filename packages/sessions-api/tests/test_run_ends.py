"""Runs that nobody reads to their end: the consumer leaves, forgets, or the agent is closed."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from faces import Looker, calling, said
from run_scale import LONG_TIMEOUT_S, SLOW_STREAMS
from sessions_api import (
    Agent,
    AgentClosed,
    AsyncAgent,
    ModelReply,
    ModelRequest,
    RunFailed,
    RunFinished,
    ToolFinished,
)
from sessions_api.testing import AsyncScriptedProvider, ScriptedProvider

if TYPE_CHECKING:
    from pathlib import Path

OpenAgent = Callable[..., Any]


@pytest.mark.timeout(LONG_TIMEOUT_S)
def test_c04_a_consumer_that_leaves_at_the_last_event_loses_nothing_on_a_slow_disk(
    open_agent: OpenAgent, look: Looker
) -> None:
    """Another process holds the database for 300 ms while the answer is written: 100 times.

    Here some of these; all with SESSIONS_API_LONG=1.
    """
    held: list[threading.Thread] = []

    def answer(_: ModelRequest) -> ModelReply:
        other = apsw.Connection(str(look.database()))
        other.execute("BEGIN IMMEDIATE")

        def let_go() -> None:
            threading.Event().wait(0.3)
            other.execute("ROLLBACK")
            other.close()

        held.append(threading.Thread(target=let_go))
        held[-1].start()
        return said("word")

    agent = open_agent([said("first"), *[answer] * SLOW_STREAMS])
    agent.run("make the database")
    for number in range(SLOW_STREAMS):
        events = agent.stream(f"turn {number}", leave_after=2)
        assert isinstance(events[-1], RunFinished)
        held[-1].join()
        assert look.texts()[-2:] == [("user", f"turn {number}"), ("assistant", "word")]
    assert look.endings() == [("completed", None)] * (SLOW_STREAMS + 1)


def test_an_asynchronous_tool_that_is_cancelled_with_its_run_is_stored_as_cancelled(
    open_agent: OpenAgent, look: Looker
) -> None:
    """It was stopped and awaited, so nobody has to wonder whether it is still at work."""
    stopped = threading.Event()
    began = threading.Event()

    async def slow() -> str:
        """Wait to be stopped."""
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()
        return "never"

    def quick() -> str:
        """Return once the other one is at work."""
        assert began.wait(10)
        return "quick"

    agent = open_agent([calling(("slow", "{}"), ("quick", "{}"))], tools=[slow, quick])
    assert len(agent.stream("go", leave_after=3)) == 3
    assert stopped.is_set()
    assert look.outcomes() == ["cancelled", "ok"]
    assert look.endings() == [("failed", "cancelled")]


def test_a_synchronous_tool_that_still_runs_when_its_run_ends_is_unknown(
    open_agent: OpenAgent, look: Looker
) -> None:
    """A thread cannot be stopped; what it returns later goes nowhere."""
    began, go_on = threading.Event(), threading.Event()

    def stuck() -> str:
        """Wait until the run is over."""
        began.set()
        go_on.wait(10)
        return "late"

    def quick() -> str:
        """Return once the other one is at work."""
        assert began.wait(10)
        return "quick"

    agent = open_agent([calling(("stuck", "{}"), ("quick", "{}")), said("x")], tools=[stuck, quick])
    agent.stream("go", leave_after=3)
    assert not go_on.is_set()
    assert look.outcomes() == ["unknown", "ok"]
    go_on.set()
    assert agent.run("next").text == "x"
    assert look.outcomes() == ["unknown", "ok"]
    assert "late" not in [content for _, content in look.texts()]


def three_tools(look: Looker) -> tuple[list[Any], Callable[[], None]]:
    """Return tools of which two wait for a third, and what lets those end."""
    go_on = threading.Event()

    def first() -> str:
        """Return."""
        return "1"

    def other() -> str:
        """Return when it may."""
        go_on.wait(10)
        return "2"

    def let_end() -> None:
        go_on.set()
        while any(thread.name.startswith("tool-") for thread in threading.enumerate()):
            threading.Event().wait(0.005)
        assert look.outcomes()[0] == "ok"

    return [first, other], let_end


THREE_CALLS = calling(("first", "{}"), ("other", "{}"), ("other", "{}"))


def test_results_that_come_while_a_reader_is_away_are_committed_before_it_is_told_of_one(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """However slow the reader is, it holds a commit up once, and not once for each result."""
    tools, let_end = three_tools(look)
    provider = ScriptedProvider([THREE_CALLS, said("done")])
    with Agent(workspace, provider=provider, tools=tools, state_home=state_home) as agent:
        stream = agent.stream("go")
        while not isinstance(next(stream), ToolFinished):
            pass
        assert look.outcomes() == ["ok", None, None]
        let_end()
        assert isinstance(next(stream), ToolFinished)
        assert look.outcomes() == ["ok"] * 3
        stream.close()
    assert [content for _, content in look.texts()][2:] == ["1", "2", "2"]


def test_results_of_an_asynchronous_stream_are_committed_whether_it_is_read_or_not(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """The loop goes on while the reader awaits something else."""
    tools, let_end = three_tools(look)

    def wait_until_committed() -> None:
        while look.outcomes() != ["ok"] * 3:
            threading.Event().wait(0.01)

    async def main() -> None:
        provider = AsyncScriptedProvider([THREE_CALLS, said("done")])
        async with (
            AsyncAgent(workspace, provider=provider, tools=tools, state_home=state_home) as agent,
            agent.stream("go") as stream,
        ):
            while not isinstance(await anext(stream), ToolFinished):
                pass
            await asyncio.to_thread(let_end)
            await asyncio.to_thread(wait_until_committed)

    asyncio.run(main())


@pytest.mark.parametrize("in_a_cycle", [False, True])
def test_a_stream_that_is_forgotten_is_cancelled(
    workspace: Path, state_home: Path, look: Looker, *, in_a_cycle: bool
) -> None:
    """By whoever collects it; the next run of the session works at once."""
    with Agent(
        workspace, provider=ScriptedProvider([said("a b"), said("next")]), state_home=state_home
    ) as agent:
        stream = agent.stream("go")
        next(iter(stream))
        if in_a_cycle:
            holder: list[Any] = [stream]
            holder.append(holder)
            del holder
        del stream
        gc.collect()
        assert look.endings() == [("failed", "cancelled")]
        assert agent.run("more").text == "next"


def test_a_collector_that_strikes_inside_a_transaction_spoils_no_other_run(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """A forgotten stream is ended from another thread: this one is in the middle of a commit."""
    forgotten: list[Any] = []
    with Agent(
        workspace,
        provider=ScriptedProvider([said("a b"), said("fine"), said("more")]),
        state_home=state_home,
    ) as agent:
        connection = agent._conversation._state.store._database._connection

        def collect(_: object, sql: str, __: object) -> bool:
            if sql.startswith("INSERT INTO messages"):
                forgotten.clear()  # what a collector does, and as unexpectedly
            return True

        forgotten.append(agent.stream("forgotten"))
        next(iter(forgotten[0]))
        agent.sessions.create("other")
        connection.exec_trace = collect
        result = agent.run("go")
        connection.exec_trace = None
        assert result.text == "fine"
        first = agent.sessions.list().items[-1].id
        while agent.sessions.runs(first).items[0].status == "pending":
            threading.Event().wait(0.01)
        assert agent.sessions.runs(first).items[0].error_type == "cancelled"
    assert look.texts() == [("user", "go"), ("assistant", "fine")]


def test_closing_an_agent_ends_what_another_thread_is_running(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """The run is over when `close` returns; the other thread learns it as soon as it comes back."""
    asked, go_on = threading.Event(), threading.Event()
    outcomes: list[BaseException] = []

    def wait(_: ModelRequest) -> ModelReply:
        asked.set()
        go_on.wait(10)
        return said("late")

    agent = Agent(workspace, provider=ScriptedProvider([wait]), state_home=state_home)

    def work() -> None:
        with pytest.raises(RunFailed) as caught:
            agent.run("go")
        outcomes.append(caught.value)

    thread = threading.Thread(target=work)
    thread.start()
    assert asked.wait(10)
    agent.close()
    assert look.endings() == [("failed", "cancelled")]
    go_on.set()
    thread.join(10)
    assert isinstance(outcomes[0].__cause__, AgentClosed)
    assert look.texts() == [("user", "go")]
    assert list(state_home.glob("workspaces/*/owners/*")) == []


def test_closing_an_agent_ends_the_stream_that_is_being_read(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """No tool begins afterwards, and no run is left pending."""
    ran: list[int] = []

    def work() -> str:
        """Say that it ran."""
        ran.append(1)
        return "ran"

    provider = ScriptedProvider([calling(("work", "{}"))])
    agent = Agent(workspace, provider=provider, tools=[work], state_home=state_home)
    stream = agent.stream("go")
    next(iter(stream))
    agent.close()
    assert look.endings() == [("failed", "cancelled")]
    with pytest.raises(RunFailed) as caught:
        list(stream)
    assert caught.value.error_type == "cancelled"
    assert ran == []
    with pytest.raises(AgentClosed):
        agent.run("more")


def test_closing_an_asynchronous_agent_ends_the_run_of_another_task(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """Its task gets RunFailed once its provider answers."""

    async def main() -> None:
        asked, go_on = asyncio.Event(), asyncio.Event()

        class Waits(AsyncScriptedProvider):
            async def reply(self, request: ModelRequest) -> ModelReply:  # type: ignore[override]  # the protocol allows either
                """Wait."""
                asked.set()
                await go_on.wait()
                return await super().reply(request)

        agent = AsyncAgent(workspace, provider=Waits([said("late")]), state_home=state_home)
        await agent.open()
        task = asyncio.create_task(agent.run("go"))
        await asked.wait()
        await agent.close()
        assert look.endings() == [("failed", "cancelled")]
        go_on.set()
        with pytest.raises(RunFailed) as caught:
            await task
        assert isinstance(caught.value.__cause__, AgentClosed)

    asyncio.run(main())
    assert look.texts() == [("user", "go")]


def test_an_end_that_could_not_be_written_is_written_before_the_next_run(
    open_agent: OpenAgent, look: Looker
) -> None:
    """The session is not busy with a run that is over."""
    agent = open_agent([said("first"), TimeoutError(), said("fine")])
    agent.run("make the database")
    core: Any = agent.agent._opened[0] if agent.is_async else agent.agent._conversation
    connection = core._state.store._database._connection

    def full(_: object, sql: str, __: object) -> bool:
        if sql.startswith("UPDATE runs"):
            raise apsw.FullError("injected")
        return True

    connection.exec_trace = full
    with pytest.raises(RunFailed) as caught:
        agent.run("go")
    connection.exec_trace = None
    assert (caught.value.saved, caught.value.error_type) == ("input", "provider.timeout")
    assert look.endings()[-1] == ("pending", None)
    assert agent.run("next").text == "fine"
    assert look.endings()[1:] == [("failed", "provider.timeout"), ("completed", None)]
