"""A provider that replays a list of replies and exceptions, and keeps the requests it got.

Invariant: one step of the script is used for each request, in order; a request beyond the end is
a test's mistake and says so. A step may be a reply, a text (a reply with that content), an
exception (raised), or a function of the request that returns one of these.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

from sessions_api.providers.base import Delta, ModelReply, ModelRequest, TextDelta

Step = ModelReply | str | BaseException
ScriptStep = Step | Callable[[ModelRequest], Step]


class ScriptedProvider:
    """Plays *script*; `requests` holds what it was asked, in order.

    `max_request_bytes` is how large a request it says it takes; what comes is taken anyhow.
    """

    def __init__(
        self,
        script: Iterable[ScriptStep] = (),
        *,
        name: str = "scripted",
        endpoint: str | None = None,
        max_request_bytes: int | None = None,
    ) -> None:
        self.name = name
        self.endpoint = endpoint
        self.max_request_bytes = max_request_bytes
        self.requests: list[ModelRequest] = []
        self._script = iter(script)

    def reply(self, request: ModelRequest) -> ModelReply:
        """Play the next step of the script."""
        self.requests.append(request)
        step: ScriptStep | None = next(self._script, None)
        if step is None:
            raise AssertionError(f"the script has no step for request {len(self.requests)}")
        if callable(step):
            step = step(request)
        if isinstance(step, BaseException):
            raise step
        return ModelReply(content=step) if isinstance(step, str) else step

    def stream(self, request: ModelRequest) -> Iterator[Delta | ModelReply]:
        """Play the next step word by word."""
        reply = self.reply(request)
        for word in re.findall(r"\S+\s*|\s+", reply.content or ""):
            yield TextDelta(text=word)
        yield reply


class AsyncScriptedProvider(ScriptedProvider):
    """`ScriptedProvider` with coroutines."""

    async def reply(self, request: ModelRequest) -> ModelReply:  # type: ignore[override]  # the protocol allows either
        """Play the next step of the script."""
        return super().reply(request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:  # type: ignore[override]  # the protocol allows either
        """Play the next step word by word."""
        reply = await self.reply(request)
        for word in re.findall(r"\S+\s*|\s+", reply.content or ""):
            yield TextDelta(text=word)
        yield reply
