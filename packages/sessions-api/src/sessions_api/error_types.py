"""Which stable error type an exception stands for.

The closed list is the journal's; a run row and a journal line say the same, so what a provider
makes up beside the list counts as `internal`. Exceptions of users' own providers are judged by
the built-in they inherit and are `internal` otherwise: nothing is claimed about a service that
nobody asked.
"""

from __future__ import annotations

import asyncio

from run_journal import ErrorType
from sessions_api.errors import AgentClosed, ProviderError, RetryRefused
from state_store import StateStoreError, StoreBusy, StoreFull, StoreInUse


def error_type_of(error: BaseException | None) -> str:
    """Return the stable error type of *error*, raised by a provider, the store or the loop."""
    match error:
        case ProviderError():
            return error.error_type if error.error_type in set(ErrorType) else "internal"
        case KeyboardInterrupt() | SystemExit() | GeneratorExit() | asyncio.CancelledError():
            return "cancelled"
        case AgentClosed() | RetryRefused():
            return "cancelled"
        case StoreFull():
            return "storage.full"
        case StoreBusy() | StoreInUse():
            return "storage.busy"
        case StateStoreError():
            return "internal"
        case TimeoutError():
            return "provider.timeout"
        case ConnectionError():
            return "provider.unavailable"
        case _:
            return "internal"


def retryable(error: BaseException | None) -> bool:
    """Whether the same input may well succeed when it is tried again."""
    if isinstance(error, ProviderError):
        return error.retryable
    return isinstance(error, TimeoutError | ConnectionError)
