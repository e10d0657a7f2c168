"""Providers by name. Nothing of a provider's package is imported before that provider is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.errors import ProviderUnknown

if TYPE_CHECKING:
    from sessions_api.providers.base import Provider
    from sessions_api.providers.http_provider import AsyncHttpProvider, HttpProvider

PROVIDERS = ("anthropic", "offline", "openai", "openai-responses")


def make_provider(
    name: str,
    *,
    asynchronous: bool,
    model: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
) -> Provider:
    """Return the provider called *name*; ProviderUnknown, or ProviderUnavailable with the way out.

    *asynchronous* chooses the face of providers that have two.
    """
    if name == "offline":
        from sessions_api.providers.offline import OfflineProvider  # noqa: PLC0415 - on first use

        return OfflineProvider()
    if name not in PROVIDERS:
        raise ProviderUnknown(name, known=PROVIDERS)
    blocking, awaiting = _faces(name)
    face = awaiting if asynchronous else blocking
    return face(base_url=base_url, api_key=api_key, default_model=model)


def _faces(name: str) -> tuple[type[HttpProvider], type[AsyncHttpProvider]]:
    match name:
        case "anthropic":
            from sessions_api.providers import anthropic  # noqa: PLC0415 - on first use

            return anthropic.AnthropicProvider, anthropic.AsyncAnthropicProvider
        case "openai":
            from sessions_api.providers import openai  # noqa: PLC0415 - the same

            return openai.OpenAIProvider, openai.AsyncOpenAIProvider
        case _:
            from sessions_api.providers import openai_responses as one  # noqa: PLC0415 - the same

            return one.OpenAIResponsesProvider, one.AsyncOpenAIResponsesProvider
