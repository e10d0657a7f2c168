from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asking import HELLO, KEY, Ask, follow_up, last
from chat_rules import openai_chat_problems
from sessions_api.providers.base import (
    ModelMessage,
    ModelReply,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolSpec,
)
from sessions_api.providers.openai_answer import Answer
from sessions_api.providers.openai_request import request_body
from state_store import ToolCall, Usage
from wire_server import Turn, WireServer

WEATHER = {"id": "call_a", "name": "weather", "arguments": '{"city": "Łódź",  "days":3}'}
CLOCK = {"id": "call_b", "name": "clock", "arguments": "{}"}
FULL_USAGE = {
    "prompt_tokens": 11,
    "completion_tokens": 7,
    "total_tokens": 18,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


@pytest.mark.parametrize("stream", [False, True])
def test_text_comes_back_with_usage_and_finish_reason(
    ask: Ask, wire: WireServer, *, stream: bool
) -> None:
    """Both faces, whole and streamed, give the same reply for the same answer."""
    wire.script(Turn(text="Good  morning, Zoë 🌞", usage=FULL_USAGE))
    assert last(ask(HELLO, stream=stream)) == ModelReply(
        content="Good  morning, Zoë 🌞",
        usage=Usage(input_tokens=11, output_tokens=7, cached_input_tokens=4, reasoning_tokens=2),
        finish_reason="stop",
    )


def test_deltas_concatenate_to_the_reply(ask: Ask, wire: WireServer) -> None:
    """What was shown piece by piece is what is stored."""
    wire.script(Turn(text="one two three", message={"reasoning_content": "hm"}))
    *deltas, reply = ask(HELLO, stream=True)
    assert isinstance(reply, ModelReply)
    assert len(deltas) > 3
    assert "".join(d.text for d in deltas if isinstance(d, TextDelta)) == reply.content
    assert "".join(d.text for d in deltas if isinstance(d, ReasoningDelta)) == "hm"


@pytest.mark.parametrize("stream", [False, True])
def test_parallel_tool_calls_keep_their_exact_arguments(
    ask: Ask, wire: WireServer, *, stream: bool
) -> None:
    """Spaces, escapes and order inside the arguments are the model's, also from fragments."""
    wire.script(Turn(tool_calls=[WEATHER, CLOCK]))
    reply = last(ask(HELLO, stream=stream))
    assert reply.tool_calls == (ToolCall(**WEATHER), ToolCall(**CLOCK))
    assert reply.content is None
    assert reply.finish_reason == "tool_calls"


@pytest.mark.parametrize("stream", [False, True])
def test_unreported_usage_is_unknown_not_zero(ask: Ask, wire: WireServer, *, stream: bool) -> None:
    """A service that reports nothing, or nonsense, leaves None."""
    odd = {"prompt_tokens": 5, "completion_tokens": -1, "prompt_tokens_details": [1]}
    wire.script(Turn(text="hi"), Turn(text="hi", usage=odd))
    assert last(ask(HELLO, stream=stream)).usage == Usage()
    assert last(ask(HELLO, stream=stream)).usage == Usage(input_tokens=5)


def test_a_stream_asks_for_usage_and_a_parameter_can_take_that_back(
    ask: Ask, wire: WireServer
) -> None:
    """`stream_options` is sent by default and left out for a service that refuses it."""
    wire.script(Turn(text="hi"), Turn(text="hi"))
    ask(HELLO, stream=True)
    without = ModelRequest(
        model="m-1", messages=HELLO.messages, parameters={"stream_options": None}
    )
    ask(without, stream=True)
    first, second = (asked.body for asked in wire.requests)
    assert first["stream_options"] == {"include_usage": True}
    assert "stream_options" not in second


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_is_kept_and_goes_back_with_tool_calls(
    ask: Ask, wire: WireServer, field: str, *, stream: bool
) -> None:
    """It returns under the name it came by, where services insist on it."""
    wire.script(Turn(tool_calls=[CLOCK], message={field: "let me think"}), Turn(text="noon"))
    reply = last(ask(HELLO, stream=stream))
    assert reply.reasoning_content == "let me think"
    result = ModelMessage(role="tool", content="12:00", tool_call_id="call_b", name="clock")
    ask(follow_up(reply, result))
    assert wire.requests[1].body["messages"][1][field] == "let me think"


@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_that_comes_under_two_names_is_taken_once(
    ask: Ask, wire: WireServer, *, stream: bool
) -> None:
    """Some services send the old and the new name side by side."""
    wire.script(Turn(text="hi", message={"reasoning": "hm", "reasoning_content": "hm"}))
    assert last(ask(HELLO, stream=stream)).reasoning_content == "hm"


@pytest.mark.parametrize("stream", [False, True])
def test_unknown_fields_of_message_and_call_round_trip(
    ask: Ask, wire: WireServer, *, stream: bool
) -> None:
    """Signatures and encrypted reasoning come back to the service as it sent them."""
    details = [{"type": "reasoning.encrypted", "data": "bG9yZW0\ud800", "index": 0}]
    signed = {**CLOCK, "extra_content": {"google": {"thought_signature": "c2ln"}}}
    wire.script(
        Turn(tool_calls=[WEATHER, signed], message={"reasoning_details": details}),
        Turn(text="noon"),
    )
    reply = last(ask(HELLO, stream=stream))
    assert reply.provider_data is not None
    reply.provider_data.encode("ascii")
    results = [
        ModelMessage(role="tool", content="rain", tool_call_id="call_a"),
        ModelMessage(role="tool", content="12:00", tool_call_id="call_b"),
    ]
    # The surrogate cannot be sent as UTF-8 by any client; the body shows what would be.
    body = request_body(follow_up(reply, *results), endpoint=wire.base_url)
    said = body["messages"][1]
    assert said["reasoning_details"] == details
    assert "extra_content" not in said["tool_calls"][0]
    assert said["tool_calls"][1]["extra_content"] == signed["extra_content"]


def test_unknown_fields_stay_away_from_another_endpoint_and_model(
    ask: Ask, wire: WireServer
) -> None:
    """A second one would refuse the first one's inventions, and a service must not learn them."""
    wire.script(Turn(text="hi", message={"reasoning_details": ["secret"], "reasoning": "hm"}))
    reply = last(ask(HELLO))
    other_model = replace(follow_up(reply), model="m-2")
    for request, endpoint in (
        (follow_up(reply), "http://other/v1"),
        (other_model, wire.base_url),
    ):
        body = request_body(request, endpoint=endpoint)
        assert body["messages"][1] == {"role": "assistant", "content": "hi"}
        assert not openai_chat_problems(body, extensions=False)


@pytest.mark.parametrize("data", ["not json", "[]", '"text"', '{"openai": 3}', '{"other": {}}'])
def test_provider_data_of_other_providers_is_left_alone(data: str) -> None:
    """A session that was held with another provider can be continued here."""
    message = ModelMessage(role="assistant", content="hi", provider_data=data)
    body = request_body(ModelRequest(model="m", messages=(message,)), endpoint="http://x")
    assert body["messages"] == [{"role": "assistant", "content": "hi"}]


def test_the_request_says_what_it_was_given(ask: Ask, wire: WireServer) -> None:
    """System prompt first, tools, parts and parameters under their own names."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    text = {"type": "text", "text": "as text"}
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    wire.script(Turn(text="ok"))
    ask(
        ModelRequest(
            model=None,
            system_prompt="Be brief.",
            messages=(
                ModelMessage(role="user", content="look", parts=(image,), name="ann"),
                ModelMessage(role="user", content="as text", parts=(text, image)),
                ModelMessage(role="critic", content=None),
            ),
            tools=(ToolSpec(name="weather", description="Tell it.", parameters=schema),),
            parameters={
                "temperature": 0.5,
                "top_k": 3,
                "max_tokens": None,
                "model": "other",
                "stream_options": {"include_usage": True},
            },
        ),
        default_model="m-2",
        api_key=KEY,
    )
    assert wire.requests[0].path == "/v1/chat/completions"
    assert wire.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert wire.requests[0].body == {
        "model": "m-2",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "look"}, image], "name": "ann"},
            {"role": "user", "content": [text, image]},
            {"role": "user", "content": ""},  # the only one that this format has for it
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "weather", "description": "Tell it.", "parameters": schema},
            }
        ],
        "temperature": 0.5,
        "top_k": 3,
    }


def test_what_a_tool_shows_follows_the_results_as_the_users() -> None:
    """In a result the format takes text alone, and nothing may stand between results."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    text = {"type": "text", "text": "seen"}
    calls = tuple(ToolCall(id=one, name="look", arguments="") for one in "ab")
    turn = (
        ModelMessage(role="assistant", tool_calls=calls),
        ModelMessage(role="tool", tool_call_id="a", parts=(text, image)),
        ModelMessage(role="tool", tool_call_id="b", parts=(image,)),
    )
    body = request_body(ModelRequest(model="m", messages=(*turn, *HELLO.messages)))
    assert openai_chat_problems(body) == []
    _, first, second, shown, hello = body["messages"]
    assert (first["content"], second["content"]) == ("seen", "")
    assert shown == {"role": "user", "content": [image, image]}
    assert hello["content"] == "hello"
    last_ones = request_body(ModelRequest(model="m", messages=turn))["messages"]
    assert last_ones[-1] == shown


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ids=st.lists(st.lists(st.sampled_from(["", "a", "b"]), min_size=1, max_size=3), max_size=4))
def test_every_result_carries_the_id_of_its_call(ids: list[list[str]]) -> None:
    """Whatever ids came, those of a request are distinct, not empty, and pair in order."""
    messages: list[ModelMessage] = []
    for turn in ids:
        calls = tuple(ToolCall(id=one, name="t", arguments="") for one in turn)
        messages.append(ModelMessage(role="assistant", tool_calls=calls))
        messages += [ModelMessage(role="tool", content="r", tool_call_id=one) for one in turn]
    request = ModelRequest(model="m", messages=tuple(messages))
    body = request_body(request, endpoint="http://x")
    assert not ids or not openai_chat_problems(body, extensions=False)
    called = [call for message in body["messages"] for call in message.get("tool_calls", ())]
    sent = [call["id"] for call in called]
    results = [message for message in body["messages"] if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in results] == sent
    assert all(call["function"]["arguments"] == "{}" for call in called)
    assert len(set(sent)) == len(sent)
    assert {one for turn in ids for one in turn if one} <= set(sent)


