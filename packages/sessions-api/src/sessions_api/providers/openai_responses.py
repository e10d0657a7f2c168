"""Models behind OpenAI's Responses API, and services that speak it too.

Owns the provider's two faces; all but the wire format is as in `openai`. Invariant: nothing is
stored at the service, so the whole conversation travels with each request, and reasoning comes
back encrypted, to be sent again.

Must not: import the `openai` package (that is for the first request), or keep anything of a
conversation.
"""

from __future__ import annotations

from sessions_api.providers.http_provider import AsyncHttpProvider, HttpProvider
from sessions_api.providers.openai import OpenAIConfigured
from sessions_api.providers.responses_answer import Answer, error_status
from sessions_api.providers.responses_request import request_body
from sessions_api.providers.wire_format import WireFormat


class _Configured(OpenAIConfigured):
    name = "openai-responses"
    wire = WireFormat(
        wanted="response",
        api="the Responses API",
        path=lambda _: "/responses",
        request_body=request_body,
        answer=Answer,
        error_status=error_status,
    )


class OpenAIResponsesProvider(_Configured, HttpProvider):
    """A service of the Responses API; `HttpProvider` says how it is configured and used."""


class AsyncOpenAIResponsesProvider(_Configured, AsyncHttpProvider):
    """A service of the Responses API, for a running event loop; see `AsyncHttpProvider`."""
