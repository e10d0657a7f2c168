"""From a call to what it works on: a workspace for reading, one for writing, an agent.

Invariants: a reference is resolved by reading before anything is opened for writing, so that a
wrong one creates nothing; notices about the workspace go to standard error, and how far an upgrade
of its database is, too.

The SDK is imported here, when a command runs, and not by `--help` or `--version`. Reading needs
neither the settings nor any provider.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from sessions_api.showing.terminal_text import safe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessions_api.agent import Agent
    from sessions_api.cli.options import Call
    from sessions_api.sessions import Sessions
    from sessions_api.state import Persistence, WorkspaceState
    from state_store import Run, Session

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A workspace that a command works on."""

    state: WorkspaceState
    sessions: Sessions


@contextmanager
def reading(call: Call) -> Iterator[Opened]:
    """Open the call's workspace for reading."""
    from sessions_api.state import read_state  # noqa: PLC0415 - see the module's docstring

    yield from _opened(call, read_state)


@contextmanager
def writing(call: Call) -> Iterator[Opened]:
    """Open the call's workspace for writing."""
    from sessions_api.state import open_state  # noqa: PLC0415 - see the module's docstring

    yield from _opened(call, open_state)


def _opened(call: Call, opening: Callable[..., WorkspaceState]) -> Iterator[Opened]:
    from sessions_api.sessions import Sessions  # noqa: PLC0415 - see the module's docstring

    with call.out.progress() as progress:
        state = opening(call.workspace, progress=progress)
    try:
        told = state.notices
        for notice in told:
            call.out.note(safe(notice))
        yield Opened(state=state, sessions=Sessions(state))
        for notice in state.notices[len(told) :]:
            call.out.note(safe(notice))
    finally:
        state.close()


def resolved(call: Call, *refs: str) -> tuple[Session, ...]:
    """Return the sessions that *refs* name, each once; writes nothing."""
    from sessions_api.sessions import Sessions  # noqa: PLC0415 - see the module's docstring

    found = _looked_up(call, lambda state: [Sessions(state).get(ref) for ref in refs])
    return tuple({one.id: one for one in found}.values())


def resolved_run(call: Call, ref: str) -> Run:
    """Return the run that *ref* names; writes nothing."""
    from sessions_api.references import resolve_run  # noqa: PLC0415 - see the module's docstring

    return _looked_up(call, lambda state: resolve_run(state.store, ref))


def _looked_up(call: Call, look: Callable[[WorkspaceState], Found]) -> Found:
    """Return what *look* finds in the call's workspace, which is open for reading meanwhile.

    Notices are left to whoever opens the workspace next; when that is nobody, they are told, and
    so is an upgrade, which the next one knows nothing of.
    """
    from sessions_api.state import read_state  # noqa: PLC0415 - see the module's docstring

    with call.out.progress() as progress:
        state = read_state(call.workspace, progress=progress)
    if state.upgrade_notice is not None:
        call.out.note(safe(state.upgrade_notice))
    try:
        return look(state)
    except LookupError:
        for notice in state.notices:
            if notice != state.upgrade_notice:
                call.out.note(safe(notice))
        raise
    finally:
        state.close()


def agent_for(call: Call, *, persistence: Persistence) -> Agent:
    """Open an agent as the call wants it."""
    from sessions_api.agent import Agent  # noqa: PLC0415 - see the module's docstring
    from sessions_api.cli.offering import offered  # noqa: PLC0415 - the same

    tools, problem = offered(call)
    with call.out.progress() as progress:
        agent = Agent(
            call.workspace,
            provider=call.provider,
            model=call.model,
            base_url=call.base_url,
            accept_endpoint=call.accept_endpoint,
            persistence=persistence,
            tools=tools,
            progress=progress,
        )
    if problem is not None:
        call.out.note(safe(problem))
    return agent
