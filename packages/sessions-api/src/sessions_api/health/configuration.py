"""The check of the provider's configuration, which asks no service anything.

Invariant: whether there is a key is said, and nothing of it is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions_api.health.findings import Finding
from sessions_api.providers import make_provider
from sessions_api.settings import CONFIG_NAME, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions_api.health.subject import Subject

_OFFLINE = "offline"


def check_provider(subject: Subject) -> Iterator[Finding]:
    """Make the configured provider, which says what is missing, and send nothing."""
    if subject.state_home is None:
        return
    settings = Settings.load(subject.state_home)
    name = settings.provider or _OFFLINE
    if settings.provider is None:
        yield Finding(
            severity="info",
            kind="provider",
            object=_OFFLINE,
            message="No provider is configured; the built-in one answers, without any model.",
            hint="Choose one: TINYAGENT_PROVIDER, --provider, or provider = … in"
            f" {subject.state_home / CONFIG_NAME}",
        )
        return
    key = settings.api_key
    provider = make_provider(
        name,
        asynchronous=False,
        model=settings.model,
        base_url=settings.base_url,
        api_key=None if key is None else key.get_secret_value(),
    )
    if name == _OFFLINE:
        message = "The built-in provider answers, without any model."
        yield Finding(severity="ok", kind="provider", object=name, message=message)
        return
    has_key = "yes" if getattr(provider, "has_key", False) else "no, and none is needed there"
    yield Finding(
        severity="ok",
        kind="provider",
        object=name,
        message=f"Package installed; endpoint {provider.endpoint}; key: {has_key};"
        f" model {settings.model or 'not chosen'}.",
    )
    if settings.model is None:
        yield Finding(
            severity="warning",
            kind="model",
            object=name,
            message="No model is chosen.",
            hint="Choose one with --model or TINYAGENT_MODEL.",
        )
