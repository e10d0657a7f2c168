"""What goes wrong between us and a service that speaks HTTP, in the words of every provider.

Owns the messages, the stable error types and the way out of each. Invariant: a message holds the
host, the HTTP status and what to do next, and never a key, a header or a word of the conversation.

Must not: import a provider's package; what the package raised is told apart by the provider.
Source: RFC 9110, "Status Codes" and "Retry-After".
"""

from __future__ import annotations

import math
import sys
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from sessions_api.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping

_TRY_AGAIN = "Try again in a moment."


def transport_failure(error: Exception, host: str) -> ProviderError | None:
    """Translate what older versions of the package let through from the middle of a stream."""
    for name in ("httpx2", "httpx"):  # the transport's name depends on the package's version
        transport = sys.modules.get(name)
        if transport is None:
            continue
        if isinstance(error, transport.TimeoutException):
            return timeout(host)
        if isinstance(error, transport.RequestError):
            return connection_lost(host)
    return None


def by_status(status: int, host: str, headers: Mapping[str, str]) -> ProviderError:
    """Return the failure that an HTTP error status, or a redirect, stands for."""
    error_type, retryable = "provider.bad_response", False
    retry_after_s = None
    match status:
        case HTTPStatus.UNAUTHORIZED:
            error_type = "provider.auth"
            said = "did not accept the key, or wants one"
            hint = "Set or check the key in TINYAGENT_API_KEY."
        case HTTPStatus.FORBIDDEN:
            error_type = "provider.auth"
            said = "does not allow this"
            hint = "Check what the key in TINYAGENT_API_KEY may use: the model, the project."
        case HTTPStatus.TOO_MANY_REQUESTS:
            error_type, retryable = "provider.rate_limit", True
            retry_after_s = _retry_after_s(headers)
            said = "takes no more requests for now"
            wait = "a moment" if retry_after_s is None else f"{math.ceil(retry_after_s)} s"
            hint = f"Try again in {wait}; if it stays so, check the account's quota."
        case HTTPStatus.REQUEST_TIMEOUT:
            error_type, retryable = "provider.timeout", True
            said, hint = "waited too long for the request", _TRY_AGAIN
        case HTTPStatus.NOT_FOUND:
            said = "knows no such model or address"
            hint = "Check --model (TINYAGENT_MODEL) and --base-url (TINYAGENT_BASE_URL)."
        case HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            said = "refused the request as too large"
            hint = "Send less: select fewer messages, or go on in a new session."
        case _ if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            error_type, retryable = "provider.unavailable", True
            retry_after_s = _retry_after_s(headers)
            said, hint = "failed on its side", _TRY_AGAIN
        case _ if status < HTTPStatus.BAD_REQUEST:
            # Following it would hand the history to an address that nobody agreed to.
            said = "redirects to another address, which was not followed"
            hint = "Set --base-url (TINYAGENT_BASE_URL) to the final address."
        case _:
            said = "refused the request"
            hint = "Check the model, its parameters and the length of the conversation."
    return ProviderError(
        f"{host} {said} (HTTP {status}).",
        error_type=error_type,
        retryable=retryable,
        status=status,
        retry_after_s=retry_after_s,
        hint=hint,
    )


def reported(status: int | None, host: str) -> ProviderError:
    """Translate an error that came in place of an answer although the HTTP status was good."""
    if status is not None:
        return by_status(status, host, {})
    return ProviderError(
        f"{host} reported an error in place of an answer.",
        error_type="provider.unavailable",
        retryable=True,
        hint=_TRY_AGAIN,
    )


def timeout(host: str) -> ProviderError:
    """Return the failure of a wait that was longer than the limit."""
    return ProviderError(
        f"{host} did not answer in time.",
        error_type="provider.timeout",
        retryable=True,
        hint="Try again, or allow more time.",
    )


def connection_lost(host: str) -> ProviderError:
    """Return the failure of a connection that could not be made or broke."""
    return ProviderError(
        f"The connection to {host} could not be made or was lost.",
        error_type="provider.unavailable",
        retryable=True,
        hint=f"Check that the service runs and can be reached. {_TRY_AGAIN}",
    )


def cut_short(host: str) -> ProviderError:
    """Return the failure of an orderly end before the model had finished."""
    return ProviderError(
        f"The answer of {host} ended before it was complete.",
        error_type="provider.bad_response",
        retryable=True,
        hint=_TRY_AGAIN,
    )


def malformed(host: str, *, wanted: str, api: str) -> ProviderError:
    """Return the failure of an answer that is no *wanted*, a thing of the *api*."""
    return ProviderError(
        f"The answer of {host} is not a {wanted}.",
        error_type="provider.bad_response",
        hint=f"Check that --base-url (TINYAGENT_BASE_URL) names a service that speaks {api}.",
    )


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Read RFC 9110 Retry-After (seconds or a date) and the finer `retry-after-ms`."""
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit_s
        except (KeyError, ValueError):
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    try:
        # Against the service's own clock: ours may differ from it.
        wait = parsedate_to_datetime(headers["retry-after"]) - parsedate_to_datetime(
            headers["date"]
        )
    except (KeyError, ValueError, TypeError):
        return None
    return max(0.0, wait.total_seconds())
