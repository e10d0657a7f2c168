from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat_rules import openai_chat_problems
from messages_rules import anthropic_problems
from responses_rules import openai_responses_problems
from responses_server import message_item
from sessions_api.providers import anthropic_request, openai_request, responses_request
from sessions_api.providers.base import ModelMessage, ModelRequest
from sessions_api.runs.replay import paired
from state_store import ToolCall

TOOL = {"name": "t", "description": "", "parameters": {"type": "object"}}
IMAGE = "data:image/png;base64,AA=="
CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": IMAGE}}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": one, "type": "function", "function": {"name": "t", "arguments": "{}"}}
                for one in "ab"
            ],
        },
        {"role": "tool", "content": "1", "tool_call_id": "b"},
        {"role": "tool", "content": "2", "tool_call_id": "a"},
        {"role": "assistant", "content": "done"},
    ],
    "tools": [{"type": "function", "function": TOOL}],
}
RESPONSES: dict[str, Any] = {
    "model": "m",
    "store": False,
    "input": [
        {"role": "user", "content": [{"type": "input_image", "image_url": IMAGE}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        *[
            {"type": "function_call", "call_id": one, "name": "t", "arguments": "{}"}
            for one in "ab"
        ],
        {"type": "function_call_output", "call_id": "b", "output": "1"},
        {"type": "function_call_output", "call_id": "a", "output": "2"},
        message_item("msg_1", "done"),
    ],
    "tools": [{"type": "function", "strict": False, **TOOL}],
}
CLAUDE: dict[str, Any] = {
    "model": "m",
    "max_tokens": 1,
    "system": "s",
    "messages": [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "", "signature": "S"},
                *[{"type": "tool_use", "id": one, "name": "t", "input": {}} for one in "ab"],
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "b"},
                {"type": "tool_result", "tool_use_id": "a", "content": "2"},
                {"type": "image", "source": {"type": "url", "url": "https://x"}},
            ],
        },
    ],
    "tools": [{"name": "t", "description": "", "input_schema": {"type": "object"}}],
}

Break = Callable[[dict[str, Any]], Any]


def put(*path: Any) -> Break:
    """Return what puts the last of *path* at the place that the others lead to."""
    *steps, last, value = path

    def do(body: dict[str, Any]) -> None:
        found: Any = body
        for step in steps:
            found = found[step]
        found[last] = value

    return do


def drop(*path: Any) -> Break:
    """Return what takes away the place that *path* leads to."""
    *steps, last = path

    def do(body: dict[str, Any]) -> None:
        found: Any = body
        for step in steps:
            found = found[step]
        del found[last]

    return do


def swap(first: int, second: int, name: str) -> Break:
    """Return what lets two messages change places."""

    def do(body: dict[str, Any]) -> None:
        items = body[name]
        items[first], items[second] = items[second], items[first]

    return do


BROKEN: list[tuple[str, dict[str, Any], Break]] = [
    *[
        ("chat", CHAT, one)
        for one in (
            drop("model"),
            put("messages", []),
            put("stream_options", {}),
            put("tools", 0, "type", "other"),
            put("tools", 0, "function", {**TOOL, "name": "a b"}),
            put("messages", 1, "role", "critic"),
            put("messages", 1, "name", "a b"),
            put("messages", 1, "content", []),
            put("messages", 1, "content", None),
            put("messages", 1, "content", 0, "type", "input_image"),
            put("messages", 1, "content", 0, "image_url", "url", ""),
            put("messages", 2, "tool_calls", []),
            put("messages", 2, "tool_calls", 1, "id", "a"),
            put("messages", 2, "tool_calls", 1, "id", ""),
            put("messages", 2, "tool_calls", 1, "id", "x" * 41),
            put("messages", 2, "tool_calls", 1, "function", "arguments", ""),
            put("messages", 2, "tool_calls", 1, "function", "name", "a.b"),
            put("messages", 3, "tool_call_id", "a"),
            put("messages", 3, "content", [{"type": "image_url", "image_url": {"url": IMAGE}}]),
            drop("messages", 3),
            drop("messages", 2),
            swap(4, 5, "messages"),
            put("temperature", float("nan")),
            put("messages", 1, "content", "\ud800"),
        )
    ],
    *[
        ("responses", RESPONSES, one)
        for one in (
            drop("model"),
            put("input", []),
            put("store", True),
            put("previous_response_id", "resp_1"),
            put("include", [3]),
            put("tools", 0, "parameters", None),
            put("input", 0, "role", "tool"),
            put("input", 0, "content", []),
            put("input", 0, "content", 0, "type", "image_url"),
            put("input", 0, "content", 0, "image_url", None),
            put("input", 1, "encrypted_content", None),
            put("input", 1, "id", "fc_1"),
            put("input", 1, "summary", None),
            drop("input", 1, "id"),
            drop("input", 0, "content"),
            put("input", 2, "call_id", "b"),
            put("input", 2, "call_id", ""),
            put("input", 2, "call_id", "x" * 65),
            put("input", 2, "name", "a.b"),
            put("input", 2, "arguments", ""),
            put("input", 2, "id", "x" * 65),
            put("input", 4, "output", None),
            put("input", 4, "output", [{"type": "text", "text": "1"}]),
            put("input", 6, "id", "rs_1"),
            put("input", 6, "content", 0, "type", "input_text"),
            drop("input", 2),
            drop("input", 4),
            swap(3, 4, "input"),
            swap(5, 6, "input"),
            swap(1, 6, "input"),
            put("input", 6, {"type": "item_reference", "id": "msg_1"}),
        )
    ],
    *[
        ("messages", CLAUDE, one)
        for one in (
            drop("model"),
            put("max_tokens", 0),
            put("messages", []),
            put("system", " "),
            put("system", [{"type": "image"}]),
            put("tools", 0, "name", "a b"),
            put("messages", 0, "role", "system"),
            put("messages", 0, "content", []),
            put("messages", 0, "content", " \n"),
            put("messages", 0, "name", "x"),
            put("messages", 1, "content", 0, "signature", ""),
            put("messages", 1, "content", 1, "id", "b"),
            put("messages", 1, "content", 1, "id", "a.b"),
            put("messages", 1, "content", 1, "name", "a.b"),
            put("messages", 1, "content", 1, "input", "{}"),
            put("messages", 1, "content", 1, {"type": "redacted_thinking"}),
            put("messages", 2, "content", 0, "tool_use_id", "a"),
            put("messages", 2, "content", 1, "content", [{"type": "text", "text": ""}]),
            put("messages", 2, "content", 2, "source", "type", "base64"),
            put("messages", 2, "content", 2, {"type": "image_url", "image_url": {"url": IMAGE}}),
            put("messages", 2, "role", "assistant"),
            drop("messages", 2),
            drop("messages", 2, "content", 0),
            lambda body: body["messages"][2]["content"].reverse(),
            lambda body: body["messages"][1]["content"].reverse(),
        )
    ],
]
RULES: dict[str, Callable[[Any], list[str]]] = {
    "chat": openai_chat_problems,
    "responses": openai_responses_problems,
    "messages": anthropic_problems,
}
WRITERS: dict[str, Callable[[ModelRequest], dict[str, Any]]] = {
    "chat": openai_request.request_body,
    "responses": responses_request.request_body,
    "messages": anthropic_request.request_body,
}


