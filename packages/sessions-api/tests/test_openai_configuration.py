from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from asking import HELLO, KEY, Ask
from sessions_api import Agent
from sessions_api.errors import ProviderUnavailable
from sessions_api.providers.base import (
    ModelRequest,
)
from sessions_api.providers.openai import AsyncOpenAIProvider, OpenAIProvider
from wire_server import Turn, WireServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_the_endpoint_shows_no_credentials(wire: WireServer) -> None:
    """It is stored with the session, so what is secret in an address is left out."""
    address = f"https://ann:{KEY}@example.org:8443/v1/?key={KEY}#{KEY}"
    assert OpenAIProvider(base_url=address).endpoint == "https://example.org:8443/v1"


def test_a_key_for_openai_goes_to_no_other_service(
    ask: Ask, wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A local server gets a placeholder although OPENAI_API_KEY is set."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    wire.script(Turn(text="hi"), Turn(text="hi"))
    ask(HELLO)
    assert KEY not in str(wire.requests[0])
    monkeypatch.setenv("OPENAI_BASE_URL", wire.base_url)
    ask(HELLO, base_url=None)
    assert wire.requests[1].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("address", "at_home"),
    [
        ("https://API.openai.com:443/v1", True),
        ("https://ann:pass@api.openai.com", True),
        ("http://api.openai.com/v1", False),
        ("https://api.openai.com:8443/v1", False),
        ("https://api.openai.com@example.org/v1", False),
        ("https://api.openai.com.example.org/v1", False),
    ],
)
def test_a_key_for_openai_goes_there_alone_and_only_over_tls(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch, address: str, *, at_home: bool
) -> None:
    """However the address is written; without TLS anybody on the way could read it."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert (KEY in OpenAIProvider(base_url=address).secrets) is at_home


@pytest.mark.parametrize(
    ("address", "endpoint"),
    [
        (" https://Example.org:443/v1/\n", "https://example.org/v1"),
        ("HTTP://[::1]:80//", "http://[::1]"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1"),
    ],
)
def test_an_address_has_one_form(wire: WireServer, address: str, endpoint: str) -> None:
    """What a service wants back is known by it, however the address is written today."""
    assert OpenAIProvider(base_url=address).endpoint == endpoint


@pytest.mark.parametrize("provider", [OpenAIProvider, AsyncOpenAIProvider])
def test_a_missing_key_for_openai_is_named(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch, provider: Callable[..., Any]
) -> None:
    """Nothing is asked before there is a key, and the error says where to put it."""
    with pytest.raises(ProviderUnavailable) as caught:
        provider()
    assert "TINYAGENT_API_KEY" in str(caught.value.hint)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert provider().endpoint == "https://api.openai.com/v1"
    assert KEY not in repr(provider())


@pytest.mark.parametrize(
    "address",
    [
        *("localhost:11434", "ftp://x/v1", "http://", "http://x:port", "http://x:0", "http://["),
        *("http://two words/v1", "http://x/a\tb", "http://x/\x00"),
    ],
)
def test_an_address_that_is_none_is_refused(wire: WireServer, address: str) -> None:
    """The mistake shows before a conversation begins."""
    with pytest.raises(ProviderUnavailable) as caught:
        OpenAIProvider(base_url=address)
    assert "TINYAGENT_BASE_URL" in str(caught.value.hint)


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_without_a_model_is_refused(ask: Ask, wire: WireServer, *, stream: bool) -> None:
    """It asks for one in place of guessing, and sends nothing."""
    with pytest.raises(ProviderUnavailable) as caught:
        ask(ModelRequest(model=None), stream=stream)
    assert "TINYAGENT_MODEL" in str(caught.value.hint)
    assert wire.requests == []


def test_a_missing_package_is_named_with_the_way_out(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra can be absent; the error says how to install it."""
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ProviderUnavailable) as caught:
        OpenAIProvider(base_url=wire.base_url)
    assert "--extra openai" in str(caught.value.hint)


def test_the_package_is_not_imported_before_the_first_request() -> None:
    """Choosing the provider keeps a light command light."""
    code = (
        "import sys; from sessions_api.providers.openai import OpenAIProvider\n"
        "OpenAIProvider(base_url='http://localhost/v1')\n"
        "sys.exit('openai' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_what_must_not_be_told_is_known_wherever_it_came_from(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal is searched for the key of the environment and the address's password too."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert OpenAIProvider().secrets == (KEY,)
    address = wire.base_url.replace("//", "//ann:pass%2Fword@")
    assert "pass/word" in OpenAIProvider(base_url=address).secrets


def test_an_agent_searches_its_journal_for_the_keys_that_its_provider_found(
    tmp_path: Path, wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key in a tool's name, of all places, stops the line and not the run."""
    key = "madeup" + "fortests0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("OPENAI_BASE_URL", wire.base_url)
    call = {"id": "1", "name": key, "arguments": "{}"}
    wire.script(Turn(tool_calls=[call]), Turn(text="done"))
    (tmp_path / "ws").mkdir()
    with Agent(
        tmp_path / "ws", provider="openai", model="m", state_home=tmp_path / "home"
    ) as agent:
        assert agent.run("x").text == "done"
    lines = [path.read_text() for path in (tmp_path / "home").rglob("*.jsonl")]
    assert not [text for text in lines if key in text]
    assert [text for text in lines if "redaction.tripped" in text]
