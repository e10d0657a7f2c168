"""Models behind Anthropic's Messages API, and services that speak it too.

Owns the provider's two faces. Invariant: ANTHROPIC_API_KEY is not sent to a service that it was
not made for, and no other credential that the package could find on the machine is sent anywhere.

Must not: import the `anthropic` package before the first request (it is an extra, and slow to
import), keep anything of a conversation, or differ between the faces in more than `await`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sessions_api.providers.anthropic_request import request_body
from sessions_api.providers.configured import Configured

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from sessions_api.providers.anthropic_client import AsyncClient, SyncClient
    from sessions_api.providers.base import Delta, ModelReply, ModelRequest


class _Configured(Configured):
    """What is Anthropic's own in the configuration, and the request that follows from it."""

    name: Final = "anthropic"
    default_base_url = "https://api.anthropic.com"
    example_base_url = "http://localhost:11434"
    key_variable = "ANTHROPIC_API_KEY"
    base_url_variable = "ANTHROPIC_BASE_URL"

    def _body(self, request: ModelRequest, *, stream: bool) -> dict[str, Any]:
        return request_body(
            request, model=self._model(request.model), endpoint=self._endpoint, stream=stream
        )

    def _client_options(self) -> dict[str, Any]:
        return {
            "endpoint": self._endpoint,
            "base_url": self._base_url,
            "api_key": self._api_key,
            "timeout_s": self._timeout_s,
            "max_retries": self._max_retries,
        }


class AnthropicProvider(_Configured):
    """Asks a service of the Messages API and blocks until it answers. It can stream.

    `base_url` defaults to ANTHROPIC_BASE_URL and then to Anthropic's own address, `api_key` to
    ANTHROPIC_API_KEY where the address is one of those two; any other service gets no key unless
    one is given. `default_model` serves requests that name none. `timeout_s` is the longest wait
    for the next bytes, None for ever. `max_retries` counts the repeats, with growing pauses,
    after a lost connection, a time-out, 408, 409, 429 or 5xx; once an answer has begun to stream
    nothing is repeated.

    Raises `ProviderUnavailable` where the package, a key, a usable address or the model is
    missing; a request that fails raises `ProviderError`.

    Several threads may use one provider at once; a fork must not take it along.
    """

    _client: SyncClient | None = None

    def reply(self, request: ModelRequest) -> ModelReply:
        """Answer *request* as a whole."""
        body = self._body(request, stream=False)
        return self._connected().reply(body)

    def stream(self, request: ModelRequest) -> Generator[Delta | ModelReply, None, None]:
        """Answer *request* piece by piece, then with the whole `ModelReply`.

        Closing the generator early closes the connection, which tells the service to stop.
        """
        body = self._body(request, stream=True)
        return self._connected().stream(body)

    def close(self) -> None:
        """Let the connections go. A later request makes new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> SyncClient:
        with self._lock:
            if self._client is None:
                try:
                    from sessions_api.providers.anthropic_client import (  # noqa: PLC0415 - see above
                        SyncClient,
                    )
                except ImportError as error:
                    raise self._package_missing() from error
                self._client = SyncClient(**self._client_options())
            return self._client


class AsyncAnthropicProvider(_Configured):
    """`AnthropicProvider` for a running event loop: same configuration, same meaning, same errors.

    For one event loop; close it there.
    """

    _client: AsyncClient | None = None

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Answer *request* as a whole."""
        body = self._body(request, stream=False)
        return await self._connected().reply(body)

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | ModelReply, None]:
        """Answer *request* piece by piece, then with the whole `ModelReply`.

        Closing the generator early (`aclose`) closes the connection.
        """
        body = self._body(request, stream=True)
        return self._connected().stream(body)

    async def close(self) -> None:
        """Let the connections go. A later request makes new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _connected(self) -> AsyncClient:
        if self._client is None:
            try:
                from sessions_api.providers.anthropic_client import (  # noqa: PLC0415 - see above
                    AsyncClient,
                )
            except ImportError as error:
                raise self._package_missing() from error
            self._client = AsyncClient(**self._client_options())
        return self._client
