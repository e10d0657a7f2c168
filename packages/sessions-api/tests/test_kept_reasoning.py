"""C38, the whole way: what a model signed or encrypted is saved, survives a restart, and goes back.

Each wire format brings the parts of one answer as its service sends them, and the way to find them
in a later request.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from responses_server import ResponsesServer
from services import WIRES
from state_store import NewMessage, NewSession, SessionState, ToolCall
from test_anthropic_provider import ALL_BLOCKS, CITED, REDACTED, THOUGHT, TOOL_USE
from test_responses_provider import ALL_ITEMS, CALL, COMMENT, REASONING
from wire_server import Turn, WireServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faces import Looker

OpenAgent = Callable[..., Any]

DETAILS = [
    {"type": "reasoning.encrypted", "data": "bG9yZW0+/==", "index": 0, "new": [1.5, None, "é"]},
    {"type": "reasoning.text", "text": "hm", "signature": "S1"},
]
SIGNED = {
    "id": "call_b",
    "type": "function",
    "function": {"name": "clock", "arguments": '{"zone":  "UTC"}'},
    "extra_content": {"google": {"thought_signature": "c2ln"}},
}
IN_CHAT = {
    "role": "assistant",
    "content": "Let me see.",
    "tool_calls": [SIGNED],
    "reasoning_details": DETAILS,
    "reasoning_content": "hm",
}


@dataclass(frozen=True)
class Kept:
    """One answer of a service: its turn, its parts in order, what may go back of it and what not.

    `provider_data` is what an adapter saves with the message, given the endpoint and the model;
    `elsewhere` is the answer in the request to another model.
    """

    provider: str
    server: type[WireServer]
    turn: Turn
    text: str
    provider_data: Callable[..., dict[str, Any]]
    answer: Any
    elsewhere: Any
    found: Callable[[Any], Any]


def in_messages(body: Any) -> Any:
    """Return what the assistant said in the second place of a request."""
    return body["messages"][1]["content"]


CHAT = Kept(
    provider="openai",
    server=WireServer,
    turn=Turn(
        text="Let me see.",
        tool_calls=[
            {"id": "call_b", "extra_content": SIGNED["extra_content"], **SIGNED["function"]}  # type: ignore[dict-item]  # a literal of many kinds
        ],
        message={"reasoning_details": DETAILS, "reasoning_content": "hm"},
    ),
    text="Let me see.",
    provider_data=lambda **origin: {
        "openai": {
            **origin,
            "message": {"reasoning_details": DETAILS},
            "tool_calls": [{"extra_content": SIGNED["extra_content"]}],
            "reasoning_field": "reasoning_content",
        }
    },
    answer=IN_CHAT,
    elsewhere={
        **{name: IN_CHAT[name] for name in ("role", "content")},
        "tool_calls": [{name: SIGNED[name] for name in ("id", "type", "function")}],
    },
    found=lambda body: body["messages"][1],
)
MESSAGES = Kept(
    provider="anthropic",
    server=WIRES[1][1],
    turn=Turn(message={"content": [{**THOUGHT, "signature": ""}, *ALL_BLOCKS]}),
    text=str(CITED["text"]),
    provider_data=lambda **origin: {
        "anthropic": {**origin, "content": [{**THOUGHT, "signature": ""}, *ALL_BLOCKS]}
    },
    answer=ALL_BLOCKS,
    elsewhere=[
        {"type": "text", "text": CITED["text"]},
        {name: TOOL_USE[name] for name in ("type", "id", "name", "input")},
    ],
    found=in_messages,
)
RESPONSES = Kept(
    provider="openai-responses",
    server=ResponsesServer,
    turn=Turn(message={"output": ALL_ITEMS}),
    text="Let me see.",
    provider_data=lambda **origin: {"openai-responses": {**origin, "output": ALL_ITEMS}},
    answer=ALL_ITEMS,
    elsewhere=[
        {"role": "assistant", "content": "Let me see."},
        {name: CALL[name] for name in ("type", "call_id", "name", "arguments")},
    ],
    found=lambda body: body["input"][1 : body["input"].index(output_of(body))],
)


def output_of(body: Any) -> Any:
    """Return the first output of a call in a request."""
    return next(item for item in body["input"] if item.get("type") == "function_call_output")


@pytest.fixture(params=[CHAT, MESSAGES, RESPONSES], ids=["chat", "messages", "responses"])
def kept(request: pytest.FixtureRequest) -> Kept:
    """Choose a wire format."""
    found: Kept = request.param
    return found


@pytest.fixture
def served(kept: Kept, no_other_service: None) -> Iterator[WireServer]:
    """Run a service of that format, and look for requests that it refused."""
    with kept.server() as wire:
        yield wire
    assert wire.problems == []


def clock(zone: str) -> str:
    """Tell the time."""
    return f"12:00 {zone}"


def same(found: Any, expected: Any) -> bool:
    """Say whether two JSON values are the same text: values, order of fields, everything.

    Only the fields of a chat message itself, which is put together here, have no order.
    """
    if isinstance(expected, dict):
        found, expected = sorted(found.items()), sorted(expected.items())
    return json.dumps(found) == json.dumps(expected)


def test_c38_a_conversation_with_reasoning_goes_on_after_a_restart(
    open_agent: OpenAgent, kept: Kept, served: WireServer
) -> None:
    """A tool runs on what was signed, and the next agent sends every part back in its place."""
    options: Any = {"base_url": served.base_url, "tools": [clock]}
    served.script(kept.turn, Turn(text="Noon."), Turn(text="Still noon."), Turn(text="Elsewhere."))
    first = open_agent(provider=kept.provider, model="m-1", **options)
    assert first.run("what time is it?").text == "Noon."
    first.close()
    second = open_agent(provider=None, **options)
    second.sessions.resume()
    assert second.run("and now?").text == "Still noon."
    second.close()
    assert [same(kept.found(one.body), kept.answer) for one in served.requests[1:]] == [True] * 2
    other = open_agent(provider=None, model="m-2", **options)
    other.sessions.resume()
    assert other.run("and there?").text == "Elsewhere."
    assert same(kept.found(served.requests[-1].body), kept.elsewhere)


def test_c38_what_an_adapter_saved_goes_back_as_it_was(
    open_agent: OpenAgent, kept: Kept, served: WireServer, look: Looker
) -> None:
    """The stored text is the adapter's, byte for byte; what may go back stands in its place."""
    if isinstance(served, ResponsesServer):
        served.remember(*ALL_ITEMS)
    origin = {"endpoint": served.base_url, "model": "m-1"}
    text = json.dumps(kept.provider_data(**origin), indent=1)
    session_id = "01890000-0000-7000-8000-000000000001"
    state = SessionState(
        id=session_id,
        settings=NewSession(provider=kept.provider, model_id="m-1", endpoint=served.base_url),
        messages=(
            NewMessage(role="user", content="what time is it?"),
            NewMessage(
                role="assistant",
                content=kept.text,
                reasoning_content="hm",
                tool_calls=(ToolCall(id=kept_id(kept), name="clock", arguments=ARGUMENTS),),
                provider_data=text,
            ),
            NewMessage(role="tool", content="12:00", tool_call_id=kept_id(kept)),
            NewMessage(role="assistant", content="Noon."),
        ),
    )
    first = open_agent()
    first.sessions.save(state, timedelta())
    first.close()
    served.script(Turn(text="Still noon."))
    second = open_agent(provider=None, base_url=served.base_url)
    second.sessions.resume(session_id)
    assert second.run("and now?").text == "Still noon."
    assert same(kept.found(served.requests[0].body), kept.answer)
    assert [message.provider_data for message in look.messages()][1] == text


ARGUMENTS = '{"zone":  "UTC"}'


def kept_id(kept: Kept) -> str:
    """Return the id of the call in the answer."""
    return "toolu_b" if kept is MESSAGES else "call_b"


def test_c38_one_answer_holds_all_that_the_case_names() -> None:
    """The control: signed, redacted and encrypted reasoning, and fields that nobody knows."""
    assert {THOUGHT["signature"], REDACTED["data"]} <= {
        str(block.get("signature", block.get("data"))) for block in ALL_BLOCKS
    }
    assert REASONING["encrypted_content"] in str(ALL_ITEMS)
    assert "new" in REASONING
    assert "phase" in COMMENT
