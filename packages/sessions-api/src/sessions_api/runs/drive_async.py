"""The asynchronous driver: `drive_sync` with `await`, and commits in the store's own thread.

No logic of a run is decided here. Each call of the recorder is one hop, which a cancellation
never abandons half-way; a cancellation then reaches the recorder and is committed before it goes
on. Synchronous providers and tools run in daemon threads, so they never block the loop.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from sessions_api.providers.base import Delta, ModelReply, ModelRequest, Provider
from sessions_api.runs.drive_sync import require_reply
from sessions_api.runs.events import RunEvent, RunFinished, ToolFinished, ToolStarted
from sessions_api.runs.machine import AskProvider, CallTools, Replied, ToolResult, ToolReturned
from sessions_api.runs.working import Call, in_daemon_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessions_api.runs.recorder import RunRecorder
    from state_store import OwnedThread

P = ParamSpec("P")
R = TypeVar("R")
_END: Any = object()


async def drive(
    recorder: RunRecorder, provider: Provider, thread: OwnedThread, *, streaming: bool
) -> AsyncGenerator[RunEvent, None]:
    """Carry the run out; the last event is `RunFinished`, or RunFailed is raised."""
    try:
        outward = await thread.call(recorder.start)
        while outward is not None:
            if isinstance(outward, AskProvider):
                reply: Any = None
                try:
                    if streaming and hasattr(provider, "stream"):
                        async with aclosing(_pieces(provider.stream(outward.request))) as pieces:
                            async for piece in pieces:
                                if isinstance(piece, ModelReply):
                                    reply = piece
                                else:
                                    yield piece
                    else:
                        reply = await _reply(provider, outward.request)
                    require_reply(reply, provider)
                except Exception as error:  # noqa: BLE001 - a provider may raise anything
                    outward = await thread.call(recorder.broke, error)
                else:
                    outward = await thread.call(recorder.advance, Replied(reply))
            elif isinstance(outward, CallTools):
                calls = [
                    Call(recorder.plan.tools, index, call)
                    for index, call in enumerate(outward.calls)
                ]
                for call in calls:
                    yield ToolStarted(index=call.index, call=call.call)
                async with aclosing(_results(calls)) as results:
                    async for result in results:
                        outward = await thread.call(recorder.advance, ToolReturned(result))
                        if recorder.ended:
                            break  # the result could not be committed
                        yield ToolFinished(
                            index=result.index,
                            call=result.call,
                            outcome=result.outcome,
                            content=result.content,
                        )
    except Exception as error:  # noqa: BLE001 - the row decides how it ended; `finish` says so
        await surely(thread, recorder.abort, error)
    except BaseException as error:
        await surely(thread, recorder.abort, error)
        raise
    yield RunFinished(result=recorder.finish())


async def surely(
    thread: OwnedThread, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Perform one call in *thread*, however often the task is cancelled meanwhile.

    `OwnedThread.call` withdraws a call that still waits behind others; what must not be left out,
    such as the end of a run, waits its turn here. The cancellation then goes on.
    """
    begun = withdrawn = False

    def work() -> R:
        nonlocal begun
        begun = True
        return function(*args, **kwargs)

    while True:
        try:
            done = await thread.call(work)
        except asyncio.CancelledError:
            if begun:
                raise
            withdrawn = True
        else:
            if withdrawn:
                raise asyncio.CancelledError
            return done


async def _reply(provider: Provider, request: ModelRequest) -> Any:
    if inspect.iscoroutinefunction(provider.reply):
        return await provider.reply(request)
    answer = await _in_thread(lambda: provider.reply(request), name="provider")
    return await answer if inspect.isawaitable(answer) else answer


async def _in_thread(function: Callable[[], R], *, name: str) -> R:
    """Await a daemon thread's answer; a cancellation does not wait for the thread."""
    return await asyncio.wrap_future(in_daemon_thread(function, name=name))


async def _pieces(
    pieces: Iterator[Delta | ModelReply] | AsyncIterator[Delta | ModelReply],
) -> AsyncGenerator[Delta | ModelReply, None]:
    if not isinstance(pieces, AsyncIterator):
        pieces = _read_in_threads(pieces)
    try:
        async for piece in pieces:
            yield piece
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()


async def _read_in_threads(
    pieces: Iterator[Delta | ModelReply],
) -> AsyncGenerator[Delta | ModelReply, None]:
    """Yield *pieces*, each awaited in a thread; on leaving they are closed.

    A thread that is inside them still closes them once it comes back; nobody waits for it.
    """
    left = False

    def close() -> None:
        with suppress(ValueError):  # it is executing
            if isinstance(pieces, Generator):
                pieces.close()

    def read() -> Any:
        piece = next(pieces, _END)
        if left:
            close()
        return piece

    try:
        while (piece := await _in_thread(read, name="provider")) is not _END:
            yield piece
    finally:
        left = True
        close()


async def _results(calls: list[Call]) -> AsyncGenerator[ToolResult, None]:
    """Run *calls* side by side and yield each result as it comes."""
    tasks = [asyncio.ensure_future(_call(call)) for call in calls]
    try:
        for next_done in asyncio.as_completed(tasks):
            yield await next_done
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _call(call: Call) -> ToolResult:
    if call.is_async:
        return await call.call_async()
    try:
        async with asyncio.timeout(call.timeout_s):
            return await _in_thread(call.call_sync, name=f"tool-{call.index}")
    except TimeoutError:
        return call.timed_out("unknown")
