"""The `openai` package at work: one client a face, from a request body to a reply.

Owns connections and their end. Invariant: an exception that leaves here is a `ProviderError`, or
not about the service; a stream that is left early has closed its response before control
returns. Redirects are not followed: the history would go to an address nobody agreed to.

Must not: be imported before the package is needed, or send through `chat.completions.create`,
which walks all messages against their types: 1.4 to 2.5 s at 10,000 of them, where writing them
as JSON takes 13 ms. `post` is the package's documented way to send a body as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openai import (
    AsyncOpenAI,
    AsyncStream,
    DefaultAsyncHttpxClient,
    DefaultHttpxClient,
    OpenAI,
    Stream,
)

from sessions_api.providers.openai_answer import Answer
from sessions_api.providers.openai_failures import translated

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from sessions_api.providers.base import Delta, ModelReply

_PATH = "/chat/completions"
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
        self._client = OpenAI(
            base_url=base_url,
            api_key=api_key,
            timeout=timeout_s,
            max_retries=max_retries,
            http_client=DefaultHttpxClient(timeout=timeout_s, follow_redirects=False),
        )

    def reply(self, body: dict[str, Any]) -> ModelReply:
        """Post *body* and return the whole answer."""
        answer = Answer(endpoint=self._endpoint)
        with translated(self._endpoint):
            answer.feed_completion(self._client.post(_PATH, cast_to=object, body=body))
            return answer.reply(streamed=False)

    def stream(self, body: dict[str, Any]) -> Generator[Delta | ModelReply, None, None]:
        """Post *body* and yield what comes, then the whole answer."""
        answer = Answer(endpoint=self._endpoint)
        with translated(self._endpoint):
            chunks = self._client.post(
                _PATH, cast_to=object, body=body, stream=True, stream_cls=Stream[object]
            )
        with chunks:
            while True:
                # Not around the yield: what a consumer throws in is not the service's failure.
                with translated(self._endpoint):
                    chunk = next(chunks, _END)
                    deltas = [] if chunk is _END else answer.feed_chunk(chunk)
                if chunk is _END:
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
        self._client = AsyncOpenAI(
            base_url=base_url,
            api_key=api_key,
            timeout=timeout_s,
            max_retries=max_retries,
            http_client=DefaultAsyncHttpxClient(timeout=timeout_s, follow_redirects=False),
        )

    async def reply(self, body: dict[str, Any]) -> ModelReply:
        """Post *body* and return the whole answer."""
        answer = Answer(endpoint=self._endpoint)
        with translated(self._endpoint):
            answer.feed_completion(await self._client.post(_PATH, cast_to=object, body=body))
            return answer.reply(streamed=False)

    async def stream(self, body: dict[str, Any]) -> AsyncGenerator[Delta | ModelReply, None]:
        """Post *body* and yield what comes, then the whole answer."""
        answer = Answer(endpoint=self._endpoint)
        with translated(self._endpoint):
            chunks = await self._client.post(
                _PATH, cast_to=object, body=body, stream=True, stream_cls=AsyncStream[object]
            )
        async with chunks:
            while True:
                with translated(self._endpoint):
                    chunk = await anext(chunks, _END)
                    deltas = [] if chunk is _END else answer.feed_chunk(chunk)
                if chunk is _END:
                    break
                for delta in deltas:
                    yield delta
        with translated(self._endpoint):
            reply = answer.reply(streamed=True)
        yield reply

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()
