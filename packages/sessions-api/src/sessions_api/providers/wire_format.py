"""One way of talking to models over HTTP, as data: what is sent, where to, and how an answer reads.

Owns the shape that every such API fits in, so that a new one is two pure modules (request and
answer) and one `WireFormat`. Invariant: nothing in here does I/O, and nothing knows which package
carries the bytes.

Must not: import a provider's package, or hold anything of a conversation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessions_api.providers.base import Delta, ModelReply, ModelRequest


class BodyWriter(Protocol):
    """Turns a request, whose model is chosen, into the JSON object to post; a pure function.

    *endpoint* decides whose own fields go back: what another service sent is left out.
    """

    def __call__(
        self, request: ModelRequest, *, endpoint: str = ..., stream: bool = ...
    ) -> dict[str, Any]:
        """Return the body."""


class Answer(Protocol):
    """Collects one answer: a whole one, or each event of a stream in order; then take `reply`.

    For one answer, one thread. Raises `AnswerMalformed`, `AnswerCutShort` and `FailureReported`.
    """

    def feed_whole(self, content: bytes) -> None:
        """Take a whole answer, as the bytes that came."""

    def feed_event(self, payload: object) -> list[Delta]:
        """Take the JSON value of one event and return the new pieces."""

    def reply(self, *, streamed: bool) -> ModelReply:
        """Return the answer; a stream that had no end raises `AnswerCutShort`."""


class AnswerMaker(Protocol):
    """Begins an answer of *endpoint* and *model*: what is kept of it goes back to no other."""

    def __call__(self, *, endpoint: str, model: str) -> Answer:
        """Return an empty answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireFormat:
    """An API: `path` follows from the endpoint, `wanted` and `api` are its words in messages.

    `error_status` reads the HTTP status that an error has outside of a stream from its body, None
    where it has none.
    """

    wanted: str
    api: str
    path: Callable[[str], str]
    request_body: BodyWriter
    answer: AnswerMaker
    error_status: Callable[[object], int | None]
