from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from faces import Looker, said
from sessions_api import Agent, AgentClosed
from state_store import (
    StateStoreError,
    StoreDamaged,
    StoreForeign,
    StoreInUse,
    StoreUnavailable,
    UpgradeFailed,
)
from state_store.sqlite import gate
from state_store.sqlite.place import Place
from state_store.sqlite.schema import SCHEMA, Migration, Schema
from workspace_identity import StateHomeUnusable, UnsafeWorkspace

if TYPE_CHECKING:
    from pathlib import Path

OpenAgent = Callable[..., Any]


def tree(root: Path) -> set[str]:
    """Return all paths below *root*."""
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def test_an_ephemeral_conversation_touches_no_disk(
    open_agent: OpenAgent, tmp_path: Path, workspace: Path
) -> None:
    """It works in memory, says that nothing is saved, and leaves nothing at all."""
    before = tree(tmp_path)
    agent = open_agent([said("1"), said("2")], persistence="ephemeral")
    assert agent.agent.saving is False
    agent.run("a")
    agent.run("b")
    assert len(agent.sessions.messages().items) == 4
    assert agent.sessions.delete("latest").message_count == 4
    agent.close()
    assert tree(tmp_path) == before


def test_without_a_usable_state_home_required_refuses(
    open_agent: OpenAgent, tmp_path: Path
) -> None:
    """The error names what cannot be used."""
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    with pytest.raises((StateHomeUnusable, StoreUnavailable)):
        open_agent([], state_home=blocked)


def test_without_a_usable_state_home_best_effort_goes_on_in_memory(
    open_agent: OpenAgent, tmp_path: Path
) -> None:
    """One clear line says that nothing will be saved."""
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    agent = open_agent([said("hi")], state_home=blocked, persistence="best-effort")
    assert agent.agent.saving is False
    (notice,) = agent.agent.notices
    assert notice.startswith("Nothing of this conversation will be saved")
    assert agent.run("hello").text == "hi"


def test_saving_is_the_usual_thing_and_says_nothing(open_agent: OpenAgent) -> None:
    """No notice where all is as it should be."""
    for persistence in ("required", "best-effort"):
        agent = open_agent([], persistence=persistence)
        assert (agent.agent.saving, agent.agent.notices) == (True, ())


@pytest.mark.parametrize("persistence", ["required", "best-effort"])
@pytest.mark.parametrize(
    ("content", "error"), [(b"", StoreDamaged), (b"no database " * 500, StateStoreError)]
)
def test_a_database_that_is_none_always_refuses(
    open_agent: OpenAgent, look: Looker, persistence: str, content: bytes, error: type[Exception]
) -> None:
    """A conversation never goes on beside a history that is there; the file stays as it is."""
    agent = open_agent([said("x")])
    agent.run("a")
    agent.close()
    path = look.database()
    path.write_bytes(content)
    with pytest.raises(error):
        open_agent([], persistence=persistence)
    assert path.read_bytes() == content


def test_another_workspaces_database_always_refuses(
    open_agent: OpenAgent, look: Looker, tmp_path: Path
) -> None:
    """A history never opens under another workspace's name."""
    agent = open_agent([said("x")])
    agent.run("a")
    agent.close()
    (tmp_path / "other").mkdir()
    other = open_agent([said("y")], workspace=tmp_path / "other", state_home=tmp_path / "home2")
    other.run("b")
    other.close()
    (foreign,) = (tmp_path / "home2").glob("workspaces/*/state.sqlite3")
    shutil.copy(foreign, look.database())
    with pytest.raises(StoreForeign):
        open_agent([], persistence="best-effort")


def test_a_store_whose_files_are_being_changed_is_not_usable_now(
    open_agent: OpenAgent, look: Looker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While somebody upgrades or restores it required refuses; best effort goes on in memory."""
    open_agent([]).close()
    monkeypatch.setattr(gate, "PASSING_TIMEOUT_MS", 20)
    with look.database().with_name("state.sqlite3.gate").open() as closed:
        fcntl.flock(closed, fcntl.LOCK_EX)
        with pytest.raises(StoreInUse):
            open_agent([])
        agent = open_agent([said("hi")], persistence="best-effort")
    assert agent.agent.saving is False
    assert agent.run("hello").text == "hi"
    (notice,) = agent.agent.notices
    assert "will be saved" in notice


@pytest.mark.parametrize("persistence", ["required", "best-effort"])
def test_a_failed_upgrade_always_refuses(
    open_agent: OpenAgent, look: Looker, monkeypatch: pytest.MonkeyPatch, persistence: str
) -> None:
    """A conversation never goes on beside a history that is there but cannot be opened."""

    def fail(_: object) -> None:
        raise ZeroDivisionError

    agent = open_agent([said("x")])
    agent.run("a")
    agent.close()
    before = look.database().read_bytes()
    schema = Schema((*SCHEMA.migrations, Migration(name="next", apply=fail)))
    monkeypatch.setitem(vars(Place)["at"].__func__.__kwdefaults__, "schema", schema)
    with pytest.raises(UpgradeFailed):
        open_agent([], persistence=persistence)
    assert look.database().read_bytes() == before


def test_a_state_home_inside_the_workspace_is_refused(workspace: Path) -> None:
    """Tools of the workspace must not reach the history."""
    with pytest.raises(UnsafeWorkspace):
        Agent(workspace, provider="offline", state_home=workspace / "state")


def test_a_closed_agent_says_so(open_agent: OpenAgent) -> None:
    """Closing twice does nothing; running then is an error that names the way out."""
    agent = open_agent([said("x")])
    agent.close()
    agent.close()
    if not agent.is_async:
        with pytest.raises(AgentClosed):
            agent.run("a")
        with pytest.raises(StateStoreError):
            agent.sessions.list()
