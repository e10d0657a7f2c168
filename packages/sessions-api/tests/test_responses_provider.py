from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from asking import HELLO, Ask, both_ways, follow_up, last
from responses_server import message_item
from sessions_api import ProviderUnavailable
from sessions_api.providers import make_provider
from sessions_api.providers.base import (
    ModelMessage,
    ModelReply,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
)
from state_store import ToolCall, Usage
from wire_server import Turn

if TYPE_CHECKING:
    from responses_server import ResponsesServer

WEATHER = {"id": "call_a", "name": "weather", "arguments": '{"city": "Łódź",  "days":3.10}'}
CLOCK = {"id": "call_b", "name": "clock", "arguments": "{}"}
FULL_USAGE = {
    "input_tokens": 11,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 18,
}
REASONING: dict[str, Any] = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [
        {"type": "summary_text", "text": "**First** look"},
        {"type": "summary_text", "text": "then say"},
    ],
    "encrypted_content": "gAAAAAB+/==",
    "status": None,
    "new": [1.5, None, "é"],
}
SEARCHED = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"q": "x"}}
TOMORROW = {"id": "xx_1", "type": "an_item_of_tomorrow", "for": "rs_1", "n": 2**70}
COMMENT = {**message_item("msg_1", "Let me see."), "phase": "commentary"}
CALL = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_b",
    "name": "clock",
    "arguments": '{"zone":  "UTC"}',
    "namespace": None,
}
ALL_ITEMS: list[dict[str, Any]] = [
    REASONING,
    SEARCHED,
    TOMORROW,
    COMMENT,
    {**REASONING, "id": "rs_2", "summary": []},
    CALL,
]


@both_ways
def test_text_comes_back_with_usage_and_finish_reason(
    ask_responses: Ask, responses_wire: ResponsesServer, *, stream: bool
) -> None:
    """Both faces, whole and streamed, give the same reply for the same answer."""
    responses_wire.script(Turn(text="Good  morning, Zoë 🌞", usage=FULL_USAGE))
    reply = last(ask_responses(HELLO, stream=stream))
    assert reply.content == "Good  morning, Zoë 🌞"
    assert reply.usage == Usage(
        input_tokens=11, output_tokens=7, cached_input_tokens=4, reasoning_tokens=2
    )
    assert (reply.finish_reason, reply.tool_calls) == ("stop", ())


@both_ways
def test_unreported_usage_is_unknown_not_zero(
    ask_responses: Ask, responses_wire: ResponsesServer, *, stream: bool
) -> None:
    """A service that reports nothing, or nonsense, leaves None."""
    odd = {"input_tokens": 5.0, "output_tokens": -1, "output_tokens_details": [1]}
    responses_wire.script(Turn(text="hi"), Turn(text="hi", usage=odd))
    assert last(ask_responses(HELLO, stream=stream)).usage == Usage()
    assert last(ask_responses(HELLO, stream=stream)).usage == Usage(input_tokens=5)


@both_ways
def test_parallel_tool_calls_keep_their_exact_arguments(
    ask_responses: Ask, responses_wire: ResponsesServer, *, stream: bool
) -> None:
    """Spaces, digits and order inside the arguments are as they came, whole and in pieces."""
    responses_wire.script(Turn(text="So:", tool_calls=[WEATHER, CLOCK]), Turn(text="done"))
    reply = last(ask_responses(HELLO, stream=stream))
    assert reply.tool_calls == (ToolCall(**WEATHER), ToolCall(**CLOCK))
    assert (reply.content, reply.finish_reason) == ("So:", "tool_calls")
    results = [
        ModelMessage(role="tool", content="rain", tool_call_id="call_a"),
        ModelMessage(role="tool", content="", tool_call_id="call_b"),
    ]
    assert last(ask_responses(follow_up(reply, *results), stream=stream)).content == "done"
    *_, first, second = responses_wire.requests[1].body["input"]
    assert first == {"type": "function_call_output", "call_id": "call_a", "output": "rain"}
    assert second == {"type": "function_call_output", "call_id": "call_b", "output": ""}


def test_deltas_concatenate_to_the_reply(
    ask_responses: Ask, responses_wire: ResponsesServer
) -> None:
    """What was shown piece by piece is what is stored, its paragraphs set apart."""
    items = [REASONING, COMMENT, message_item("msg_2", "one two")]
    responses_wire.script(Turn(message={"output": items}))
    *deltas, reply = ask_responses(HELLO, stream=True)
    assert isinstance(reply, ModelReply)
    texts = [delta.text for delta in deltas if isinstance(delta, TextDelta)]
    thoughts = [delta.text for delta in deltas if isinstance(delta, ReasoningDelta)]
    assert "".join(texts) == reply.content == "Let me see.\n\none two"
    assert "".join(thoughts) == reply.reasoning_content == "**First** look\n\nthen say"


