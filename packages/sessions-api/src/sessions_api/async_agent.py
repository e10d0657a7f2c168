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

from sessions_api.conversation import AgentOptions, Conversation
from sessions_api.errors import AgentClosed
from sessions_api.runs.drive_async import drive, surely
from sessions_api.runs.events import RunEvent, RunFinished, RunResult
from sessions_api.sessions import AsyncSessions
from state_store import OwnedThread

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, AsyncIterator


class AsyncRunStream:
    """A run's events as they happen; iterate it inside an `async with` block.

    Leaving the block early cancels the run and commits that before control returns.
    """

    def __init__(self, agent: AsyncAgent, text: str) -> None:
        self._events = agent._events(text, streaming=True)  # noqa: SLF001 - its other half
        self.result: RunResult | None = None

    async def __aiter__(self) -> AsyncIterator[RunEvent]:
        async for event in self._events:
            if isinstance(event, RunFinished):
                self.result = event.result
            yield event

    async def close(self) -> None:
        """Cancel the run if it has not ended; returns when that is committed."""
        await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


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
        async with aclosing(self._events(text, streaming=False)) as events:
            async for event in events:
                if isinstance(event, RunFinished):
                    return event.result
        raise AssertionError("a run ends with RunFinished or an exception")

    def stream(self, text: str) -> AsyncRunStream:
        """Answer *text* like `run`, event by event; the run begins with the first one."""
        return AsyncRunStream(self, text)

    async def close(self) -> None:
        """Write the active session's final status and duration, and close everything."""
        if self._opened is None:
            self._thread.close()
            return
        conversation = self._opened[0]
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

    async def _events(self, text: str, *, streaming: bool) -> AsyncGenerator[RunEvent, None]:
        recorder, provider = await self._thread.call(self._parts[0].plan, text)
        async with aclosing(drive(recorder, provider, self._thread, streaming=streaming)) as events:
            async for event in events:
                yield event
