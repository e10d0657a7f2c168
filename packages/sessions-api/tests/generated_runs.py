"""Runs made up at random, with a fault in each: what the model says, what tools do, what breaks.

A `Course` is one run as it is meant to go; its provider and tools play it, for either face. Its
fault comes from outside: an error of SQLite at some statement, Ctrl-C, a cancellation at some
await, a stream that is left, an agent that is closed by somebody else in the middle.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

import apsw

from sessions_api import ModelReply, ModelRequest, ProviderError, TextDelta, Tool, ToolCall, Usage
from sessions_api import tool as as_tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from random import Random

ToolKind = Literal[
    "ok", "aok", "fail", "afail", "unknown", "bad", "late", "alate", "stuck", "hang", "closer"
]
ORDINARY: tuple[ToolKind, ...] = ("ok", "aok", "fail", "afail", "unknown", "bad", "late", "alate")
ASYNC_KINDS = {"aok", "afail", "alate", "hang"}
EXPECTED: dict[ToolKind, str] = {
    "ok": "ok",
    "aok": "ok",
    "fail": "error",
    "afail": "error",
    "unknown": "error",
    "bad": "error",
    "late": "unknown",
    "alate": "error",
    "stuck": "ok",
    "hang": "ok",
    "closer": "ok",
}
SQLITE_ERRORS: dict[str, type[apsw.Error]] = {
    "storage.busy": apsw.BusyError,
    "storage.full": apsw.FullError,
    "internal": apsw.IOError,
}
WRONG: Any = b"bytes"
MALFORMED: tuple[Any, ...] = (
    None,
    "text",
    ModelReply(content=WRONG),
    ModelReply(tool_calls=WRONG),
    ModelReply(usage=WRONG),
)
FAULTS = (
    "none",
    "sqlite",
    "sqlite lasting",
    "ctrl-c in sqlite",
    "cancel",
    "leave",
    "strike",
    "close",
)


@dataclass(kw_only=True)
class Course:
    """One run as it is meant to go: rounds of tool calls, then the end, and the fault."""

    text: str
    rounds: list[list[ToolKind]]
    end: Any
    end_type: str | None
    deltas: int
    usages: list[Usage]
    streaming: bool
    fault: str
    moment: int
    second: int | None
    sqlite_error: str
    began: set[tuple[int, int]] = field(default_factory=set)
    requests: list[ModelRequest] = field(default_factory=list)

    @property
    def outcome(self) -> str | None:
        """The error type of the run when its fault does not strike; None if it completes."""
        return self.end_type

    def reply_to(self, number: int) -> Any:
        """Return what the provider says to the request of that number, or raise it."""
        usage = self.usages[number]
        if number < len(self.rounds):
            return ModelReply(content="calling", tool_calls=self.calls(number), usage=usage)
        if isinstance(self.end, BaseException):
            raise self.end
        return ModelReply(content="answer", usage=usage) if self.end == "answer" else self.end

    def calls(self, number: int) -> tuple[ToolCall, ...]:
        """Return the calls of one round; some services use the same id for all, or none."""
        return tuple(
            ToolCall(
                id=("", "same", f"c{index}")[self.moment % 3],
                name="nope" if kind == "unknown" else "ok" if kind == "bad" else kind,
                arguments='{"x":1}' if kind == "bad" else f'{{"place":"{number} {index}"}}',
            )
            for index, kind in enumerate(self.rounds[number])
        )

    def __str__(self) -> str:
        return f"{self.fault}@{self.moment},{self.second} {self.rounds} {self.end!r}"


def make_course(random: Random, *, asynchronous: bool, on_disk: bool) -> Course:
    """Make up a run."""
    rounds = [
        [random.choice(ORDINARY[: 6 if random.random() < 0.8 else 8]) for _ in range(count)]
        for count in random.choices((1, 2, 3), k=random.choice((0, 0, 1, 1, 2)))
    ]
    ends: list[tuple[Any, str | None]] = [
        *[("answer", None)] * 8,
        (TimeoutError("t"), "provider.timeout"),
        (ConnectionError("c"), "provider.unavailable"),
        (ValueError("v"), "internal"),
        (ProviderError("r", error_type="provider.rate_limit"), "provider.rate_limit"),
        *((one, "provider.bad_response") for one in MALFORMED),
    ]
    end, end_type = random.choice(ends)
    fault = random.choice(FAULTS)
    if fault == "ctrl-c in sqlite" and asynchronous:
        fault = "cancel"
    if fault == "cancel" and not asynchronous:
        fault = "leave"
    if fault == "close" and not on_disk:
        fault = "none"  # nobody could see the rows of a store in memory afterwards
    if fault in {"strike", "close"}:
        kind: ToolKind = "closer" if fault == "close" else random.choice(("stuck", "hang"))
        rounds = rounds or [[]]
        rounds[-1].insert(random.randrange(len(rounds[-1]) + 1), kind)
    return Course(
        text=f"question {random.randrange(1_000)}",
        rounds=rounds,
        end=end,
        end_type=end_type,
        deltas=random.randrange(4),
        usages=[
            Usage() if random.random() < 0.1 else Usage(input_tokens=n, output_tokens=1)
            for n in range(len(rounds) + 1)
        ],
        streaming=fault == "leave" or random.random() < 0.5,
        fault=fault,
        moment=random.randint(1, 60 if "sqlite" in fault else 14),
        second=random.randint(1, 14) if random.random() < 0.3 else None,
        sqlite_error=random.choice(list(SQLITE_ERRORS)),
    )


class Stage:
    """Plays courses: a provider and tools for one agent of either face."""

    name = "generated"
    endpoint = None

    def __init__(self, *, asynchronous: bool) -> None:
        self.asynchronous = asynchronous
        self.course: Course | None = None
        self.release = threading.Event()
        self.strikes_over = threading.Event()
        self.strikes_over.set()
        self.task: asyncio.Task[Any] | None = None
        self.close: Callable[[], Any] = lambda: None

    # --- the provider -------------------------------------------------------------------------

    def _answer(self, request: ModelRequest) -> Any:
        course = self.now
        course.requests.append(request)
        return course.reply_to(len(course.requests) - 1)

    @property
    def now(self) -> Course:
        """The course that is played."""
        assert self.course is not None
        return self.course

    def reply(self, request: ModelRequest) -> Any:
        """Answer whole."""
        return self._answer(request)

    def stream(self, request: ModelRequest) -> Iterator[Any]:
        """Answer piece by piece; an error comes after some."""
        for number in range(self.now.deltas):
            yield TextDelta(text=f"{number} ")
        reply = self._answer(request)
        if reply is not None:
            yield reply

    # --- the tools ----------------------------------------------------------------------------

    def tools(self) -> list[Tool]:
        """Return one tool of each kind."""

        def ok(place: str) -> str:
            """Return."""
            self._begin(place)
            return f"did {place}"

        async def aok(place: str) -> str:
            """Return later."""
            self._begin(place)
            await asyncio.sleep(0)
            return f"did {place}"

        def fail(place: str) -> str:
            """Raise."""
            self._begin(place)
            raise ValueError(place)

        async def afail(place: str) -> str:
            """Raise later."""
            self._begin(place)
            await asyncio.sleep(0)
            raise ValueError(place)

        @as_tool(timeout_s=0.005)
        def late(place: str) -> str:
            """Return when all is over."""
            self._begin(place)
            self.release.wait(60)
            return "late"

        @as_tool(timeout_s=0.005)
        async def alate(place: str) -> str:
            """Take too long."""
            self._begin(place)
            await asyncio.sleep(60)
            return "late"

        def stuck(place: str) -> str:
            """Let somebody stop the run, and return when all is over."""
            self._begin(place)
            self._strike()
            self.release.wait(60)
            return "late"

        async def hang(place: str) -> str:
            """Let somebody stop the run, and wait."""
            self._begin(place)
            self._strike()
            await asyncio.sleep(60)
            return "late"

        def closer(place: str) -> str:
            """Close the agent, from a thread of its own."""
            self._begin(place)
            self.close()
            return "closed"

        made = (ok, aok, fail, afail, late, alate, stuck, hang, closer)
        return [one if isinstance(one, Tool) else as_tool(one) for one in made]

    def _begin(self, place: str) -> None:
        number, index = place.split()
        self.now.began.add((int(number), int(index)))

    def _strike(self) -> None:
        """Stop the run as a person would: Ctrl-C, or a cancellation of its task."""
        task, twice = self.task, self.now.second is not None
        self.strikes_over.clear()

        def strike() -> None:
            for number in range(1 + twice):
                time.sleep(0.002 * number)
                if task is None:
                    os.kill(os.getpid(), signal.SIGINT)
                else:
                    task.get_loop().call_soon_threadsafe(task.cancel)
            self.strikes_over.set()

        threading.Thread(target=strike, daemon=True).start()


class AsyncStage(Stage):
    """The same with coroutines."""

    async def reply(self, request: ModelRequest) -> Any:
        """Answer whole."""
        await asyncio.sleep(0)
        return self._answer(request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:  # type: ignore[override]  # the protocol allows either
        """Answer piece by piece."""
        for piece in super().stream(request):
            await asyncio.sleep(0)
            yield piece


class SqliteFault:
    """Lets SQLite fail at the n-th statement that a course performs, once or from then on."""

    def __init__(self, connection: apsw.Connection, course: Course) -> None:
        self._connection = connection
        self._course = course
        self._count = 0
        self.struck = False

    def __enter__(self) -> Self:
        if "sqlite" in self._course.fault:
            self._connection.exec_trace = self._trace
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(apsw.ConnectionClosedError):
            self._connection.exec_trace = None

    def _trace(self, _: object, sql: str, __: object) -> bool:
        if sql == "ROLLBACK":
            return True  # with this one everything is over anyway
        self._count += 1
        due = self._count == self._course.moment or (
            self._count > self._course.moment and self._course.fault == "sqlite lasting"
        )
        if not due:
            return True
        if self._course.fault == "ctrl-c in sqlite":
            if threading.current_thread() is threading.main_thread():
                self.struck = True
                raise KeyboardInterrupt
            return True
        self.struck = True
        raise SQLITE_ERRORS[self._course.sqlite_error]("injected")
