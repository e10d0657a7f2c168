"""The synchronous agent: conversations that survive, in a few lines.

Owns nothing but the driver's side of a run; what a run is lies in `runs`, what a session is in
`sessions`. Invariant: when a call returns or raises, what happened is committed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Self, Unpack
from weakref import finalize

from sessions_api.conversation import Conversation
from sessions_api.runs.drive_sync import StreamLeft, drive, leave
from sessions_api.runs.events import RunEvent, RunFinished, RunResult

if TYPE_CHECKING:
    import os
    from collections.abc import Generator

    from sessions_api.agent_options import AgentOptions
    from sessions_api.providers.base import Provider
    from sessions_api.runs.recorder import RunRecorder
    from sessions_api.sessions import Sessions


class RunStream(Iterator[RunEvent]):
    """A run's events as they happen; iterate it inside a `with` block.

    Leaving the block early cancels the run and commits that before control returns. `result` is
    set once `RunFinished` was seen. RunFailed is raised by the iteration when the run fails.
    One that nobody leaves is cancelled when it is dropped, or when the program ends.

    The run goes on while you read, in your thread, tools in their own. A tool's result is committed
    when you ask for the next event, together with all that have come by then. So a tool that ended
    while you did something else is still without its result, and is `unknown` if the process is
    killed meanwhile. Where that counts read fast, or use `AsyncAgent`, which commits at once.
    """

    def __init__(self, recorder: RunRecorder, provider: Provider) -> None:
        self._recorder = recorder
        self._turn = threading.RLock()
        self._events = drive(recorder, provider, streaming=True)
        # Called at exit, too, while there still is an interpreter to commit the end with: a
        # generator that is collected after that crashes Python 3.13.
        self._unheld = finalize(self, _drop, self._events)
        self.result: RunResult | None = None

    def __next__(self) -> RunEvent:
        with self._turn:  # another thread may be closing it
            event = next(self._events)
        if isinstance(event, RunFinished):
            self.result = event.result
        return event

    def close(self) -> None:
        """Cancel the run if it has not ended; returns when that is committed.

        From any thread. One that is inside the stream meanwhile gets RunFailed as soon as its
        provider or tool comes back; for one that asks later it is at its end.
        """
        if not self._turn.acquire(blocking=False):
            self._recorder.abort(StreamLeft())
            return
        try:
            self._unheld.detach()
            leave(self._events, self._recorder)
        finally:
            self._turn.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Agent:
    """An agent with recoverable conversations in *workspace*; see `AgentOptions` for the options.

    Opening it recovers what dead processes left pending. One run at a time a session; use one
    agent a thread. It may be used inside a running event loop, which then waits; `AsyncAgent`
    does not make it wait. Does not cross a fork. Close it, or use it in a `with` block.
    """

    def __init__(
        self, workspace: str | os.PathLike[str] = ".", **options: Unpack[AgentOptions]
    ) -> None:
        self._conversation = Conversation(workspace, options, asynchronous=False)

    @property
    def sessions(self) -> Sessions:
        """The workspace's sessions."""
        return self._conversation.sessions

    @property
    def notices(self) -> tuple[str, ...]:
        """Lines for a person: about the workspace, or about what is not saved."""
        return self._conversation.notices

    @property
    def saving(self) -> bool:
        """Whether what happens here is kept."""
        return self._conversation.saving

    def run(self, text: str) -> RunResult:
        """Answer *text* in the active session, or in a new one that becomes active.

        The message and a pending run are committed before the provider is asked; the answer and
        the completed run in one transaction. Raises RunFailed when the provider or the loop
        failed, after that is committed; SessionBusy when another run of the session is under
        way. Ctrl-C cancels the run, commits that, and goes on as KeyboardInterrupt.
        """
        return _finished(*self._conversation.plan(text))

    def stream(self, text: str) -> RunStream:
        """Answer *text* like `run`, event by event; the run begins with the first one."""
        return RunStream(*self._conversation.plan(text))

    def retry(
        self, run_id: str, *, allow_unsafe: bool = False, note: str | None = None
    ) -> RunResult:
        """Try a failed run again: a new run with the same input, `retry_of` it, in its session.

        The session becomes active. RetryRefused for a run that has not failed; UnsafeRetry, which
        names them, when tools that are unsafe to run twice had started in it or in another try at
        the same input, unless *allow_unsafe*. The model is not told of the earlier try, but for a
        *note* that is added to the message, where everybody sees it. Otherwise like `run`.
        """
        return _finished(
            *self._conversation.plan_retry(run_id, allow_unsafe=allow_unsafe, note=note)
        )

    def close(self) -> None:
        """Cancel what is under way, write the session's final status and duration, close all."""
        try:
            self._conversation.close()
        finally:
            for provider in self._conversation.made_providers:
                if close := getattr(provider, "close", None):
                    close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _finished(recorder: RunRecorder, provider: Provider) -> RunResult:
    events = drive(recorder, provider, streaming=False)
    try:
        for _ in events:
            pass
    finally:
        leave(events, recorder)
    return recorder.finish()


def _drop(events: Generator[RunEvent, None, None]) -> None:
    with suppress(ValueError):  # a thread is inside, which ends with the program
        events.close()
