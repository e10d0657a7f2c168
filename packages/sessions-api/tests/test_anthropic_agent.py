from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from unittest.mock import ANY

import pytest

from asking import HELLO, KEY
from sessions_api import EndpointChanged, RunFailed
from sessions_api.errors import ProviderUnavailable
from sessions_api.providers.anthropic import AnthropicProvider, AsyncAnthropicProvider
from sessions_api.providers.base import ModelRequest, StreamingProvider
from test_anthropic_provider import ALL_BLOCKS, CITED, FULL_USAGE
from wire_server import Turn

if TYPE_CHECKING:
    from faces import Looker
    from messages_server import MessagesServer
    from tinyagent_process import Call

OpenAgent = Callable[..., Any]


def clock(zone: str) -> str:
    """Tell the time."""
    return f"12:00 {zone}"


def test_c38_a_conversation_with_thinking_goes_on_after_a_restart(
    open_agent: OpenAgent, messages_wire: MessagesServer, look: Looker
) -> None:
    """The whole way: a tool runs, the agent is closed, and the next one sends every block back."""
    options: Any = {"base_url": messages_wire.base_url, "api_key": KEY, "tools": [clock]}
    messages_wire.script(
        Turn(message={"content": ALL_BLOCKS}, usage=FULL_USAGE),
        Turn(text="Noon.", usage=FULL_USAGE),
        Turn(text="Still noon."),
    )
    first = open_agent(provider="anthropic", model="m-1", **options)
    result = first.run("what time is it?")
    assert (result.text, result.usage.input_tokens, result.cost) == ("Noon.", 22, None)
    first.close()
    second = open_agent(provider=None, **options)
    second.sessions.resume()
    assert second.run("and now?").text == "Still noon."
    second.close()
    messages = messages_wire.requests[-1].body["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 2 + ["user"]
    assert messages[1]["content"] == ALL_BLOCKS
    assert messages[2]["content"][0]["content"] == "12:00 UTC"
    assert [message.content for message in look.messages()][1] == CITED["text"]
    files = [path for path in look.state_home.rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def test_a_stream_that_breaks_leaves_a_failed_run(
    open_agent: OpenAgent, messages_wire: MessagesServer, look: Looker
) -> None:
    """What was shown is no answer, and neither store nor error has the key."""
    messages_wire.script(Turn(text="one two three four", drop="inside"))
    agent = open_agent(
        provider="anthropic", model="m", base_url=messages_wire.base_url, api_key=KEY
    )
    shown: list[Any] = []
    with pytest.raises(RunFailed) as caught:
        agent.stream("x", into=shown)
    assert shown
    assert (caught.value.error_type, caught.value.retryable) == ("provider.unavailable", True)
    assert KEY not in "".join(traceback.format_exception(caught.value)) + look.journal()
    assert look.texts() == [("user", "x")]


def test_another_origin_needs_consent(open_agent: OpenAgent, messages_wire: MessagesServer) -> None:
    """The history was held with one service; it does not go to the next one by itself."""
    messages_wire.script(Turn(text="hi"))
    first = open_agent(provider="anthropic", model="m", base_url=messages_wire.base_url)
    first.run("x")
    first.close()
    second = open_agent(provider="anthropic", model="m", base_url="http://127.0.0.1:9")
    second.sessions.resume()
    with pytest.raises(EndpointChanged):
        second.run("y")
    assert len(messages_wire.requests) == 1


def test_the_command_takes_the_provider_by_its_name(
    call: Call, messages_wire: MessagesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tinyagent run --provider anthropic`, with the key from the environment."""
    messages_wire.script(Turn(text="Hello to you."))
    monkeypatch.setenv("TINYAGENT_API_KEY", KEY)
    provider = ("--provider", "anthropic", "--model", "m", "--base-url", messages_wire.base_url)
    assert call("run", "hi", *provider) == (0, "Hello to you.\n", ANY)
    assert KEY in str(messages_wire.requests[0].headers)
    assert messages_wire.requests[0].body["model"] == "m"


@pytest.mark.parametrize("kind", [AnthropicProvider, AsyncAnthropicProvider])
def test_a_face_is_a_streaming_provider_that_names_what_is_missing(
    messages_wire: MessagesServer, monkeypatch: pytest.MonkeyPatch, kind: Callable[..., Any]
) -> None:
    """Nothing is asked before there is a key; an address shows no credentials."""
    with pytest.raises(ProviderUnavailable, match=r"api\.anthropic\.com") as caught:
        kind()
    assert "TINYAGENT_API_KEY" in str(caught.value.hint)
    provider: StreamingProvider = kind(base_url=f"https://ann:{KEY}@example.org/v1/?k={KEY}")
    assert isinstance(provider, StreamingProvider)
    assert (provider.name, provider.endpoint) == ("anthropic", "https://example.org/v1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    assert kind().endpoint == "https://api.anthropic.com"
    assert kind().secrets == (KEY,)
    with pytest.raises(ProviderUnavailable, match="no model"):
        kind().stream(ModelRequest(model=None))
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(ProviderUnavailable, match="not installed") as caught:
        kind()
    assert "--extra anthropic" in str(caught.value.hint)


def test_no_credential_of_the_machine_goes_to_another_service(
    ask_messages: Callable[..., Any],
    messages_wire: MessagesServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither the key nor the token for Anthropic, until the address is from the same place."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", KEY + "-token")
    messages_wire.script(Turn(text="hi"), Turn(text="hi"))
    ask_messages(HELLO)
    assert KEY not in str(messages_wire.requests[0])
    monkeypatch.setenv("ANTHROPIC_BASE_URL", messages_wire.base_url)
    ask_messages(HELLO, base_url=None)
    assert KEY in str(messages_wire.requests[1])
    assert "-token" not in str(messages_wire.requests[1])


def test_the_package_is_not_imported_before_the_first_request() -> None:
    """Choosing the provider keeps a light command light, and so does having prices."""
    code = (
        "import sys, sessions_api.runs.recorder; from sessions_api.providers import make_provider\n"
        "make_provider('anthropic', asynchronous=False, base_url='http://localhost')\n"
        "sys.exit(bool({'anthropic', 'genai_prices', 'pydantic', 'openai'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
