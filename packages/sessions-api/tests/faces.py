"""Both faces of the agent behind one synchronous shape, so that one suite proves both.

`SyncFace` is `Agent`; `AsyncFace` is `AsyncAgent` on an event loop of its own. What a test sees
through either must be the same.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

from sessions_api import Agent, AsyncAgent, ModelReply, RunEvent, RunResult, ToolCall, Usage
from sessions_api.state import read_state
from sessions_api.testing import AsyncScriptedProvider, ScriptedProvider

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from state_store import Message, Run, ToolExecution

ONE_TOKEN = Usage(input_tokens=1, output_tokens=1)


def calling(*calls: tuple[str, str], ids: Iterable[str] = ()) -> ModelReply:
    """Return a reply that asks for *calls*, each a name and its JSON arguments."""
    named = [*ids] or [f"c{number}" for number in range(1, len(calls) + 1)]
    return ModelReply(
        tool_calls=tuple(
            ToolCall(id=call_id, name=name, arguments=arguments)
            for call_id, (name, arguments) in zip(named, calls, strict=True)
        ),
        usage=ONE_TOKEN,
    )


def said(text: str) -> ModelReply:
    """Return a final answer with known usage."""
    return ModelReply(content=text, usage=ONE_TOKEN)


class SyncFace:
    """`Agent` as it is."""

    is_async = False
    scripted = ScriptedProvider

    def __init__(self, workspace: Path, **options: Any) -> None:
        self.provider: Any = options.get("provider")
        self.streams: list[Any] = []
        self.agent = Agent(workspace, **options)
        self.sessions: Any = self.agent.sessions

    def run(self, text: str) -> RunResult:
        """Answer *text*."""
        return self.agent.run(text)

    def retry(self, run_id: str, **options: Any) -> RunResult:
        """Try a failed run again."""
        return self.agent.retry(run_id, **options)

    def stream(
        self, text: str, *, leave_after: int | None = None, into: list[RunEvent] | None = None
    ) -> list[RunEvent]:
        """Answer *text* as a stream; leave the block after so many events."""
        events: list[RunEvent] = [] if into is None else into
        with self.agent.stream(text) as stream:
            self.streams.append(stream)  # so that no collector does what leaving has to do
            if leave_after == 0:
                return events
            for event in stream:
                events.append(event)
                if len(events) == leave_after:
                    break
        return events

    def close(self) -> None:
        """Close the agent."""
        self.agent.close()


class AsyncFace:
    """`AsyncAgent`, each call run to its end on a loop of its own."""

    is_async = True
    scripted = AsyncScriptedProvider

    def __init__(self, workspace: Path, **options: Any) -> None:
        self.provider: Any = options.get("provider")
        self.streams: list[Any] = []
        self._closed = False
        self._runner = asyncio.Runner()
        self.agent = AsyncAgent(workspace, **options)
        try:
            self._runner.run(self.agent.open())
        except BaseException:
            self._runner.close()
            raise
        self.sessions: Any = _Bridge(self.agent.sessions, self._runner)

    def run(self, text: str) -> RunResult:
        """Answer *text*."""
        return self._runner.run(self.agent.run(text))

    def retry(self, run_id: str, **options: Any) -> RunResult:
        """Try a failed run again."""
        return self._runner.run(self.agent.retry(run_id, **options))

    def stream(
        self, text: str, *, leave_after: int | None = None, into: list[RunEvent] | None = None
    ) -> list[RunEvent]:
        """Answer *text* as a stream; leave the block after so many events."""

        async def read() -> list[RunEvent]:
            events: list[RunEvent] = [] if into is None else into
            async with self.agent.stream(text) as stream:
                self.streams.append(stream)  # so that no collector does what leaving has to do
                if leave_after == 0:
                    return events
                async for event in stream:
                    events.append(event)
                    if len(events) == leave_after:
                        break
            return events

        return self._runner.run(read())

    def close(self) -> None:
        """Close the agent and its loop; twice does nothing."""
        if not self._closed:
            self._closed = True
            with self._runner:
                self._runner.run(self.agent.close())


class _Bridge:
    """`AsyncSessions` without `await`."""

    def __init__(self, sessions: Any, runner: asyncio.Runner) -> None:
        self._sessions = sessions
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._sessions, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            async def ask() -> Any:
                answer = found(*args, **kwargs)
                if inspect.isasyncgen(answer):
                    return [item async for item in answer]
                return await answer

            return self._runner.run(ask())

        return call


Face = SyncFace | AsyncFace


def core_of(agent: Face) -> Any:
    """Return the synchronous `Sessions` of either face, for use in the middle of a run."""
    core = getattr(agent.sessions, "_sessions", agent.sessions)
    return getattr(core, "_core", core)


class Looker:
    """What is committed, seen by a reader of its own: nothing of the agent's memory counts."""

    def __init__(self, workspace: Path, state_home: Path) -> None:
        self.workspace = workspace
        self.state_home = state_home

    def _of_latest(self, name: str) -> Any:
        state = read_state(self.workspace, state_home=self.state_home)
        try:
            newest = state.store.list(limit=1).items
            if not newest:
                return ()
            found = getattr(state.store, name)(newest[0].id)
        finally:
            state.close()
        return getattr(found, "items", found)

    def database(self) -> Path:
        """Return the path of the only database."""
        (path,) = self.state_home.glob("workspaces/*/state.sqlite3")
        return path

    def messages(self) -> list[Message]:
        """Return the originals of the latest session."""
        return list(self._of_latest("messages"))

    def texts(self) -> list[tuple[str, str | None]]:
        """Return role and content of the originals of the latest session."""
        return [(message.role, message.content) for message in self.messages()]

    def runs(self) -> list[Run]:
        """Return the runs of the latest session."""
        return list(self._of_latest("runs"))

    def endings(self) -> list[tuple[str, str | None]]:
        """Return status and error type of the runs of the latest session."""
        return [(run.status, run.error_type) for run in self.runs()]

    def tools(self) -> list[ToolExecution]:
        """Return the tool executions of the latest session."""
        return list(self._of_latest("tool_executions"))

    def outcomes(self) -> list[str | None]:
        """Return the outcomes of the tools of the latest session, in call order."""
        return [one.outcome for one in self.tools()]

    def journal(self) -> str:
        """Return all that the journals of the state home say, as text."""
        files = sorted((self.state_home / "logs").rglob("*.jsonl"))
        return "".join(file.read_text(encoding="utf-8") for file in files)
