"""What went wrong: failures of a provider's package, its transport and its answers, by type.

Owns the map from those to `ProviderError`. The packages are generated alike, so their errors have
the same names. Invariant: a message holds the host, the HTTP status and the way out, and never a
key, a header, a body or a word of the conversation. The original holds them all, so it is no
cause: a traceback that ends a caller's program would print it.

Must not: import a package itself, or recognise a failure by its message.
"""

from __future__ import annotations

from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from sessions_api.providers.addresses import host_of
from sessions_api.providers.answer_reading import AnswerCutShort, FailureReported
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
    from sessions_api.providers.wire_format import WireFormat


@contextmanager
def translated(
    package: Any, wire: WireFormat, endpoint: str, *, reading: bool = False
) -> Iterator[None]:
    """Raise what *package* raises inside the block as `ProviderError`.

    While *reading* an answer every ValueError is the answer's, whoever parses it: JSON may be cut
    off, nested too deeply, have a number of thousands of digits. The original is the `__context__`,
    for debuggers, and in no traceback. Exceptions that are neither the package's nor its
    transport's pass through as they are.
    """
    try:
        yield
    except Exception as error:
        host = host_of(endpoint)
        failure = _failure(error, package, wire, host)
        if failure is None and reading and isinstance(error, ValueError | RecursionError):
            failure = malformed(host, wanted=wire.wanted, api=wire.api)
        if failure is None:
            raise
        raise failure from None


def _failure(error: Exception, package: Any, wire: WireFormat, host: str) -> ProviderError | None:
    match error:
        case package.APIStatusError(status_code=HTTPStatus.OK):  # an error event in a stream
            return reported(wire.error_status(error.body), host)
        case package.APIStatusError():
            return by_status(error.status_code, host, error.response.headers)
        case package.APITimeoutError():
            return timeout(host)
        case package.APIConnectionError():
            return connection_lost(host)
        case FailureReported():
            return reported(error.status, host)
        case package.APIResponseValidationError():
            return malformed(host, wanted=wire.wanted, api=wire.api)
        case package.APIError():  # an error event, as the other package has it
            return reported(wire.error_status(error.body), host)
        case AnswerCutShort():
            return cut_short(host)
    return transport_failure(error, host)
