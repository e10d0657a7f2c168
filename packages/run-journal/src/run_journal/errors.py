"""Errors of the journal.

    RunJournalError                   `hint` says what to do next
    ├── EventInvalid                  a field of an event breaks its rule (ValueError)
    ├── JournalMissing                there is no such journal file (FileNotFoundError)
    ├── JournalUnavailable            the file cannot be read, written or removed (OSError)
    └── JournalBusy                   another process kept the file locked too long (TimeoutError)

Messages name the object and the rule; never the value that was refused, which may be a user's
text or a key. Facts are attributes. Writing an event raises none but `EventInvalid`: see
`Journal.write`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def _rebuild(
    cls: type[RunJournalError], args: tuple[Any, ...], facts: dict[str, Any]
) -> RunJournalError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(facts)
    return error


class RunJournalError(Exception):
    """Base of all errors of this package."""

    hint: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Survive pickling although constructors take keywords."""
        return (_rebuild, (type(self), self.args, self.__dict__.copy()))


class EventInvalid(RunJournalError, ValueError):
    """A field of an event breaks its rule. `event`, `field` and `rule` say which and how."""

    event: str
    field: str
    rule: str

    def __init__(self, *, event: str, field: str, rule: str) -> None:
        super().__init__(f"{event}.{field} must be {rule}.")
        self.event = event
        self.field = field
        self.rule = rule
        self.hint = (
            "The journal takes facts, never text: pass a value of that kind or leave the field out."
        )


class JournalMissing(RunJournalError, FileNotFoundError):
    """There is no journal file at `path`."""

    path: Path

    def __init__(self, path: Path) -> None:
        super().__init__(f"There is no journal at {path}.")
        self.path = path
        self.hint = "A session gets one with its first event; check the session id or the path."


class JournalUnavailable(RunJournalError, OSError):
    """The journal file at `path` cannot be used; `reason` says why."""

    path: Path
    reason: str

    def __init__(self, path: Path, *, reason: str, hint: str) -> None:
        super().__init__(f"The journal {path} cannot be used: {reason}.")
        self.path = path
        self.reason = reason
        self.hint = hint


class JournalBusy(RunJournalError, TimeoutError):
    """Another process held the lock of `path` for more than `timeout_s` seconds."""

    path: Path
    timeout_s: float

    def __init__(self, path: Path, *, timeout_s: float) -> None:
        super().__init__(f"The journal {path} stayed locked for {timeout_s} s.")
        self.path = path
        self.timeout_s = timeout_s
        self.hint = "A stopped process may hold it: resume or end that process, then try again."
