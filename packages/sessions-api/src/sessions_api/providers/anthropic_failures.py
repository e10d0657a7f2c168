"""What went wrong: failures of the `anthropic` package, its transport and its answers, by type.

Owns the map from those to `ProviderError`. The original holds the key, the request and the
service's words, so it is no cause: a traceback that ends a caller's program would print it.

Must not: be imported before the package is needed (it imports `anthropic`), or recognise a
failure by its message.
"""

from __future__ import annotations

from contextlib import contextmanager
from http import HTTPStatus
from json import JSONDecodeError
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anthropic

from sessions_api.providers.answer_reading import AnswerCutShort, AnswerMalformed, FailureReported
from sessions_api.providers.anthropic_answer import error_status
from sessions_api.providers.http_failures import (
    by_status,
    connection_lost,
    cut_short,
    malformed,
    reported,
    timeout,
    transport_failure,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions_api.errors import ProviderError

_FORMAT = {"wanted": "message", "api": "the Messages API"}


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
        case anthropic.APIStatusError(status_code=HTTPStatus.OK):  # an error event in a stream
            return reported(error_status(error.body), host)
        case anthropic.APIStatusError():
            return by_status(error.status_code, host, error.response.headers)
        case anthropic.APITimeoutError():
            return timeout(host)
        case anthropic.APIConnectionError():
            return connection_lost(host)
        case FailureReported():
            return reported(error.status, host)
        case (
            anthropic.APIResponseValidationError()
            | AnswerMalformed()
            | JSONDecodeError()
            | UnicodeDecodeError()
        ):
            return malformed(host, **_FORMAT)
        case AnswerCutShort():
            return cut_short(host)
    return transport_failure(error, host)
