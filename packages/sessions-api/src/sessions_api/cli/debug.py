"""What `--debug` adds to a failure: where it happened, without what was being handled.

Invariant: frames and types of every exception of the chain, words of our own errors alone; a
message of others may repeat a key or a text. As no such message is shown, what tracebacks leave
out is followed too.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from sessions_api.problems import OUR_ERRORS

if TYPE_CHECKING:
    from collections.abc import Iterator


def debug_lines(error: BaseException) -> Iterator[str]:
    """Yield the story of *error*, causes first."""
    cause = error.__cause__ or error.__context__
    if cause is not None:
        yield from debug_lines(cause)
        yield "which led to:"
    for frame in traceback.extract_tb(error.__traceback__):
        yield f"  {frame.filename}:{frame.lineno} in {frame.name}"
    said = f": {error}" if isinstance(error, OUR_ERRORS) else ""
    yield f"{type(error).__module__}.{type(error).__qualname__}{said}"
