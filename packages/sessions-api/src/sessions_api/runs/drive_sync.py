"""The synchronous driver: asks the provider, runs the tools, and reports to the recorder.

A generator, so that a caller sees events as they happen and leaving early (`close`, which is
what the end of a `with` does) is a cancellation like any other: it reaches the recorder, which
commits it, before control returns. No logic of a run is decided here.
"""

from __future__ import annotations

import inspect
import queue
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, cast

from sessions_api.errors import ProviderUnavailable
from sessions_api.providers.base import Delta, ModelReply, ModelRequest, Provider
from sessions_api.runs.events import RunEvent, RunFinished, ToolFinished, ToolStarted
from sessions_api.runs.machine import AskProvider, CallTools, Replied, ToolResult, ToolReturned
from sessions_api.runs.working import Call, in_daemon_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions_api.runs.recorder import RunRecorder

Outward = AskProvider | CallTools | None


def drive(
    recorder: RunRecorder, provider: Provider, *, streaming: bool
) -> Generator[RunEvent, None, None]:
    """Carry the run out; the last event is `RunFinished`, or RunFailed is raised."""
    try:
        outward = recorder.start()
        while outward is not None:
            if isinstance(outward, AskProvider):
                outward = yield from _ask(recorder, provider, outward.request, streaming=streaming)
            elif isinstance(outward, CallTools):
                outward = yield from _work(recorder, outward)
    except Exception as error:  # noqa: BLE001 - the row decides how it ended; `finish` says so
        recorder.abort(error)
    except BaseException as error:
        recorder.abort(error)
        raise
    yield RunFinished(result=recorder.finish())


def _ask(
    recorder: RunRecorder, provider: Provider, request: ModelRequest, *, streaming: bool
) -> Generator[RunEvent, None, Outward]:
    try:
        if streaming and hasattr(provider, "stream"):
            reply = yield from _stream(provider.stream(request))
        else:
            reply = cast("ModelReply", provider.reply(request))
        require_reply(reply, provider)
    except Exception as error:  # noqa: BLE001 - a provider may raise anything; it is classified
        return recorder.broke(error)
    return recorder.advance(Replied(reply))


def _stream(pieces: Iterator[Delta | ModelReply]) -> Generator[RunEvent, None, ModelReply]:
    reply: Any = None
    try:
        for piece in pieces:
            if isinstance(piece, ModelReply):
                reply = piece
            else:
                yield piece
    finally:
        if isinstance(pieces, Generator):
            pieces.close()
    return cast("ModelReply", reply)


def require_reply(reply: object, provider: Provider) -> None:
    """Refuse what is no reply with words for whoever wrote the provider."""
    if isinstance(reply, ModelReply):
        return
    if inspect.isawaitable(reply):
        if inspect.iscoroutine(reply):
            reply.close()
        raise ProviderUnavailable(
            provider.name, missing="it is asynchronous", hint="Use it with AsyncAgent."
        )
    raise ProviderUnavailable(
        provider.name,
        missing=f"it returned {type(reply).__name__} and no ModelReply",
        hint="Return a ModelReply from reply(), or yield one last from stream().",
    )


def _work(recorder: RunRecorder, effect: CallTools) -> Generator[RunEvent, None, Outward]:
    calls = [Call(recorder.plan.tools, index, call) for index, call in enumerate(effect.calls)]
    for call in calls:
        yield ToolStarted(index=call.index, call=call.call)
    returned: queue.SimpleQueue[ToolResult] = queue.SimpleQueue()
    for call in calls:
        future = in_daemon_thread(call.call_sync, name=f"tool-{call.index}")
        future.add_done_callback(lambda done: returned.put(done.result()))
    began = time.monotonic()
    open_calls = {call.index: call for call in calls}
    outward: Outward = None
    while open_calls:
        result = _next(returned, open_calls, began)
        if open_calls.pop(result.index, None) is None:
            continue  # it was late, and its time-out is committed
        outward = recorder.advance(ToolReturned(result))
        if recorder.ended:
            break  # the result could not be committed
        yield ToolFinished(
            index=result.index, call=result.call, outcome=result.outcome, content=result.content
        )
    return outward


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
