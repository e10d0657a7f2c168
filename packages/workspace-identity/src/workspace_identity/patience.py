"""Asking for a bounded time, because a network mount whose server is gone answers never.

A system call on such a mount cannot be interrupted, only left behind: in a daemon thread, which
does not keep the process from ending.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

JUDGE_TIMEOUT_S = 3.0

_Answer = TypeVar("_Answer")


def in_time(ask: Callable[[], _Answer]) -> _Answer | None:
    """Return what *ask* returns, None where it takes longer than `JUDGE_TIMEOUT_S`."""
    answers: list[_Answer] = []
    thread = threading.Thread(target=lambda: answers.append(ask()), daemon=True)
    thread.start()
    thread.join(JUDGE_TIMEOUT_S)
    return answers[0] if answers else None
