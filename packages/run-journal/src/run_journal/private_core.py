"""The journal's own loguru logger, apart from the application's.

Owns the one use of loguru's private `Core` and `Logger` constructors. Invariant: the logger made
here shares no handler, patcher, level or activation list with `loguru.logger`: the application's
handlers never see a journal line, its `remove()` cannot drop our sink, and its patcher cannot
rewrite a line. Because this is private API the dependency is capped and a contract test checks
what is relied on. Importing this module imports loguru (90 ms), so only `Journal` does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from loguru._logger import Core, Logger

if TYPE_CHECKING:
    from collections.abc import Callable

    import loguru


def make_logger(sink: Callable[[loguru.Message], None]) -> loguru.Logger:
    """Return a logger whose only handler is *sink*, called in the writing thread.

    The sink gets the message as it is, without a line end. What it raises reaches the caller:
    nothing is printed. loguru keeps one thread at a time in the sink and lets no fork happen
    inside it.
    """
    make_core = cast("Callable[[], object]", Core)
    make = cast("Callable[..., loguru.Logger]", Logger)
    logger = make(
        core=make_core(),
        exception=None,
        depth=0,
        record=False,
        lazy=False,
        colors=False,
        raw=True,
        capture=True,
        patchers=[],
        extra={},
    )
    # Every option is given, because the defaults come from the environment (LOGURU_…).
    logger.add(
        sink,
        level=0,
        format="{message}",
        filter=None,
        colorize=False,
        serialize=False,
        backtrace=False,
        diagnose=False,
        enqueue=False,
        catch=False,
    )
    return logger
