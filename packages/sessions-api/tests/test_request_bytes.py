"""A session goes on however many images lie behind it, and keeps every one of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest

from faces import calling, said
from sessions_api import (
    ModelMessage,
    ModelReply,
    ModelRequest,
    ProviderError,
    RunFailed,
    SessionsError,
    ToolOutput,
    tool,
)
from sessions_api.providers.anthropic_request import request_body as anthropic_body
from sessions_api.providers.openai_request import request_body as openai_body
from sessions_api.runs.exchanges import Past, message_bytes
from sessions_api.runs.inline_data import MIN_INLINE_CHARACTERS, stub_of_part, without_data
from sessions_api.runs.requests import Requests

if TYPE_CHECKING:
    from faces import Looker

OpenAgent = Callable[..., Any]

MB = 1_000_000
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def png_url(size: int) -> str:
    """Return the data URL of something of *size* bytes that begins like an image."""
    data = (PNG * (size // len(PNG) + 1))[:size]
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def image(size: int) -> dict[str, Any]:
    """Return an image of *size* bytes as a part."""
    return {"type": "image_url", "image_url": {"url": png_url(size)}}


def body_bytes(request: ModelRequest) -> int:
    """Return how large the body is that a service gets for *request*."""
    return len(json.dumps([asdict(message) for message in request.messages]))


class Refusing:
    """A step of a script that refuses a body above *most* bytes as a service does, with 413."""

    def __init__(self, most: int, *, says: Callable[[ModelRequest], ModelReply]) -> None:
        self._most = most
        self._says = says
        self.refused_count = 0
        self.sizes: list[int] = []

    def __call__(self, request: ModelRequest) -> Any:
        """Answer, or refuse."""
        size = body_bytes(request)
        if size > self._most:
            self.refused_count += 1
            return ProviderError(
                "The request is too large.", error_type="provider.bad_response", status=413
            )
        self.sizes.append(size)
        return self._says(request)


def look_then_talk(request: ModelRequest) -> ModelReply:
    """Call the tool for a user's message; talk about its result."""
    if request.messages[-1].role == "user":
        return calling(("screenshot", "{}"))
    return said("I see.")


def images_in(request: ModelRequest) -> list[bool]:
    """Return of each tool result, in order, whether its image is there."""
    return [
        "data:image/png;base64," in json.dumps(asdict(message))
        for message in request.messages
        if message.role == "tool"
    ]


@tool(replay="safe")
def screenshot() -> ToolOutput:
    """Look at the screen."""
    return ToolOutput(text="The screen.", parts=[image(150_000)])


@pytest.mark.parametrize("limit_is_known", [True, False], ids=["known", "learned"])
def test_c18_thirty_turns_with_an_image_each_all_succeed(
    open_agent: OpenAgent, look: Looker, *, limit_is_known: bool
) -> None:
    """Older images are left out of requests for a text; what is stored stays as it was.

    All sizes are a tenth of the case's, whose service takes 32 MB and whose images have 1.5.
    """
    most = 3_200_000
    service = Refusing(most, says=look_then_talk)
    agent = open_agent([service] * 100, tools=[screenshot])
    if limit_is_known:
        agent.provider.max_request_bytes = most
    for number in range(30):
        assert agent.run(f"turn {number}").text == "I see."

    if limit_is_known:
        assert service.refused_count == 0
    else:
        assert 1 <= service.refused_count <= 4  # learned once, and not at every turn
    last = images_in(agent.provider.requests[-1])
    assert last == sorted(last)  # oldest first
    assert False in last
    assert last[-1]  # never the newest exchange's
    stub = agent.provider.requests[-1].messages[2]
    assert [part["text"] for part in stub.parts] == [
        "The screen.",
        "[image/png, 150000 bytes: left out, the request would be too large]",
    ]

    results = [one for one in look.messages() if one.role == "tool"]
    assert [one.parts for one in results] == [(image(150_000),)] * 30
    lines = [json.loads(line) for line in agent.sessions.export()]
    assert [one["content"] for one in lines if one["role"] == "tool"] == ["The screen."] * 30
    assert {run.status for run in look.runs()} == {"completed"}


@pytest.mark.parametrize("limit", [0, -1, True, "9", 1.5])
def test_a_limit_that_is_none_is_refused_before_anything_is_stored(
    open_agent: OpenAgent, look: Looker, limit: Any
) -> None:
    """A provider's own attribute is checked like an argument."""
    agent = open_agent([said("x")])
    agent.provider.max_request_bytes = limit
    with pytest.raises(SessionsError, match="max_request_bytes"):
        agent.run("a")
    assert agent.sessions.list().items == ()
    assert agent.provider.requests == []


