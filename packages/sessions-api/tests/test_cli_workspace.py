"""`tinyagent workspace`: what a notice tells people to type does what it says."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tinyagent_process import Tinyagent


def test_the_command_that_a_notice_names_undoes_its_decision(tinyagent: Tinyagent) -> None:
    """A copy whose original is gone counts as moved; told otherwise it begins anew (C22)."""
    tinyagent("run", "hello")
    copy = replace(tinyagent, workspace=tinyagent.workspace.with_name("copy"))
    shutil.copytree(tinyagent.workspace, copy.workspace)
    shutil.rmtree(tinyagent.workspace)
    noticed = copy("run", "in the copy", "--continue").stderr
    command = re.search(r"tinyagent (workspace forget [0-9a-f-]{36})", noticed)
    assert command is not None, noticed
    assert copy(*command[1].split()).returncode == 0
    assert copy.json("sessions", "list")["sessions"] == []
    assert copy("workspace", "relink", command[1].split()[-1]).returncode == 0
    assert len(copy.json("sessions", "list")["sessions"]) == 1


def test_the_workspaces_of_a_state_home_are_listed(tinyagent: Tinyagent) -> None:
    """Each with its id and where it was last seen."""
    tinyagent("run", "hello")
    (listed,) = tinyagent.json("workspace", "list")["workspaces"]
    shown = tinyagent.json("workspace", "show")
    assert (listed["id"], listed["path"]) == (shown["id"], shown["root"])
    assert listed["last_seen_at"].endswith("Z")
    assert listed["id"] in tinyagent("workspace", "list").stdout


@pytest.mark.parametrize("verb", ["relink", "forget"])
def test_an_unknown_workspace_is_not_found(tinyagent: Tinyagent, verb: str) -> None:
    """Nothing changes, and the exit code says "not found"."""
    tinyagent("run", "hello")
    done = tinyagent("workspace", verb, "11111111-1111-4111-8111-111111111111")
    assert (done.returncode, done.stdout) == (4, "")
    assert "tinyagent workspace list" in done.stderr
    assert len(tinyagent.json("sessions", "list")["sessions"]) == 1


def test_a_missing_command_is_said_to_be_missing(tinyagent: Tinyagent) -> None:
    """No empty error line."""
    done = tinyagent("workspace")
    assert done.returncode == 2
    assert "Error: Missing command." in done.stderr


def test_options_before_the_group_count(tinyagent: Tinyagent) -> None:
    """As for every other command."""
    tinyagent("run", "hello")
    done = tinyagent("-w", ".", "--json", "workspace", "show")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "known"
