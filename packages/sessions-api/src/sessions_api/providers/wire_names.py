"""Roles, ids of calls and names of tools as services take them, whatever they were when they came.

Invariants: the calls of a request have ids that are legal and all different, and each result has
its call's; what already does its work stays as it is, so that a request's beginning does not
change from turn to turn. Services send ids that are empty, used before, longer than the next
service allows, or of characters that it refuses, and models make up names of tools.

Must not: change anything that is stored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sessions_api.providers.base import ModelMessage

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64


def role_of(message: ModelMessage) -> str:
    """Return the role that *message* is sent with: calls are an assistant's, others a user's."""
    if message.tool_calls and message.role != "tool":
        return "assistant"
    return message.role if message.role in _ROLES else "user"


def legal_name(name: str) -> str:
    """Return the name of a tool that was called; the same one where every service takes it."""
    return _ILLEGAL.sub("_", name)[:_LONGEST_NAME] or "_"


class WireIds:
    """Gives out ids, in the order of a request's messages. *legal* fits all of a legal one."""

    def __init__(self, legal: re.Pattern[str]) -> None:
        self._legal = legal
        self._used: set[str] = set()
        self._made_count = 0
        self._open: list[tuple[str, str]] = []

    def of_calls(self, message: ModelMessage) -> list[str]:
        """Return the ids of the calls of *message*, in order."""
        self._open = [(call.id, self._own(call.id)) for call in message.tool_calls or ()]
        return [wire_id for _, wire_id in self._open]

    def answered_by(self, message: ModelMessage) -> str:
        """Return the id of the call that *message*, one of the results after it, answers."""
        wanted = message.tool_call_id or ""
        for position, (call_id, wire_id) in enumerate(self._open):
            if call_id == wanted:
                del self._open[position]
                return wire_id
        return wanted

    def _own(self, wanted: str) -> str:
        wire_id = wanted
        while wire_id in self._used or not self._legal.fullmatch(wire_id):
            self._made_count += 1
            # Nine letters and digits: the narrowest form that a service is known to ask for.
            wire_id = f"call{self._made_count:05d}"
        self._used.add(wire_id)
        return wire_id
