"""Fixtures of this package's tests, and the folder they import one another from."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessions_api.providers.base import Delta, ModelReply, ModelRequest
from sessions_api.providers.openai import AsyncOpenAIProvider, OpenAIProvider

# Test folders are not packages, so what the tests share is found by its folder.
sys.path.insert(0, str(Path(__file__).parent))

from wire_server import WireServer


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[WireServer]:
    """Run a chat-completions service without a script, in an environment that names no other."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    # No certificate is trusted: nothing is reached over TLS, and 20 ms a client are saved.
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    with WireServer() as server:
        yield server


Ask = Callable[..., list[Delta | ModelReply]]


def _ask_sync(
    request: ModelRequest, *, stream: bool = False, **configuration: Any
) -> list[Delta | ModelReply]:
    provider = OpenAIProvider(**configuration)
    try:
        return list(provider.stream(request)) if stream else [provider.reply(request)]
    finally:
        provider.close()


def _ask_async(
    request: ModelRequest, *, stream: bool = False, **configuration: Any
) -> list[Delta | ModelReply]:
    async def ask() -> list[Delta | ModelReply]:
        provider = AsyncOpenAIProvider(**configuration)
        try:
            if stream:
                return [item async for item in provider.stream(request)]
            return [await provider.reply(request)]
        finally:
            await provider.close()

    return asyncio.run(ask())


@pytest.fixture(params=[_ask_sync, _ask_async], ids=["sync", "async"])
def ask(request: pytest.FixtureRequest, wire: WireServer) -> Ask:
    """Ask the service through one face; what it gave comes back as a list, the reply last."""
    face: Ask = request.param

    def ask_wire(model_request: ModelRequest, **configuration: Any) -> list[Delta | ModelReply]:
        return face(model_request, **{"base_url": wire.base_url, "max_retries": 0} | configuration)

    return ask_wire
