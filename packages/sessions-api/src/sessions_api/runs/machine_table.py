"""The machine's transitions as people read them: the table in `docs/run.md`.

Rendered from `RunMachine.TRANSITIONS` and from the docstrings of what they lead to, so that what is
written down is what happens.
"""

from __future__ import annotations

import inspect

from sessions_api.runs.machine import RunMachine


def rendered_table() -> str:
    """Return the transitions as Markdown, one line each, ending in a newline."""
    lines = ["| state | event | what follows |", "|---|---|---|"]
    for (state, event), transition in RunMachine.TRANSITIONS.items():
        words = " ".join((inspect.getdoc(transition) or "").split())
        lines.append(f"| *{state}* | `{event.__name__}` | {words} |")
    return "\n".join(lines) + "\n"
