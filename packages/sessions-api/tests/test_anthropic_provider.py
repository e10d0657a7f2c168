from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asking import HELLO, Ask, both_ways, follow_up, last
from sessions_api.providers.anthropic_answer import Answer
from sessions_api.providers.base import (
    ModelMessage,
    ModelReply,
    ReasoningDelta,
    TextDelta,
)
from sessions_api.providers.exact_json import elements, members
from state_store import ToolCall, Usage
from wire_server import Turn

if TYPE_CHECKING:
    from messages_server import MessagesServer

WEATHER = {"id": "toolu_a", "name": "weather", "arguments": '{"city": "Łódź",  "days":3.10}'}
CLOCK = {"id": "toolu_b", "name": "clock", "arguments": "{}"}
FULL_USAGE = {
    "input_tokens": 5,
    "cache_creation_input_tokens": 2,
    "cache_read_input_tokens": 4,
    "output_tokens": 7,
    "output_tokens_details": {"thinking_tokens": 2},
}
THOUGHT = {"type": "thinking", "thinking": "let me see, slowly", "signature": "EqoB+/=="}
REDACTED = {"type": "redacted_thinking", "data": "EmwKAhgB+/=="}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "search", "input": {"q": "x"}}
FOUND = {"type": "search_result_of_tomorrow", "for": "srvtoolu_1", "items": [{"n": 1.5, "é": None}]}
CITED = {
    "type": "text",
    "text": "It says so.",
    "citations": [{"type": "page", "page": 3, "cited_text": "so"}],
}
TOOL_USE = {
    "type": "tool_use",
    "id": "toolu_b",
    "name": "clock",
    "input": {"zone": "UTC"},
    "caller": {"type": "direct"},
}
ALL_BLOCKS: list[dict[str, Any]] = [
    THOUGHT,
    REDACTED,
    SEARCH,
    FOUND,
    CITED,
    {**THOUGHT, "signature": "S2"},
    TOOL_USE,
]


@both_ways
def test_text_comes_back_with_usage_and_finish_reason(
    ask_messages: Ask, messages_wire: MessagesServer, *, stream: bool
) -> None:
    """Both faces, whole and streamed, give the same reply; cached input is input as well."""
    messages_wire.script(Turn(text="Good  morning, Zoë 🌞", usage=FULL_USAGE))
    assert last(ask_messages(HELLO, stream=stream)) == ModelReply(
        content="Good  morning, Zoë 🌞",
        usage=Usage(input_tokens=11, output_tokens=7, cached_input_tokens=4, reasoning_tokens=2),
        finish_reason="end_turn",
        cache_write_tokens=2,
    )


@both_ways
def test_a_cache_that_lasts_for_an_hour_has_a_price_that_no_list_has(
    ask_messages: Ask, messages_wire: MessagesServer, *, stream: bool
) -> None:
    """What was written to one is input, and its price is not known."""
    kinds = {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 1}
    messages_wire.script(Turn(text="hi", usage={**FULL_USAGE, "cache_creation": kinds}))
    reply = last(ask_messages(HELLO, stream=stream))
    assert (reply.usage.input_tokens, reply.cache_write_tokens) == (11, None)


@both_ways
def test_unreported_usage_is_unknown_not_zero(
    ask_messages: Ask, messages_wire: MessagesServer, *, stream: bool
) -> None:
    """A service that reports nothing, or nonsense, leaves None."""
    odd = {"input_tokens": 5, "output_tokens": -1, "output_tokens_details": [1]}
    messages_wire.script(Turn(text="hi"), Turn(text="hi", usage=odd))
    assert last(ask_messages(HELLO, stream=stream)).usage == Usage()
    assert last(ask_messages(HELLO, stream=stream)).usage == Usage(input_tokens=5)


def test_deltas_concatenate_to_the_reply(ask_messages: Ask, messages_wire: MessagesServer) -> None:
    """What was shown piece by piece is what is stored."""
    blocks = [THOUGHT, {"type": "text", "text": "one two three"}]
    messages_wire.script(Turn(message={"content": blocks}))
    *deltas, reply = ask_messages(HELLO, stream=True)
    assert isinstance(reply, ModelReply)
    assert len(deltas) > 5
    texts = [delta.text for delta in deltas if isinstance(delta, TextDelta)]
    thoughts = [delta.text for delta in deltas if isinstance(delta, ReasoningDelta)]
    assert "".join(texts) == reply.content == "one two three"
    assert "".join(thoughts) == reply.reasoning_content == THOUGHT["thinking"]


@both_ways
def test_parallel_tool_calls_keep_their_exact_arguments(
    ask_messages: Ask, messages_wire: MessagesServer, *, stream: bool
) -> None:
    """Spaces, digits and order inside the arguments are as they came, whole and in pieces."""
    messages_wire.script(Turn(text="So:", tool_calls=[WEATHER, CLOCK]))
    reply = last(ask_messages(HELLO, stream=stream))
    assert reply.tool_calls == (ToolCall(**WEATHER), ToolCall(**CLOCK))
    assert (reply.content, reply.finish_reason) == ("So:", "tool_use")
    assert reply.provider_data is None  # the message says it all


