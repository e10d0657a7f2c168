"""The asynchronous driver: `drive_sync` with `await`, and commits in the store's own thread.

No logic of a run is decided here. Each call of the recorder is one hop, which a cancellation
never abandons half-way; a cancellation then reaches the recorder and is committed before it goes
on. Synchronous providers and tools run in daemon threads, so they never block the loop.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Generator
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from sessions_api.runs.events import RunEvent, RunFinished, ToolStarted
from sessions_api.runs.machine import AskProvider, CallTools, Replied, ToolResult, ToolReturned
from sessions_api.runs.replies import Answer
from sessions_api.runs.working import LET_GO_S, Call, endings, finished, in_daemon_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessions_api.providers.base import Delta, ModelReply, ModelRequest, Provider
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
                answer = Answer(provider.name)
                try:
                    asked = _ask(recorder, provider, outward.request, answer, streaming=streaming)
                    async with aclosing(asked) as deltas:
                        async for delta in deltas:
                            yield delta
                    reply = answer.whole()
                except Exception as error:  # noqa: BLE001 - a provider may raise anything
                    outward = await thread.call(recorder.broke, error)
                else:
                    outward = await thread.call(recorder.advance, Replied(reply))
            else:
                calls = [
                    Call(recorder.plan.tools, index, call)
                    for index, call in enumerate(outward.calls)
                ]
                try:
                    for call in calls:
                        yield ToolStarted(index=call.index, call=call.call)
                    outward = None
                    if recorder.ended:
                        break  # somebody closed the agent
                    async with aclosing(_kept(calls, recorder, thread)) as kept:
                        async for result, then in kept:
                            outward = then
                            yield finished(result)
                finally:
                    for call in calls:
                        call.stop()
                    recorder.let_go(endings(calls))
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


async def _ask(
    recorder: RunRecorder,
    provider: Provider,
    request: ModelRequest,
    answer: Answer,
    *,
    streaming: bool,
) -> AsyncGenerator[Delta, None]:
    """Yield what the provider streams, and leave its reply in *answer*."""
    if not (streaming and hasattr(provider, "stream")):
        answer.take_whole(await _reply(provider, request))
        return
    given = await _stream(answer, provider, request)
    pieces = given if isinstance(given, AsyncIterable) else _read_in_threads(iter(given))
    try:
        async for piece in pieces:
            if (delta := answer.take(piece)) is not None:
                yield delta
            if recorder.ended:
                return  # somebody closed the agent
    finally:
        if isinstance(pieces, AsyncGenerator):
            with suppress(Exception):  # what it raises now is no answer, and no failure of the run
                await pieces.aclose()


async def _stream(answer: Answer, provider: Any, request: ModelRequest) -> Any:
    make = provider.stream
    if inspect.isgeneratorfunction(make) or inspect.isasyncgenfunction(make):
        given = make(request)
    else:  # nobody knows what it does before it returns
        given = await _in_thread(lambda: make(request), name="provider")
    answer.require_stream(given, asynchronous=True)
    return given


async def _reply(provider: Provider, request: ModelRequest) -> Any:
    if inspect.iscoroutinefunction(provider.reply):
        return await provider.reply(request)
    answer = await _in_thread(lambda: provider.reply(request), name="provider")
    return await answer if inspect.isawaitable(answer) else answer


async def _in_thread(function: Callable[[], R], *, name: str) -> R:
    """Await a daemon thread's answer; a cancellation does not wait for the thread."""
    return await asyncio.wrap_future(in_daemon_thread(function, name=name))


async def _read_in_threads(
    pieces: Iterator[Delta | ModelReply],
) -> AsyncGenerator[Delta | ModelReply, None]:
    """Yield *pieces*, each awaited in a thread; on leaving they are closed.

    A thread that is inside them still closes them once it comes back; nobody waits for it.
    """
    left = False

    def close() -> None:
        with suppress(Exception):  # it is executing, or raises what is no failure of the run
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


async def _kept(
    calls: list[Call], recorder: RunRecorder, thread: OwnedThread
) -> AsyncGenerator[tuple[ToolResult, AskProvider | CallTools | None], None]:
    """Run *calls* side by side; each result is committed as it comes, and yielded after that."""

    async def keep(call: Call) -> tuple[ToolResult, AskProvider | CallTools | None]:
        result = await _call(call)
        return result, await thread.call(recorder.advance, ToolReturned(result))

    tasks = [asyncio.ensure_future(keep(call)) for call in calls]
    try:
        for next_done in asyncio.as_completed(tasks):
            one = await next_done
            if recorder.ended:
                return  # it could not be committed
            yield one
    finally:
        for task in tasks:
            task.cancel()
        done, _ = await asyncio.wait(tasks, timeout=LET_GO_S)
        for task in done:
            _ = task.cancelled() or task.exception()  # seen; the run has its end by now


async def _call(call: Call) -> ToolResult:
    if call.is_async:
        return await call.call_async()
    try:
        async with asyncio.timeout(call.timeout_s):
            return await _in_thread(call.call_sync, name=f"tool-{call.index}")
    except TimeoutError:
        return call.timed_out("unknown")
