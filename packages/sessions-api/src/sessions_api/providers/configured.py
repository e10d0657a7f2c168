"""What a provider behind an HTTP address is told before its first request: address, key, model.

Owns the checks that need no connection. Invariant: the history and the key go to `endpoint` and
nowhere else, and a key that the environment holds for one service is not sent to another.

Must not: import a provider's package, or put a key or a password in a message.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from sessions_api.errors import ProviderUnavailable
from sessions_api.providers.addresses import host_of, is_http, origin_of, without_secrets

_NO_KEY_NEEDED = "no-key"  # the packages insist on one, local servers ignore it


class Configured:
    """The configuration that both faces of a provider share, checked before any request.

    A provider's class says its `name`, its package (the extra is named like that), the service's
    own address, an example of another one, and the variables that the package reads.
    """

    name: ClassVar[str]
    package: ClassVar[str]
    default_base_url: ClassVar[str]
    example_base_url: ClassVar[str]
    key_variable: ClassVar[str]
    base_url_variable: ClassVar[str]

    def __init__(
        self,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        default_model: str | None = None,
        timeout_s: float | None = 600,
        max_retries: int = 2,
    ) -> None:
        if importlib.util.find_spec(self.package) is None:
            raise self._package_missing()
        configured = base_url or os.environ.get(self.base_url_variable)
        self._base_url = (configured or self.default_base_url).strip()
        if not is_http(self._base_url):
            raise ProviderUnavailable(
                self.name,
                missing="its base URL is not an http or https address",
                hint=f"Set --base-url (TINYAGENT_BASE_URL) to one like {self.example_base_url}.",
            )
        self._endpoint = without_secrets(self._base_url)
        self._api_key = api_key or self._key_for_endpoint(given=bool(base_url))
        if not (self._api_key.isascii() and self._api_key.isprintable()):
            raise ProviderUnavailable(
                self.name,
                missing="its key has characters that no request can carry",
                hint="Check TINYAGENT_API_KEY: a line break, a quote mark or a letter got into it.",
            )
        self._timeout_s = timeout_s
        self._max_retries = max_retries
        self._lock = threading.Lock()
        self.default_model = default_model

    @property
    def endpoint(self) -> str:
        """Where the history goes: the base URL without user name, password, query, fragment."""
        return self._endpoint

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key, wherever it came from, and the password of the address: for no other eye."""
        password = urlsplit(self._base_url).password
        return (self._api_key, *((unquote(password),) if password else ()))

    @property
    def has_key(self) -> bool:
        """Whether a key was found, given or in the environment."""
        return self._api_key != _NO_KEY_NEEDED

    def _key_for_endpoint(self, *, given: bool) -> str:
        # The scheme counts, too: without TLS anybody on the way would read the key.
        at_home = origin_of(self._endpoint) == origin_of(self.default_base_url)
        # A key and an address from the same family of variables belong together; a key for one
        # service must not reach another only because its address was given.
        key = os.environ.get(self.key_variable) if at_home or not given else None
        if not key and at_home:
            raise ProviderUnavailable(
                self.name,
                missing=f"there is no key for {host_of(self._endpoint)}",
                hint="Set TINYAGENT_API_KEY, or name a service that needs none with --base-url.",
            )
        return key or _NO_KEY_NEEDED

    def _model(self, wanted: str | None) -> str:
        """Return the model that a request is for, by its own wish or by default."""
        model = wanted or self.default_model
        if not model:
            raise ProviderUnavailable(
                self.name,
                missing="no model is chosen",
                hint="Choose one with --model or TINYAGENT_MODEL.",
            )
        return model

    def _package_missing(self) -> ProviderUnavailable:
        return ProviderUnavailable(
            self.name,
            missing=f"the package {self.package!r} is not installed",
            hint=f"Install it with: uv sync --extra {self.package}, or pip install "
            f"'sessions-api[{self.package}]'.",
        )
