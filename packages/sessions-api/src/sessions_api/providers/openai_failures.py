"""What went wrong: failures of the `openai` package, its transport and its answers, by type.

Owns the map from those to `ProviderError`. Invariant: a message holds the host, the HTTP status
and the way out, and never a key, a header, a body or a word of the conversation. The original
holds them all, so it is no cause: a traceback that ends a caller's program would print it.

Must not: be imported before the package is needed (it imports `openai`), or recognise a failure
by its message.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import openai

from sessions_api.providers.answer_reading import (
    AnswerCutShort,
    AnswerMalformed,
    FailureReported,
    http_status,
)
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

_FORMAT = {"wanted": "chat completion", "api": "chat completions"}


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
            return by_status(error.status_code, host, error.response.headers)
        case openai.APITimeoutError():
            return timeout(host)
        case openai.APIConnectionError():
            return connection_lost(host)
        case FailureReported():
            return reported(error.status, host)
        case openai.APIResponseValidationError() | AnswerMalformed():
            return malformed(host, **_FORMAT)
        case openai.APIError():  # an error event inside a stream
            return reported(http_status(error.code), host)
        case json.JSONDecodeError() | UnicodeDecodeError():
            return malformed(host, **_FORMAT)
        case AnswerCutShort():
            return cut_short(host)
    return transport_failure(error, host)
