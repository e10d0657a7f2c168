"""Deleting for good: sessions with their backups, and whole workspaces."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sessions_api import Agent
from tinyagent_process import Terminal

if TYPE_CHECKING:
    from tinyagent_process import Call, Tinyagent

NOBODY = "11111111-1111-4111-8111-111111111111"


def asked(call: Call, *arguments: str) -> Any:
    """Return what the command prints under --json."""
    code, output, errors = call(*arguments, "--json")
    assert code == 0, errors
    return json.loads(output)


def tree(place: Path) -> set[str]:
    """Return the names of all that lies in *place*, but for what SQLite makes to read."""
    return {str(one) for one in place.rglob("*") if not one.name.endswith(("-wal", "-shm"))}


def other_than(tinyagent: Tinyagent) -> Tinyagent:
    """Return the command in another workspace of the same state home."""
    workspace = tinyagent.workspace.with_name("other")
    workspace.mkdir()
    return replace(tinyagent, workspace=workspace)


def test_a_dry_run_says_what_would_go_and_changes_nothing(call: Call) -> None:
    """The session with its counts, and the backups that hold it."""
    session_id = asked(call, "run", "hello")["session_id"]
    backup = asked(call, "store", "backup")["backup"]["path"]
    told = asked(call, "sessions", "delete", session_id, "--dry-run")
    assert told == {
        "schema_version": 1,
        "deleted": [{"id": session_id, "message_count": 2, "run_count": 1}],
        "backups": [backup],
        "dry_run": True,
    }
    code, output, errors = call("sessions", "delete", session_id, "--dry-run")
    assert (code, errors) == (0, "")
    assert "Would be deleted" in output
    assert backup in output
    assert call("sessions", "--ids")[1].split() == [session_id]
    assert Path(backup).exists()


def test_backups_that_hold_a_session_go_with_it_when_that_is_said(call: Call) -> None:
    """One that was made before the session stays."""
    asked(call, "run", "stays")
    earlier = asked(call, "store", "backup")["backup"]["path"]
    session_id = asked(call, "run", "goes")["session_id"]
    holding = asked(call, "store", "backup")["backup"]["path"]
    told = asked(call, "sessions", "delete", session_id, "--backups", "--yes")
    assert (told["backups"], told["purged_backups"]) == ([], [holding])
    assert Path(earlier).exists()
    assert not Path(holding).exists()


def test_without_the_flag_backups_stay_and_are_named(call: Call) -> None:
    """Nobody is made to believe that all is gone."""
    session_id = asked(call, "run", "goes")["session_id"]
    holding = asked(call, "store", "backup")["backup"]["path"]
    told = asked(call, "sessions", "delete", session_id, "--yes")
    assert (told["backups"], told["purged_backups"]) == ([holding], [])
    assert Path(holding).exists()


def test_the_question_names_each_backup_and_no_deletes_nothing(
    call: Call, tinyagent: Tinyagent
) -> None:
    """All else in a backup goes with it, so it is asked about by name."""
    session_id = asked(call, "run", "hello")["session_id"]
    backup = asked(call, "store", "backup")["backup"]["path"]
    with Terminal(tinyagent, "sessions", "delete", session_id, "--backups") as terminal:
        terminal.wait_for("[y/N]")
        assert Path(backup).name in terminal.shown.replace("\n", "")
        terminal.type("\n")
        assert terminal.leave() == 1
    assert Path(backup).exists()
    assert call("sessions", "--ids")[1].split() == [session_id]


def test_a_workspace_is_deleted_and_no_other_is_touched(tinyagent: Tinyagent) -> None:
    """Database, backups, journals, record and marker go; the directory's files stay."""
    other = other_than(tinyagent)
    other("run", "stays")
    state = Path(tinyagent.environment["TINYAGENT_STATE_HOME"])
    before = tree(state)
    (tinyagent.workspace / "work.txt").write_text("mine")
    tinyagent("run", "goes")
    tinyagent("store", "backup")
    workspace_id = tinyagent.json("workspace", "show")["id"]
    done = other("workspace", "delete", workspace_id, "--yes", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["deleted"]["id"] == workspace_id
    assert told["deleted"]["session_count"] == 1
    assert told["dry_run"] is False
    assert tree(state) == before
    assert (tinyagent.workspace / "work.txt").read_text() == "mine"
    assert not (tinyagent.workspace / ".tinyagent" / "workspace-id").exists()
    assert [one["id"] for one in other.json("workspace", "list")["workspaces"]] == [
        other.json("workspace", "show")["id"]
    ]
    assert len(other.json("sessions")["sessions"]) == 1
    tinyagent("run", "begins anew")
    assert tinyagent.json("workspace", "show")["id"] != workspace_id
    assert len(tinyagent.json("sessions")["sessions"]) == 1


def test_a_workspace_that_is_in_use_is_not_deleted(tinyagent: Tinyagent) -> None:
    """Exit code 7, it says by whom, and nothing has changed."""
    tinyagent("run", "hello")
    workspace_id = tinyagent.json("workspace", "show")["id"]
    state = tinyagent.environment["TINYAGENT_STATE_HOME"]
    with Agent(tinyagent.workspace, provider="offline", state_home=state):
        done = tinyagent("workspace", "delete", workspace_id, "--yes")
    assert done.returncode == 7
    assert "in use by pid" in done.stderr
    assert tinyagent.json("workspace", "show")["verdict"] == "known"
    assert len(tinyagent.json("sessions")["sessions"]) == 1


def test_exports_stay_unless_they_are_named(tinyagent: Tinyagent) -> None:
    """Somebody made them to keep them."""
    tinyagent("run", "hello")
    workspace_id = tinyagent.json("workspace", "show")["id"]
    export = Path(tinyagent.json("path")["exports"]) / "kept.jsonl"
    export.parent.mkdir(exist_ok=True)
    export.write_text("{}\n")
    done = tinyagent("workspace", "delete", workspace_id, "--yes")
    assert done.returncode == 0, done.stderr
    assert str(export.parent) in done.stderr
    assert export.exists()
    assert tinyagent("workspace", "delete", workspace_id, "--yes", "--exports").returncode == 0
    assert not export.parent.parent.exists()


def test_a_dry_run_of_a_workspace_changes_nothing(call: Call, tinyagent: Tinyagent) -> None:
    """It says what would go, in words and as JSON."""
    call("run", "hello")
    workspace_id = asked(call, "workspace", "show")["id"]
    before = tree(tinyagent.workspace.parent)
    told = asked(call, "workspace", "delete", workspace_id, "--dry-run")
    assert told["dry_run"] is True
    assert told["deleted"]["path"] == str(tinyagent.workspace)
    assert told["deleted"]["size_bytes"] > 0
    assert "Would be deleted" in call("workspace", "delete", workspace_id, "--dry-run")[2]
    assert tree(tinyagent.workspace.parent) == before


def test_deleting_a_workspace_asks_and_silence_is_no(call: Call, tinyagent: Tinyagent) -> None:
    """Path, sessions and size are named; off a terminal it is refused."""
    call("run", "hello")
    workspace_id = asked(call, "workspace", "show")["id"]
    assert call("workspace", "delete", workspace_id)[0] == 8
    with Terminal(tinyagent, "workspace", "delete", workspace_id) as terminal:
        terminal.wait_for("[y/N]")
        shown = terminal.shown.replace("\n", "")
        assert str(tinyagent.workspace) in shown
        assert "1 session, " in shown
        terminal.type("\n")
        assert terminal.leave() == 1
    assert len(asked(call, "sessions")["sessions"]) == 1


@pytest.mark.parametrize("workspace_id", [NOBODY, "../../etc", "x"])
def test_an_unknown_workspace_is_not_found(call: Call, workspace_id: str) -> None:
    """Exit code 4, and nothing outside of the registry can be named."""
    call("run", "hello")
    assert call("workspace", "delete", workspace_id, "--yes")[0] == 4
    assert len(asked(call, "sessions")["sessions"]) == 1


def test_a_damaged_workspace_can_be_deleted(tinyagent: Tinyagent) -> None:
    """Its sessions cannot be counted, and its directory may be gone."""
    tinyagent("run", "hello")
    workspace_id = tinyagent.json("workspace", "show")["id"]
    database = tinyagent.database()
    for end in ("-wal", "-shm"):
        Path(f"{database}{end}").unlink(missing_ok=True)
    database.write_bytes(b"no database")
    other = other_than(tinyagent)
    shutil.rmtree(tinyagent.workspace)
    told = other.json("workspace", "delete", workspace_id, "--yes")
    assert told["deleted"]["session_count"] is None
    assert not database.parent.exists()
