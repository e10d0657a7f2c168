"""One asynchronous agent and the event loops that come and go around it."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from faces import said
from messages_server import MessagesServer
from sessions_api import AgentClosed, AsyncAgent, RunResult, SessionBusy, TextDelta
from sessions_api.testing import AsyncScriptedProvider
from state_store import StoreClosed
from wire_server import Turn, WireServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from faces import Looker

TIMEOUT_S = 60
WORDS = "one two three four five six"
# What every program below begins with: `made` makes an agent.
BEGINNING = """
import asyncio, sys
from sessions_api import Agent, AsyncAgent
from sessions_api.testing import AsyncScriptedProvider, ScriptedProvider

def made(kind=AsyncAgent):
    if not sys.argv[3:]:
        scripted = AsyncScriptedProvider if kind is AsyncAgent else ScriptedProvider
        return kind(sys.argv[1], state_home=sys.argv[2], provider=scripted(["a b", "c d", "e f"]))
    return kind(sys.argv[1], state_home=sys.argv[2], provider=sys.argv[3], base_url=sys.argv[4],
                model="m", api_key="not-a-real-key")

async def ran(agent):
    await agent.open()
    print((await agent.run("x")).text)

async def begun(agent):
    await agent.open()
    async for event in agent.stream("y"):
        print(event.text.strip())
        break

