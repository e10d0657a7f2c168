"""Titles that nobody gave: a session's first message, on one line."""

from __future__ import annotations

TITLE_LIMIT = 80


def title_of(text: str) -> str:
    """Return a session's title from its first message: one line, at most 80 characters."""
    line = " ".join(text.lstrip()[: TITLE_LIMIT * 8].split())
    return line if len(line) <= TITLE_LIMIT else line[: TITLE_LIMIT - 1].rstrip() + "…"
