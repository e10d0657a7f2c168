"""Good sessions of every kind, made by agents: what verifying has to find nothing wrong with.

As a program it is one process at work in a workspace: `verified_sessions.py WS HOME SEED ACTIONS
KILL_MS`; with a KILL_MS above 0 it is killed about then, wherever it is.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sessions_api import (
    Agent,
    ModelReply,
    ModelRequest,
    NewMessage,
    RunFailed,
    SessionsError,
    SessionState,
    ToolCall,
    Usage,
)
from sessions_api.testing import ScriptedProvider
from state_store import StateStoreError, new_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions_api.testing.scripted import ScriptStep

BROKEN_LINES = b"""\
{"role":"user","content":"look"}
{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",\
"function":{"name":"look","arguments":"{}"}},{"id":"c2","type":"function",\
"function":{"name":"look","arguments":"{}"}}]}
{"role":"tool","content":"first","tool_call_id":"c1"}
{"role":"tool","content":"again","tool_call_id":"c1"}
{"role":"tool","content":"never asked for","tool_call_id":"c9"}
{"role":"user","content":"%d"}
"""


def open_agent(workspace: Path, state_home: Path, chance: random.Random) -> Agent:
    """Open an agent whose provider and tools do what *chance* says."""

    def look(at: str = "") -> str:
        """Look."""
        return f"seen {at}" * chance.randrange(3)

    def stumble() -> str:
        """Fail."""
        raise ValueError("stumbled")

    return Agent(
        workspace,
        state_home=state_home,
        provider=ScriptedProvider(_script(chance), name="chance"),
        model="m",
        model_config={"cost": {"input": 3, "output": 15}},
        tools=[look, stumble],
    )


def _script(chance: random.Random) -> Iterator[ScriptStep]:
    def step(request: ModelRequest) -> ModelReply | BaseException:
        usage = Usage()
        if chance.random() < 0.9:
            usage = Usage(input_tokens=len(request.messages), output_tokens=chance.randrange(9))
        dice = chance.random()
        if dice < 0.15:
            return chance.choice((TimeoutError("t"), ConnectionError("c"), ValueError("v")))
        if dice < 0.45:
            calls = tuple(
                ToolCall(
                    id=chance.choice(("", "same", f"c{index}")),
                    name=chance.choice(("look", "stumble", "nobody")),
                    arguments=chance.choice(("{}", '{"at":"é"}', "{")),
                )
                for index in range(chance.randint(1, 3))
            )
            return ModelReply(content="calling", tool_calls=calls, usage=usage)
        return ModelReply(content="answer é" * chance.randrange(1, 4), usage=usage)

    while True:
        yield step


def act(agent: Agent, chance: random.Random) -> None:
    """Do one thing that people do."""
    sessions = agent.sessions
    ways: list[Any] = [
        *[lambda: agent.run(f"question {chance.randrange(10**6)}")] * 6,
        lambda: _leave_early(agent, chance),
        sessions.leave,
        lambda: sessions.resume("latest"),
        lambda: _retry(agent),
        lambda: sessions.undo(chance.randint(1, 2)),
        lambda: sessions.redo(chance.randint(1, 2)),
        lambda: _summarize(agent, chance),
        sessions.fork,
        lambda: sessions.import_(BROKEN_LINES % chance.randrange(10**9)),
        lambda: _import_archive(agent),
        lambda: _save(agent, chance),
        lambda: sessions.rename("latest", f"title {chance.randrange(99)}"),
        lambda: sessions.archive("latest"),
    ]
    with suppress(RunFailed, StateStoreError, SessionsError):
        chance.choice(ways)()


def _leave_early(agent: Agent, chance: random.Random) -> None:
    with agent.stream("stream") as stream:
        for number, _ in enumerate(stream):
            if number == chance.randrange(3):
                break


def _retry(agent: Agent) -> None:
    failed = [one for one in agent.sessions.runs().items if one.status == "failed"]
    if failed:
        agent.retry(failed[-1].id, allow_unsafe=True)


def _summarize(agent: Agent, chance: random.Random) -> None:
    seqs = [one.seq for one in agent.sessions.messages().items]
    agent.sessions.summarize("in short", chance.choice(seqs or [1]))


def _import_archive(agent: Agent) -> None:
    """Import what was exported here, as another session."""
    own = agent.sessions.get()
    agent.sessions.import_(b"".join(agent.sessions.export(own.id, "archive")))
    state = agent.sessions.load(own.id)
    copied = SessionState(id=new_id(), settings=state.settings, messages=state.messages)
    agent.sessions.save(copied, timedelta(seconds=1))


def _save(agent: Agent, chance: random.Random) -> None:
    """Save what another program made, or append to what is there."""
    added = (
        NewMessage(role="user", content="saved"),
        NewMessage(role="assistant", tool_calls=(ToolCall(id="s", name="look", arguments=""),)),
        *[NewMessage(role="tool", content="r", tool_call_id=chance.choice(("s", "t")))]
        * chance.randrange(3),
    )
    if agent.sessions.active is None or chance.random() < 0.3:
        agent.sessions.save(SessionState(id=new_id(), messages=added), timedelta(0))
        return
    state = agent.sessions.load()
    known = SessionState(id=state.id, settings=state.settings, messages=state.messages)
    agent.sessions.save(replace(known, messages=known.messages + added), timedelta(0))


def work(
    workspace: Path, state_home: Path, seed: int, action_count: int, *, kill_after_ms: int = 0
) -> None:
    """Open an agent, do so many things, close it; or be killed, so long after it was opened."""
    chance = random.Random(seed)
    with open_agent(workspace, state_home, chance) as agent:
        if kill_after_ms:
            kill = threading.Timer(
                kill_after_ms / 1000, lambda: os.kill(os.getpid(), signal.SIGKILL)
            )
            kill.daemon = True
            kill.start()
        with suppress(LookupError):
            agent.sessions.resume("latest")
        for _ in range(action_count):
            act(agent, chance)


if __name__ == "__main__":
    place, home, seed, action_count, kill_after_ms = sys.argv[1:]
    work(
        Path(place),
        Path(home),
        int(seed),
        int(action_count),
        kill_after_ms=int(kill_after_ms),
    )
