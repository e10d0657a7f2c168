"""The synchronous driver: asks the provider, runs the tools, and reports to the recorder.

A generator, so that a caller sees events as they happen and leaving early is a cancellation like
any other: it reaches the recorder, which commits it, before control returns. No logic of a run is
decided here. Every commit is made in the caller's own thread: Ctrl-C in the middle of one leaves
the store's lock with the traceback, and a thread that waited for it would wait for whoever keeps
that. So results of tools that end while the caller is away are committed when it is back, all of
them before the first is told.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Generator
from contextlib import suppress
from typing import TYPE_CHECKING

from sessions_api.runs.events import RunEvent, RunFinished, ToolFinished, ToolStarted
from sessions_api.runs.machine import AskProvider, CallTools, Replied, ToolResult, ToolReturned
from sessions_api.runs.replies import Answer
from sessions_api.runs.working import Call, endings, finished, in_daemon_thread, stop

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sessions_api.providers.base import ModelRequest, Provider
    from sessions_api.runs.recorder import RunRecorder

Outward = AskProvider | CallTools | None


class StreamLeft(GeneratorExit):
    """The caller leaves; a `GeneratorExit` that is none comes from a garbage collector."""


def drive(
    recorder: RunRecorder, provider: Provider, *, streaming: bool
) -> Generator[RunEvent, None, None]:
    """Carry the run out; the last event is `RunFinished`, or RunFailed is raised."""
    try:
        outward = recorder.start()
        while outward is not None:
            if isinstance(outward, AskProvider):
                outward = yield from _ask(recorder, provider, outward.request, streaming=streaming)
            else:
                outward = yield from _work(recorder, outward)
    except Exception as error:  # noqa: BLE001 - the row decides how it ended; `finish` says so
        recorder.abort(error)
    except GeneratorExit as error:
        end = recorder.abort if isinstance(error, StreamLeft) else recorder.abandon
        end(error)
        raise
    except BaseException as error:
        recorder.abort(error)
        raise
    yield RunFinished(result=recorder.finish())


def leave(events: Generator[RunEvent, None, None], recorder: RunRecorder) -> None:
    """Cancel a run that is being driven, if it has not ended; returns when that is committed.

    Twice over: Ctrl-C may strike where the driver is about to commit what it caught.
    """
    left = StreamLeft()
    try:
        events.throw(left)
    except (StreamLeft, ValueError):
        pass  # the second: it is being driven, by another thread or right above us
    finally:
        recorder.abort(left)


def _ask(
    recorder: RunRecorder, provider: Provider, request: ModelRequest, *, streaming: bool
) -> Generator[RunEvent, None, Outward]:
    answer = Answer(provider.name)
    try:
        if streaming and hasattr(provider, "stream"):
            pieces = provider.stream(request)
            answer.require_stream(pieces, asynchronous=False)
            yield from _read(recorder, answer, pieces)
        else:
            answer.take_whole(provider.reply(request))
        reply = answer.whole()
    except Exception as error:  # noqa: BLE001 - a provider may raise anything; it is classified
        return recorder.broke(error)
    return recorder.advance(Replied(reply))


def _read(
    recorder: RunRecorder, answer: Answer, pieces: Iterable[object]
) -> Generator[RunEvent, None, None]:
    try:
        for piece in pieces:
            if (delta := answer.take(piece)) is not None:
                yield delta
            if recorder.ended:
                break  # somebody closed the agent
    finally:
        if isinstance(pieces, Generator):
            with suppress(Exception):  # what it raises now is no answer, and no failure of the run
                pieces.close()


def _work(recorder: RunRecorder, effect: CallTools) -> Generator[RunEvent, None, Outward]:
    calls = [Call(recorder.plan.tools, index, call) for index, call in enumerate(effect.calls)]
    outward: Outward = None
    try:
        for call in calls:
            yield ToolStarted(index=call.index, call=call.call)
        beginning = () if recorder.ended else calls  # none if somebody closed the agent
        returned: queue.SimpleQueue[ToolResult] = queue.SimpleQueue()
        for call in beginning:
            future = in_daemon_thread(call.call_sync, name=f"tool-{call.index}")
            future.add_done_callback(lambda done: returned.put(done.result()))
        began = time.monotonic()
        open_calls = {call.index: call for call in beginning}
        while open_calls:
            committed: list[ToolFinished] = []
            for result in _come(returned, open_calls, began):
                if open_calls.pop(result.index, None) is None:
                    continue  # it was late, and its time-out is committed
                outward = recorder.advance(ToolReturned(result))
                if recorder.ended:
                    break  # the result could not be committed
                committed.append(finished(result))
            yield from committed  # not before all are committed: who reads may take its time
            if recorder.ended:
                break
    finally:
        try:
            stop(calls)
        finally:  # Ctrl-C again: nobody waits any longer
            recorder.let_go(endings(calls))
    return outward


def _come(
    returned: queue.SimpleQueue[ToolResult], open_calls: dict[int, Call], began: float
) -> Iterator[ToolResult]:
    """Wait for a result, and yield it and all that have come by then."""
    yield _next(returned, open_calls, began)
    while not returned.empty():
        yield returned.get()


def _next(
    returned: queue.SimpleQueue[ToolResult], open_calls: dict[int, Call], began: float
) -> ToolResult:
    """Return the next result, or the time-out of the call whose time is up first."""
    limits = {
        index: began + call.timeout_s
        for index, call in open_calls.items()
        if call.timeout_s is not None and not call.is_async  # those keep their own time
    }
    if not limits:
        return returned.get()
    first = min(limits, key=lambda index: limits[index])
    try:
        return returned.get(timeout=max(0.0, limits[first] - time.monotonic()))
    except queue.Empty:
        return open_calls[first].timed_out("unknown")
