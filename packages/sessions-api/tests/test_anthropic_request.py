from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asking import KEY, Ask
from sessions_api.providers.anthropic_request import DEFAULT_MAX_TOKENS, request_body
from sessions_api.providers.base import ModelMessage, ModelRequest, ToolSpec
from state_store import ToolCall
from wire_server import Turn

if TYPE_CHECKING:
    from messages_server import MessagesServer


def body_of(*messages: ModelMessage, **fields: Any) -> dict[str, Any]:
    """Return the body that a request with *messages* becomes."""
    request = ModelRequest(model="m", messages=messages, **fields)
    return request_body(request, endpoint="http://x")


def user(text: str | None = None, *parts: dict[str, Any]) -> ModelMessage:
    """Return a message of the user."""
    return ModelMessage(role="user", content=text, parts=parts or None)


def wired(text: str) -> dict[str, str]:
    """Return a block of text."""
    return {"type": "text", "text": text}


def test_the_request_says_what_it_was_given(
    ask_messages: Ask, messages_wire: MessagesServer
) -> None:
    """System prompt, tools and parameters each in their place, over the wire."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    messages_wire.script(Turn(text="ok"))
    ask_messages(
        ModelRequest(
            model=None,
            system_prompt="Be brief.",
            messages=(user("look"),),
            tools=(ToolSpec(name="weather", description="Tell it.", parameters=schema),),
            parameters={
                "temperature": 0.5,
                "top_p": None,
                "max_tokens": None,
                "stop": "END",
                "reasoning_effort": "low",
                "model": "other",
                "stream_options": {"include_usage": True},
            },
        ),
        default_model="m-2",
        api_key=KEY,
    )
    (asked,) = messages_wire.requests
    assert asked.path == "/v1/messages"
    assert asked.headers["anthropic-version"]
    key = (asked.headers.get("x-api-key"), asked.headers.get("authorization"))
    assert key in {(KEY, None), (None, f"Bearer {KEY}")}
    assert asked.body == {
        "model": "m-2",
        "max_tokens": DEFAULT_MAX_TOKENS,
        "messages": [{"role": "user", "content": [wired("look")]}],
        "system": "Be brief.",
        "tools": [{"name": "weather", "description": "Tell it.", "input_schema": schema}],
        "temperature": 0.5,
        "stop_sequences": ["END"],
        "output_config": {"effort": "low"},
    }


def test_the_limit_of_tokens_leaves_room_for_an_answer() -> None:
    """A caller's own limit wins; a budget for thinking is added to the default."""
    assert body_of(user("x"), parameters={"max_tokens": 5})["max_tokens"] == 5
    assert body_of(user("x"), parameters={"max_completion_tokens": 6})["max_tokens"] == 6
    thinking = {"type": "enabled", "budget_tokens": 2000}
    body = body_of(user("x"), parameters={"thinking": thinking})
    assert (body["thinking"], body["max_tokens"]) == (thinking, DEFAULT_MAX_TOKENS + 2000)


def test_turns_alternate_and_system_messages_go_to_the_front() -> None:
    """What follows from one side is one turn, and blank text, which is refused, is left out."""
    body = body_of(
        ModelMessage(role="system", content="s1"),
        user("a"),
        user(" "),
        ModelMessage(role="critic", content="b", name="n"),
        ModelMessage(role="assistant", content="c"),
        ModelMessage(role="assistant", content=""),
        ModelMessage(role="developer", content="s2"),
        ModelMessage(role="assistant", content="d"),
        system_prompt="s0",
    )
    assert body["system"] == [wired("s0"), wired("s1"), wired("s2")]
    assert body["messages"] == [
        {"role": "user", "content": [wired("a"), wired("b")]},
        {"role": "assistant", "content": [wired("c"), wired("d")]},
    ]


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (
            {"type": "image_url", "image_url": {"url": "data:image/PNG;base64,AA==", "detail": 1}},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "AA=="},
            },
        ),
        (
            {"type": "input_image", "image_url": "https://example.org/a.png"},
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        ),
        (
            {"type": "image", "data": "AA==", "mimeType": "image/webp"},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/webp", "data": "AA=="},
            },
        ),
        (
            {"type": "image", "data": "data:image/gif;charset=x,%00a"},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/gif", "data": "AGE="},
            },
        ),
        (
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="},
            },
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="},
                "title": "a.pdf",
            },
        ),
        *[
            (same, same)
            for same in (
                {"type": "image", "source": {"type": "file", "file_id": "f"}, "new": 1},
                {"type": "image_url", "image_url": None},
                {"type": "file", "file": {"file_id": "f"}},
                {"type": "input_audio", "input_audio": {"data": "AA=="}},
                {"type": "text", "text": "t", "cache_control": {"type": "ephemeral"}},
            )
        ],
    ],
)
def test_parts_become_blocks(part: dict[str, Any], block: dict[str, Any]) -> None:
    """Pictures and files in other services' forms are translated, all else is as it was."""
    (message,) = body_of(user(None, part))["messages"]
    assert message["content"] == [block]


