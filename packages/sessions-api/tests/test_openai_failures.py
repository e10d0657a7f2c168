from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from sessions_api.errors import ProviderError
from sessions_api.providers.answer_reading import AnswerCutShort, AnswerMalformed
from sessions_api.providers.base import Delta, ModelMessage, ModelReply, ModelRequest
from sessions_api.providers.openai_answer import Answer
from wire_server import Turn, WireServer

Ask = Callable[..., list[Delta | ModelReply]]

KEY = "sk-" + "made-up-for-tests-0123456789"
CONTENT = "the user's own words"
ASKED = ModelRequest(model="m-1", messages=(ModelMessage(role="user", content=CONTENT),))


def read(payload: object, *, streamed: bool) -> ModelReply:
    """Return the reply that one chunk or one completion makes."""
    answer = Answer(endpoint="http://x", model="m")
    if streamed:
        answer.feed_event(payload)
    else:
        answer.feed_whole(json.dumps(payload).encode())
    return answer.reply(streamed=streamed)


both_ways = pytest.mark.parametrize("stream", [False, True])


def failure(ask: Ask, **configuration: Any) -> ProviderError:
    """Ask, and return the error after looking for what must not be in it."""
    with pytest.raises(ProviderError) as caught:
        ask(ASKED, api_key=KEY, **configuration)
    error = caught.value
    printed = "".join(traceback.format_exception(error))
    for told in (str(error), repr(error), str(error.hint), str(vars(error)), printed):
        assert KEY not in told
        assert "Bearer" not in told
        assert CONTENT not in told
        assert "scripted" not in told  # a word of every error's body and headers
    assert error.hint
    assert error.__context__ is not None
    assert "127.0.0.1" in str(error)
    return error


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
        '{"choices": [], "usage": 3}',
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
