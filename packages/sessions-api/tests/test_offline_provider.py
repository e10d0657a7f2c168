from __future__ import annotations

import json
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from sessions_api import tool
from sessions_api.providers.base import (
    ModelMessage,
    ModelReply,
    ModelRequest,
    StreamingProvider,
    TextDelta,
    ToolSpec,
)
from sessions_api.providers.offline import WORD_COUNT, OfflineProvider, word_count
from state_store import Usage

COUNTER = ToolSpec(name="word_count", description="Count.", parameters={"type": "object"})


def user(text: str | None) -> ModelMessage:
    """Return a message of the user."""
    return ModelMessage(role="user", content=text)


def request(*messages: ModelMessage, tools: tuple[ToolSpec, ...] = ()) -> ModelRequest:
    """Return a request with these messages."""
    return ModelRequest(model=None, messages=messages, tools=tools)


messages = st.lists(
    st.builds(
        ModelMessage,
        role=st.sampled_from(["system", "user", "assistant", "tool", "other"]),
        content=st.none() | st.text() | st.just("count words: a b"),
    ),
    max_size=6,
)


def test_the_reply_says_that_no_model_was_asked() -> None:
    """Nobody takes it for an answer of a model."""
    reply = OfflineProvider().reply(request(user("hello")))
    assert reply.content is not None
    assert reply.content.startswith("No model was asked")
    assert reply.finish_reason == "stop"


def test_the_reply_shows_that_the_history_arrived() -> None:
    """It counts the user's messages and shows the last two, whatever else is between."""
    said = (user("my name is Ann"), ModelMessage(role="assistant", content="x"), user("who am I?"))
    content = OfflineProvider().reply(request(*said)).content or ""
    assert "2 times" in content
    assert "“who am I?”" in content
    assert "“my name is Ann”" in content


def test_a_long_message_is_shortened_in_one_line() -> None:
    """A page of text does not come back as a page."""
    content = OfflineProvider().reply(request(user("word\n" * 500))).content or ""
    assert "…" in content
    assert "\n" not in content
    assert len(content) < 200


def test_messages_without_text_are_named() -> None:
    """A picture, or nothing, is said to be one."""
    picture = ModelMessage(role="user", parts=({"type": "image_url"},))
    content = OfflineProvider().reply(request(picture, user(None))).content or ""
    assert "something other than text" in content
    assert "nothing" in content


def test_usage_counts_words() -> None:
    """Input is the prompt and all messages, output the answer."""
    asked = ModelRequest(model=None, system_prompt="be  brief", messages=(user("one two three"),))
    reply = OfflineProvider().reply(asked)
    assert reply.usage == Usage(
        input_tokens=5,
        output_tokens=len((reply.content or "").split()),
        cached_input_tokens=0,
        reasoning_tokens=0,
    )


def test_counting_words_is_a_tool_call_and_then_an_answer() -> None:
    """The whole way of a tool call can be seen without a model."""
    provider = OfflineProvider()
    asked = user("Count words: one two 'Łódź'")
    first = provider.reply(request(asked, tools=(COUNTER,)))
    assert first.content is None
    assert first.finish_reason == "tool_calls"
    (call,) = first.tool_calls
    assert (call.id, call.name) == ("offline-1", "word_count")
    result = word_count(**json.loads(call.arguments))
    assert result == 3
    calling = ModelMessage(role="assistant", tool_calls=first.tool_calls)
    answer = ModelMessage(role="tool", content=str(result), tool_call_id=call.id, name=call.name)
    second = provider.reply(request(asked, calling, answer, tools=(COUNTER,)))
    assert second.tool_calls == ()
    assert "word_count answered: “3”" in (second.content or "")
    again = provider.reply(request(asked, calling, answer, asked, tools=(COUNTER,)))
    assert again.tool_calls[0].id == "offline-2"


def test_a_tool_that_is_not_offered_is_not_called() -> None:
    """It says so instead."""
    reply = OfflineProvider().reply(request(user("count words: a b")))
    assert reply.tool_calls == ()
    assert "not offered" in (reply.content or "")


def test_its_own_tool_is_described_as_the_usual_way_would() -> None:
    """The description written by hand says what the type hints and the docstring say."""
    assert OfflineProvider.own_tools == (WORD_COUNT,)
    assert WORD_COUNT.spec == tool(WORD_COUNT.function).spec


@given(messages)
def test_pieces_concatenate_to_the_same_reply_each_time(said: list[ModelMessage]) -> None:
    """Streaming and asking twice change nothing, and it never fails."""
    provider = OfflineProvider()
    asked = request(*said, tools=(COUNTER,))
    *pieces, reply = provider.stream(asked)
    assert isinstance(reply, ModelReply)
    assert reply == provider.reply(asked)
    texts = [piece.text for piece in pieces if isinstance(piece, TextDelta)]
    assert len(texts) == len(pieces)
    assert "".join(texts) == (reply.content or "")
    assert (reply.content is None) == bool(reply.tool_calls)


def test_it_is_a_streaming_provider_inside_this_process() -> None:
    """It has no endpoint, so nothing is sent anywhere."""
    provider: StreamingProvider = OfflineProvider()
    assert isinstance(provider, StreamingProvider)
    assert (provider.name, provider.endpoint) == ("offline", None)
    OfflineProvider().close()


def test_it_needs_no_provider_package() -> None:
    """Importing it loads neither an HTTP client nor what settings are made with."""
    code = (
        "import sys; import sessions_api.providers.offline\n"
        "sys.exit(bool({'http.client', 'httpx', 'openai', 'pydantic'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
