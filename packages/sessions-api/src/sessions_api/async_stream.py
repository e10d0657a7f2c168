"""The stream of one asynchronous run, and the guard that ends it when nobody else does.

Invariant: a run that streams is over, and that is committed, once its block was left, its stream
was dropped, its agent was closed or its event loop has ended, whichever comes first.

An event loop that ends closes every asynchronous generator it knows, all at once; one inside
another is then closed from two sides, which Python answers with tracebacks. But before that it
cancels and awaits its tasks. So each open stream has a task of its own, the guard, which does
nothing until it is cancelled and then closes the stream from the outside in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Self
from weakref import ref

from sessions_api.errors import RunFailed
from sessions_api.runs.drive_async import surely
from sessions_api.runs.drive_sync import StreamLeft
from sessions_api.runs.events import RunEvent, RunFinished, RunResult

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sessions_api.runs.recorder import RunRecorder
    from state_store import OwnedThread

_LONG_S = 3600.0


class AsyncRunStream(AsyncIterator[RunEvent]):
    """A run's events as they happen; iterate it inside an `async with` block.

    Leaving the block early cancels the run and commits that before control returns. `result` is
    set once `RunFinished` was seen. RunFailed is raised by the iteration when the run fails.
    Results of tools are committed when these end, however slowly the stream is read.
    """

    def __init__(
        self, events: AsyncGenerator[RunEvent, None], run: StreamedRun, open_guards: set[Guard]
    ) -> None:
        self._events = events
        self._run = run
        self._open_guards = open_guards
        self._guard: Guard | None = None
        self.result: RunResult | None = None

    async def __anext__(self) -> RunEvent:
        if self._guard is None:
            self._guard = Guard(self, self._events, self._open_guards)
        if self._guard.closing is not None:
            await asyncio.wait((self._guard.closing,))  # by another task
        try:
            event = await anext(self._events)
        except BaseException:
            self._guard.dismiss()
            raise
        if isinstance(event, RunFinished):
            self.result = event.result
        return event

    async def close(self) -> None:
        """Cancel the run if it has not ended; returns when that is committed.

        From any task of the loop. One that is inside the stream meanwhile gets RunFailed as soon as
        its provider or tool comes back; for one that asks later it is at its end. What has to stop
        at once is the task that reads: cancel it.
        """
        guard = self._guard
        if guard is None:
            await self._events.aclose()
        elif guard.at_work:
            await guard.end()
        elif getattr(self._events, "ag_running", False):
            await self._run.end()
        else:
            await guard.close()
            guard.dismiss()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class StreamedRun:
    """The run of a stream, for a task that ends it while another one is inside the stream."""

    def __init__(self, thread: OwnedThread) -> None:
        self._thread = thread
        self._recorder: RunRecorder | None = None
        self._left = False

    def begins(self, recorder: RunRecorder) -> bool:
        """Take the run that is about to begin; return whether it still is to."""
        self._recorder = recorder
        return not self._left

    async def end(self) -> None:
        """End the run, or let it not begin; returns when that is committed."""
        self._left = True
        if self._recorder is not None:
            await surely(self._thread, self._recorder.abort, StreamLeft())


class Guard:
    """Closes the events of one stream when it is told to, when the stream or the loop goes."""

    def __init__(
        self,
        stream: AsyncRunStream,
        events: AsyncGenerator[RunEvent, None],
        open_guards: set[Guard],
    ) -> None:
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._stream = ref(stream, self._dropped)
        self._open_guards = open_guards
        self.at_work = False
        self.closing: asyncio.Future[None] | None = None
        self._task = asyncio.create_task(self._watch(), name="tinyagent-stream")
        open_guards.add(self)

    @property
    def is_alone(self) -> bool:
        """Whether nobody holds the stream any more."""
        return self._stream() is None

    def dismiss(self) -> None:
        """Let it go: the stream is over."""
        self._open_guards.discard(self)
        self._cancel()

    async def end(self) -> None:
        """End the stream, unless another task is in the middle of it; returns when it is over."""
        self._open_guards.discard(self)
        if self._loop is not asyncio.get_running_loop():
            await self._close()  # its own loop is over, or busy with something else
            self._cancel()
            return
        self._cancel()
        await _over(self._task)

    async def _watch(self) -> None:
        try:
            # A timer of the loop, which by that holds this task; an event would be held by nobody.
            while True:  # noqa: ASYNC110 - there is nothing to wait for but the cancellation
                await asyncio.sleep(_LONG_S)
        finally:
            await self._close()
            self._open_guards.discard(self)

    async def _close(self) -> None:
        if getattr(self._events, "ag_running", False):
            return  # whoever is in there is cancelled too, or knows better
        self.at_work = True
        try:
            with suppress(RunFailed):  # its provider could not be left in peace; it is committed
                await self.close()
        finally:
            self.at_work = False

    async def close(self) -> None:
        """Close the events; `closing` is done when they are."""
        self.closing = asyncio.get_running_loop().create_future()
        try:
            await self._events.aclose()
        finally:
            self.closing.set_result(None)

    def _cancel(self) -> None:
        if self.at_work:
            return
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._task.cancel)

    def _dropped(self, _: object) -> None:
        self._cancel()


async def _over(task: asyncio.Task[None]) -> None:
    """Wait for the end of *task*, however often the caller is cancelled meanwhile."""
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
