from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from asking import Ask, both_ways, failure
from sessions_api.providers.answer_reading import AnswerCutShort, AnswerMalformed
from sessions_api.providers.openai_answer import Answer
from wire_server import Turn, WireServer

if TYPE_CHECKING:
    from sessions_api.providers.base import ModelReply


def read(payload: object, *, streamed: bool) -> ModelReply:
    """Return the reply that one chunk or one completion makes."""
    answer = Answer(endpoint="http://x", model="m")
    if streamed:
        answer.feed_event(payload)
    else:
        answer.feed_whole(json.dumps(payload).encode())
    return answer.reply(streamed=streamed)


@both_ways
@pytest.mark.parametrize(
    "raw",
    [
        "3",
        '{"choices": {}}',
        '{"choices": [3]}',
        '{"choices": [{"index": [], "message": 3}]}',
        '{"choices": [{"message": 3}]}',
        '{"choices": [{"message": {}, "finish_reason": 3}]}',
        '{"choices": [{"message": {"content": 3}}]}',
        '{"choices": [{"message": {"content": ["scripted"]}}]}',
        '{"choices": [{"message": {"reasoning": []}}]}',
        '{"choices": [{"message": {"tool_calls": "scripted"}}]}',
        '{"choices": [{"message": {"tool_calls": [{"function": {"arguments": "{}"}}]}}]}',
        '{"choices": [{"message": {"tool_calls": [{"function": {"name": 3}}]}}]}',
        '{"choices": [{"message": {"tool_calls": [{"function": 3}]}}]}',
    ],
)
def test_a_field_of_the_wrong_kind_is_malformed(raw: str, *, stream: bool) -> None:
    """Every field is looked at before it is used, and no message tells what was in it."""
    with pytest.raises((AnswerMalformed, AnswerCutShort)) as caught:
        read(json.loads(raw.replace('"message"', '"delta"') if stream else raw), streamed=stream)
    assert "scripted" not in str(caught.value)


@both_ways
@pytest.mark.parametrize(
    ("code", "error_type", "status"),
    [
        (429, "provider.rate_limit", 429),
        ("502", "provider.unavailable", 502),
        (400, "provider.bad_response", 400),
        ("scripted_code", "provider.unavailable", None),
        (None, "provider.unavailable", None),
        (7, "provider.unavailable", None),
    ],
)
def test_an_error_in_place_of_an_answer_is_read_by_its_code(
    ask: Ask, wire: WireServer, code: object, error_type: str, status: int | None, *, stream: bool
) -> None:
    """Routers report the failure of what stands behind them with a status of 200."""
    raw = json.dumps({"error": {"message": "scripted", "code": code}})
    wire.script(Turn(raw=f"data: {raw}\n\n" if stream else raw))
    error = failure(ask, stream=stream)
    assert (error.error_type, error.status) == (error_type, status)
