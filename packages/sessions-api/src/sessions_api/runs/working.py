"""Calling one tool, and what every way of ending means.

Owns the step from a call to its `ToolResult`: unknown tool, bad arguments, an exception, a
time-out and a good answer each become one text for the model and one outcome. Invariant: nothing
that a tool does, raises or returns fails the run.

Synchronous tools run in daemon threads: a thread of a pool is joined at exit, so that Ctrl-C
would wait for the slowest tool. A thread cannot be stopped, so a synchronous tool that timed out
is `unknown`: it may still be at work. So is one whose run ends before it; what had not begun by
then never begins, and an asynchronous tool is cancelled.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from run_journal import Uninterrupted
from sessions_api.runs.events import ToolFinished
from sessions_api.runs.machine import ToolResult
from sessions_api.runs.tool_output import ToolOutput, result_text
from sessions_api.runs.tools import Tool, ToolArgumentsInvalid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from state_store import ToolCall, ToolOutcome

T = TypeVar("T")
LET_GO_S = 2.0  # for a cancelled tool to end; one that takes longer is `unknown`


def in_daemon_thread(function: Callable[[], T], *, name: str) -> Future[T]:
    """Run *function* in a daemon thread, with the caller's context variables."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # a thread cannot be withdrawn, so neither can its future
    context = contextvars.copy_context()

    def work() -> None:
        try:
            value = context.run(function)
        except StopIteration as error:  # no awaiting task could take it, and would wait for ever
            # Without its value, whose repr could raise, so that the wait would have no end either.
            future.set_exception(RuntimeError(f"{name} raised {type(error).__name__}"))
        except BaseException as error:  # noqa: BLE001 - whatever it was belongs to the waiter
            future.set_exception(error)
        else:
            future.set_result(value)

    with Uninterrupted():  # Ctrl-C within `start` confuses the locks of `threading`
        threading.Thread(target=work, name=name, daemon=True).start()
    return future


class Call:
    """One tool call under way. Make it, run it by `call_sync` or `call_async`, once.

    `ended` is how it ended, and None until it has.
    """

    def __init__(self, tools: Mapping[str, Tool], index: int, call: ToolCall) -> None:
        self.index = index
        self.call = call
        self.ended: ToolOutcome | None = None
        self._tool = tools.get(call.name)
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._begun = self._stopped = False
        self._cancel: Callable[[], object] | None = None
        self._over = threading.Event()

    @property
    def timeout_s(self) -> float | None:
        """How long the call may take; None for ever."""
        return self._tool.timeout_s if self._tool else None

    @property
    def is_async(self) -> bool:
        """Whether it runs on an event loop."""
        return self._tool is not None and self._tool.is_async

    def call_sync(self) -> ToolResult:
        """Run the call here and now; an asynchronous tool gets an event loop of its own."""
        try:
            if self.is_async:
                return asyncio.run(self._call_stoppable())
            tool, arguments = self._prepared()
            return self._good(tool(**arguments))
        except BaseException as error:  # noqa: BLE001 - it has a thread of its own: even
            return self._bad(error)  # SystemExit ends nothing but the call
        finally:
            self._over.set()

    async def _call_stoppable(self) -> ToolResult:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is not None:
            self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        return await self.call_async()

    async def call_async(self) -> ToolResult:
        """Run the call on this event loop; a time-out cancels it."""
        limit = asyncio.timeout(self.timeout_s)
        try:
            tool, arguments = self._prepared()
            async with limit:
                value = await tool(**arguments)
            return self._good(value)
        except TimeoutError as error:
            return self.timed_out("error") if limit.expired() else self._bad(error)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                self.ended = "cancelled"
                raise
            return self._bad(error)  # nobody asked for it: the tool itself was given up
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a tool may raise anything
            return self._bad(error)

    def stop(self) -> None:
        """Let the call not begin any more; cancel it if it has, and is asynchronous."""
        with self._lock:
            self._stopped = True
            if not self._begun:
                self.ended = "cancelled"
                self._over.set()
        if self._cancel is not None:
            with suppress(RuntimeError):  # its loop is closed: it has ended
                self._cancel()

    def wait(self, timeout_s: float) -> None:
        """Wait until a call that runs in a thread is over, at most *timeout_s* seconds."""
        self._over.wait(max(0.0, timeout_s))

    def timed_out(self, outcome: ToolOutcome) -> ToolResult:
        """Return what stands for a call that took longer than it may."""
        still = "; it may still be running" if outcome == "unknown" else ""
        return self._result(
            f"Error: {self.call.name} timed out after {self.timeout_s:g} s{still}.",
            outcome,
            "tool.timeout",
        )

    def _prepared(self) -> tuple[Tool, dict[str, Any]]:
        with self._lock:
            if self._stopped:
                raise asyncio.CancelledError
            self._begun = True
        if self._tool is None:
            raise ToolArgumentsInvalid(f"there is no tool named {self.call.name!r}")
        return self._tool, self._tool.parse(self.call.arguments)

    def _good(self, value: Any) -> ToolResult:
        if isinstance(value, ToolOutput):
            return replace(self._result(value.text, "ok", None), parts=tuple(value.parts) or None)
        return self._result(result_text(value), "ok", None)

    def _bad(self, error: BaseException) -> ToolResult:
        said = _words_of(error)
        if not isinstance(error, ToolArgumentsInvalid):
            said = f"{type(error).__name__}: {said}" if said else type(error).__name__
        return self._result(f"Error: {said}", "error", "tool.error")

    def _result(self, content: str, outcome: ToolOutcome, error_type: str | None) -> ToolResult:
        self.ended = self.ended or outcome
        return ToolResult(
            index=self.index,
            call=self.call,
            content=content,
            outcome=outcome,
            error_type=error_type,
            duration_ms=round((time.monotonic() - self._began) * 1000),
        )


def stop(calls: Sequence[Call]) -> None:
    """Stop *calls*, which run in threads; wait a moment for asynchronous tools, for no others."""
    for call in calls:
        call.stop()
    until = time.monotonic() + LET_GO_S
    for call in calls:
        if call.is_async:
            call.wait(until - time.monotonic())


def finished(result: ToolResult) -> ToolFinished:
    """Return what the caller is told of *result* once it is committed."""
    return ToolFinished(
        index=result.index, call=result.call, outcome=result.outcome, content=result.content
    )


def endings(calls: Sequence[Call]) -> dict[int, ToolOutcome]:
    """Return how *calls* ended, by index, as far as they did."""
    return {call.index: call.ended for call in calls if call.ended is not None}


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a tool's exception may do anything, even here
        return ""
