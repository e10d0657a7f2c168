"""The asynchronous driver: `drive_sync` with `await`, and commits in the store's own thread.

No logic of a run is decided here. Each call of the recorder is one hop, which a cancellation
never abandons half-way; a cancellation then reaches the recorder and is committed before it goes
on. Synchronous providers and tools run in daemon threads, so they never block the loop.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

from state_store import OwnedThread, settled

from sessions_api.providers.base import Delta, ModelReply, ModelRequest, Provider
from sessions_api.runs.drive_sync import Outward, require_reply
from sessions_api.runs.events import RunEvent, RunFinished, ToolFinished, ToolStarted
from sessions_api.runs.machine import AskProvider, CallTools, Replied, ToolResult, ToolReturned
from sessions_api.runs.recorder import RunRecorder
from sessions_api.runs.working import Call, in_daemon_thread

_END = object()


async def drive(
    recorder: RunRecorder, provider: Provider, thread: OwnedThread, *, streaming: bool
) -> AsyncGenerator[RunEvent, None]:
    """Carry the run out; the last event is `RunFinished`, or RunFailed is raised."""
    try:
        outward = await thread.call(recorder.start)
        while not recorder.ended:
            if isinstance(outward, AskProvider):
                reply: Any = None
                try:
                    if streaming and hasattr(provider, "stream"):
                        async with aclosing(
                            _pieces(provider.stream(outward.request))
                        ) as pieces:
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
                        yield ToolFinished(
                            index=result.index,
                            call=result.call,
                            outcome=result.outcome,
                            content=result.content,
                        )
                        if recorder.ended:
                            break
    except BaseException as error:
        await thread.call(recorder.abort, error)
        raise
    yield RunFinished(result=recorder.finish())


async def _reply(provider: Provider, request: ModelRequest) -> Any:
    if inspect.iscoroutinefunction(provider.reply):
        return await provider.reply(request)
    answer = await _in_thread(lambda: provider.reply(request), name="provider")
    return await answer if inspect.isawaitable(answer) else answer


async def _in_thread(function: Any, *, name: str) -> Any:
    """Await a daemon thread's answer; a cancellation does not wait for the thread."""
    return await asyncio.wrap_future(in_daemon_thread(function, name=name))


async def _pieces(
    pieces: Iterator[Delta | ModelReply] | AsyncIterator[Delta | ModelReply],
) -> AsyncGenerator[Delta | ModelReply, None]:
    try:
        if isinstance(pieces, AsyncIterator):
            async for piece in pieces:
                yield piece
        else:
            while (one := await _in_thread(lambda: next(pieces, _END), name="provider")) is not _END:
                yield one
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()
        elif hasattr(pieces, "close"):
            pieces.close()


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
