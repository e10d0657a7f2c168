"""The provider protocol: what a model needs to be, in ten lines.

Owns the request and reply records that travel between a run and a provider. Invariant: a request
is a complete, legal conversation, every tool call followed by its one result; a reply is what the
model said and nothing that this project made up.

Must not: know the store, the journal or any provider package.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from state_store import ToolCall, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMessage:
    """One message of a request, in the order the model reads it."""

    role: str
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    parts: tuple[Mapping[str, Any], ...] | None = None
    provider_data: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as the model sees it; `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTool:
    """A harmless tool that a provider brings along in `own_tools`, with its description ready."""

    function: Callable[..., Any]
    spec: ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """All that a provider is given for one reply.

    `model` is None when the provider's own default is meant. `parameters` are the session's
    (temperature, max_tokens, reasoning_effort, …) and are passed on as they are. To be read and not
    changed: the parts of its messages are kept for the next request.
    """

    model: str | None
    system_prompt: str | None = None
    messages: tuple[ModelMessage, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """What the model answered.

    `usage` has None for what was not reported. `provider_data` is JSON text that the provider
    wants back, byte for byte, with this message in later requests. `cache_write_tokens`, a part of
    the input, were written to a cache, for which a service may charge more: they count for the cost
    and are not stored. None if how many, or at what price, is unknown.
    """

    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    finish_reason: str | None = None
    provider_data: str | None = None
    cache_write_tokens: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """A piece of the answer's text, in order."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningDelta:
    """A piece of the model's reasoning, in order."""

    text: str


Delta = TextDelta | ReasoningDelta


@runtime_checkable
class Provider(Protocol):
    """A model that answers requests.

    `name` is a short identifier, stored with every run. `endpoint` is the URL that the history
    is sent to, or None when it stays in this process. A failure is raised as `ProviderError`
    with a stable error type; any other exception counts as `internal`. `max_request_bytes`, which
    it may have, is the largest body that the service takes; see `runs.requests` for what that does.
    """

    @property
    def name(self) -> str:
        """A short identifier, such as "openai"."""

    @property
    def endpoint(self) -> str | None:
        """The base URL of the service; None when nothing leaves this process."""

    def reply(self, request: ModelRequest) -> ModelReply | Awaitable[ModelReply]:
        """Answer *request*; for `AsyncAgent` this may be a coroutine function."""


@runtime_checkable
class StreamingProvider(Provider, Protocol):
    """A provider that can also answer piece by piece."""

    def stream(
        self, request: ModelRequest
    ) -> Iterator[Delta | ModelReply] | AsyncIterator[Delta | ModelReply]:
        """Yield deltas in order and, last and once, the whole `ModelReply`."""
