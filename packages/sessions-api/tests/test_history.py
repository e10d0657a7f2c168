"""What is kept between runs is what reading the rows would give, whatever happened in between."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from sessions_api import Agent, ModelReply, RunFailed, ToolCall, tool
from sessions_api.runs.replay import replay
from sessions_api.testing import ScriptedProvider
from state_store import Message, SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sessions_api.providers.base import ModelRequest


@tool(replay="safe")
def echo(text: str) -> str:
    """Say it again."""
    return text


def calling(*texts: str) -> ModelReply:
    """Return a reply that asks for one call a text, all with the same empty id."""
    calls = [ToolCall(id="", name="echo", arguments=f'{{"text": "{text}"}}') for text in texts]
    return ModelReply(tool_calls=tuple(calls))


STEPS: list[Callable[[], list[ModelReply | str | Exception]]] = [
    lambda: ["plain"],
    lambda: [calling("a", "b"), "after tools"],
    lambda: [ConnectionError("gone")],
    lambda: [calling("c"), ConnectionError("gone after a tool")],
    lambda: ["repaired \udce9 text"],
]


@pytest.mark.parametrize("elsewhere", ["nothing", "rename", "another run"])
def test_each_request_is_the_replay_of_the_rows_and_the_new_message(
    elsewhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kept history equals the replay of what is committed, also after others wrote."""
    workspace, home = tmp_path / "project", tmp_path / "home"
    workspace.mkdir()
    script = [step for steps in STEPS * 3 for step in steps()]
    provider = ScriptedProvider(script)
    reads: list[str] = []
    read = SqliteStore.messages

    def counted(self: SqliteStore, session_id: str, **options: object) -> object:
        reads.append(session_id)
        return read(self, session_id, **options)  # type: ignore[arg-type]  # passed on as it came

    with Agent(workspace, provider=provider, tools=[echo], state_home=home) as agent:
        for number, _ in enumerate(STEPS * 3):
            asked_count = len(provider.requests)
            with monkeypatch.context() as patch:
                patch.setattr(SqliteStore, "messages", counted)
                with suppress(RunFailed):
                    agent.run(f"message {number}")
            first = provider.requests[asked_count]
            active = agent.sessions.active
            assert active is not None
            _expect_replay(agent, active.id, first, number)
            if elsewhere == "rename":
                agent.sessions.rename(active.id, f"title {number}")
            elif elsewhere == "another run":
                with Agent(workspace, provider=ScriptedProvider(["x"]), state_home=home) as other:
                    other.sessions.resume(active.id)
                    other.run("from elsewhere")
        runs = len(agent.sessions.runs().items)
    # Without others the rows are read once; with them, before every run.
    assert len(reads) == (1 if elsewhere == "nothing" else len(STEPS * 3)), runs


def _expect_replay(agent: Agent, session_id: str, request: ModelRequest, number: int) -> None:
    def earlier(message: Message) -> bool:
        return message.seq < first_seq

    runs = agent.sessions.runs(session_id).items
    own = next(
        run
        for run in reversed(runs)
        if agent.sessions.messages(session_id, view="all").items[run.first_seq - 1].content
        == f"message {number}"
    )
    first_seq = own.first_seq
    rows = [one for one in agent.sessions.messages(session_id, view="all").items if earlier(one)]
    before = replay(rows, runs, agent.sessions.tool_executions(session_id))
    assert request.messages[:-1] == before
    assert request.messages[-1].content == f"message {number}"
