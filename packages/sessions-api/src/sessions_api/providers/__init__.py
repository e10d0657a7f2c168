"""Providers by name. Nothing of a provider's package is imported before that provider is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.errors import ProviderUnknown

if TYPE_CHECKING:
    from sessions_api.providers.base import Provider

PROVIDERS = ("anthropic", "offline", "openai")


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
    match name:
        case "anthropic":
            from sessions_api.providers.anthropic import (  # noqa: PLC0415 - an extra, on first use
                AnthropicProvider,
                AsyncAnthropicProvider,
            )

            face = AsyncAnthropicProvider if asynchronous else AnthropicProvider
            return face(base_url=base_url, api_key=api_key, default_model=model)
        case "offline":
            from sessions_api.providers.offline import OfflineProvider  # noqa: PLC0415 - the same

            return OfflineProvider()
        case "openai":
            from sessions_api.providers.openai import (  # noqa: PLC0415 - an extra, on first use
                AsyncOpenAIProvider,
                OpenAIProvider,
            )

            made = AsyncOpenAIProvider if asynchronous else OpenAIProvider
            return made(base_url=base_url, api_key=api_key, default_model=model)
        case _:
            raise ProviderUnknown(name, known=PROVIDERS)
