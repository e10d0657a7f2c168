"""A configured provider at work over HTTP: connections, both faces, and their end.

Owns all that providers with a package of their own have in common. Invariants: an exception that
leaves here is a `ProviderError`, or not about the service; a stream that is left early has closed
its response before control returns; redirects are not followed, for the history would go to an
address nobody agreed to. The faces differ in nothing but `await`.

Must not: import a provider's package before the first request (an extra, and slow to import), or
send through the package's typed methods, which walk all messages against their types: 1.4 to 2.5 s
at 10,000 of them, where writing them as JSON takes 13 ms. `post` is the packages' documented way
to send a body as it is and to have the answer as it came.
"""

from __future__ import annotations

import asyncio
import importlib
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from sessions_api.providers.configured import Configured
from sessions_api.providers.package_failures import translated

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Mapping
    from contextlib import AbstractContextManager
    from types import ModuleType

    from sessions_api.providers.base import Delta, ModelReply, ModelRequest
    from sessions_api.providers.wire_format import Answer, WireFormat

_END = object()


class OverHttp(Configured):
    """What both faces share: the wire format, the package, one request's body and answer.

    The packages are generated alike, so that the names of their clients are all that differs:
    `client_name`, and the same with Async before it.
    """

    wire: ClassVar[WireFormat]
    client_name: ClassVar[str]
    max_request_bytes: ClassVar[int | None] = None
    """How large a body the service takes by its documentation; None where that says nothing."""

    def request_body(self, request: ModelRequest, *, stream: bool = False) -> dict[str, Any]:
        """Return the JSON object that *request* is sent as, without sending it."""
        chosen = replace(request, model=self._model(request.model))
        return self.wire.request_body(chosen, endpoint=self._endpoint, stream=stream)

    def _answer(self, body: dict[str, Any]) -> Answer:
        return self.wire.answer(endpoint=self._endpoint, model=body["model"])

    @property
    def _path(self) -> str:
        return self.wire.path(self._endpoint)

    def _package(self) -> ModuleType:
        try:
            return importlib.import_module(self.package)
        except ImportError as error:
            raise self._package_missing() from error

    def _connect(self, face: str) -> Any:
        package = self._package()
        http_client = getattr(package, f"Default{face}HttpxClient")
        return getattr(package, face + self.client_name)(
            base_url=self._base_url,
            api_key=self._api_key,
            timeout=self._timeout_s,
            max_retries=self._max_retries,
            http_client=http_client(timeout=self._timeout_s, follow_redirects=False),
        )

    def _translated(self, *, reading: bool = False) -> AbstractContextManager[None]:
        return translated(self._package(), self.wire, self._endpoint, reading=reading)


class HttpProvider(OverHttp):
    """Asks a service and blocks until it answers. It can stream.

    `base_url` and `api_key` default to the variables of the provider's package, the key only where
    the address is the service's own or from the same variables; any other service gets no key
    unless one is given. `default_model` serves requests that name none. `timeout_s` is the longest
    wait for the next bytes, None for ever. `max_retries` counts the repeats, with growing pauses,
    after a lost connection, a time-out, 408, 409, 429 or 5xx; once an answer has begun to stream
    nothing is repeated.

    Raises `ProviderUnavailable` where the package, a key, a usable address or the model is
    missing; a request that fails raises `ProviderError`.

    Several threads may use one provider at once; a fork must not take it along.
    """

    _client: Any = None

    def reply(self, request: ModelRequest) -> ModelReply:
        """Answer *request* as a whole."""
        body = self.request_body(request)
        answer = self._answer(body)
        client = self._connected()
        with self._translated():
            content = client.post(self._path, cast_to=bytes, body=body)
        with self._translated(reading=True):
            answer.feed_whole(content)
            return answer.reply(streamed=False)

    def stream(self, request: ModelRequest) -> Generator[Delta | ModelReply, None, None]:
        """Answer *request* piece by piece, then with the whole `ModelReply`.

        Closing the generator early closes the connection, which tells the service to stop.
        """
        body = self.request_body(request, stream=True)
        return self._streamed(self._connected(), body)

    def close(self) -> None:
        """Let the connections go. A later request makes new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _streamed(
        self, client: Any, body: dict[str, Any]
    ) -> Generator[Delta | ModelReply, None, None]:
        answer = self._answer(body)
        stream_cls = self._package().Stream[object]
        with self._translated():
            events = client.post(
                self._path, cast_to=object, body=body, stream=True, stream_cls=stream_cls
            )
        with events:
            while True:
                # Not around the yield: what a consumer throws in is not the service's failure.
                with self._translated(reading=True):
                    event = next(events, _END)
                    deltas = [] if event is _END else answer.feed_event(event)
                if event is _END:
                    break
                yield from deltas
        with self._translated(reading=True):
            reply = answer.reply(streamed=True)
        yield reply

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._connect("")
            return self._client


class AsyncHttpProvider(OverHttp):
    """`HttpProvider` for a running event loop: same configuration, same meaning, same errors.

    It may be used from several event loops, each of which gets connections of its own: one of
    another loop cannot be waited for.
    """

    _clients: Mapping[asyncio.AbstractEventLoop, Any] = MappingProxyType({})

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Answer *request* as a whole."""
        body = self.request_body(request)
        answer = self._answer(body)
        client = self._connected()
        with self._translated():
            content = await client.post(self._path, cast_to=bytes, body=body)
        with self._translated(reading=True):
            answer.feed_whole(content)
            return answer.reply(streamed=False)

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | ModelReply, None]:
        """Answer *request* piece by piece, then with the whole `ModelReply`.

        Closing the generator early (`aclose`) closes the connection.
        """
        body = self.request_body(request, stream=True)
        return self._streamed(body)

    async def close(self) -> None:
        """Let the connections go. A later request makes new ones."""
        with self._lock:
            clients, self._clients = self._clients, {}
        for loop, client in clients.items():
            if loop is asyncio.get_running_loop():
                await client.close()
            elif loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(client.close(), loop)
                await asyncio.wrap_future(closing)
            # Else nothing can be awaited there any more; the connections went with the loop.

    async def _streamed(self, body: dict[str, Any]) -> AsyncGenerator[Delta | ModelReply, None]:
        client = self._connected()  # here, where the event loop is the one that reads
        answer = self._answer(body)
        stream_cls = self._package().AsyncStream[object]
        with self._translated():
            events = await client.post(
                self._path, cast_to=object, body=body, stream=True, stream_cls=stream_cls
            )
        async with events:
            while True:
                with self._translated(reading=True):
                    event = await anext(events, _END)
                    deltas = [] if event is _END else answer.feed_event(event)
                if event is _END:
                    break
                for delta in deltas:
                    yield delta
        with self._translated(reading=True):
            reply = answer.reply(streamed=True)
        yield reply

    def _connected(self) -> Any:
        here = asyncio.get_running_loop()
        with self._lock:
            if here not in self._clients:
                alive = {loop: one for loop, one in self._clients.items() if not loop.is_closed()}
                self._clients = {**alive, here: self._connect("Async")}
            return self._clients[here]