@pytest.mark.parametrize("limit", [1, 2**70])
def test_any_limit_can_be_lived_with(open_agent: OpenAgent, limit: int) -> None:
    """Text is never left out, however little a service is said to take."""
    agent = open_agent([said("x"), said("y")])
    agent.provider.max_request_bytes = limit
    agent.run("a")
    agent.run("b")
    sent = agent.provider.requests[-1].messages
    assert [message.content for message in sent] == ["a", "x", "b"]


def test_c18_the_beginning_of_a_request_stays_the_same_for_many_turns(
    open_agent: OpenAgent,
) -> None:
    """If each turn left out one image more, no service could reuse what it cached."""
    service = Refusing(400_000, says=look_then_talk)

    @tool(replay="safe", name="screenshot")
    def small() -> ToolOutput:
        """Look at the screen."""
        return ToolOutput(text="The screen.", parts=[image(9_000)])

    agent = open_agent([service] * 200, tools=[small])
    agent.provider.max_request_bytes = 400_000
    for number in range(60):
        agent.run(f"turn {number}")
    assert service.refused_count == 0
    left_out = [images_in(request).count(False) for request in agent.provider.requests]
    assert left_out == sorted(left_out)
    assert len(set(left_out)) < 12  # 60 turns, of which 30 have to leave something out


def test_a_request_that_fits_is_sent_as_it_is() -> None:
    """The same object: nothing is copied, and nothing is looked through."""
    request, past = asked(image(5_000))
    for max_bytes in (None, 1 * MB):
        fitting = Requests().fitting(past, ("x", None), max_bytes=max_bytes)
        assert fitting.fit(request) is request


def test_the_same_request_is_always_cut_in_the_same_way() -> None:
    """Deterministic, and cutting what was cut already changes nothing."""
    request, past = asked(image(50_000), image(50_000))
    results = [
        Requests().fitting(past, ("x", None), max_bytes=100_000).fit(request) for _ in range(3)
    ]
    assert results[0] == results[1] == results[2] != request
    again = Past.of(past.then(()).exchanges)
    assert Requests().fitting(again, ("x", None), max_bytes=100_000).fit(request) == results[0]


def asked(*parts: dict[str, Any], newest: dict[str, Any] | None = None) -> tuple[Any, Past]:
    """Return a request that follows an exchange with *parts*, one message each, and its past."""
    older = [
        ModelMessage(role="user", content="look"),
        *(ModelMessage(role="user", content="this", parts=(part,)) for part in parts),
        ModelMessage(role="assistant", content="seen"),
    ]
    past = Past().then(older)
    new = ModelMessage(role="user", content="and?", parts=(newest,) if newest else None)
    return ModelRequest(model=None, messages=(*past.messages, new)), past


def test_the_newest_exchange_is_never_cut() -> None:
    """It is what the question is about; the service says whether it is too much."""
    request, past = asked(image(9_000), newest=image(90_000))
    sent = Requests().fitting(past, ("x", None), max_bytes=1_000).fit(request)
    assert sent.messages[-1] == request.messages[-1]
    assert "left out" in json.dumps(asdict(sent.messages[1]))


def test_a_refusal_of_what_cannot_be_made_smaller_is_the_runs_failure(
    open_agent: OpenAgent, look: Looker
) -> None:
    """Nobody is asked again for nothing."""
    service = Refusing(1_000, says=lambda _: said("ok"))
    agent = open_agent([service] * 10)
    agent.run("short")
    with pytest.raises(RunFailed) as failed:
        agent.run("long " * 1_000)
    assert failed.value.error_type == "provider.bad_response"
    assert service.refused_count == 1
    assert agent.run("short again").text == "ok"
    assert [run.status for run in look.runs()] == ["completed", "failed", "completed"]


def test_the_journal_tells_of_each_request_and_each_refusal(
    open_agent: OpenAgent, look: Looker
) -> None:
    """Two requests, one refused: what was sent can be found out."""
    service = Refusing(500_000, says=look_then_talk)

    @tool(replay="safe", name="screenshot")
    def middling() -> ToolOutput:
        """Look at the screen."""
        return ToolOutput(text="The screen.", parts=[image(200_000)])

    agent = open_agent([service] * 10, tools=[middling])
    agent.run("one")
    agent.run("two")
    assert service.refused_count == 1
    events = [json.loads(line)["event"] for line in look.journal().splitlines()]
    assert events.count("provider.failed") == 1
    answered = events.count("provider.responded")
    assert events.count("provider.requested") == answered + 1


