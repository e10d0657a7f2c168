from __future__ import annotations

import asyncio
import inspect
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from faces import calling, said
from sessions_api import Agent, RunStream, Sessions
from sessions_api.testing import ScriptedProvider

if TYPE_CHECKING:
    from pathlib import Path

# Arguments for methods that need some; a new method that needs others fails here by name.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "run": ("hello",),
    "stream": ("hello",),
    "delete": ("latest",),
    "rename": ("latest", "title"),
    "archive": ("latest",),
    "unarchive": ("old",),
}
SYNC_ONLY = {"used", "changed"}  # for runs
METHODS = [
    (kind, name)
    for kind in (Agent, Sessions, RunStream)
    for name, value in vars(kind).items()
    if inspect.isfunction(value) and (not name.startswith("_") or name in {"__enter__", "__iter__"})
]


@pytest.mark.parametrize(("kind", "name"), METHODS, ids=lambda one: getattr(one, "__name__", one))
def test_c32_every_synchronous_method_works_or_fails_at_once_inside_a_running_loop(
    workspace: Path, state_home: Path, kind: type[Any], name: str
) -> None:
    """None waits for the loop that it blocks; a watchdog says which one would."""
    finished = threading.Event()
    called: list[str] = []

    async def slow_tool() -> str:
        """Wait on a loop."""
        await asyncio.sleep(0.01)
        return "slept"

    async def main() -> None:
        provider = ScriptedProvider([said("x") for _ in range(5)])
        with Agent(workspace, provider=provider, tools=[slow_tool], state_home=state_home) as agent:
            agent.sessions.create("old")
            agent.sessions.archive("old")
            agent.sessions.leave()
            session = agent.run("setup").session_id
            target: Any = {Agent: agent, Sessions: agent.sessions}.get(kind) or agent.stream("s")
            arguments = ARGUMENTS.get(name, ())
            if name in SYNC_ONLY:
                arguments = (session,)
            if name == "save":
                arguments = (agent.sessions.load(), timedelta())
            answer = getattr(target, name)(*arguments)
            if inspect.isgenerator(answer) or name in {"__iter__", "export"}:
                list(answer)
            called.append(name)

    def work() -> None:
        try:
            asyncio.run(main())
        finally:
            finished.set()

    began = time.monotonic()
    threading.Thread(target=work, daemon=True).start()
    assert finished.wait(2), f"{kind.__name__}.{name} blocks inside a running loop"
    assert called == [name]
    assert time.monotonic() - began < 2


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

    assert asyncio.run(asyncio.wait_for(main(), 2)) == "done"
