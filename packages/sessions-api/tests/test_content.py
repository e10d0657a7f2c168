from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from faces import Looker, calling, said
from sessions_api import ModelReply, ModelRequest, NewMessage, SessionState, ToolCall

OpenAgent = Callable[..., Any]
ODD = ["a\x00b", "\u2028\u2029\x85", "a\r\nb\rc", "😀" * 3, "\x1b[31mred", " \t ", "x" * 200_000]


def encodable(request: ModelRequest) -> bool:
    """Say whether a service could be sent the request at all."""
    json.dumps([str(message) for message in request.messages], ensure_ascii=False).encode()
    for message in request.messages:
        for text in (message.content, message.reasoning_content, message.name):
            (text or "").encode()
        for call in message.tool_calls or ():
            (call.name + call.arguments + call.id).encode()
    return True


def test_c26_text_that_is_no_unicode_is_repaired_once_and_for_all(
    open_agent: OpenAgent, look: Looker
) -> None:
    """In the running loop, on resuming, in export and journal it is the same good text."""

    def broken(word: str) -> str:
        """Return a lone surrogate."""
        return f"caf\udce9 {word}"

    lone = ToolCall(id="\udc97", name="broken", arguments='{"word": "x\udc97"}')
    good = ToolCall(id="c2", name="broken", arguments='{"word": "x"}')
    script = [
        ModelReply(content="call \udc80", reasoning_content="\ud83d", tool_calls=(lone, good)),
        said("done \ud83d"),
        said("later"),
    ]
    agent = open_agent(script, tools=[broken])
    result = agent.run("hello \ud83d")
    assert result.text == "done \ufffd"
    agent.run("next")
    assert all(encodable(request) for request in agent.provider.requests)
    assert agent.sessions.active.title == "hello \ufffd"
    rows = look.messages()
    assert [row.repaired for row in rows] == [True, True, True, True, True, False, False]
    assert {row.content for row in rows[2:4]} == {"caf\ufffd x", "caf\ufffd x\ufffd"}
    exported = b"".join(agent.sessions.export()).decode()
    assert "caf\ufffd x" in exported
    # What was sent in the loop is what is replayed later.
    in_loop, replayed = agent.provider.requests[1], agent.provider.requests[2]
    assert replayed.messages[: len(in_loop.messages)] == in_loop.messages


def test_c26_what_a_session_is_held_with_is_sent_as_it_is_stored(open_agent: OpenAgent) -> None:
    """The first request too is one that can be sent, and the same as those after a restart."""
    options = {"system_prompt": "be \ud83d brief", "parameters": {"user": "\udc80", "top_p": 1}}
    first = open_agent([said("one")], **options)
    first.run("a")
    second = open_agent([said("two")])
    second.sessions.resume()
    second.run("b")
    sent = [agent.provider.requests[0] for agent in (first, second)]
    assert [one.system_prompt for one in sent] == ["be \ufffd brief"] * 2
    assert [one.parameters for one in sent] == [{"user": "\ufffd", "top_p": 1}] * 2


@pytest.mark.parametrize("text", ODD, ids=lambda text: repr(text[:12]))
def test_c27_any_valid_text_comes_back_as_it_was(open_agent: OpenAgent, text: str) -> None:
    """NUL, line separators, control characters and length are nobody's business here."""

    def give() -> str:
        """Return it."""
        return text

    agent = open_agent([calling(("give", "{}")), said(text), said("x")], tools=[give])
    agent.run(f"say {text}")
    agent.run("again")
    sent = [message.content for message in agent.provider.requests[-1].messages]
    assert sent == [f"say {text}", None, text, text, "again"]
    lines = b"".join(agent.sessions.export()).split(b"\n")
    assert [json.loads(line)["content"] for line in lines if line] == [*sent, "x"]


def test_c35_what_is_replayed_is_exact_and_what_is_logged_has_no_secret(
    open_agent: OpenAgent, look: Looker
) -> None:
    """A password in a tool's arguments is the model's to use again, and nobody else's to read."""

    def db(password: str) -> str:
        """Connect."""
        return f"connected with {password}"

    arguments = '{"password":"hunter2-XYZ"}'
    agent = open_agent([calling(("db", arguments)), said("ok"), said("later")], tools=[db])
    agent.run("connect")
    agent.close()
    second = open_agent([said("later")], tools=[db])
    second.sessions.resume()
    second.run("again")
    sent = second.provider.requests[0].messages
    assert sent[1].tool_calls is not None
    assert sent[1].tool_calls[0].arguments == arguments
    assert sent[2].content == "connected with hunter2-XYZ"
    assert "hunter2" not in look.journal()


@pytest.mark.parametrize(
    "data", ['{"b":1,"a":[{"signature":"S1"}]}', '{ "a" : 1.0e2, "é" : "\\u00e9" }', "[]"]
)
def test_c38_what_a_provider_needs_back_comes_back_byte_for_byte(
    open_agent: OpenAgent, data: str
) -> None:
    """With the message it came with: in the loop, after a restart, after load and save."""

    def one() -> int:
        """Return one."""
        return 1

    call = ToolCall(id="c", name="one", arguments="{ }")
    script = [ModelReply(tool_calls=(call,), provider_data=data)]
    script += [ModelReply(content="x", provider_data=data, reasoning_content="because")]
    agent = open_agent(script, tools=[one])
    agent.run("a")
    assert agent.provider.requests[1].messages[1].provider_data == data
    state = agent.sessions.load()
    agent.close()
    second = open_agent([said("y"), said("z")])
    copy = SessionState(
        id="01890000-0000-7000-8000-000000000002", settings=state.settings, messages=state.messages
    )
    second.sessions.save(copy, timedelta())
    for ref in (state.id, copy.id):
        second.sessions.resume(ref)
        second.run("b")
        sent = second.provider.requests[-1].messages
        assert [message.provider_data for message in sent] == [None, data, None, data, None]
        assert sent[1].tool_calls == (call,)
        assert sent[3].reasoning_content == "because"


def test_parts_and_unknown_roles_are_sent_as_they_were_saved(open_agent: OpenAgent) -> None:
    """Multimodal content and roles of tomorrow are kept, not renamed."""
    parts = ({"type": "image_url", "image_url": {"url": "data:,"}, "new": None},)
    saved = NewMessage(role="oracle", parts=parts, name="n")
    agent = open_agent([said("x")])
    state = SessionState(id="01890000-0000-7000-8000-000000000003", messages=(saved,))
    agent.sessions.save(state, timedelta())
    agent.sessions.resume(state.id)
    agent.run("a")
    first = agent.provider.requests[0].messages[0]
    assert (first.role, first.name, [dict(part) for part in first.parts]) == (
        "oracle",
        "n",
        list(parts),
    )
