"""The synchronous agent: conversations that survive, in a few lines.

Owns nothing but the driver's side of a run; what a run is lies in `runs`, what a session is in
`sessions`. Invariant: when a call returns or raises, what happened is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, Unpack

from sessions_api.conversation import AgentOptions, Conversation
from sessions_api.runs.drive_sync import drive
from sessions_api.runs.events import RunEvent, RunFinished, RunResult

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from sessions_api.providers.base import Provider
    from sessions_api.runs.recorder import RunRecorder
    from sessions_api.sessions import Sessions


class RunStream:
    """A run's events as they happen; iterate it inside a `with` block.

    Leaving the block early cancels the run and commits that before control returns. `result` is
    set once `RunFinished` was seen. RunFailed is raised by the iteration when the run fails.
    """

    def __init__(self, recorder: RunRecorder, provider: Provider) -> None:
        self._events = drive(recorder, provider, streaming=True)
        self.result: RunResult | None = None

    def __iter__(self) -> Iterator[RunEvent]:
        for event in self._events:
            if isinstance(event, RunFinished):
                self.result = event.result
            yield event

    def close(self) -> None:
        """Cancel the run if it has not ended; returns when that is committed."""
        self._events.close()

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
        recorder, provider = self._conversation.plan(text)
        for _ in drive(recorder, provider, streaming=False):
            pass
        return recorder.finish()

    def stream(self, text: str) -> RunStream:
        """Answer *text* like `run`, event by event; the run begins with the first one."""
        return RunStream(*self._conversation.plan(text))

    def close(self) -> None:
        """Write the active session's final status and duration, and close everything."""
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
