"""From a history to what is sent of it: the caller's selection, and the service's limit of bytes.

Owns both, for one agent. Invariants: selecting and fitting change the request alone, never what is
stored or kept between runs; only images and other data in base64 that older exchanges carry are
left out, oldest first, each for a text that says what it was. Bytes are budgeted apart from tokens:
an image of megabytes is a thousand tokens, and a service refuses the body long before the model is
full. The same history, selection and limit give the same request.

A provider may say its limit (`max_request_bytes`). One that does not, and answers "request too
large" (HTTP 413), is asked again with half as much while there is something to leave out; nothing
was answered, so nothing is asked twice. What was learned so is remembered while the agent is open.
"""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from sessions_api.errors import ProviderError
from sessions_api.providers.message_parts import parts_of
from sessions_api.runs.exchanges import Past, json_bytes, message_bytes, selected
from sessions_api.runs.inline_data import stub_of_part, without_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessions_api.providers.base import ModelMessage, ModelRequest
    from sessions_api.runs.exchanges import Select

Service = tuple[str, str | None]
# More than needed is left out at once: if every turn left out one image more, the beginning of each
# request would differ from the one before, and no service could reuse what it has cached of it.
_STEPS = 8
_MAY_CARRY_DATA = frozenset({"tool", "user"})  # what a model has said stays as it said it


class Requests:
    """How an agent makes requests. Not thread-safe: one run at a time uses it."""

    def __init__(self, *, select: Select | None = None) -> None:
        self.selects = select is not None
        self._select = select
        self._learned: dict[Service, int] = {}

    def chosen(self, past: Past) -> Past:
        """Return what the caller selects of *past*; SelectionInvalid for what cannot be sent."""
        if self._select is None or not past.exchanges:
            return past
        chosen = selected(self._select, past.exchanges)
        return past if len(chosen) == len(past.exchanges) else Past.of(chosen)

    def fitting(self, past: Past, service: Service, *, max_bytes: int | None) -> Fitting:
        """Return what keeps the requests of one run, which follow *past*, within the limit."""
        known = [one for one in (max_bytes, self._learned.get(service)) if one is not None]
        return Fitting(past, service, max_bytes=min(known, default=None), learned=self._learned)


class Fitting:
    """The requests of one run of *service*, each with as much of *past* as fits."""

    def __init__(
        self,
        past: Past,
        service: Service,
        *,
        max_bytes: int | None,
        learned: dict[Service, int],
    ) -> None:
        self._past = past
        self._service = service
        self._max_bytes = max_bytes
        self._learned = learned
        self._byte_count: int | None = None  # of the first so many messages, and all around them
        self._counted = len(past.messages)

    def fit(self, request: ModelRequest) -> ModelRequest:
        """Return *request*, which begins with the past, within the limit as far as that can be."""
        if self._max_bytes is None:
            return request
        return self._within(request, self._max_bytes)

    def after_refusal(self, request: ModelRequest, error: Exception) -> ModelRequest | None:
        """Return what to send instead of what was made of *request*, now that *error* came.

        None when the error is another one, or there is nothing that could be left out.
        """
        too_large = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        if not isinstance(error, ProviderError) or error.status != too_large:
            return None
        refused = self.fit(request)
        half = (_around(request) + sum(map(message_bytes, refused.messages))) // 2
        smaller = self._within(request, half)
        if smaller.messages == refused.messages:
            return None
        self._max_bytes = self._learned[self._service] = half
        return smaller

    def _within(self, request: ModelRequest, max_bytes: int) -> ModelRequest:
        excess = self._count(request) - max_bytes
        if excess <= 0:
            return request
        step = max(1, max_bytes // _STEPS)
        older = _lighter(self._past.messages, -(-excess // step) * step)
        return replace(request, messages=older + request.messages[len(older) :])

    def _count(self, request: ModelRequest) -> int:
        """Return about how many bytes *request* has; only what is new of it is counted."""
        if self._byte_count is None:
            self._byte_count = self._past.byte_count + _around(request)
        self._byte_count += sum(map(message_bytes, request.messages[self._counted :]))
        self._counted = len(request.messages)
        return self._byte_count


def _around(request: ModelRequest) -> int:
    """Return about how many bytes of *request* are no messages."""
    tools = [(one.name, one.description, dict(one.parameters)) for one in request.tools]
    return json_bytes([request.system_prompt or "", dict(request.parameters), tools])


def _lighter(messages: tuple[ModelMessage, ...], excess: int) -> tuple[ModelMessage, ...]:
    """Return *messages* with about *excess* bytes less of data, as far as there are so many."""
    lighter: list[ModelMessage] = []
    for message in messages:
        if excess <= 0:
            break
        kept = _stubbed(message, excess)
        if kept is not message:
            excess -= message_bytes(message) - message_bytes(kept)
        lighter.append(kept)
    return (*lighter, *messages[len(lighter) :])


def _stubbed(message: ModelMessage, excess: int) -> ModelMessage:
    content = message.content
    if content and message.role in _MAY_CARRY_DATA:
        content = without_data(content)
    lighter = message if content == message.content else replace(message, content=content)
    parts: list[Mapping[str, Any]] = []
    left = excess
    # The text with them: providers add it to parts that have none, and a stub is one.
    for part in parts_of(lighter) if message.parts else ():
        stub = stub_of_part(part) if left > 0 else None
        parts.append(part if stub is None else {"type": "text", "text": stub})
        left -= 0 if stub is None else json_bytes(part)
    return lighter if left == excess else replace(lighter, parts=tuple(parts))
