from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from asking import ASKED, both_ways
from asking import failure as failure_of
from sessions_api.errors import ProviderError
from sessions_api.providers.base import ModelReply, ModelRequest, ToolSpec
from sessions_api.providers.http_failures import by_status
from wire_server import Turn

if TYPE_CHECKING:
    from services import Service

TODAY = "Mon, 30 Nov 2026 00:00:00 GMT"


def failure(service: Service, **configuration: Any) -> ProviderError:
    """Ask the service, which finds nothing wrong with the request, and return the error."""
    error = failure_of(service.ask, **configuration)
    assert not service.wire.problems
    return error


STATUSES = [
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
]


def test_an_error_status_has_a_stable_type(service: Service) -> None:
    """Type, status and the offer to retry are facts of the error; the body is not."""
    for status, error_type, retryable in STATUSES:
        service.wire.script(Turn(status=status))
        error = failure(service, stream=status in {401, 429, 500})
        assert (error.error_type, error.status, error.retryable) == (error_type, status, retryable)
        assert str(status) in str(error)
        assert error.retry_after_s is None
    assert len(service.wire.requests) == len(STATUSES)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "Retry-After": "1"}, 0.25),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "Fri, 02 Jan 1970 00:00:00 GMT"}, None),
        ({"Retry-After": "Fri, 02 Jan 1970 00:00:00 GMT", "Date": TODAY}, 0.0),
        ({"Retry-After": "Mon, 30 Nov 2026 00:01:30 GMT", "Date": TODAY}, 90.0),
    ],
)
def test_the_wait_that_a_service_asks_for_is_read(
    headers: dict[str, str], seconds: float | None
) -> None:
    """Seconds, milliseconds and dates, these by the service's clock; nonsense is not known."""
    lower = {name.lower(): value for name, value in headers.items()}
    assert by_status(429, "h", lower).retry_after_s == seconds


@both_ways
@pytest.mark.parametrize("drop", ["before", "inside"])
def test_a_dropped_connection_is_unavailable(service: Service, drop: Any, *, stream: bool) -> None:
    """It may work the next time, and half an answer is never taken for a whole one."""
    service.wire.script(Turn(text="one two three four", drop=drop))
    error = failure(service, stream=stream)
    told = (error.error_type, error.status, error.retryable)
    assert told == ("provider.unavailable", None, True)


def test_a_service_that_does_not_run_is_unavailable(service: Service) -> None:
    """A refused connection has the same type."""
    with service.server() as gone:
        address = gone.base_url
    assert failure(service, base_url=address).error_type == "provider.unavailable"


@both_ways
def test_a_slow_service_times_out(service: Service, *, stream: bool) -> None:
    """The limit holds before the answer and between two pieces of a stream."""
    service.wire.script(Turn(text="one two three", pause_s=5))
    error = failure(service, stream=stream, timeout_s=0.2)
    assert (error.error_type, error.retryable) == ("provider.timeout", True)


def test_a_slow_stream_within_the_limit_is_fine(service: Service) -> None:
    """The limit is for the next bytes, not for the whole answer."""
    service.wire.script(Turn(text="one two three four five six", pause_s=0.05))
    reply = service.ask(ASKED, stream=True, timeout_s=0.4)[-1]
    assert isinstance(reply, ModelReply)
    assert reply.content == "one two three four five six"


def test_a_stream_that_ends_early_is_a_bad_response(service: Service) -> None:
    """An orderly end before the model's own is not the end of the answer."""
    service.wire.script(Turn(text="one two three", ends_early=True))
    error = failure(service, stream=True)
    assert (error.error_type, error.retryable) == ("provider.bad_response", True)


@both_ways
def test_an_answer_that_is_none_is_a_bad_response(service: Service, *, stream: bool) -> None:
    """Nonsense of every kind, bytes that are no text too, is told apart from an answer."""
    for raw in ("", "{", "null", "[]", "<html>scripted</html>", '{"id": 1}', "\udcff"):
        event = f"event: response.x\ndata: {raw}\n\n"
        service.wire.script(Turn(raw=event if stream else raw))
        assert failure(service, stream=stream).error_type == "provider.bad_response"


@both_ways
def test_json_that_no_parser_takes_is_a_bad_response(service: Service, *, stream: bool) -> None:
    """Nested too deeply, or a number too long; the parser's own errors would be internal."""
    for raw in ("[" * 100_000 + "]" * 100_000, f'{{"id": {"9" * 5000}}}'):
        event = f"event: message_start\ndata: {raw}\n\n"
        service.wire.script(Turn(raw=event if stream else raw))
        assert failure(service, stream=stream).error_type == "provider.bad_response"


@both_ways
def test_a_redirect_is_not_followed(service: Service, *, stream: bool) -> None:
    """The history does not go to an address that nobody agreed to."""
    with service.server(Turn(text="caught you")) as other:
        service.wire.script(Turn(status=307, headers={"Location": f"{other.base_url}/elsewhere"}))
        error = failure(service, stream=stream)
        assert (error.error_type, error.status) == ("provider.bad_response", 307)
        assert other.requests == []


@both_ways
def test_a_retry_answers_where_the_first_try_failed(service: Service, *, stream: bool) -> None:
    """The package repeats what may be repeated, with the wait that was asked for, and no more."""
    again = Turn(status=529, headers={"retry-after-ms": "1"})
    service.wire.script(again, again, Turn(text="hi"), *[again] * 3)
    reply = service.ask(ASKED, max_retries=2, stream=stream)[-1]
    assert isinstance(reply, ModelReply)
    assert reply.content == "hi"
    assert len(service.wire.requests) == 3
    assert failure(service, max_retries=2).status == 529
    assert len(service.wire.requests) == 6


def test_the_wait_is_told_and_a_provider_error_survives_pickling(service: Service) -> None:
    """Its facts cross a process boundary; the original with its body stays behind."""
    service.wire.script(Turn(status=429, headers={"Retry-After": "7"}))
    error = failure(service)
    assert error.retry_after_s == 7.0
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (str(copy), vars(copy)) == (str(error), vars(error))
    assert copy.__context__ is None


def test_a_request_that_the_format_refuses_is_told_apart(service: Service) -> None:
    """The control: the scripted services are as strict as the real ones."""
    nameless = ToolSpec(name="a tool", description="", parameters={"type": "object"})
    asked = ModelRequest(model="m-1", messages=ASKED.messages, tools=(nameless,))
    with pytest.raises(ProviderError) as caught:
        service.ask(asked)
    assert caught.value.status == 400
    assert service.wire.problems == ["a tool is not legal"]


def test_what_a_provider_would_send_can_be_seen_without_sending_it(service: Service) -> None:
    """The same body, and how large the service lets it be."""
    service.wire.script(Turn(text="hi"), Turn(text="hi"))
    provider = service.provider(base_url=service.wire.base_url, default_model="m-1")
    for stream in (False, True):
        body = provider.request_body(
            ModelRequest(model=None, messages=ASKED.messages), stream=stream
        )
        assert json.loads(json.dumps(body)) == body
        service.ask(ModelRequest(model="m-1", messages=ASKED.messages), stream=stream)
        assert service.wire.requests[-1].body == body
    assert provider.max_request_bytes in {32_000_000, 512_000_000}
