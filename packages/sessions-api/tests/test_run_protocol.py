from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from faces import ONE_TOKEN, Looker, calling, said
from sessions_api import InputInvalid, ModelReply, ModelRequest, Usage, tool

OpenAgent = Callable[..., Any]


def test_the_input_and_a_pending_run_are_committed_before_the_provider_is_asked(
    open_agent: OpenAgent, look: Looker
) -> None:
    """Whoever reads the store while the model thinks sees what was asked, and that it runs."""
    seen: list[Any] = []

    def answer(_: ModelRequest) -> ModelReply:
        seen.append((look.texts(), look.endings(), look.runs()[0].stale))
        return said("hi")

    agent = open_agent([answer])
    agent.run("hello")
    assert seen == [([("user", "hello")], [("pending", None)], False)]
    assert look.endings() == [("completed", None)]


def test_calls_are_committed_as_started_before_a_tool_runs_and_results_before_the_next_request(
    open_agent: OpenAgent, look: Looker
) -> None:
    """What a tool may have done is never unknown to the store."""
    seen: dict[str, Any] = {}

    @tool(replay="safe")
    def peek() -> str:
        """Look at what is committed."""
        seen["in tool"] = ([role for role, _ in look.texts()], look.outcomes())
        return "looked"

    def second(request: ModelRequest) -> ModelReply:
        seen["asked again"] = ([role for role, _ in look.texts()], look.outcomes())
        seen["request"] = [message.role for message in request.messages]
        return said("done")

    agent = open_agent([calling(("peek", "{}")), second], tools=[peek])
    agent.run("go")
    assert seen["in tool"] == (["user", "assistant"], [None])
    assert seen["asked again"] == (["user", "assistant", "tool"], ["ok"])
    assert seen["request"] == ["user", "assistant", "tool"]
    (execution,) = look.tools()
    assert (execution.name, execution.replay, execution.call_seq) == ("peek", "safe", 2)


def test_a_result_says_what_was_stored(open_agent: OpenAgent, look: Looker) -> None:
    """The result's messages are the rows, its usage the sum over all requests."""

    def one() -> int:
        """Return one."""
        return 1

    agent = open_agent([calling(("one", "{}")), said("it is 1")], tools=[one])
    result = agent.run("what is one?")
    assert result.status == "completed"
    assert result.text == "it is 1"
    assert list(result.messages) == look.messages()
    assert [message.seq for message in result.messages] == [1, 2, 3, 4]
    assert {message.run_id for message in result.messages} == {result.run_id}
    assert result.usage == ONE_TOKEN + ONE_TOKEN
    (run,) = look.runs()
    assert (run.id, run.session_id) == (result.run_id, result.session_id)
    assert (run.usage, run.cost, result.cost) == (result.usage, None, None)
    assert (run.provider, run.model, run.journal_lost_count) == ("scripted", None, 0)


def test_usage_that_was_not_reported_stays_unknown(open_agent: OpenAgent) -> None:
    """Unknown is not zero, and one unknown makes the total of a run unknown."""
    script = [calling(("nothing", "{}")), ModelReply(content="a"), said("b")]
    agent = open_agent(script)
    assert agent.run("x").usage == Usage()
    assert agent.sessions.get().usage_complete is False
    agent.run("y")
    assert agent.sessions.get().total_tokens == 2


def test_an_answer_without_text_is_an_empty_text(open_agent: OpenAgent, look: Looker) -> None:
    """What the model did not say is not made up."""
    assert open_agent([ModelReply()]).run("x").text == ""
    assert look.texts() == [("user", "x"), ("assistant", None)]


def test_later_turns_send_the_earlier_ones(open_agent: OpenAgent) -> None:
    """The whole conversation goes to the provider, in order, and nothing else."""
    agent = open_agent([said("one"), said("two"), said("three")], system_prompt="be brief")
    for text in ("a", "b", "c"):
        agent.run(text)
    requests = agent.provider.requests
    assert [(m.role, m.content) for m in requests[-1].messages] == [
        ("user", "a"),
        ("assistant", "one"),
        ("user", "b"),
        ("assistant", "two"),
        ("user", "c"),
    ]
    assert {request.system_prompt for request in requests} == {"be brief"}


def test_a_session_comes_with_its_first_message_and_is_active_then(
    open_agent: OpenAgent, look: Looker
) -> None:
    """No empty sessions pile up, and the next run goes on with the same one."""
    agent = open_agent([said("1"), said("2")])
    before = agent.sessions.active
    assert before is None
    assert agent.sessions.list().items == ()
    first = agent.run("hello there")
    second = agent.run("and now?")
    assert first.session_id == second.session_id == agent.sessions.active.id
    assert agent.sessions.active.message_count == len(look.messages()) == 4
    assert agent.sessions.active.status == "idle"


@pytest.mark.parametrize("text", ["", "  \n\t "])
def test_nothing_is_stored_for_an_empty_message(open_agent: OpenAgent, text: str) -> None:
    """There is nothing to send, so there is no session, run or message either."""
    agent = open_agent([])
    with pytest.raises(InputInvalid):
        agent.run(text)
    assert agent.sessions.list().items == ()
    assert issubclass(InputInvalid, ValueError)


def test_what_is_no_text_is_refused(open_agent: OpenAgent) -> None:
    """The type is named; nothing is stored."""
    with pytest.raises(InputInvalid, match="bytes"):
        open_agent([]).run(b"hello")


def test_times_and_ids_come_from_the_sources_that_were_given(
    open_agent: OpenAgent, look: Looker
) -> None:
    """With a clock and ids of its own a run is the same each time."""
    moment = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    ids = iter(f"00000000-0000-7000-8000-{number:012}" for number in range(1, 10))
    agent = open_agent([said("x")], clock=lambda: moment, new_id=lambda: next(ids))
    result = agent.run("hello")
    assert result.session_id.endswith("01")
    assert result.run_id.endswith("02")
    (run,) = look.runs()
    assert run.started_at == run.finished_at == moment
    assert '"ts":"2026-01-02T03:04:05.000006Z"' in look.journal()


def test_the_journal_tells_the_run_without_a_word_of_it(
    open_agent: OpenAgent, look: Looker
) -> None:
    """Each step has its line, the lines are chained to the run's row, and none has content."""

    def secret_tool(password: str) -> str:
        """Take a secret."""
        return f"used {password}"

    agent = open_agent(
        [calling(("secret_tool", '{"password":"hunter2-XYZ"}')), said("answer-marker")],
        tools=[secret_tool],
    )
    agent.run("question-marker")
    written = look.journal()
    for word in ("hunter2", "answer-marker", "question-marker"):
        assert word not in written
    assert written.count('"tool":"secret_tool"') == 2
    order = ["run.started", "provider.requested", "provider.responded", "tool.started"]
    order += ["tool.finished", "provider.requested", "provider.responded", "run.completed"]
    places = [written.index(f'"{order[0]}"')]
    for event in order[1:]:
        places.append(written.index(f'"event":"{event}"', places[-1] + 1))
    assert places == sorted(places)
    (run,) = look.runs()
    assert run.journal_head is not None
    assert run.journal_head[1] in written
