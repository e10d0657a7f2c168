"""What all events have in common: checked fields, a phase, and whom they are about.

Owns the check itself. Invariant: no event object exists with a field that breaks its rule, so
whoever holds one may write it. Must not: know any one event, files, clocks or loguru.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from run_journal.errors import EventInvalid
from run_journal.fields import UUID_TEXT, Rule, RuleBroken, one_of
from run_journal.vocabulary import EventName, Phase

if TYPE_CHECKING:
    from run_journal.names import Id

PHASE = one_of(Phase)

_COMMON = frozenset({"session_id", "run_id", "phase"})


@cache
def _rules_of(cls: Any) -> tuple[tuple[str, Rule, bool], ...]:
    return tuple((f.name, f.metadata["rule"], f.default is None) for f in fields(cls))


def fact_names(cls: type[Event]) -> tuple[str, ...]:
    """Return the names of the fields that an event adds to the members that all lines have."""
    return tuple(one.name for one in fields(cls) if one.name not in _COMMON)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of all events. Raises `EventInvalid` when a field breaks its rule.

    Enumerations may be given as members or as their exact text. Immutable and safe to share.
    """

    EVENT: ClassVar[EventName]

    phase: Phase = field(default=Phase.SETUP, metadata=PHASE)

    def __post_init__(self) -> None:
        """Check every field by its rule and keep the cleaned value."""
        cls: Any = type(self)  # mypy takes it for unhashable
        for name, rule, optional in _rules_of(cls):
            value = getattr(self, name)
            if value is None and optional:
                continue
            try:
                cleaned = rule(value)
            except RuleBroken as broken:
                raise EventInvalid(
                    event=type(self).__name__, field=name, rule=str(broken)
                ) from None
            if cleaned is not value:
                object.__setattr__(self, name, cleaned)

    @property
    def name(self) -> EventName:
        """The event's name as it stands in the line."""
        return self.EVENT


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent(Event):
    """Base of what happens to one session; its line goes to that session's file."""

    session_id: Id = field(metadata=UUID_TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent(SessionEvent):
    """Base of what happens in one run."""

    run_id: Id = field(metadata=UUID_TEXT)
