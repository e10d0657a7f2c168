"""What went wrong: failures of the `openai` package, its transport and its answers, by type.

Owns the map from those to `ProviderError`. Invariant: a message holds the host, the HTTP status
and the way out, and never a key, a header, a body or a word of the conversation. The original
holds them all, so it is no cause: a traceback that ends a caller's program would print it.

Must not: be imported before the package is needed (it imports `openai`), or recognise a failure
by its message.
"""

from __future__ import annotations

import json
import math
import sys
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import openai

from sessions_api.errors import ProviderError
from sessions_api.providers.openai_answer import (
    AnswerCutShort,
    AnswerMalformed,
    FailureReported,
    http_status,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TRY_AGAIN = "Try again in a moment."
_CHECK_ENDPOINT = "Check that --base-url (TINYAGENT_BASE_URL) names a chat-completions service."


@contextmanager
def translated(endpoint: str) -> Iterator[None]:
    """Raise what the package raises inside the block as `ProviderError`.

    The original is its `__context__`, for debuggers, and in no traceback. Exceptions that are
    neither the package's nor its transport's pass through as they are.
    """
    try:
        yield
    except Exception as error:
        host = urlsplit(endpoint).netloc
        failure = _failure(error, host)
        if failure is None:
            raise
        raise failure from None


def _failure(error: Exception, host: str) -> ProviderError | None:
    match error:
        case openai.APIStatusError():
            return _by_status(error.status_code, host, error.response.headers)
        case openai.APITimeoutError():
            return _timeout(host)
        case openai.APIConnectionError():
            return _connection_lost(host)
        case FailureReported():
            return _reported(error.status, host)
        case openai.APIResponseValidationError() | AnswerMalformed():
            return _malformed(host)
        case openai.APIError():  # an error event inside a stream
            return _reported(http_status(error.code), host)
        case json.JSONDecodeError() | UnicodeDecodeError():
            return _malformed(host)
        case AnswerCutShort():
            return ProviderError(
                f"The answer of {host} ended before it was complete.",
                error_type="provider.bad_response",
                retryable=True,
                hint=_TRY_AGAIN,
            )
    return _transport_failure(error, host)


def _transport_failure(error: Exception, host: str) -> ProviderError | None:
    """Translate what older versions of the package let through from the middle of a stream."""
    for name in ("httpx2", "httpx"):  # the transport's name depends on the package's version
        transport = sys.modules.get(name)
        if transport is None:
            continue
        if isinstance(error, transport.TimeoutException):
            return _timeout(host)
        if isinstance(error, transport.RequestError):
            return _connection_lost(host)
    return None


def _by_status(status: int, host: str, headers: Mapping[str, str]) -> ProviderError:
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


def _reported(status: int | None, host: str) -> ProviderError:
    """Translate an error that came in place of an answer although the HTTP status was good."""
    if status is not None:
        return _by_status(status, host, {})
    return ProviderError(
        f"{host} reported an error in place of an answer.",
        error_type="provider.unavailable",
        retryable=True,
        hint=_TRY_AGAIN,
    )


def _timeout(host: str) -> ProviderError:
    return ProviderError(
        f"{host} did not answer in time.",
        error_type="provider.timeout",
        retryable=True,
        hint="Try again, or allow more time.",
    )


def _connection_lost(host: str) -> ProviderError:
    return ProviderError(
        f"The connection to {host} could not be made or was lost.",
        error_type="provider.unavailable",
        retryable=True,
        hint=f"Check that the service runs and can be reached. {_TRY_AGAIN}",
    )


def _malformed(host: str) -> ProviderError:
    return ProviderError(
        f"The answer of {host} is not a chat completion.",
        error_type="provider.bad_response",
        hint=_CHECK_ENDPOINT,
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
