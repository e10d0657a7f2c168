from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from faces import Looker, calling, said
from sessions_api import (
    Agent,
    AsyncAgent,
    ModelReply,
    ModelRequest,
    ReasoningDelta,
    RunFailed,
    RunFinished,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from state_store import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

OpenAgent = Callable[..., Any]


class Pieces:
    """A provider that streams what it is given, and says whether its stream was let go."""

    name = "pieces"
    endpoint = None

    def __init__(self, *pieces: Any) -> None:
        self.pieces = pieces
        self.let_go = threading.Event()

    def reply(self, _: ModelRequest) -> ModelReply:
        """Answer whole."""
        return said("whole")

    def stream(self, _: ModelRequest) -> Iterator[Any]:
        """Yield the pieces; raise those that are errors, call those that can be."""
        try:
            for piece in self.pieces:
                if isinstance(piece, BaseException):
                    raise piece
                if callable(piece):
                    piece()
                else:
                    yield piece
        finally:
            self.let_go.set()


class AsyncPieces(Pieces):
    """The same with an asynchronous stream."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:  # type: ignore[override]  # the protocol allows either
        """Yield the pieces."""
        for piece in super().stream(request):
            await asyncio.sleep(0)
            yield piece


def pieces_for(agent_is_async: bool, *pieces: Any) -> Pieces:  # noqa: FBT001 - a face's own fact
    """Return a streaming provider in the manner of the face."""
    return AsyncPieces(*pieces) if agent_is_async else Pieces(*pieces)


def test_events_come_in_the_order_of_what_is_committed(open_agent: OpenAgent, look: Looker) -> None:
    """Starts of tools, their ends, then the answer's pieces, then the result, once and last."""

    def one() -> int:
        """Return one."""
        return 1

    agent = open_agent([calling(("one", "{}")), said("it is one")], tools=[one])
    events = agent.stream("go")
    kinds = [type(event) for event in events]
    assert kinds == [ToolStarted, ToolFinished, TextDelta, TextDelta, TextDelta, RunFinished]
    assert (events[0].index, events[0].call.name) == (0, "one")
    assert (events[1].outcome, events[1].content) == ("ok", "1")
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "it is one"
    assert list(events[-1].result.messages) == look.messages()


def test_the_run_of_a_stream_begins_with_the_first_event(
    open_agent: OpenAgent, look: Looker
) -> None:
    """A stream that nobody reads has stored nothing."""
    agent = open_agent([said("x")])
    assert agent.stream("hello", leave_after=0) == []
    assert agent.sessions.list().items == ()
    assert agent.run("hello").text == "x"


@pytest.mark.parametrize("leave_after", [1, 2, 3, 4])
def test_leaving_early_cancels_the_run_and_commits_that(
    open_agent: OpenAgent, look: Looker, leave_after: int
) -> None:
    """When control is back the run is over, its input is kept, and no answer is made up."""

    def one() -> int:
        """Return one."""
        return 1

    agent = open_agent([calling(("one", "{}")), said("a b c"), said("next")], tools=[one])
    assert len(agent.stream("go", leave_after=leave_after)) == leave_after
    assert look.endings() == [("failed", "cancelled")]
    assert look.outcomes() == ["cancelled" if leave_after == 1 else "ok"]  # it never began
    assert [role for role, _ in look.texts()][:2] == ["user", "assistant"]
    assert "a b c" not in [content for _, content in look.texts()]
    assert agent.sessions.active.status == "failed"
    if leave_after <= 2:  # the script's second answer was not used
        agent.run("go on")
    assert agent.run("next").text == "next"
    assert [m.content for m in agent.provider.requests[-1].messages][-1] == "next"


def test_leaving_at_the_last_event_leaves_a_completed_run(
    open_agent: OpenAgent, look: Looker
) -> None:
    """C04: the run is told finished after its commit, so nothing is cut off by clean-up."""
    agent = open_agent([said("word") for _ in range(20)])
    for number in range(20):
        events = agent.stream(f"turn {number}", leave_after=2)
        assert isinstance(events[-1], RunFinished)
    assert look.endings() == [("completed", None)] * 20
    assert len(look.messages()) == 40


def test_leaving_early_lets_the_providers_stream_go(open_agent: OpenAgent) -> None:
    """Its connection is closed then, not when some collector comes by."""
    agent = open_agent()
    for kind in (False, True) if agent.is_async else (False,):
        provider = pieces_for(kind, *[TextDelta(text="x")] * 5, said("y"))
        other = open_agent(provider=provider)
        other.stream("go", leave_after=1)
        assert provider.let_go.is_set()


@pytest.mark.parametrize("error", [ConnectionError("gone"), StopIteration()], ids=repr)
def test_a_stream_that_breaks_fails_the_run(
    open_agent: OpenAgent, look: Looker, error: Exception
) -> None:
    """Half an answer is no answer: nothing of it is stored."""
    agent = open_agent()
    provider = pieces_for(agent.is_async, TextDelta(text="half"), error)
    with pytest.raises(RunFailed):
        open_agent(provider=provider).stream("go")
    assert look.texts() == [("user", "go")]


WRONG_TEXT: Any = b"bytes"
MALFORMED: list[tuple[Any, ...]] = [
    (),
    (TextDelta(text="all there was"),),
    ("just text", said("x")),
    (None, said("x")),
    (TextDelta(text=WRONG_TEXT), said("x")),
    (said("once"), said("twice")),
    (said("x"), TextDelta(text="more")),
    (TextDelta(text="x"), ModelReply(tool_calls=WRONG_TEXT)),
]


@pytest.mark.parametrize("pieces", MALFORMED, ids=lambda one: str([type(x).__name__ for x in one]))
def test_a_stream_that_is_none_fails_the_run_and_keeps_nothing_of_it(
    open_agent: OpenAgent, look: Looker, pieces: tuple[Any, ...]
) -> None:
    """The deltas are for the eye; the one reply at the end is what counts."""
    agent = open_agent()
    provider = pieces_for(agent.is_async, *pieces)
    with pytest.raises(RunFailed) as caught:
        open_agent(provider=provider).stream("go")
    assert caught.value.error_type == "provider.bad_response"
    assert "ModelReply" in str(getattr(caught.value.__cause__, "hint", ""))
    assert provider.let_go.is_set()
    assert look.texts() == [("user", "go")]


@pytest.mark.parametrize("given", [None, 7, "coroutine"])
def test_what_is_no_stream_at_all_fails_the_run(
    open_agent: OpenAgent, look: Looker, given: Any
) -> None:
    """`stream` is a generator; whoever forgot a `yield` is told."""

    class Odd(Pieces):
        def stream(self, _: ModelRequest) -> Any:
            """Return what nobody can iterate over."""
            return asyncio.sleep(0) if given == "coroutine" else given

    with pytest.raises(RunFailed) as caught:
        open_agent(provider=Odd()).stream("go")
    assert caught.value.error_type == "provider.bad_response"
    assert "stream()" in str(caught.value.__cause__)
    assert look.texts() == [("user", "go")]


def test_an_asynchronous_stream_is_refused_by_the_synchronous_agent(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """It says where it can be used."""
    with Agent(workspace, provider=AsyncPieces(said("x")), state_home=state_home) as agent:
        with pytest.raises(RunFailed) as caught, agent.stream("go") as stream:
            list(stream)
        assert "AsyncAgent" in str(getattr(caught.value.__cause__, "hint", ""))
    assert look.endings() == [("failed", "provider.bad_response")]


def test_reasoning_comes_as_pieces_of_its_own(open_agent: OpenAgent, look: Looker) -> None:
    """It is kept with the answer and never mixed into the text."""
    agent = open_agent()
    reply = ModelReply(content="4", reasoning_content="2+2")
    provider = pieces_for(agent.is_async, ReasoningDelta(text="2+2"), TextDelta(text="4"), reply)
    events = open_agent(provider=provider).stream("sum?")
    assert events[0] == ReasoningDelta(text="2+2")
    assert events[-1].result.text == "4"
    assert look.messages()[-1].reasoning_content == "2+2"


def test_a_provider_that_cannot_stream_answers_whole(open_agent: OpenAgent) -> None:
    """`stream` works with every provider; there are just no deltas."""

    class Whole:
        name = "whole"
        endpoint = None

        def reply(self, _: ModelRequest) -> ModelReply:
            """Answer at once."""
            return said("all of it")

    events = open_agent(provider=Whole()).stream("go")
    assert [type(event) for event in events] == [RunFinished]
    assert events[0].result.text == "all of it"


def test_a_result_whose_commit_fails_is_not_told_as_finished(
    open_agent: OpenAgent, look: Looker
) -> None:
    """`ToolFinished` means committed; here the run was ended behind the agent's back."""

    def one() -> int:
        """Return one, after somebody has closed the run."""
        _interrupt_all(look)
        return 1

    agent = open_agent([calling(("one", "{}")), said("x")], tools=[one])
    events: list[Any] = []
    with pytest.raises(RunFailed):
        agent.stream("go", into=events)
    assert [type(event) for event in events] == [ToolStarted]
    assert look.endings() == [("failed", "interrupted")]
    assert "1" not in [content for _, content in look.texts()]


def _interrupt_all(look: Looker) -> None:
    """Do to the pending run what a recovery does that takes its owner for dead."""
    (owner,) = (look.state_home / "workspaces").glob("*/owners/*.lock")
    owner.unlink()
    path = look.database()
    SqliteStore.open(path, workspace_id=path.parent.name, owners_dir=owner.parent).close()


def test_a_blocked_synchronous_stream_does_not_block_the_cancellation(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """The thread that waits for the service is left behind, and lets go when it comes back."""
    waiting, go_on = threading.Event(), threading.Event()

    def block() -> None:
        waiting.set()
        go_on.wait(5)

    provider = Pieces(TextDelta(text="x"), block, said("late"))

    async def main() -> None:
        async with AsyncAgent(workspace, provider=provider, state_home=state_home) as agent:

            async def read() -> None:
                async with agent.stream("go") as stream:
                    async for _ in stream:
                        pass

            task = asyncio.create_task(read())
            await asyncio.to_thread(waiting.wait, 5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert look.endings() == [("failed", "cancelled")]
            go_on.set()
            assert await asyncio.to_thread(provider.let_go.wait, 5)

    asyncio.run(main())
