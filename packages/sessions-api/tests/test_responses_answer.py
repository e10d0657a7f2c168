from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from asking import ASKED, Ask, both_ways
from sessions_api.errors import ProviderError
from sessions_api.providers.answer_reading import AnswerCutShort, AnswerMalformed
from sessions_api.providers.responses_answer import Answer
from wire_server import Turn

if TYPE_CHECKING:
    from responses_server import ResponsesServer
    from sessions_api.providers.base import ModelReply

ITEM = {"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"}


def take(answer: Answer, response: object) -> None:
    """Feed a whole response and take the reply."""
    answer.feed_whole(json.dumps(response).encode())
    answer.reply(streamed=False)


def read(*events: Any) -> ModelReply:
    """Return the reply that the events of a stream make."""
    answer = Answer(endpoint="http://x", model="m")
    for event in events:
        answer.feed_event(event)
    return answer.reply(streamed=True)


@both_ways
@pytest.mark.parametrize(
    ("code", "error_type", "status"),
    [
        ("rate_limit_exceeded", "provider.rate_limit", 429),
        ("server_error", "provider.unavailable", 500),
        ("invalid_prompt", "provider.bad_response", 400),
        ("image_parse_error", "provider.bad_response", 400),
        ("502", "provider.unavailable", 502),
        ("scripted_code", "provider.unavailable", None),
        (None, "provider.unavailable", None),
    ],
)
def test_a_failed_response_is_read_by_its_code(
    ask_responses: Ask,
    responses_wire: ResponsesServer,
    code: object,
    error_type: str,
    status: int | None,
    *,
    stream: bool,
) -> None:
    """The HTTP status was good; the response, or an event of the stream, says that it failed."""
    error = {"code": code, "message": "scripted"}
    failed = {"status": "failed", "error": error, "output": []}
    ways = [{"type": "response.failed", "response": failed}, {"type": "error", **error}]
    for event in ways if stream else ways[:1]:
        turn = Turn(chunks=[event]) if stream else Turn(raw=json.dumps(failed))
        responses_wire.script(turn)
        with pytest.raises(ProviderError) as caught:
            ask_responses(ASKED, stream=stream)
        assert (caught.value.error_type, caught.value.status) == (error_type, status)
        assert "scripted" not in str(caught.value)


def test_the_finished_items_count_where_the_last_event_has_none_or_others() -> None:
    """Encrypted reasoning is whole in them, and some services end without the output."""
    begun = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "begun"}
    whole = {**begun, "encrypted_content": "whole"}
    done = [
        {"type": "response.output_item.done", "output_index": 1, "item": ITEM},
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
    ]

    def ended(output: Any) -> dict[str, Any]:
        return {"type": "response.completed", "response": {"output": output}}

    expected = read(ended([whole, ITEM]))
    assert json.loads(str(expected.provider_data))["openai-responses"]["output"] == [whole, ITEM]
    assert expected.finish_reason == "tool_calls"
    for output in ([], None, [begun, ITEM]):
        assert read(*done, ended(output)) == expected


@pytest.mark.parametrize(
    "response",
    [
        3,
        {},
        {"output": 3},
        {"output": [3]},
        {"output": [{"id": "scripted"}]},
        {"output": [{"type": 3}]},
        {"output": [{"type": "message", "content": 3}]},
        {"output": [{"type": "message", "content": ["scripted"]}]},
        {"output": [{"type": "message", "content": [{"type": "output_text", "text": 3}]}]},
        {"output": [{"type": "reasoning", "summary": 3}]},
        {"output": [{"type": "reasoning", "content": [{"text": ["scripted"]}]}]},
        {"output": [{**ITEM, "name": None}]},
        {"output": [{**ITEM, "call_id": 3}]},
        {"output": [{**ITEM, "arguments": {"scripted": 1}}]},
        {"output": [], "status": "incomplete", "incomplete_details": {"reason": 3}},
        {"output": [{"type": "new", "n": float("inf")}]},
        {"output": [], "status": "in_progress"},
        {"output": [], "status": "cancelled"},
    ],
)
def test_a_field_of_the_wrong_kind_in_a_response_is_malformed(response: object) -> None:
    """Every field is looked at before it is used, and no error tells what was in it."""
    answer = Answer(endpoint="http://x", model="m")
    with pytest.raises((AnswerMalformed, AnswerCutShort)) as caught:
        take(answer, response)
    assert "scripted" not in str(caught.value)


@pytest.mark.parametrize(
    "event",
    [
        3,
        {"type": "response.completed"},
        {"type": "response.completed", "response": 3},
        {"type": "response.output_item.done", "item": {"type": "message"}},
        {"type": "response.output_item.done", "output_index": 0, "item": 3},
        {"type": "response.output_text.delta", "output_index": 0, "delta": 3},
        {"type": "response.output_text.delta", "delta": "scripted"},
        {"type": "response.reasoning_summary_text.delta", "delta": ["scripted"]},
        {"type": "an_event_of_tomorrow"},
    ],
)
def test_a_field_of_the_wrong_kind_in_an_event_is_malformed(event: object) -> None:
    """The same for streams; one that says nothing has been cut short."""
    with pytest.raises((AnswerMalformed, AnswerCutShort)) as caught:
        read(event)
    assert "scripted" not in str(caught.value)
