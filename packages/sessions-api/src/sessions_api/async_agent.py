"""The asynchronous agent: `Agent` with `await`, and no logic of its own.

The conversation lives in one owned thread, so that the event loop never waits for the disk; the
provider and asynchronous tools run on the loop. What a cancellation means is written in
`state_store.threads`: a write that has begun is waited for, and a cancelled run is committed as
cancelled before the cancellation goes on.
"""

from __future__ import annotations

import inspect
from contextlib import aclosing
from typing import TYPE_CHECKING, Self, Unpack

from sessions_api.async_sessions import AsyncSessions
from sessions_api.async_stream import AsyncRunStream, Guard, StreamedRun
from sessions_api.conversation import Conversation
from sessions_api.errors import AgentClosed
from sessions_api.runs.drive_async import drive, surely
from sessions_api.runs.events import RunEvent, RunFinished, RunResult
from state_store import OwnedThread

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Callable

    from sessions_api.agent_options import AgentOptions
    from sessions_api.providers.base import Provider
    from sessions_api.runs.recorder import RunRecorder

    Plan = Callable[[Conversation], tuple[RunRecorder, Provider]]


class AsyncAgent:
    """`Agent` for a running event loop: the same names, options and meanings, with `await`.

    Use it in an `async with` block, or await `open` before and `close` after.
    """

    def __init__(
        self, workspace: str | os.PathLike[str] = ".", **options: Unpack[AgentOptions]
    ) -> None:
        self._workspace = workspace
        self._options = options
        self._thread = OwnedThread("tinyagent")
        self._opened: tuple[Conversation, AsyncSessions] | None = None
        self._guards: set[Guard] = set()

    async def open(self) -> Self:
        """Open the workspace; needed once before anything else. `async with` does it."""
        if self._opened is None:
            try:
                await self._thread.call(self._make)
            except BaseException:
                await self.close()  # a cancelled opening may have opened
                raise
        return self

    def _make(self) -> None:
        conversation = Conversation(self._workspace, self._options, asynchronous=True)
        self._opened = conversation, AsyncSessions(conversation.sessions, self._thread)

    @property
    def sessions(self) -> AsyncSessions:
        """The workspace's sessions."""
        return self._parts[1]

    @property
    def notices(self) -> tuple[str, ...]:
        """Lines for a person: about the workspace, or about what is not saved."""
        return self._parts[0].notices

    @property
    def saving(self) -> bool:
        """Whether what happens here is kept."""
        return self._parts[0].saving

    async def run(self, text: str) -> RunResult:
        """Answer *text* as `Agent.run` does. A cancellation is committed before it goes on."""
        return await self._finished(lambda core: core.plan(text))

    def stream(self, text: str) -> AsyncRunStream:
        """Answer *text* like `run`, event by event; the run begins with the first one."""
        run = StreamedRun(self._thread)
        events = self._events(lambda core: core.plan(text), streamed=run)
        return AsyncRunStream(events, run, self._guards)

    async def retry(
        self, run_id: str, *, allow_unsafe: bool = False, note: str | None = None
    ) -> RunResult:
        """Try a failed run again, as `Agent.retry` does."""
        return await self._finished(
            lambda core: core.plan_retry(run_id, allow_unsafe=allow_unsafe, note=note)
        )

    async def close(self) -> None:
        """Cancel what is under way, write the session's final status and duration, close all."""
        if self._opened is None:
            self._thread.close()
            return
        conversation = self._opened[0]
        try:
            for guard in tuple(self._guards):
                await guard.end()
        finally:
            await self._end(conversation)

    async def _end(self, conversation: Conversation) -> None:
        try:
            await surely(self._thread, conversation.close)
        finally:
            self._thread.close()
            for provider in conversation.made_providers:
                closing = getattr(provider, "close", lambda: None)()
                if inspect.isawaitable(closing):
                    await closing

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def _parts(self) -> tuple[Conversation, AsyncSessions]:
        if self._opened is None:
            raise AgentClosed(
                "This agent is not open.", hint="Use it in `async with`, or await open() first."
            )
        return self._opened

    async def _finished(self, plan: Plan) -> RunResult:
        async with aclosing(self._events(plan)) as events:
            async for event in events:
                if isinstance(event, RunFinished):
                    return event.result
        raise AssertionError("a run ends with RunFinished or an exception")

    async def _events(
        self, plan: Plan, *, streamed: StreamedRun | None = None
    ) -> AsyncGenerator[RunEvent, None]:
        for guard in tuple(self._guards):
            if guard.is_alone:  # its stream was dropped outside a block
                await guard.end()
        recorder, provider = await self._thread.call(plan, self._parts[0])
        if streamed is not None and not streamed.begins(recorder):
            return
        streaming = streamed is not None
        async with aclosing(drive(recorder, provider, self._thread, streaming=streaming)) as events:
            async for event in events:
                yield event
