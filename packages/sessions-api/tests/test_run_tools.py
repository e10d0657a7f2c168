from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from faces import Looker, calling, said
from sessions_api import ModelReply, ModelRequest, ToolDefinitionInvalid, tool

OpenAgent = Callable[..., Any]
WHO: ContextVar[str] = ContextVar("who", default="nobody")


def results_of(request: ModelRequest) -> list[tuple[str | None, str | None]]:
    """Return id and content of the results in *request*, in its order."""
    found = [message for message in request.messages if message.role == "tool"]
    return [(message.tool_call_id, message.content) for message in found]


def run_tool(open_agent: OpenAgent, function: Any, arguments: str = "{}") -> str:
    """Let the model call *function* once and return what it read as the result."""
    agent = open_agent([calling((function.__name__, arguments)), said("done")], tools=[function])
    assert agent.run("go").text == "done"
    ((_, content),) = results_of(agent.provider.requests[-1])
    assert content is not None
    return content


@pytest.mark.parametrize("asynchronous", [False, True])
def test_calls_of_one_reply_run_side_by_side(
    open_agent: OpenAgent, look: Looker, *, asynchronous: bool
) -> None:
    """Two tools that wait for one another come to an end; results are stored as they come."""
    first_began, second_ended = threading.Event(), threading.Event()

    def first() -> str:
        """End after the second."""
        first_began.set()
        assert second_ended.wait(10)
        while look.outcomes()[1] is None:
            time.sleep(0.005)  # the second one's result is on its way
        return "first"

    def second() -> str:
        """End once the first has begun."""
        assert first_began.wait(10)
        second_ended.set()
        return "second"

    async def first_async() -> str:
        """End after the second."""
        return await asyncio.to_thread(first)

    async def second_async() -> str:
        """End once the first has begun."""
        return await asyncio.to_thread(second)

    chosen = [first_async, second_async] if asynchronous else [first, second]
    calls = calling(*((function.__name__, "{}") for function in chosen))
    agent = open_agent([calls, said("done"), said("later")], tools=chosen)
    agent.run("go")
    stored = [message.content for message in look.messages() if message.role == "tool"]
    assert stored == ["second", "first"]
    agent.run("again")
    for request in agent.provider.requests[1:]:
        assert results_of(request) == [("c1", "first"), ("c2", "second")]
    exported = b"".join(agent.sessions.export()).decode()
    assert exported.index('"content":"first"') < exported.index('"content":"second"')


@pytest.mark.parametrize("call_id", ["", "same"])
def test_empty_and_reused_call_ids_are_answered_in_their_place(
    open_agent: OpenAgent, call_id: str
) -> None:
    """Some services send no ids, or the same ones in each turn and even twice in one reply."""
    order = iter([0.05, 0.0, 0.0, 0.0])

    def echo(word: str) -> str:
        """Say it again; the first call is the slowest."""
        time.sleep(next(order))
        return word

    def twice(left: str, right: str) -> ModelReply:
        calls = [("echo", f'{{"word":"{word}"}}') for word in (left, right)]
        return calling(*calls, ids=[call_id, call_id])

    script = [twice("a", "b"), said("1"), twice("c", "d"), said("2"), said("3")]
    agent = open_agent(script, tools=[echo])
    for text in ("one", "two", "three"):
        agent.run(text)
    answers = [content for _, content in results_of(agent.provider.requests[-1])]
    assert answers == ["a", "b", "c", "d"]


def test_an_unknown_tool_and_bad_arguments_are_results_that_the_model_reads(
    open_agent: OpenAgent, look: Looker
) -> None:
    """The model can correct itself; the run goes on, and nothing was run."""
    ran: list[int] = []

    def add(x: int) -> int:
        """Keep what comes."""
        ran.append(x)
        return x

    bad = [("nope", "{}"), ("add", '{"x":"q"}'), ("add", "not json"), ("add", "[1]"), ("add", "")]
    bad += [("add", '{"x":1,"y":2}')]
    agent = open_agent([calling(*bad), said("sorry")], tools=[add])
    assert agent.run("go").text == "sorry"
    contents = dict(results_of(agent.provider.requests[-1]))
    assert contents["c1"] == "Error: there is no tool named 'nope'"
    for number in range(2, 7):
        assert (contents[f"c{number}"] or "").startswith("Error: invalid arguments for add: ")
    assert "y" in (contents["c6"] or "")
    assert ran == []
    assert look.outcomes() == ["error"] * 6
    assert {one.replay for one in look.tools()} == {"unsafe"}


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad marker"),
        SystemExit("bad marker"),
        KeyboardInterrupt("bad marker"),
        asyncio.CancelledError("bad marker"),
        TimeoutError("bad marker"),
        GeneratorExit("bad marker"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_tool_raises_is_its_result(
    open_agent: OpenAgent, look: Looker, error: BaseException
) -> None:
    """Not even a tool that wants the process to exit ends the run, or makes it wait for ever."""

    def fails() -> None:
        """Raise."""
        raise error

    assert run_tool(open_agent, fails) == f"Error: {type(error).__name__}: bad marker"
    assert look.outcomes() == ["error"]
    assert "bad marker" not in look.journal()


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), SystemExit("x"), asyncio.CancelledError("x"), TimeoutError("x")],
    ids=lambda error: type(error).__name__,
)
def test_whatever_an_asynchronous_tool_raises_is_its_result(
    open_agent: OpenAgent, look: Looker, error: BaseException
) -> None:
    """A cancellation of the tool's own making is not one of the run."""

    async def fails() -> None:
        """Raise."""
        await asyncio.sleep(0)
        raise error

    assert run_tool(open_agent, fails) == f"Error: {type(error).__name__}: x"
    assert look.endings() == [("completed", None)]


