from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from asking import KEY, Ask, both_ways, failure
from sessions_api.providers.answer_reading import AnswerCutShort, AnswerMalformed
from sessions_api.providers.anthropic_answer import Answer
from wire_server import Turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from messages_server import MessagesServer


@both_ways
@pytest.mark.parametrize(
    ("kind", "error_type", "status"),
    [
        ("overloaded_error", "provider.unavailable", 529),
        ("rate_limit_error", "provider.rate_limit", 429),
        ("authentication_error", "provider.auth", 401),
        ("scripted_error", "provider.unavailable", None),
        (None, "provider.unavailable", None),
    ],
)
def test_an_error_in_place_of_an_answer_is_read_by_its_type(
    ask_messages: Ask,
    messages_wire: MessagesServer,
    kind: object,
    error_type: str,
    status: int | None,
    *,
    stream: bool,
) -> None:
    """An overloaded service says so in the middle of a stream whose status was good."""
    raw = json.dumps({"type": "error", "error": {"type": kind, "message": f"scripted {KEY}"}})
    messages_wire.script(Turn(raw=f"event: error\ndata: {raw}\n\n" if stream else raw))
    error = failure(ask_messages, stream=stream)
    assert (error.error_type, error.status) == (error_type, status)


def read(answer: Answer, message: object) -> None:
    """Feed a whole message and take the reply."""
    answer.feed_whole(json.dumps(message).encode())
    answer.reply(streamed=False)


@pytest.mark.parametrize(
    "message",
    [
        3,
        {},
        {"content": 3},
        {"content": [3]},
        {"content": [{"text": "scripted"}]},
        {"content": [{"type": 3}]},
        {"content": [{"type": "text"}]},
        {"content": [{"type": "text", "text": 3}]},
        {"content": [{"type": "thinking", "thinking": ["scripted"]}]},
        {"content": [{"type": "tool_use", "input": {}}]},
        {"content": [{"type": "tool_use", "name": "t", "input": "scripted"}]},
        {"content": [{"type": "tool_use", "name": "t", "id": 3}]},
        {"content": [], "stop_reason": 3},
    ],
)
def test_a_field_of_the_wrong_kind_in_a_message_is_malformed(message: object) -> None:
    """Every field is looked at before it is used, and no error tells what was in it."""
    answer = Answer(endpoint="http://x", model="m")
    with pytest.raises(AnswerMalformed) as caught:
        read(answer, message)
    assert "scripted" not in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        [{"type": "message_start", "message": 3}],
        [{"type": "content_block_start", "content_block": {"type": "text"}}],
        [{"type": "content_block_start", "index": -1, "content_block": {"type": "text"}}],
        [{"type": "content_block_start", "index": 0, "content_block": 3}],
        [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}}],
        *[
            [
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
                {"type": "content_block_delta", "index": 0, "delta": delta},
            ]
            for delta in (
                3,
                {"type": "text_delta", "text": 3},
                {"type": "thinking_delta", "thinking": 3},
                {"type": "input_json_delta", "partial_json": 3},
                {"type": "signature_delta", "signature": 3},
                {"type": "unknown", "text": ["scripted"]},
            )
        ],
        [{"type": "message_delta", "delta": 3}],
        [{"type": "message_delta", "delta": {"stop_reason": 3}}],
        [{"type": "message_stop"}],
    ],
)
def test_a_field_of_the_wrong_kind_in_an_event_is_malformed(fields: Sequence[Any]) -> None:
    """The same for streams; one that says nothing has been cut short."""
    answer = Answer(endpoint="http://x", model="m")
    with pytest.raises((AnswerMalformed, AnswerCutShort)) as caught:
        _ = [answer.feed_event(event) for event in fields], answer.reply(streamed=True)
    assert "scripted" not in str(caught.value)
