"""Command lines that people are told to type.

Invariant: they can be typed where the person is: a workspace that was named is named again, or the
command would work on another one.
"""

from __future__ import annotations

import shlex


def typed(words: str, *, workspace: str = ".") -> str:
    """Return the command line that does *words* in *workspace*."""
    elsewhere = "" if workspace == "." else f" --workspace {shlex.quote(workspace)}"
    return f"tinyagent {words}{elsewhere}"