def test_a_synchronous_tool_that_times_out_is_unknown(open_agent: OpenAgent, look: Looker) -> None:
    """A thread cannot be stopped, so nobody claims that the tool did nothing."""
    go_on = threading.Event()

    @tool(timeout_s=0.05)
    def slow() -> str:
        """Wait until the test is over."""
        go_on.wait(5)
        return "late"

    async def quick() -> str:
        """Be done."""
        return "quick"

    calls = calling(("slow", "{}"), ("quick", "{}"))
    agent = open_agent([calls, said("done"), said("still works")], tools=[slow, quick])
    assert agent.run("go").text == "done"
    go_on.set()  # its late answer goes nowhere
    assert look.outcomes() == ["unknown", "ok"]
    contents = dict(results_of(agent.provider.requests[-1]))
    assert contents["c1"] == "Error: slow timed out after 0.05 s; it may still be running."
    assert agent.run("more").text == "still works"
    assert '"error_type":"tool.timeout"' in look.journal()


def test_an_asynchronous_tool_that_times_out_was_stopped(
    open_agent: OpenAgent, look: Looker
) -> None:
    """It was cancelled and has ended, so its outcome is known."""
    stopped: list[str] = []

    @tool(timeout_s=0.02)
    async def slow() -> str:
        """Wait for ever."""
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append("stopped")
        return "never"

    assert run_tool_object(open_agent, slow) == "Error: slow timed out after 0.02 s."
    assert stopped == ["stopped"]
    assert look.outcomes() == ["error"]


def run_tool_object(open_agent: OpenAgent, made: Any) -> str:
    """Do what `run_tool` does for something that is a `Tool` already."""
    agent = open_agent([calling((made.name, "{}")), said("done")], tools=[made])
    agent.run("go")
    ((_, content),) = results_of(agent.provider.requests[-1])
    return str(content)


@dataclass
class Point:
    """Something that a tool may return."""

    x: int
    y: float


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is \u2028 \x00", "as it is \u2028 \x00"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        ({"a": [1, 2.5]}, '{"a":[1,2.5]}'),
        (datetime(2026, 1, 2, tzinfo=UTC), '"2026-01-02T00:00:00Z"'),
        (Decimal("1.10"), '"1.10"'),
        (Point(x=1, y=0.5), '{"x":1,"y":0.5}'),
        ({7}, "[7]"),
        (2**70, str(2**70)),
        ([float("nan"), float("inf")], '["NaN","Infinity"]'),
    ],
    ids=repr,
)
def test_c39_one_rule_turns_what_a_tool_returns_into_text(
    open_agent: OpenAgent, value: object, text: str
) -> None:
    """A text as it is, all else as strict JSON in pydantic's JSON mode."""

    def give() -> object:
        """Return it."""
        return value

    assert run_tool(open_agent, give) == text


@pytest.mark.parametrize(
    "value",
    [b"\xff\xfe", object(), lambda: None],
    ids=["bytes", "object", "function"],
)
def test_c39_what_cannot_be_expressed_is_a_tool_error(
    open_agent: OpenAgent, look: Looker, value: object
) -> None:
    """The model reads that it failed, and nothing of the turn is half committed."""

    def give() -> object:
        """Return it."""
        return value

    assert run_tool(open_agent, give).startswith("Error: ")
    assert look.outcomes() == ["error"]
    assert [role for role, _ in look.texts()] == ["user", "assistant", "tool", "assistant"]


def test_a_tool_runs_in_a_daemon_thread_with_the_callers_context(open_agent: OpenAgent) -> None:
    """Leaving never waits for the slowest tool, and context variables reach each of them."""
    WHO.set("the caller")

    def where() -> str:
        """Say whose thread this is."""
        return f"{WHO.get()} {threading.current_thread().daemon}"

    assert run_tool(open_agent, where) == "the caller True"


def test_two_tools_of_one_name_are_refused_before_anything_is_opened(
    open_agent: OpenAgent, look: Looker
) -> None:
    """A model could not tell them apart."""
    with pytest.raises(ToolDefinitionInvalid, match="print"):
        open_agent([], tools=[print, print])
    assert not look.state_home.exists()