@both_ways
def test_c38_every_block_goes_back_as_it_came_in_order_and_place(
    ask_messages: Ask, messages_wire: MessagesServer, *, stream: bool
) -> None:
    """Signed and redacted thinking, unknown kinds and unknown fields; also of tool calls."""
    messages_wire.script(Turn(message={"content": ALL_BLOCKS}), Turn(text="noon"))
    reply = last(ask_messages(HELLO, stream=stream))
    assert reply.content == CITED["text"]
    assert reply.tool_calls == (ToolCall(id="toolu_b", name="clock", arguments='{"zone": "UTC"}'),)
    assert reply.provider_data is not None
    reply.provider_data.encode("ascii")
    result = ModelMessage(role="tool", content="12:00", tool_call_id="toolu_b", name="clock")
    ask_messages(follow_up(reply, result), stream=stream)
    _, answer, results = messages_wire.requests[1].body["messages"]
    assert answer == {"role": "assistant", "content": ALL_BLOCKS}
    assert [list(block) for block in answer["content"]] == [list(block) for block in ALL_BLOCKS]
    wired = {"type": "tool_result", "tool_use_id": "toolu_b", "content": "12:00"}
    assert results == {"role": "user", "content": [wired]}


def test_c38_blocks_of_another_model_or_service_and_unsigned_ones_are_left_out(
    ask_messages: Ask, messages_wire: MessagesServer
) -> None:
    """Of the request only: what was said and called is sent, and the message stays as it is."""
    result = ModelMessage(role="tool", content="12:00", tool_call_id="toolu_b")
    plain = [
        {"type": "text", "text": CITED["text"]},
        {name: value for name, value in TOOL_USE.items() if name != "caller"},
    ]
    unsigned = [{**THOUGHT, "signature": ""}, {"type": "redacted_thinking"}, *ALL_BLOCKS]
    messages_wire.script(*[Turn(message={"content": unsigned})] * 2, *[Turn(text="x")] * 3)
    reply = last(ask_messages(HELLO))
    elsewhere = last(ask_messages(HELLO, base_url=messages_wire.base_url + "/v1"))
    asked = (
        (follow_up(reply, result), ALL_BLOCKS),
        (follow_up(reply, result, model="m-2"), plain),
        (follow_up(elsewhere, result), plain),
    )
    for request, expected in asked:
        before = request.messages[1]
        ask_messages(request)
        assert messages_wire.requests[-1].body["messages"][1]["content"] == expected
        assert request.messages[1] == before
    assert messages_wire.requests[1].path == "/v1/messages"  # not /v1/v1


@both_ways
def test_thinking_that_nothing_came_of_does_not_go_back(
    ask_messages: Ask, messages_wire: MessagesServer, *, stream: bool
) -> None:
    """The service refuses a turn that ends with it; it is kept with the message all the same."""
    text = {"type": "text", "text": "So"}
    cut = [Turn(message={"content": one}) for one in ([text, THOUGHT, REDACTED], [THOUGHT])]
    messages_wire.script(*cut, Turn(text="x"), Turn(text="x"))
    first, second = (last(ask_messages(HELLO, stream=stream)) for _ in range(2))
    on = ModelMessage(role="user", content="go on")
    ask_messages(follow_up(first, on))
    ask_messages(follow_up(second, on))
    assert messages_wire.requests[2].body["messages"][1]["content"] == [text]
    (turn,) = messages_wire.requests[3].body["messages"]
    assert [block["text"] for block in turn["content"]] == ["hello", "go on"]
    assert "EqoB+/==" in str(second.provider_data)
    assert messages_wire.problems == []


@both_ways
def test_a_call_that_was_cut_off_keeps_what_came_of_it(
    ask_messages: Ask, messages_wire: MessagesServer, *, stream: bool
) -> None:
    """The record has the exact text, the next request an object with that text in it."""
    begun = ["event: message_start", 'data: {"type": "message_start", "message": {}}', "", ""]
    block = {**TOOL_USE, "input": {}}
    delta = {"type": "input_json_delta", "partial_json": '{"zone": "U'}
    pieces: list[Any] = [
        "\n".join(begun),
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "an_event_of_tomorrow", "error": None},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
    ]
    messages_wire.script(Turn(chunks=pieces), Turn(text="x"))
    reply = last(ask_messages(HELLO, stream=True))
    assert reply.finish_reason == "max_tokens"
    assert reply.tool_calls[0].arguments == '{"zone": "U'
    result = ModelMessage(role="tool", content="Error", tool_call_id="toolu_b")
    ask_messages(follow_up(reply, result), stream=stream)
    (sent,) = messages_wire.requests[1].body["messages"][1]["content"]
    assert sent == {**block, "input": {"INVALID_JSON": '{"zone": "U'}}


def test_deltas_of_an_unknown_kind_become_part_of_their_block() -> None:
    """Text grows and all else is replaced; nothing is lost and nothing shown as an answer."""
    answer = Answer(endpoint="http://x", model="m")
    block = {"type": "compaction", "compaction": [1], "content": None}
    for event in (
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "d", "content": "a", "n": 1}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "d", "content": "b", "n": 2}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    ):
        assert answer.feed_event(event) == []
    reply = answer.reply(streamed=True)
    assert reply.content is None
    assert '{"type": "compaction", "compaction": [1], "content": "ab", "n": 2}' in str(
        reply.provider_data
    )


def test_exact_text_is_found_in_any_layout() -> None:
    """White space, escapes, brackets inside of texts, nothing at all."""
    text = ' {\n"a\\"]" : [ 1.10 ,{"b": "}"}, [] ] ,"c":{ } , "a":-0}'
    found = list(members(text))
    assert found == [('a"]', '[ 1.10 ,{"b": "}"}, [] ]'), ("c", "{ }"), ("a", "-0")]
    assert list(elements(found[0][1])) == ["1.10", '{"b": "}"}', "[]"]
    assert not [*members(" { } "), *elements(" [ ] ")]
