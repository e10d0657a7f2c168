"""What travels with a line through the private logger: where it goes and where it came to stand.

Owns the agreement between `Journal` and `Sink`, and nothing of a system: `Journal` is importable
where its files cannot be locked, because reading works there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from run_journal.lines import Head
    from run_journal.names import Id

DELIVERY_KEY = "run_journal_delivery"


@dataclass(slots=True, kw_only=True)
class Delivery:
    """One line's way: the file's name and session; `head` is set by the sink when it is written."""

    file_name: str
    session_id: Id | None
    head: Head | None = None


RepairBody = Callable[["Id | None", int, str], str]
"""(session id, torn bytes, name of the file set aside) -> body of `journal.repaired`."""