def test_text_stands_before_its_parts_and_a_result_may_have_parts() -> None:
    """The text is not said twice where a part says it already."""
    image = {"type": "image", "source": {"type": "url", "url": "https://x/a"}}
    call = ToolCall(id="c", name="look", arguments="")
    body = body_of(
        user("see", image),
        ModelMessage(role="assistant", tool_calls=(call, call)),
        ModelMessage(role="tool", tool_call_id="c", parts=(image, {"type": "text", "text": ""})),
        ModelMessage(role="tool", tool_call_id="c", content=""),
        user("said", {"type": "text", "text": "said"}, image),
    )
    first, calls, second = (message["content"] for message in body["messages"])
    assert first == [wired("see"), image]
    one, two = (block["id"] for block in calls)
    assert second == [
        {"type": "tool_result", "tool_use_id": one, "content": [image]},
        {"type": "tool_result", "tool_use_id": two},
        wired("said"),
        image,
    ]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"a": 1.50}', {"a": 1.5}),
        (" ", {}),
        ("[1]", {"INVALID_JSON": "[1]"}),
        ('{"a": NaN}', {"INVALID_JSON": '{"a": NaN}'}),
        ('{"a": 1e999}', {"INVALID_JSON": '{"a": 1e999}'}),
        ('{"a": ', {"INVALID_JSON": '{"a": '}),
    ],
)
def test_arguments_are_sent_as_an_object(arguments: str, sent: dict[str, Any]) -> None:
    """What is none, or could not be written as JSON again, is shown to the model as a text."""
    call = ToolCall(id="c", name="t", arguments=arguments)
    (message,) = body_of(ModelMessage(role="assistant", tool_calls=(call,)))["messages"]
    assert message["content"][0]["input"] == sent


def kept(content: Any, **fields: Any) -> str:
    """Return provider data of this endpoint and model, but for *fields*."""
    return json.dumps({"anthropic": {"endpoint": "http://x", "model": "m", "content": content}})


@pytest.mark.parametrize(
    "data",
    [
        "not json",
        "[]",
        '{"anthropic": 3}',
        '{"openai": {"endpoint": "http://x"}}',
        kept(3),
        kept([3]),
        kept([{"type": "text", "text": "something else"}]),
        kept([{"type": "tool_use", "id": "a", "name": "t"}, {"type": "text", "text": "hi"}]),
    ],
)
def test_provider_data_that_does_not_fit_is_left_alone(data: str) -> None:
    """Another provider's, damaged, or of a message that was changed since: the message counts."""
    message = ModelMessage(role="assistant", content="hi", provider_data=data)
    assert body_of(message)["messages"] == [{"role": "assistant", "content": [wired("hi")]}]


@given(
    st.lists(st.lists(st.sampled_from(["", "a", "b", "x.1"]), min_size=1, max_size=3), max_size=4)
)
def test_every_call_has_a_legal_id_of_its_own_that_its_result_carries(
    ids: list[list[str]],
) -> None:
    """Whatever ids came, also from another service; one that does its work is kept."""
    messages: list[ModelMessage] = []
    for turn in ids:
        calls = tuple(ToolCall(id=one, name="t", arguments="") for one in turn)
        messages.append(ModelMessage(role="assistant", tool_calls=calls))
        messages += [ModelMessage(role="tool", content="r", tool_call_id=one) for one in turn]
    wire = body_of(*messages)["messages"]
    called = [block["id"] for message in wire[::2] for block in message["content"]]
    answered = [block["tool_use_id"] for message in wire[1::2] for block in message["content"]]
    assert answered == called
    assert len(set(called)) == len(called) == sum(map(len, ids))
    assert all(one.isalnum() for one in called)
    assert {one for turn in ids for one in turn if one.isalnum()} <= set(called)