"""


def program(
    workspace: Path, state_home: Path, text: str, *service: str, flags: tuple[str, ...] = ()
) -> list[str]:
    """Run a program to its end, which must be silent and good; return the lines it printed."""
    kept = ("PATH", "PYTHONPATH", "HOME", "NO_PROXY", "SSL_CERT_DIR")
    done = subprocess.run(
        [sys.executable, *flags, "-c", BEGINNING + text, workspace, state_home, *service],
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_S,
        check=False,
        env={name: os.environ[name] for name in kept if name in os.environ},
    )
    assert not done.stderr
    assert done.returncode == 0
    return done.stdout.splitlines()


@pytest.fixture(params=["scripted", "openai", "anthropic"])
def service(request: pytest.FixtureRequest, no_other_service: None) -> Iterator[tuple[str, ...]]:
    """Name a provider, with its service on this machine; no name means a script."""
    if request.param == "scripted":
        yield ()
        return
    kind: Any = {"openai": WireServer, "anthropic": MessagesServer}[request.param]
    with kind() as server:
        server.script(*[Turn(text=WORDS)] * 8)
        yield request.param, server.base_url


def test_an_agent_serves_one_event_loop_after_the_other(
    workspace: Path, state_home: Path, look: Looker, service: tuple[str, ...]
) -> None:
    """Connections of a loop that is over are not used again, and it is closed on a third one."""
    text = (
        "agent = made()\n"
        "asyncio.run(ran(agent))\n"
        "asyncio.run(ran(agent))\n"
        "async def listed():\n"
        "    print(len((await agent.sessions.messages()).items))\n"
        "    await agent.close()\n"
        "asyncio.run(listed())\n"
    )
    answers = [WORDS, WORDS] if service else ["a b", "c d"]
    assert program(workspace, state_home, text, *service) == [*answers, "4"]
    assert look.endings() == [("completed", None)] * 2


def test_a_program_that_closes_nothing_ends_silently_and_soon(
    workspace: Path, state_home: Path, look: Looker, service: tuple[str, ...]
) -> None:
    """No traceback, no warning, no wait; a stream that was dropped has its end committed."""
    text = (
        "first, second, third = made(), made(), made(Agent)\n"
        "loop = asyncio.new_event_loop()\n"
        "loop.run_until_complete(ran(first))\n"
        "loop.close()\n"
        "print(third.run('z').text)\n"
        "asyncio.run(begun(second))\n"
    )
    whole, word = (WORDS, "one") if service else ("a b", "a")
    assert program(workspace, state_home, text, *service) == [whole, whole, word]
    assert look.endings() == [("failed", "cancelled")]


def test_with_every_warning_an_error_nothing_is_said_either(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """Nothing warns when it is collected, and what the program held is over by then."""
    text = (
        "asyncio.run(ran(made()))\n"
        "asyncio.run(begun(made()))\n"
        "agent = made(Agent)\n"
        "stream = agent.stream('y')\n"
        "print(next(iter(stream)).text)\n"
        "never_opened = made()\n"
    )
    flags = ("-X", "dev", "-W", "error")
    assert program(workspace, state_home, text, flags=flags) == ["a b", "a", "a "]
    assert look.endings() == [("failed", "cancelled")]


def test_a_stream_that_is_dropped_lets_the_next_run_begin(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """Outside a block nobody says that it was left; the next run finds out."""

    async def main() -> None:
        provider = AsyncScriptedProvider([said("a b c"), said("next")])
        async with AsyncAgent(workspace, provider=provider, state_home=state_home) as agent:
            async for event in agent.stream("x"):
                assert event == TextDelta(text="a ")
                break
            assert (await agent.run("y")).text == "next"

    asyncio.run(main())
    assert look.endings() == [("failed", "cancelled"), ("completed", None)]


def test_closing_the_agent_ends_its_streams(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """Held or not, on this loop or another: what is under way is cancelled before it closes."""
    provider = AsyncScriptedProvider([said("a b c")] * 2)

    async def begin(agent: AsyncAgent) -> Any:
        await agent.open()
        stream = agent.stream("x")
        await anext(aiter(stream))
        return stream

    async def same_loop() -> None:
        agent = AsyncAgent(workspace, provider=provider, state_home=state_home)
        stream = await begin(agent)
        await agent.close()
        assert look.endings() == [("failed", "cancelled")]
        await stream.close()

    asyncio.run(same_loop())
    agent = AsyncAgent(workspace, provider=provider, state_home=state_home)
    with asyncio.Runner() as first:
        stream = first.run(begin(agent))
        asyncio.run(agent.close())
        assert look.endings() == [("failed", "cancelled")]
        first.run(stream.close())
    del stream, agent
    gc.collect()


def test_an_open_stream_keeps_no_loop_from_its_end(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """It is cancelled with the tasks of the loop, and that is committed; the agent goes on."""
    provider = AsyncScriptedProvider([said("a b c"), said("again")])
    agent = AsyncAgent(workspace, provider=provider, state_home=state_home)
    held: list[Any] = []

    async def begin() -> None:
        await agent.open()
        held.append(agent.stream("x"))
        await anext(aiter(held[0]))

    async def go_on() -> str:
        text = (await agent.run("y")).text
        await agent.close()
        return text

    asyncio.run(begin())
    assert look.endings() == [("failed", "cancelled")]
    assert asyncio.run(go_on()) == "again"


def test_an_agent_that_is_not_open_says_so_at_once(workspace: Path, state_home: Path) -> None:
    """Before it was opened and after it was closed; closing twice does nothing."""

    async def main() -> None:
        provider = AsyncScriptedProvider([said("x")] * 3)
        agent = AsyncAgent(workspace, provider=provider, state_home=state_home)
        for name in ("run", "retry"):
            with pytest.raises(AgentClosed, match="not open"):
                await getattr(agent, name)("x")
        with pytest.raises(AgentClosed, match="not open"):
            _ = agent.sessions
        async with agent:
            await agent.run("x")
        await agent.close()
        with pytest.raises(AgentClosed, match="closed"):
            await agent.run("y")
        async with agent.stream("z") as stream:
            with pytest.raises(AgentClosed, match="closed"):
                await anext(aiter(stream))
        with pytest.raises(StoreClosed):
            await agent.sessions.list()

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))


def test_loops_in_several_threads_share_an_agent(workspace: Path, state_home: Path) -> None:
    """Each run is whole or refused as busy; none waits for ever."""
    provider = AsyncScriptedProvider([said("fine")] * 40)
    agent = AsyncAgent(workspace, provider=provider, state_home=state_home)
    asyncio.run(agent.open())
    outcomes: list[RunResult | SessionBusy] = []

    async def use() -> None:
        for _ in range(5):
            try:
                outcomes.append(await agent.run("x"))
            except SessionBusy as busy:
                outcomes.append(busy)

    threads = [threading.Thread(target=lambda: asyncio.run(use())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert not any(thread.is_alive() for thread in threads)
    assert len(outcomes) == 20

    async def stored() -> int:
        pages = [
            len((await agent.sessions.messages(one.id)).items)
            for one in (await agent.sessions.list(None)).items
        ]
        await agent.close()
        return sum(pages)

    completed = sum(isinstance(one, RunResult) for one in outcomes)
    assert asyncio.run(stored()) == 2 * completed