@pytest.mark.parametrize(("wire", "legal", "broken"), BROKEN)
def test_each_rule_is_broken_by_a_body_of_its_own(
    wire: str, legal: dict[str, Any], broken: Break
) -> None:
    """A legal body has no problems; with one thing changed it has some."""
    body = deepcopy(legal)
    assert RULES[wire](body) == []
    broken(body)
    assert RULES[wire](body)


def test_fields_of_one_service_are_a_problem_for_another() -> None:
    """Chat completions of a stricter service, and ids that it never gave out."""
    body = deepcopy(CHAT)
    body["messages"][2]["reasoning_content"] = "hm"
    assert openai_chat_problems(body) == []
    assert openai_chat_problems(body, extensions=False)
    assert openai_responses_problems(RESPONSES, known_ids={"rs_1", "msg_1"}) == []
    assert openai_responses_problems(RESPONSES, known_ids={"rs_1"})


texts = st.none() | st.sampled_from(["", " ", "x"])
parts = st.sampled_from(
    [
        {"type": "text", "text": "t"},
        {"type": "text", "text": ""},
        {"type": "input_text", "text": "t"},
        {"type": "image_url", "image_url": {"url": IMAGE, "detail": "low"}},
        {"type": "input_image", "image_url": "https://x/a.png"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
        {"type": "image", "data": "AA==", "mime_type": "image/webp"},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "AA=="}},
    ]
)
calls = st.builds(
    ToolCall,
    id=st.sampled_from(["", "a", "a", "b.c", "toolu_1", "x" * 64, "y" * 70]),
    name=st.sampled_from(["t", "a tool", "functions.t", "", "n" * 70]),
    arguments=st.sampled_from(["", "{}", '{"a": 1.50}', "[1]", '{"a":', '{"a": NaN}']),
)
messages = st.builds(
    ModelMessage,
    role=st.sampled_from(["user", "assistant", "tool", "system", "developer", "critic"]),
    content=texts,
    reasoning_content=st.none() | st.just("hm"),
    tool_call_id=st.sampled_from([None, "", "a", "b.c"]),
    name=st.sampled_from([None, "ann", "a b", "t"]),
    parts=st.none() | st.lists(parts, max_size=2).map(tuple),
)
speaking = st.builds(
    lambda message, called: ModelMessage(
        role=message.role,
        content=message.content,
        tool_calls=tuple(called),
        tool_call_id=message.tool_call_id,
        parts=message.parts,
    ),
    messages,
    st.lists(calls, max_size=3),
)


@settings(max_examples=300)
@given(st.lists(messages | speaking, max_size=8))
def test_any_history_becomes_a_legal_request_of_each_format(history: list[ModelMessage]) -> None:
    """Whatever was saved or imported: other services' ids, names, parts and roles."""
    asked = ModelMessage(role="user", content="and now?")
    request = ModelRequest(model="m", system_prompt="s", messages=paired([*history, asked]))
    for wire, write in WRITERS.items():
        body = write(request)
        assert RULES[wire](body) == [], wire
        assert write(request) == body
    assert not openai_chat_problems(openai_request.request_body(request), extensions=False)
