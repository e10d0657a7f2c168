"""Ctrl-C at every step of a run, and again while the first one is dealt with."""

from __future__ import annotations

import gc
import inspect
import signal
import sys
from itertools import repeat
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from faces import calling, said
from run_invariants import check_session
from run_scale import INTERRUPT_PAIRS, LONG, LONG_TIMEOUT_S, SEED, tell
from sessions_api import Agent, ModelReply, ModelRequest
from sessions_api.testing import ScriptedProvider

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


class Presses:
    """Presses Ctrl-C where the interpreter would look for it: at calls, and after calls of C.

    The first press strikes at the *first*-th call of a Python function, the second at the
    *second*-th place after it. `count` is how many calls there were, `pressed` how often.
    """

    def __init__(self, first: int, second: int | None = None) -> None:
        self._first = first
        self._second = second
        self.count = 0
        self.pressed = 0

    def during(self, work: Callable[[], object]) -> BaseException | None:
        """Do *work* and return what it raised."""
        tracing = sys.gettrace()
        try:
            try:
                sys.settrace(self._trace)
                work()
            finally:
                sys.settrace(tracing)
                sys.setprofile(None)
        except BaseException as error:  # noqa: BLE001 - it is what is looked at
            sys.settrace(tracing)
            sys.setprofile(None)
            return error
        return None

    def _trace(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and not self.pressed and not is_generator(frame):
            self.count += 1
            if self.count == self._first:
                self.pressed = 1
                if self._second is not None:
                    sys.setprofile(self._profile)
                signal.raise_signal(signal.SIGINT)

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and is_generator(frame):
            return
        if event in {"call", "c_return"} and self._second is not None:
            self._second -= 1
            if self._second == 0:
                self.pressed = 2
                signal.raise_signal(signal.SIGINT)


def is_generator(frame: FrameType) -> bool:
    """Whether *frame* is a generator's: one that a tracer strikes ends without its handlers.

    The signal itself strikes inside it, where they apply.
    """
    return bool(frame.f_code.co_flags & inspect.CO_GENERATOR)


def answer(request: ModelRequest) -> ModelReply:
    """Call the tool, then answer."""
    return said("done") if request.messages[-1].role == "tool" else calling(("look", "{}"))


def look() -> str:
    """Look."""
    return "seen"


def stream(agent: Agent) -> None:
    """Read a run to its end."""
    with agent.stream("go") as events:
        for _ in events:
            pass


# What a traceback held is collected later, and may be struck, or complain of its locks, then.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.timeout(LONG_TIMEOUT_S)
@pytest.mark.parametrize("streaming", [False, True])
def test_ctrl_c_at_any_step_and_again_leaves_nothing_pending(*, streaming: bool) -> None:
    """Calls of a run are struck, and pairs of places at random: SESSIONS_API_LONG=1 for all.

    A pair's second press comes while the first is dealt with: in a handler, in the commit of the
    cancellation, in the clean-up. The run is over by the time that the exception is here.
    """
    random = Random(f"{SEED}-{streaming}")
    provider = ScriptedProvider(repeat(answer))  # Ctrl-C ends a generator
    struck = 0
    with Agent(".", provider=provider, tools=[look], persistence="ephemeral") as agent:

        def work() -> None:
            if streaming:
                stream(agent)
            else:
                agent.run("go")

        measured = Presses(0)
        assert measured.during(work) is None
        places = measured.count
        assert places > 100
        step = 1 if LONG else 45
        pairs: list[tuple[int, int | None]] = [(first, None) for first in range(1, places, step)]
        pairs += [
            (random.randint(1, places), random.randint(1, 150)) for _ in range(INTERRUPT_PAIRS)
        ]
        store = agent._conversation._state.store
        for pair in pairs:
            presses = Presses(*pair)
            raised = presses.during(work)
            assert raised is None or isinstance(raised, KeyboardInterrupt), (pair, raised)
            struck += raised is not None
            check(agent, store, pair)
            del presses, raised
        work()
    gc.collect()  # here, by the thread that holds those locks, and not in another test
    tell(f"{len(pairs)} runs of {places} steps struck, {struck} interrupted")


def check(agent: Agent, store: Any, pair: tuple[int, int | None]) -> None:
    """Check that nothing is left of a run that was struck but its rows."""
    assert not store._database._connection.in_transaction, pair
    assert not agent._conversation._under_way, pair
    active = agent.sessions.active
    if active is not None and store.runs(active.id).items:
        assert {run.status for run in store.runs(active.id).items} <= {"completed", "failed"}, pair
        assert {run.error_type for run in store.runs(active.id).items} <= {None, "cancelled"}, pair
        check_session(store, active.id)
        if store.get_session(active.id).message_count > 12:
            agent.sessions.leave()  # a long session is slow to look at
