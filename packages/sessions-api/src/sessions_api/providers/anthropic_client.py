"""The `anthropic` package at work: one client a face, from a request body to a reply.

Owns connections and their end. Invariant: an exception that leaves here is a `ProviderError`, or
not about the service; a stream that is left early has closed its response before control
returns. Redirects are not followed: the history would go to an address nobody agreed to.

Must not: be imported before the package is needed, or send through `messages.create`, which walks
all messages against their types, and gives a tool's arguments back parsed. `post` is the package's
documented way to send a body as it is and to have the answer as it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anthropic import (
    Anthropic,
    AsyncAnthropic,
    AsyncStream,
    DefaultAsyncHttpxClient,
    DefaultHttpxClient,
    Stream,
)

from sessions_api.providers.anthropic_answer import Answer
from sessions_api.providers.anthropic_failures import translated

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from sessions_api.providers.base import Delta, ModelReply

_END = object()


class SyncClient:
    """Blocking requests to one service."""

    def __init__(
        self,
        *,
        endpoint: str,
        base_url: str,
        api_key: str,
        timeout_s: float | None,
        max_retries: int,
    ) -> None:
        self._endpoint = endpoint
        self._path = _path(endpoint)
        self._client = Anthropic(
            base_url=base_url,
            api_key=api_key,
            timeout=timeout_s,
            max_retries=max_retries,
            http_client=DefaultHttpxClient(timeout=timeout_s, follow_redirects=False),
        )

    def reply(self, body: dict[str, Any]) -> ModelReply:
        """Post *body* and return the whole answer."""
        answer = Answer(endpoint=self._endpoint, model=body["model"])
        with translated(self._endpoint):
            answer.feed_message(self._client.post(self._path, cast_to=bytes, body=body))
            return answer.reply(streamed=False)

    def stream(self, body: dict[str, Any]) -> Generator[Delta | ModelReply, None, None]:
        """Post *body* and yield what comes, then the whole answer."""
        answer = Answer(endpoint=self._endpoint, model=body["model"])
        with translated(self._endpoint):
            events = self._client.post(
                self._path, cast_to=object, body=body, stream=True, stream_cls=Stream[object]
            )
        with events:
            while True:
                # Not around the yield: what a consumer throws in is not the service's failure.
                with translated(self._endpoint):
                    event = next(events, _END)
                    deltas = [] if event is _END else answer.feed_event(event)
                if event is _END:
                    break
                yield from deltas
        with translated(self._endpoint):
            reply = answer.reply(streamed=True)
        yield reply

    def close(self) -> None:
        """Close all connections."""
        self._client.close()


class AsyncClient:
    """The same requests without blocking; for one event loop."""

    def __init__(
        self,
        *,
        endpoint: str,
        base_url: str,
        api_key: str,
        timeout_s: float | None,
        max_retries: int,
    ) -> None:
        self._endpoint = endpoint
        self._path = _path(endpoint)
        self._client = AsyncAnthropic(
            base_url=base_url,
            api_key=api_key,
            timeout=timeout_s,
            max_retries=max_retries,
            http_client=DefaultAsyncHttpxClient(timeout=timeout_s, follow_redirects=False),
        )

    async def reply(self, body: dict[str, Any]) -> ModelReply:
        """Post *body* and return the whole answer."""
        answer = Answer(endpoint=self._endpoint, model=body["model"])
        with translated(self._endpoint):
            answer.feed_message(await self._client.post(self._path, cast_to=bytes, body=body))
            return answer.reply(streamed=False)

    async def stream(self, body: dict[str, Any]) -> AsyncGenerator[Delta | ModelReply, None]:
        """Post *body* and yield what comes, then the whole answer."""
        answer = Answer(endpoint=self._endpoint, model=body["model"])
        with translated(self._endpoint):
            events = await self._client.post(
                self._path, cast_to=object, body=body, stream=True, stream_cls=AsyncStream[object]
            )
        async with events:
            while True:
                with translated(self._endpoint):
                    event = await anext(events, _END)
                    deltas = [] if event is _END else answer.feed_event(event)
                if event is _END:
                    break
                for delta in deltas:
                    yield delta
        with translated(self._endpoint):
            reply = answer.reply(streamed=True)
        yield reply

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()


def _path(endpoint: str) -> str:
    """Return where messages are posted; some services are named with their version, others not."""
    return "/messages" if endpoint.endswith("/v1") else "/v1/messages"
