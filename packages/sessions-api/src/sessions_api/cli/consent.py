"""Asking before what cannot simply be undone.

Invariant: silence is no; where nobody can be asked, only `--yes` is a yes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from sessions_api.cli.failures import ConsentMissing, Declined
from sessions_api.showing.terminal_text import on_terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessions_api.cli.output import Output

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def require_consent(
    out: Output, question: str, *, lines: Sequence[str] = (), refused: str, nothing: str
) -> None:
    """Show *lines*, ask *question* and return when the answer is yes.

    *refused* says what was not confirmed, where nobody can be asked; *nothing* what did not
    happen. ConsentMissing or Declined otherwise.
    """
    if not on_terminal():
        raise ConsentMissing(refused, hint=f"{nothing} Say --yes where nobody can be asked.")
    for line in lines:
        out.note(line)
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise Declined(nothing, hint="Answer y to go on.")