@pytest.mark.parametrize("stream", [False, True])
def test_empty_ids_and_arguments_are_taken_as_they_are(
    ask: Ask, wire: WireServer, *, stream: bool
) -> None:
    """Local servers send neither; nothing is made up for the record."""
    bare = {"id": "", "name": "clock", "arguments": ""}
    wire.script(Turn(tool_calls=[bare, bare]))
    expected = ToolCall(id="", name="clock", arguments="")
    assert last(ask(HELLO, stream=stream)).tool_calls == (expected, expected)


def test_fragments_without_an_index_or_all_of_index_zero_are_told_apart() -> None:
    """Services that stream whole calls, or number them wrongly, still give two calls."""

    def calls(*fragments: dict[str, Any]) -> list[tuple[str, str, str]]:
        answer = Answer(endpoint="http://x", model="m")
        for fragment in fragments:
            delta = {"tool_calls": [fragment]}
            answer.feed_event({"choices": [{"delta": delta, "finish_reason": "tool_calls"}]})
        found = answer.reply(streamed=True).tool_calls
        return [(call.id, call.name, call.arguments) for call in found]

    opening = {"function": {"name": "t", "arguments": "{"}}
    rest: dict[str, Any] = {"function": {"arguments": "}"}}
    assert calls(opening, rest, opening, rest) == [("", "t", "{}"), ("", "t", "{}")]
    assert calls({"id": "a", **opening}, {"id": "a", **rest}) == [("a", "t", "{}")]
    both = [("a", "t", "{}"), ("b", "t", "{}")]
    a, b = ({"id": one, "index": 0, **opening} for one in "ab")
    assert calls(a, {"index": 0, **rest}, b, {"index": 0, **rest}) == both
    whole = {"function": {"name": "t", "arguments": {"x": 1}}}
    assert calls(whole) == [("", "t", '{"x": 1}')]


def test_content_in_parts_and_a_refusal_become_the_text() -> None:
    """What the model said is shown, in whichever field it came."""
    parts = [{"type": "text", "text": "a"}, {"type": "thinking"}, {"type": "text", "text": "b"}]
    for message, text in (
        ({"content": parts}, "ab"),
        ({"content": None, "refusal": "No."}, "No."),
        ({"content": ""}, ""),
        ({}, None),
    ):
        answer = Answer(endpoint="http://x", model="m")
        answer.feed_whole(
            json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
        )
        assert answer.reply(streamed=False).content == text