@pytest.mark.parametrize(
    ("part", "stub"),
    [
        (image(6_000), "[image/png, 6000 bytes"),
        ({"type": "input_image", "image_url": png_url(6_001)}, "[image/png, 6001 bytes"),
        (
            {
                "type": "image",
                "source": {
                    "type": "base64",
                    "media_type": "image/webp",
                    "data": png_url(6_002).partition(",")[2],
                },
            },
            "[image/webp, 6002 bytes",
        ),
        (
            {"type": "image", "mimeType": "image/gif", "data": png_url(6_000).partition(",")[2]},
            "[image/gif, 6000 bytes",
        ),
        (
            {"type": "input_audio", "input_audio": {"format": "wav", "data": "A" * 8_000}},
            "[wav, 6000 bytes",
        ),
        (
            {"type": "file", "file": {"filename": "secret.pdf", "file_data": "B" * 8_000}},
            "[file, 6000 bytes",
        ),
        ({"of no kind": ["A" * 8_000]}, "[data, 6000 bytes"),
        ({"type": "image/" + "x" * 99, "data": "A" * 8_000}, "[data, 6000 bytes"),
        ({"type": "text", "text": "A" * 8_000}, None),
        ({"type": "document", "text": "words and more words " * 900}, None),
        ({"type": "image_url", "image_url": {"url": "https://x.example/" + "a" * 9_000}}, None),
        (image(100), None),
        ({"type": "image_url"}, None),
        ({}, None),
    ],
)
def test_a_stub_says_what_was_there_and_text_and_addresses_have_none(
    part: dict[str, Any], stub: str | None
) -> None:
    """Type and size in whatever form the data came, and nothing of the content or a file's name."""
    found = stub_of_part(part)
    assert (found and found.split(":")[0]) == stub
    assert "secret" not in (found or "")


def test_base64_in_a_text_is_left_out_and_words_are_not() -> None:
    """Tools that return text only return images as such; a list of words is no image."""
    stub = "[image/png, 6000 bytes: left out, the request would be too large]"
    assert without_data(f'{{"it": "{png_url(6_000)}", "ok": 1}}') == f'{{"it": "{stub}", "ok": 1}}'
    short = "x" * (MIN_INLINE_CHARACTERS - 1)
    for text in ("word\n" * 9_000, "word " * 9_000, short, "語" * 9_000):
        assert without_data(text) == text


@pytest.mark.parametrize("role", ["tool", "user", "assistant"])
def test_what_a_model_said_itself_is_never_changed(role: str) -> None:
    """Its words may be signed."""
    past = Past().then(
        [ModelMessage(role="user", content="x"), ModelMessage(role=role, content="A" * 9_000)]
    )
    request = ModelRequest(
        model=None, messages=(*past.messages, ModelMessage(role="user", content="y"))
    )
    sent = Requests().fitting(past, ("x", None), max_bytes=2_000).fit(request)
    assert (sent.messages[1] == request.messages[1]) == (role == "assistant")


@pytest.mark.parametrize(
    "message",
    [
        ModelMessage(role="user", content='quotes " and \n lines, 語 and é' * 50),
        ModelMessage(role="tool", content="x", tool_call_id="c", parts=(image(9_000),)),
        ModelMessage(role="assistant", tool_calls=calling(*[("f", '{"a": "b"}')] * 3).tool_calls),
    ],
)
def test_the_estimate_is_no_less_than_what_is_sent(message: ModelMessage) -> None:
    """A little more, so that what is taken to fit does fit."""
    request = ModelRequest(model="m", messages=(message,))
    for body in (
        openai_body(request)["messages"],
        anthropic_body(request)["messages"],
    ):
        exact = len(json.dumps(body))
        assert exact <= message_bytes(message) <= 3 * exact + 500


def test_the_text_beside_a_part_is_sent_with_its_stub_too() -> None:
    """Providers add a message's text to parts that have none; a stub must not stand in its way."""
    request, past = asked(image(9_000))
    sent = Requests().fitting(past, ("x", None), max_bytes=2_000).fit(request)
    body = openai_body(sent)
    assert [part["text"].split(",")[0] for part in body["messages"][1]["content"]] == [
        "this",
        "[image/png",
    ]
