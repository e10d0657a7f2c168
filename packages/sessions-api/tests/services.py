"""The services that the providers with a package of their own are tested against, and their faces.

Owns the list of wire formats: a new one is a line in `WIRES`, and has to pass what the others pass.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from messages_server import MessagesServer
from responses_server import ResponsesServer
from sessions_api.providers.anthropic import AnthropicProvider, AsyncAnthropicProvider
from sessions_api.providers.openai import AsyncOpenAIProvider, OpenAIProvider
from sessions_api.providers.openai_responses import (
    AsyncOpenAIResponsesProvider,
    OpenAIResponsesProvider,
)
from wire_server import WireServer

if TYPE_CHECKING:
    from asking import Ask
    from sessions_api.providers.base import Delta, ModelReply, ModelRequest


def ask_sync(
    kind: Any, request: ModelRequest, *, stream: bool = False, **configuration: Any
) -> list[Delta | ModelReply]:
    """Ask a blocking provider of *kind* once; what it gave comes back as a list."""
    provider = kind(**configuration)
    try:
        return list(provider.stream(request)) if stream else [provider.reply(request)]
    finally:
        provider.close()


def ask_async(
    kind: Any, request: ModelRequest, *, stream: bool = False, **configuration: Any
) -> list[Delta | ModelReply]:
    """Do the same with a provider for an event loop, on a loop of its own."""

    async def ask() -> list[Delta | ModelReply]:
        provider = kind(**configuration)
        try:
            if stream:
                return [item async for item in provider.stream(request)]
            return [await provider.reply(request)]
        finally:
            await provider.close()

    return asyncio.run(ask())


WIRES: list[tuple[str, type[WireServer], type[Any], type[Any]]] = [
    ("chat", WireServer, OpenAIProvider, AsyncOpenAIProvider),
    ("messages", MessagesServer, AnthropicProvider, AsyncAnthropicProvider),
    ("responses", ResponsesServer, OpenAIResponsesProvider, AsyncOpenAIResponsesProvider),
]


@dataclass(frozen=True)
class Service:
    """A service of one wire format, seen through one face of its provider."""

    wire: WireServer
    server: type[WireServer]
    provider: Any
    asking: Ask

    def ask(self, request: ModelRequest, **configuration: Any) -> list[Delta | ModelReply]:
        """Ask the service; what it gave comes back as a list, the reply last."""
        options = {"base_url": self.wire.base_url, "max_retries": 0} | configuration
        return self.asking(self.provider, request, **options)
