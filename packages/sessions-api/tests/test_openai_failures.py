from __future__ import annotations

import json
import pickle
import traceback
from collections.abc import Callable
from dataclasses import replace
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
    answer = Answer(endpoint="http://x")
    if streamed:
        answer.feed_chunk(payload)
    else:
        answer.feed_completion(payload)
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


@pytest.mark.parametrize(
    ("status", "error_type", "retryable"),
    [
        (400, "provider.bad_response", False),
        (401, "provider.auth", False),
        (403, "provider.auth", False),
        (404, "provider.bad_response", False),
        (408, "provider.timeout", True),
        (409, "provider.bad_response", False),
        (413, "provider.bad_response", False),
        (422, "provider.bad_response", False),
        (429, "provider.rate_limit", True),
        (500, "provider.unavailable", True),
        (503, "provider.unavailable", True),
        (529, "provider.unavailable", True),
    ],
)
def test_an_error_status_has_a_stable_type(
    ask: Ask, wire: WireServer, status: int, error_type: str, *, retryable: bool
) -> None:
    """Type, status and the offer to retry are facts of the error; the body is not."""
    wire.script(Turn(status=status))
    error = failure(ask, stream=status in {401, 429, 500})
    assert (error.error_type, error.status, error.retryable) == (error_type, status, retryable)
    assert str(status) in str(error)
    assert error.retry_after_s is None
    assert len(wire.requests) == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "Retry-After": "1"}, 0.25),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "Fri, 02 Jan 1970 00:00:00 GMT"}, 0.0),
    ],
)
def test_the_wait_that_the_service_asks_for_is_told(
    ask: Ask, wire: WireServer, headers: dict[str, str], seconds: float | None
) -> None:
    """Seconds, milliseconds and dates are read; nonsense is not known."""
    wire.script(Turn(status=429, headers=headers))
    assert failure(ask).retry_after_s == seconds


def test_a_date_to_wait_for_counts_from_the_clock_of_the_service(
    ask: Ask, wire: WireServer
) -> None:
    """A local clock that is wrong changes nothing."""
    headers = {
        "Date": "Thu, 01 Jan 1970 00:00:00 GMT",
        "Retry-After": "Thu, 01 Jan 1970 00:01:30 GMT",
    }
    wire.script(Turn(status=503, headers=headers))
    assert failure(ask).retry_after_s == 90.0


@both_ways
def test_a_connection_dropped_before_the_answer_is_unavailable(
    ask: Ask, wire: WireServer, *, stream: bool
) -> None:
    """It may work the next time."""
    wire.script(Turn(drop="before"))
    error = failure(ask, stream=stream)
    assert (error.error_type, error.status, error.retryable) == (
        "provider.unavailable",
        None,
        True,
    )


@both_ways
def test_a_connection_dropped_inside_the_answer_is_unavailable(
    ask: Ask, wire: WireServer, *, stream: bool
) -> None:
    """Half an answer is never taken for a whole one."""
    wire.script(Turn(text="one two three four", drop="inside"))
    error = failure(ask, stream=stream)
    assert (error.error_type, error.retryable) == ("provider.unavailable", True)


def test_a_service_that_does_not_run_is_unavailable(ask: Ask) -> None:
    """A refused connection has the same type."""
    with WireServer() as gone:
        address = gone.base_url
    assert failure(ask, base_url=address).error_type == "provider.unavailable"


@both_ways
def test_a_slow_service_times_out(ask: Ask, wire: WireServer, *, stream: bool) -> None:
    """The limit holds before the answer and between two pieces of a stream."""
    wire.script(Turn(text="one two three", pause_s=5))
    error = failure(ask, stream=stream, timeout_s=0.2)
    assert (error.error_type, error.retryable) == ("provider.timeout", True)


def test_a_slow_stream_within_the_limit_is_fine(ask: Ask, wire: WireServer) -> None:
    """The limit is for the next bytes, not for the whole answer."""
    wire.script(Turn(text="one two three four five six", pause_s=0.05))
    reply = ask(ASKED, stream=True, timeout_s=0.3)[-1]
    assert isinstance(reply, ModelReply)
    assert reply.content == "one two three four five six"


def test_a_stream_that_ends_early_is_a_bad_response(ask: Ask, wire: WireServer) -> None:
    """An orderly end without a finish reason is not the end of the answer."""
    wire.script(Turn(text="one two three", ends_early=True))
    error = failure(ask, stream=True)
    assert (error.error_type, error.retryable) == ("provider.bad_response", True)


@both_ways
@pytest.mark.parametrize("raw", ["", "{", "null", "[]", "<html>scripted</html>", '{"id": 1}'])
def test_an_answer_that_is_no_completion_is_a_bad_response(
    ask: Ask, wire: WireServer, raw: str, *, stream: bool
) -> None:
    """Nonsense of every kind, whole or as an event, is told apart from an answer."""
    wire.script(Turn(raw=f"data: {raw}\n\n" if stream else raw))
    assert failure(ask, stream=stream).error_type == "provider.bad_response"


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


def test_text_that_is_not_utf8_is_a_bad_response(ask: Ask, wire: WireServer) -> None:
    """Bytes that cannot be decoded never become a text with holes."""
    wire.script(Turn(raw="data: \udcff\n\n"))
    assert failure(ask, stream=True).error_type == "provider.bad_response"


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


@both_ways
def test_a_redirect_is_not_followed(ask: Ask, wire: WireServer, *, stream: bool) -> None:
    """The history does not go to an address that nobody agreed to."""
    with WireServer(Turn(text="caught you")) as other:
        location = {"Location": f"{other.base_url}/chat/completions"}
        wire.script(Turn(status=307, headers=location))
        error = failure(ask, stream=stream)
        assert (error.error_type, error.status) == ("provider.bad_response", 307)
        assert other.requests == []


def test_a_retry_answers_where_the_first_try_failed(ask: Ask, wire: WireServer) -> None:
    """The package repeats what may be repeated, with the wait that was asked for."""
    wire.script(Turn(status=503, headers={"retry-after-ms": "1"}), Turn(text="hi"))
    reply = ask(ASKED, max_retries=1)[-1]
    assert isinstance(reply, ModelReply)
    assert reply.content == "hi"
    assert len(wire.requests) == 2


def test_a_provider_error_survives_pickling(ask: Ask, wire: WireServer) -> None:
    """Its facts cross a process boundary; the original with its body stays behind."""
    wire.script(Turn(status=429, headers={"Retry-After": "7"}))
    error = failure(ask)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (str(copy), vars(copy)) == (str(error), vars(error))
    assert copy.__context__ is None


def test_the_messages_of_a_request_leave_no_trace_in_an_error(ask: Ask, wire: WireServer) -> None:
    """Tool results and system prompts are content as well."""
    request = replace(ASKED, system_prompt=CONTENT)
    wire.script(Turn(status=400))
    with pytest.raises(ProviderError) as caught:
        ask(request, api_key=KEY)
    text = "".join(traceback.format_exception(caught.value))
    assert CONTENT not in text
    assert KEY not in text
