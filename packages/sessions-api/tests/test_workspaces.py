from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from faces import said

if TYPE_CHECKING:
    from pathlib import Path

OpenAgent = Callable[..., Any]


def marker(workspace: Path) -> str:
    """Return the workspace's id."""
    return (workspace / ".tinyagent" / "workspace-id").read_text().strip()


def test_two_workspaces_know_nothing_of_one_another(open_agent: OpenAgent, tmp_path: Path) -> None:
    """Their histories, references and journals are apart."""
    left, right = tmp_path / "left", tmp_path / "right"
    for workspace in (left, right):
        workspace.mkdir()
        open_agent([said(workspace.name)], workspace=workspace).run(f"in {workspace.name}")
    assert marker(left) != marker(right)
    agent = open_agent([], workspace=left)
    assert [one.title for one in agent.sessions.list().items] == ["in left"]
    agent.sessions.resume("latest")
    assert [message.content for message in agent.sessions.messages().items] == ["in left", "left"]


def test_a_moved_workspace_keeps_its_history(
    open_agent: OpenAgent, workspace: Path, state_home: Path
) -> None:
    """Nothing is asked and nothing has to be said: the marker came along."""
    first = open_agent([said("x")])
    session = first.run("hello").session_id
    first.close()
    before = marker(workspace)
    moved = workspace.rename(workspace.with_name("moved"))
    agent = open_agent([said("y")], workspace=moved)
    assert agent.sessions.resume("latest").id == session
    agent.run("again")
    assert marker(moved) == before
    assert len(list((state_home / "workspaces").iterdir())) == 1
    log = (state_home / "logs" / before / "workspace.jsonl").read_text()
    assert '"event":"workspace.moved"' in log


def test_a_copied_workspace_gets_an_id_and_a_history_of_its_own(
    open_agent: OpenAgent, workspace: Path
) -> None:
    """The original is not touched by what happens in the copy."""
    first = open_agent([said("x")])
    first.run("hello")
    first.close()
    copy = workspace.with_name("copy")
    shutil.copytree(workspace, copy)
    agent = open_agent([said("y")], workspace=copy)
    assert agent.sessions.list().items == ()
    agent.run("in the copy")
    agent.close()
    assert marker(copy) != marker(workspace)
    original = open_agent([])
    assert [one.title for one in original.sessions.list().items] == ["hello"]


def test_notices_say_what_was_decided_and_how_to_undo_it(
    open_agent: OpenAgent, workspace: Path
) -> None:
    """A marker that was lost is healed from the record, and the user is told."""
    open_agent([said("x")]).run("hello")
    before = marker(workspace)
    (workspace / ".tinyagent" / "workspace-id").unlink()
    agent = open_agent([])
    assert marker(workspace) == before
    (notice,) = agent.agent.notices
    assert "tinyagent workspace forget" in notice
    assert "\n" not in notice