@both_ways
def test_a_refusal_and_an_answer_without_text_are_told_apart(
    ask_responses: Ask, responses_wire: ResponsesServer, *, stream: bool
) -> None:
    """What the model said is shown, in whichever part it came."""
    refused = {**COMMENT, "content": [{"type": "refusal", "refusal": "No, sorry."}]}
    responses_wire.script(Turn(message={"output": [refused]}), Turn(message={"output": []}))
    *deltas, reply = ask_responses(HELLO, stream=stream)
    assert isinstance(reply, ModelReply)
    assert (reply.content, reply.finish_reason) == ("No, sorry.", "stop")
    assert "".join(one.text for one in deltas if isinstance(one, TextDelta)) == (
        "No, sorry." if stream else ""
    )
    empty = last(ask_responses(HELLO, stream=stream))
    assert (empty.content, empty.provider_data) == (None, None)


@both_ways
@pytest.mark.parametrize(
    ("reason", "expected"), [("max_output_tokens", "length"), ("content_filter", "content_filter")]
)
def test_an_incomplete_answer_says_why(
    ask_responses: Ask, responses_wire: ResponsesServer, reason: str, expected: str, *, stream: bool
) -> None:
    """It is kept as far as it came; reasoning that nothing came of does not go back."""
    items = [COMMENT, REASONING]
    responses_wire.script(Turn(message={"output": items}, finish_reason=reason), Turn(text="x"))
    reply = last(ask_responses(HELLO, stream=stream))
    assert (reply.content, reply.finish_reason) == ("Let me see.", expected)
    on = ModelMessage(role="user", content="go on")
    ask_responses(follow_up(reply, on))
    assert responses_wire.requests[1].body["input"][1:-1] == [COMMENT]


@both_ways
def test_c38_every_item_goes_back_as_it_came_in_order_and_place(
    ask_responses: Ask, responses_wire: ResponsesServer, *, stream: bool
) -> None:
    """Encrypted reasoning, unknown kinds and unknown fields, before the outputs of the calls."""
    responses_wire.script(Turn(message={"output": ALL_ITEMS}), Turn(text="noon"))
    reply = last(ask_responses(HELLO, stream=stream))
    assert reply.content == "Let me see."
    result = ModelMessage(role="tool", content="12:00", tool_call_id="call_b", name="clock")
    ask_responses(follow_up(reply, result), stream=stream)
    body = responses_wire.requests[1].body
    first, *items, output = body["input"]
    assert first == {"role": "user", "content": "hello"}
    assert items == ALL_ITEMS
    assert [list(item) for item in items] == [list(item) for item in ALL_ITEMS]
    assert output == {"type": "function_call_output", "call_id": "call_b", "output": "12:00"}
    assert (body["store"], body["include"]) == (False, ["reasoning.encrypted_content"])


def test_c38_items_of_another_model_or_service_and_open_reasoning_are_left_out(
    ask_responses: Ask, responses_wire: ResponsesServer
) -> None:
    """Of the request only: what was said and called is sent, and the message stays as it is."""
    plain = [
        {"role": "assistant", "content": "Let me see."},
        {
            "type": "function_call",
            "call_id": "call_b",
            "name": "clock",
            "arguments": '{"zone":  "UTC"}',
        },
    ]
    open_items = [{**REASONING, "encrypted_content": None}, *ALL_ITEMS[3:]]
    without_ids = [
        {name: value for name, value in item.items() if name != "id"} for item in (COMMENT, CALL)
    ]
    result = ModelMessage(role="tool", content="12:00", tool_call_id="call_b")
    turns = [Turn(message={"output": ALL_ITEMS}), Turn(message={"output": open_items})]
    responses_wire.script(*turns, *[Turn(text="x")] * 3)
    reply = last(ask_responses(HELLO))
    unsigned = last(ask_responses(HELLO))
    elsewhere = ModelMessage(
        role="assistant",
        content=reply.content,
        tool_calls=reply.tool_calls,
        provider_data=str(reply.provider_data).replace(responses_wire.base_url, "http://other/v1"),
    )
    asked = (
        (follow_up(reply, result, model="m-2"), plain),
        (ModelRequest(model="m-1", messages=(*HELLO.messages, elsewhere, result)), plain),
        (follow_up(unsigned, result), without_ids),
    )
    for request, expected in asked:
        before = request.messages[1]
        ask_responses(request)
        assert responses_wire.requests[-1].body["input"][1:-1] == expected
        assert request.messages[1] == before


def test_the_provider_is_chosen_by_its_name_and_configured_like_the_other(
    responses_wire: ResponsesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same package, same key, same address; only the name and the words on the wire differ."""
    for asynchronous in (False, True):
        with pytest.raises(ProviderUnavailable, match=r"api\.openai\.com"):
            make_provider("openai-responses", asynchronous=asynchronous)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-" + "made-up-for-tests-0123456789")
        provider = make_provider("openai-responses", asynchronous=asynchronous)
        told = (provider.name, provider.endpoint)
        assert told == ("openai-responses", "https://api.openai.com/v1")
        monkeypatch.delenv("OPENAI_API_KEY")
