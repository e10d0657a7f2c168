"""Models behind an OpenAI-compatible endpoint: OpenAI, Ollama, vLLM, llama.cpp, OpenRouter, ….

Owns the provider's two faces and their configuration. Invariant: the history and the key go to
`endpoint` and nowhere else, and OPENAI_API_KEY is not sent to a service that it was not made for.

Must not: import the `openai` package before the first request (it is an extra, and slow to
import), keep anything of a conversation, or differ between the faces in more than `await`.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from sessions_api.errors import ProviderUnavailable
from sessions_api.providers.openai_request import request_body

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from sessions_api.providers.base import Delta, ModelReply, ModelRequest
    from sessions_api.providers.openai_client import AsyncClient, SyncClient

_DEFAULT_BASE_URL = "https://api.openai.com/v1"
_NO_KEY_NEEDED = "no-key"  # the package insists on one, local servers ignore it


class _Configured:
    """What both faces share: the endpoint, the key and the model, checked before any request."""

    name: Final = "openai"

    def __init__(
        self,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        default_model: str | None = None,
        timeout_s: float | None = 600,
        max_retries: int = 2,
    ) -> None:
        if importlib.util.find_spec("openai") is None:
            raise _package_missing()
        self._base_url = base_url or os.environ.get("OPENAI_BASE_URL") or _DEFAULT_BASE_URL
        self._endpoint = _without_secrets(self._base_url)
        self._api_key = api_key or self._key_for_endpoint(configured=bool(base_url))
        if not (self._api_key.isascii() and self._api_key.isprintable()):
            raise ProviderUnavailable(
                self.name,
                missing="its key has characters that no request can carry",
                hint="Check TINYAGENT_API_KEY: a line break, a quote mark or a letter got into it.",
            )
        self._timeout_s = timeout_s
        self._max_retries = max_retries
        self._lock = threading.Lock()
        self.default_model = default_model

    @property
    def endpoint(self) -> str:
        """The base URL without user name, password, query and fragment."""
        return self._endpoint

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key, wherever it came from, and the password of the address: for no other eye."""
        password = urlsplit(self._base_url).password
        return (self._api_key, *((unquote(password),) if password else ()))

    def _key_for_endpoint(self, *, configured: bool) -> str:
        at_openai = _host(self._endpoint) == _host(_DEFAULT_BASE_URL)
        # A key and an address from the same family of variables belong together; a key for one
        # service must not reach another only because its address was given.
        key = os.environ.get("OPENAI_API_KEY") if at_openai or not configured else None
        if not key and at_openai:
            raise ProviderUnavailable(
                self.name,
                missing=f"there is no key for {_host(self._endpoint)}",
                hint="Set TINYAGENT_API_KEY, or name a service that needs none with --base-url.",
            )
        return key or _NO_KEY_NEEDED

    def _body(self, request: ModelRequest, *, stream: bool) -> dict[str, Any]:
        model = request.model or self.default_model
        if not model:
            raise ProviderUnavailable(
                self.name,
                missing="no model is chosen",
                hint="Choose one with --model or TINYAGENT_MODEL.",
            )
        return request_body(request, model=model, endpoint=self._endpoint, stream=stream)

    def _client_options(self) -> dict[str, Any]:
        return {
            "endpoint": self._endpoint,
            "base_url": self._base_url,
            "api_key": self._api_key,
            "timeout_s": self._timeout_s,
            "max_retries": self._max_retries,
        }


class OpenAIProvider(_Configured):
    """Asks a chat-completions service and blocks until it answers. It can stream.

    `base_url` defaults to OPENAI_BASE_URL and then to OpenAI's own address, `api_key` to
    OPENAI_API_KEY where the address is one of those two; any other service gets no key unless one
    is given. `default_model` serves requests that name none. `timeout_s` is the longest wait for
    the next bytes, None for ever. `max_retries` counts the repeats, with growing pauses, after a
    lost connection, a time-out, 408, 409, 429 or 5xx; once an answer has begun to stream nothing
    is repeated.

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
                    from sessions_api.providers.openai_client import (  # noqa: PLC0415 - see above
                        SyncClient,
                    )
                except ImportError as error:
                    raise _package_missing() from error
                self._client = SyncClient(**self._client_options())
            return self._client


class AsyncOpenAIProvider(_Configured):
    """`OpenAIProvider` for a running event loop: same configuration, same meaning, same errors.

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
                from sessions_api.providers.openai_client import (  # noqa: PLC0415 - see above
                    AsyncClient,
                )
            except ImportError as error:
                raise _package_missing() from error
            self._client = AsyncClient(**self._client_options())
        return self._client


def _package_missing() -> ProviderUnavailable:
    return ProviderUnavailable(
        "openai",
        missing="the package 'openai' is not installed",
        hint="Install it with: uv sync --extra openai, or pip install 'sessions-api[openai]'.",
    )


def _without_secrets(base_url: str) -> str:
    """Return what may be stored and shown of an address; refuse what is no address."""
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, half an IPv6 address
        parts, usable = None, False
    if parts is None or not usable:
        raise ProviderUnavailable(
            "openai",
            missing="its base URL is not an http or https address",
            hint="Set --base-url (TINYAGENT_BASE_URL) to one like http://localhost:11434/v1.",
        )
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))


def _host(endpoint: str) -> str:
    return urlsplit(endpoint).netloc
