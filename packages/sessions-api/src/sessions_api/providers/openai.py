"""Models behind an OpenAI-compatible endpoint: OpenAI, Ollama, vLLM, llama.cpp, OpenRouter, ….

Owns the provider's two faces. Invariant: OPENAI_API_KEY is not sent to a service that it was not
made for.

Must not: import the `openai` package (that is for the first request), or keep anything of a
conversation.
"""

from __future__ import annotations

from sessions_api.providers.http_provider import AsyncHttpProvider, HttpProvider, OverHttp
from sessions_api.providers.openai_answer import Answer, error_status
from sessions_api.providers.openai_request import HOME, request_body
from sessions_api.providers.wire_format import WireFormat


class OpenAIConfigured(OverHttp):
    """What is OpenAI's own in the configuration, whichever of its APIs is spoken."""

    name = "openai"
    package = "openai"
    client_name = "OpenAI"
    default_base_url = HOME
    example_base_url = "http://localhost:11434/v1"
    key_variable = "OPENAI_API_KEY"
    base_url_variable = "OPENAI_BASE_URL"
    max_request_bytes = 512_000_000  # "Images and vision", the whole payload of a request
    wire = WireFormat(
        wanted="chat completion",
        api="chat completions",
        path=lambda _: "/chat/completions",
        request_body=request_body,
        answer=Answer,
        error_status=error_status,
    )


class OpenAIProvider(OpenAIConfigured, HttpProvider):
    """A chat-completions service; `HttpProvider` says how it is configured and used."""


class AsyncOpenAIProvider(OpenAIConfigured, AsyncHttpProvider):
    """A chat-completions service, for a running event loop; see `AsyncHttpProvider`."""
