"""Asking a provider once and reading what came, as all tests of providers over HTTP do it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from sessions_api.errors import ProviderError
from sessions_api.providers.base import Delta, ModelMessage, ModelReply, ModelRequest

Ask = Callable[..., list[Delta | ModelReply]]

KEY = "sk-" + "made-up-for-tests-0123456789"
CONTENT = "the user's own words"
ASKED = ModelRequest(
    model="m-1", system_prompt=CONTENT, messages=(ModelMessage(role="user", content=CONTENT),)
)
HELLO = ModelRequest(model="m-1", messages=(ModelMessage(role="user", content="hello"),))

both_ways = pytest.mark.parametrize("stream", [False, True])


def last(items: list[Delta | ModelReply]) -> ModelReply:
    """Return the reply that ends what a face gave."""
    reply = items[-1]
    assert isinstance(reply, ModelReply)
    return reply


def said(reply: ModelReply) -> ModelMessage:
    """Return *reply* as it is stored and sent again."""
    return ModelMessage(
        role="assistant",
        content=reply.content,
        reasoning_content=reply.reasoning_content,
        tool_calls=reply.tool_calls or None,
        provider_data=reply.provider_data,
    )


def follow_up(reply: ModelReply, *results: ModelMessage, model: str = "m-1") -> ModelRequest:
    """Return the request that goes on after *reply*."""
    return ModelRequest(model=model, messages=(*HELLO.messages, said(reply), *results))


def failure(ask: Ask, **configuration: Any) -> ProviderError:
    """Ask, and return the error after looking for what must not be in it."""
    with pytest.raises(ProviderError) as caught:
        ask(ASKED, api_key=KEY, **configuration)
    error = caught.value
    printed = "".join(traceback.format_exception(error))
    for told in (str(error), repr(error), str(error.hint), str(vars(error)), printed):
        assert KEY not in told
        assert "Bearer" not in told
        assert CONTENT not in told
        assert "scripted" not in told  # a word of every error's body and headers
    assert error.hint
    assert error.__context__ is not None
    assert "127.0.0.1" in str(error)
    return error
