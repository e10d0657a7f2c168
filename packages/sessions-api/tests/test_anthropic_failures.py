from __future__ import annotations

import json
import pickle
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from messages_server import MessagesServer
from sessions_api.errors import ProviderError
from sessions_api.providers.answer_reading import AnswerCutShort, AnswerMalformed
from sessions_api.providers.anthropic_answer import Answer
from sessions_api.providers.base import Delta, ModelMessage, ModelReply, ModelRequest
from wire_server import Turn

if TYPE_CHECKING:
    from collections.abc import Sequence

Ask = Callable[..., list[Delta | ModelReply]]

KEY = "sk-" + "made-up-for-tests-0123456789"
CONTENT = "the user's own words"
ASKED = ModelRequest(
    model="m-1", system_prompt=CONTENT, messages=(ModelMessage(role="user", content=CONTENT),)
)

both_ways = pytest.mark.parametrize("stream", [False, True])


def failure(ask: Ask, **configuration: Any) -> ProviderError:
    """Ask, and return the error after looking for what must not be in it."""
    with pytest.raises(ProviderError) as caught:
        ask(ASKED, api_key=KEY, **configuration)
    error = caught.value
    printed = "".join(traceback.format_exception(error))
    for told in (str(error), repr(error), str(error.hint), str(vars(error)), printed):
        assert KEY not in told
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
        (413, "provider.bad_response", False),
        (429, "provider.rate_limit", True),
        (500, "provider.unavailable", True),
        (529, "provider.unavailable", True),
    ],
)
def test_an_error_status_has_a_stable_type(
    ask_messages: Ask,
    messages_wire: MessagesServer,
    status: int,
    error_type: str,
    *,
    retryable: bool,
) -> None:
    """Type, status and the offer to retry are facts of the error; the body is not."""
    messages_wire.script(Turn(status=status))
    error = failure(ask_messages, stream=status in {401, 429, 500})
    assert (error.error_type, error.status, error.retryable) == (error_type, status, retryable)
    assert error.retry_after_s is None
    assert len(messages_wire.requests) == 1


def test_the_wait_that_the_service_asks_for_is_told_and_survives_pickling(
    ask_messages: Ask, messages_wire: MessagesServer
) -> None:
    """Its facts cross a process boundary; the original with its body stays behind."""
    messages_wire.script(Turn(status=429, headers={"Retry-After": "7"}))
    error = failure(ask_messages)
    assert error.retry_after_s == 7.0
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (str(copy), vars(copy)) == (str(error), vars(error))
    assert copy.__context__ is None


@both_ways
@pytest.mark.parametrize("drop", ["before", "inside"])
def test_a_dropped_connection_is_unavailable(
    ask_messages: Ask, messages_wire: MessagesServer, drop: Any, *, stream: bool
) -> None:
    """It may work the next time, and half an answer is never taken for a whole one."""
    messages_wire.script(Turn(text="one two three four", drop=drop))
    error = failure(ask_messages, stream=stream)
    assert (error.error_type, error.status, error.retryable) == (
        "provider.unavailable",
        None,
        True,
    )


def test_a_service_that_does_not_run_is_unavailable(ask_messages: Ask) -> None:
    """A refused connection has the same type."""
    with MessagesServer() as gone:
        address = gone.base_url
    assert failure(ask_messages, base_url=address).error_type == "provider.unavailable"


@both_ways
def test_a_slow_service_times_out(
    ask_messages: Ask, messages_wire: MessagesServer, *, stream: bool
) -> None:
    """The limit holds before the answer and between two pieces of a stream."""
    messages_wire.script(Turn(text="one two three", pause_s=5))
    error = failure(ask_messages, stream=stream, timeout_s=0.2)
    assert (error.error_type, error.retryable) == ("provider.timeout", True)


def test_a_slow_stream_within_the_limit_is_fine(
    ask_messages: Ask, messages_wire: MessagesServer
) -> None:
    """The limit is for the next bytes, not for the whole answer."""
    messages_wire.script(Turn(text="one two three four five", pause_s=0.06))
    reply = ask_messages(ASKED, stream=True, timeout_s=0.4)[-1]
    assert isinstance(reply, ModelReply)
    assert reply.content == "one two three four five"


def test_a_stream_that_ends_early_is_a_bad_response(
    ask_messages: Ask, messages_wire: MessagesServer
) -> None:
    """An orderly end without a stop reason is not the end of the answer."""
    messages_wire.script(Turn(text="one two three", ends_early=True))
    error = failure(ask_messages, stream=True)
    assert (error.error_type, error.retryable) == ("provider.bad_response", True)


@both_ways
@pytest.mark.parametrize("raw", ["", "{", "null", "[]", "<html>scripted</html>", "\udcff"])
def test_an_answer_that_is_no_message_is_a_bad_response(
    ask_messages: Ask, messages_wire: MessagesServer, raw: str, *, stream: bool
) -> None:
    """Nonsense of every kind, bytes that are no text too, is told apart from an answer."""
    messages_wire.script(Turn(raw=f"event: message_start\ndata: {raw}\n\n" if stream else raw))
    assert failure(ask_messages, stream=stream).error_type == "provider.bad_response"


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


@both_ways
def test_a_redirect_is_not_followed(
    ask_messages: Ask, messages_wire: MessagesServer, *, stream: bool
) -> None:
    """The history does not go to an address that nobody agreed to."""
    with MessagesServer(Turn(text="caught you")) as other:
        location = {"Location": f"{other.base_url}/v1/messages"}
        messages_wire.script(Turn(status=307, headers=location))
        error = failure(ask_messages, stream=stream)
        assert (error.error_type, error.status) == ("provider.bad_response", 307)
        assert other.requests == []


def test_a_retry_answers_where_the_first_try_failed(
    ask_messages: Ask, messages_wire: MessagesServer
) -> None:
    """The package repeats what may be repeated, with the wait that was asked for."""
    messages_wire.script(Turn(status=529, headers={"retry-after-ms": "1"}), Turn(text="hi"))
    reply = ask_messages(ASKED, max_retries=1)[-1]
    assert isinstance(reply, ModelReply)
    assert reply.content == "hi"
    assert len(messages_wire.requests) == 2


def read(answer: Answer, message: object) -> None:
    """Feed a whole message and take the reply."""
    answer.feed_message(json.dumps(message).encode())
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
        {"content": [], "usage": 3},
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
        [{"type": "message_delta", "delta": {}, "usage": 3}],
        [{"type": "message_stop"}],
    ],
)
def test_a_field_of_the_wrong_kind_in_an_event_is_malformed(fields: Sequence[Any]) -> None:
    """The same for streams; one that says nothing has been cut short."""
    answer = Answer(endpoint="http://x", model="m")
    with pytest.raises((AnswerMalformed, AnswerCutShort)) as caught:
        _ = [answer.feed_event(event) for event in fields], answer.reply(streamed=True)
    assert "scripted" not in str(caught.value)
