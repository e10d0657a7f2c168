"""An agent in a forked child: a clear error at once, and never a wait."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from faces import Looker

TIMEOUT_S = 120
# The parent's other threads are in the middle of runs whenever it forks, so that a lock that they
# hold would never be free in the child. An alarm ends a child that waits.
BEGINNING = """
import asyncio, inspect, os, signal, sys, threading, traceback
from pathlib import Path
from sessions_api import Agent, AsyncAgent, AsyncSessions, Sessions
from sessions_api.testing import AsyncScriptedProvider, ScriptedProvider

workspace, state_home = Path(sys.argv[1]), Path(sys.argv[2])
over = threading.Event()

def options(scripted):
    return {"provider": scripted(["a b c"] * 100_000), "state_home": state_home}

def work(number):
    beside = workspace.with_name(f"beside-{number}")
    beside.mkdir()
    with Agent(beside, **options(ScriptedProvider)) as agent:
        while not over.is_set():
            agent.run("x")
            agent.sessions.leave()

def forked(name, call):
    sys.stdout.flush()
    if (pid := os.fork()) == 0:
        signal.alarm(60)
        try:
            call()
        except BaseException as error:
            said = f"{type(error).__module__.split('.')[0]}.{type(error).__name__}"
        else:
            said = "worked"
        print(name, said, flush=True)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if status:
        print(name, f"hung, or died of {status}", flush=True)

GIVEN = {"delete": ("latest",), "rename": ("latest", "t"), "archive": ("latest",),
         "unarchive": ("latest",), "run": ("x",), "stream": ("x",)}

def methods(kind):
    for name, method in vars(kind).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            needed = [p for p in inspect.signature(method).parameters.values()
                      if p.default is p.empty and p.kind is not p.VAR_KEYWORD][1:]
            if name in GIVEN or not needed:
                yield name, GIVEN.get(name, ())

threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
for thread in threads:
    thread.start()
"""
SYNC = """
agent = Agent(workspace, **options(ScriptedProvider))
agent.run("x")
stream = agent.stream("y")
next(iter(stream))

def used(target, name, given):
    answer = getattr(target, name)(*given)
    if hasattr(answer, "__next__"):
        list(answer)

for target, kind in ((agent, Agent), (agent.sessions, Sessions)):
    for name, given in methods(kind):
        forked(f"{kind.__name__}.{name}", lambda: used(target, name, given))
forked("stream", lambda: list(stream))
for number in range(10):
    def fresh():
        with Agent(workspace, **options(ScriptedProvider)) as own:
            own.run("z")
    forked(f"fresh-{number}", fresh)
stream.close()
print("parent", agent.run("w").text)
over.set()
agent.close()
"""
ASYNC = """
async def used(target, name, given):
    answer = getattr(target, name)(*given)
    if hasattr(answer, "__anext__"):
        return [item async for item in answer]
    return await answer

async def main():
    agent = AsyncAgent(workspace, **options(AsyncScriptedProvider))
    await agent.open()
    await agent.run("x")
    for target, kind in ((agent, AsyncAgent), (agent.sessions, AsyncSessions)):
        for name, given in methods(kind):
            forked(f"{kind.__name__}.{name}", lambda: asyncio.run(used(target, name, given)))
    for number in range(10):
        async def fresh():
            async with AsyncAgent(workspace, **options(AsyncScriptedProvider)) as own:
                await own.run("z")
        forked(f"fresh-{number}", lambda: asyncio.run(fresh()))
    print("parent", (await agent.run("w")).text)
    over.set()
    await agent.close()

asyncio.run(main())
"""
HARMLESS = {"AsyncAgent.open", "Sessions.leave", "AsyncSessions.leave"}  # do nothing to the store


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("face", [SYNC, ASYNC], ids=["sync", "async"])
def test_in_a_forked_child_every_method_refuses_and_a_new_agent_works(
    workspace: Path, state_home: Path, look: Looker, face: str
) -> None:
    """While other threads of the parent hold whatever they hold; the parent goes on."""
    done = subprocess.run(
        [
            *(sys.executable, "-W", "ignore::DeprecationWarning"),
            *("-c", BEGINNING + face, str(workspace), str(state_home)),
        ],
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert said.pop("parent") == "a b c"
    fresh = {name: said.pop(name) for name in list(said) if name.startswith("fresh-")}
    assert set(fresh.values()) == {"worked"}, fresh
    assert len(fresh) == 10
    assert len(said) > 15, said
    assert {name for name, how in said.items() if how == "worked"} <= HARMLESS, said
    refusals = {how for name, how in said.items() if name not in HARMLESS}
    assert refusals <= {"state_store.StoreForked", "sessions_api.RunFailed"}, said
    assert ("completed", None) in look.endings()
    assert not done.stderr
