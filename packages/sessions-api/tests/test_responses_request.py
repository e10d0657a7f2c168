from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from responses_rules import openai_responses_problems
from sessions_api.providers.base import ModelMessage, ModelRequest, ToolSpec
from sessions_api.providers.responses_request import request_body
from state_store import ToolCall
from test_responses_provider import ALL_ITEMS, CALL, COMMENT, REASONING
from wire_server import Turn

if TYPE_CHECKING:
    from asking import Ask
    from responses_server import ResponsesServer


def body_of(*messages: ModelMessage, model: str = "m", **fields: Any) -> dict[str, Any]:
    """Return the legal body that a request with *messages* becomes."""
    request = ModelRequest(model=model, messages=messages, **fields)
    body = request_body(request, endpoint="http://x")
    assert openai_responses_problems(body) == []
    return body


def user(text: str | None = None, *parts: dict[str, Any]) -> ModelMessage:
    """Return a message of the user."""
    return ModelMessage(role="user", content=text, parts=parts or None)


def kept(*output: Any, **fields: Any) -> str:
    """Return provider data of this endpoint and model, but for *fields*."""
    data = {"endpoint": "http://x", "model": "m", "output": output, **fields}
    return json.dumps({"openai-responses": data})


def test_the_request_says_what_it_was_given(
    ask_responses: Ask, responses_wire: ResponsesServer
) -> None:
    """System prompt, tools and parameters each in their place, over the wire."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    responses_wire.script(Turn(text="ok"))
    ask_responses(
        ModelRequest(
            model=None,
            system_prompt="Be brief.",
            messages=(user("look"), ModelMessage(role="developer", content="Now."), user()),
            tools=(ToolSpec(name="weather", description="Tell it.", parameters=schema),),
            parameters={
                "temperature": 0.5,
                "top_p": None,
                "max_tokens": 9,
                "reasoning_effort": "low",
                "include": ["web_search_call.results"],
                "model": "other",
                "previous_response_id": "resp_0",
                "stream_options": {"include_usage": True},
            },
        ),
        default_model="m-2",
    )
    (asked,) = responses_wire.requests
    assert asked.path == "/v1/responses"
    assert asked.body == {
        "model": "m-2",
        "input": [
            {"role": "user", "content": "look"},
            {"role": "developer", "content": "Now."},
            {"role": "user", "content": ""},
        ],
        "store": False,
        "include": ["reasoning.encrypted_content", "web_search_call.results"],
        "instructions": "Be brief.",
        "tools": [
            {
                "type": "function",
                "name": "weather",
                "description": "Tell it.",
                "parameters": schema,
                "strict": False,
            }
        ],
        "temperature": 0.5,
        "max_output_tokens": 9,
        "reasoning": {"effort": "low"},
    }


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        *[(name, True) for name in ("gpt-5.2", "o4-mini", "my-own", "vendor/gpt-oss-120b")],
        *[(name, False) for name in ("gpt-4o-mini", "gpt-4.1", "openai/gpt-4o", "ft:gpt-4o:x")],
        *[(name, False) for name in ("gpt-5-chat-latest", "chatgpt-4o-latest")],
    ],
)
def test_encrypted_reasoning_is_asked_of_models_that_may_reason(model: str, *, asked: bool) -> None:
    """The service refuses the question for the others; a parameter can take it back as well."""
    assert ("include" in body_of(user("x"), model=model)) == asked
    assert "include" not in body_of(user("x"), model=model, parameters={"include": None})


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        ({"type": "text", "text": "t"}, {"type": "input_text", "text": "t"}),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
            {
                "type": "input_image",
                "detail": "auto",
                "image_url": "data:image/png;base64,AA==",
            },
        ),
        (
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/gif", "data": "AA=="},
            },
            {
                "type": "input_image",
                "detail": "auto",
                "image_url": "data:image/gif;base64,AA==",
            },
        ),
        (
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "AA=="}},
            {
                "type": "input_file",
                "filename": "a.pdf",
                "file_data": "data:application/pdf;base64,AA==",
            },
        ),
        (
            {"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}},
            {"type": "input_file", "file_url": "https://x/a.pdf"},
        ),
        *[
            (same, same)
            for same in (
                {"type": "input_image", "file_id": "file-1", "detail": "low"},
                {"type": "input_file", "file_id": "file-1", "new": 1},
            )
        ],
    ],
)
def test_parts_become_parts_of_this_format(part: dict[str, Any], sent: dict[str, Any]) -> None:
    """A user's and a tool's, whichever service's words they are in."""
    call = ToolCall(id="c", name="look", arguments="")
    messages = [
        user(None, part),
        ModelMessage(role="assistant", tool_calls=(call,)),
        ModelMessage(role="tool", tool_call_id="c", parts=(part,)),
    ]
    asked, _, output = body_of(*messages)["input"]
    assert asked["content"] == output["output"] == [sent]


def test_what_another_service_allows_is_made_legal() -> None:
    """Ids that are empty, long or used before, names that are none, roles that are unknown."""
    calls = [ToolCall(id=one, name="a tool.x", arguments="") for one in ("", "i" * 65, "a", "a")]
    messages = []
    for call in calls:
        messages.append(ModelMessage(role="assistant", content=" ", tool_calls=(call,)))
        messages.append(ModelMessage(role="tool", content="r", tool_call_id=call.id))
    body = body_of(ModelMessage(role="critic", content="hm"), *messages)
    assert body["input"][0] == {"role": "user", "content": "hm"}
    called = [item for item in body["input"] if item.get("type") == "function_call"]
    assert {item["name"] for item in called} == {"a_tool_x"}
    assert "a" in {item["call_id"] for item in called}


@pytest.mark.parametrize(
    "data",
    [
        "not json",
        "[]",
        '{"openai-responses": 3}',
        '{"openai": {"endpoint": "http://x", "model": "m"}}',
        kept(COMMENT, endpoint="http://y"),
        kept(COMMENT, model="n"),
        kept(output=3),
        kept(3),
        kept(COMMENT, CALL),
        kept(COMMENT | {"content": [{"type": "output_text", "text": "something else"}]}),
    ],
)
def test_provider_data_that_does_not_fit_is_left_alone(data: str) -> None:
    """Another provider's, damaged, or of a message that was changed since: the message counts."""
    message = ModelMessage(role="assistant", content="Let me see.", provider_data=data)
    assert body_of(message)["input"] == [{"role": "assistant", "content": "Let me see."}]


def test_items_that_were_sent_before_go_without_their_ids() -> None:
    """A service that numbers each answer from one is not refused for it."""
    call = ToolCall(id="call_b", name="clock", arguments='{"zone":  "UTC"}')
    turn = (
        ModelMessage(
            role="assistant",
            content="Let me see.",
            tool_calls=(call,),
            provider_data=kept(*ALL_ITEMS[3:]),
        ),
        ModelMessage(role="tool", content="r", tool_call_id="call_b"),
    )
    items = body_of(*turn, *turn)["input"]
    assert items[:3] == ALL_ITEMS[3:]
    assert [item.get("id") for item in items[4:]] == [None] * 3
    assert not [item for item in items[4:] if item.get("type") == REASONING["type"]]
