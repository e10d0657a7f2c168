"""Histories from elsewhere, gone on with by an agent whose provider refuses what is illegal."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from chat_rules import openai_chat_problems
from faces import said
from messages_rules import anthropic_problems
from responses_rules import openai_responses_problems
from sessions_api import ModelReply, ModelRequest, NewMessage, ProviderError, SessionState, ToolCall
from sessions_api.providers import anthropic_request, openai_request, responses_request
from sessions_api.runs.replay import MISSING_RESULT
from state_store import new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from conftest import OpenAgent

RULES: tuple[tuple[Callable[[ModelRequest], Any], Callable[[Any], list[str]]], ...] = (
    (openai_request.request_body, openai_chat_problems),
    (responses_request.request_body, openai_responses_problems),
    (anthropic_request.request_body, anthropic_problems),
)


def strict(request: ModelRequest) -> ModelReply | BaseException:
    """Answer as the three services would: with 400 to any request that one of them refuses."""
    problems = [problem for write, rules in RULES for problem in rules(write(request))]
    # What every wire format repairs by itself is to be right before that.
    waiting: list[str] = []
    for message in request.messages:
        if message.role == "tool":
            problems += [] if waiting and waiting.pop(0) == message.tool_call_id else ["no call"]
        elif waiting:
            problems.append("no result")
            waiting = []
        waiting += [call.id for call in message.tool_calls or ()]
    if problems:
        return ProviderError("; ".join(problems), error_type="provider.bad_response", status=400)
    return said("ok")


def strict_agent(open_agent: OpenAgent, **options: Any) -> Any:
    """Open an agent with such a provider."""
    return open_agent([strict] * 5, model="m", **options)


def asking(*call_ids: str) -> NewMessage:
    """Return an assistant's message that calls a tool for each id."""
    calls = tuple(ToolCall(id=one, name="look", arguments="{}") for one in call_ids)
    return NewMessage(role="assistant", tool_calls=calls)


def answering(call_id: str, text: str) -> NewMessage:
    """Return a tool's result."""
    return NewMessage(role="tool", content=text, tool_call_id=call_id)


def user(text: str) -> NewMessage:
    """Return what somebody typed."""
    return NewMessage(role="user", content=text)


def save(agent: Any, messages: Sequence[NewMessage]) -> str:
    """Save a session of *messages* and make it active."""
    state = SessionState(id=new_id(), messages=tuple(messages))
    agent.sessions.save(state, timedelta(0))
    return str(agent.sessions.resume(state.id).id)


def sent(agent: Any) -> list[tuple[str, str | None]]:
    """Return role and content of what was sent last."""
    return [(one.role, one.content) for one in agent.provider.requests[-1].messages]


def test_c06_an_interrupted_call_of_a_saved_history_is_answered_at_its_place(
    open_agent: OpenAgent,
) -> None:
    """The request is accepted, the user is told of one call, and nothing stored has changed."""
    agent = strict_agent(open_agent)
    session_id = save(agent, [user("look"), asking("c1"), user("go on")])
    stored = agent.sessions.messages().items
    agent.run("and now?")
    assert [role for role, _ in sent(agent)] == ["user", "assistant", "tool", "user", "user"]
    assert sent(agent)[2] == ("tool", MISSING_RESULT)
    (notice,) = agent.agent.notices
    assert notice.startswith("1 tool call of session")
    assert session_id[-8:] in notice
    agent.run("again")
    assert len(agent.agent.notices) == 1
    assert agent.sessions.messages().items[:3] == stored
    (found,) = agent.sessions.verify().findings
    assert (found.severity, found.kind) == ("warning", "result_missing")
    assert found.object == f"message 2 of session {session_id}"


def test_c08_the_first_result_of_each_call_is_sent_and_the_others_are_warned_of(
    open_agent: OpenAgent,
) -> None:
    """What is not sent is stored, exported, and named by verifying."""
    agent = strict_agent(open_agent)
    history = [
        user("look"),
        asking("c1", "c2"),
        answering("c1", "first"),
        answering("c1", "another"),
        answering("c9", "never asked for"),
    ]
    session_id = save(agent, history)
    agent.run("and now?")
    results = [content for role, content in sent(agent) if role == "tool"]
    assert results == ["first", MISSING_RESULT]
    exported = b"".join(agent.sessions.export(session_id))
    assert b"another" in exported
    assert b"never asked for" in exported
    report = agent.sessions.verify()
    assert report.ok
    assert [(one.severity, one.kind, one.object[:9]) for one in report.findings] == [
        ("warning", "result_missing", "message 2"),
        ("warning", "result_surplus", "message 4"),
        ("warning", "result_surplus", "message 5"),
    ]
    said_so = " ".join(one.message for one in report.findings)
    assert "has a result already" in said_so
    assert "result of no call" in said_so


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_c07_the_last_exchanges_are_sent_with_both_sides_of_each_pair(
    open_agent: OpenAgent, limit: int
) -> None:
    """Three calls at once, and limits that a listing of raw items would cut at each place."""
    agent = strict_agent(open_agent, select=lambda exchanges: exchanges[-limit:])
    turn = [
        user("look"),
        asking("a", "b", "c"),
        *(answering(one, one) for one in "bca"),
        NewMessage(role="assistant", content="seen"),
    ]
    save(agent, [*turn, user("once"), asking("d"), answering("d", "d"), *turn])
    agent.run("and now?")
    assert sum(role == "user" for role, _ in sent(agent)) == min(limit, 3) + 1
