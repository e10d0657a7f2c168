"""Models behind Anthropic's Messages API, and services that speak it too.

Owns the provider's two faces. Invariant: ANTHROPIC_API_KEY is not sent to a service that it was
not made for, and no other credential that the package could find on the machine is sent anywhere.

Must not: import the `anthropic` package (that is for the first request), or keep anything of a
conversation.
"""

from __future__ import annotations

from sessions_api.providers.anthropic_answer import Answer, error_status
from sessions_api.providers.anthropic_request import HOME, request_body
from sessions_api.providers.http_provider import AsyncHttpProvider, HttpProvider, OverHttp
from sessions_api.providers.wire_format import WireFormat


class _Configured(OverHttp):
    """What is Anthropic's own in the configuration."""

    name = "anthropic"
    package = "anthropic"
    client_name = "Anthropic"
    default_base_url = HOME
    example_base_url = "http://localhost:11434"
    key_variable = "ANTHROPIC_API_KEY"
    base_url_variable = "ANTHROPIC_BASE_URL"
    max_request_bytes = 32_000_000  # "Errors", request size limits
    wire = WireFormat(
        wanted="message",
        api="the Messages API",
        # Some services are named with their version, others not.
        path=lambda endpoint: "/messages" if endpoint.endswith("/v1") else "/v1/messages",
        request_body=request_body,
        answer=Answer,
        error_status=error_status,
    )


class AnthropicProvider(_Configured, HttpProvider):
    """A service of the Messages API; `HttpProvider` says how it is configured and used."""


class AsyncAnthropicProvider(_Configured, AsyncHttpProvider):
    """A service of the Messages API, for a running event loop; see `AsyncHttpProvider`."""
