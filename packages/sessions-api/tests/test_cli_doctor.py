"""`tinyagent doctor`: each thing that can be wrong is found, named, and followed by a command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from sessions_api.health import diagnose
from sessions_api.health.diagnosing import CHECKS
from state_store.sqlite.surroundings import fault_of
from test_cli_store import made_by_the_first_schema
from tinyagent_process import PROGRAM

if TYPE_CHECKING:
    from sessions_api.health import Finding
    from tinyagent_process import Call, Tinyagent

SEVERITIES = {"ok", "info", "warning", "error"}


def examined(call: Call, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the finding of each kind, the gravest where there are several."""
    code, output, _ = call("doctor", "--json", *arguments)
    report = json.loads(output)
    assert set(report) == {"schema_version", "ok", "findings"}
    order = ["ok", "info", "warning", "error"]
    found: dict[str, Any] = {}
    for one in report["findings"]:
        assert set(one) == {"severity", "kind", "object", "message", "hint"}
        assert one["severity"] in SEVERITIES
        assert one["severity"] == "ok" or one["hint"], one
        former = found.get(one["kind"])
        if former is None or order.index(one["severity"]) > order.index(former["severity"]):
            found[one["kind"]] = one
    assert report["ok"] == all(one["severity"] != "error" for one in report["findings"])
    return code, found


def tree(place: Path) -> dict[str, object]:
    """Return what lies in *place*, but for what SQLite itself makes while it reads."""
    return {
        str(path): path.read_bytes() if path.is_file() else path.lstat().st_mode
        for path in place.rglob("*")
        if not path.name.endswith(("-wal", "-shm"))
    }


def spoil(database: Path) -> None:
    """Overwrite pages of a database, nobody having it open, but the first."""
    with closing(apsw.Connection(str(database))) as connection:
        connection.pragma("wal_checkpoint", "TRUNCATE")
    content = bytearray(database.read_bytes())
    content[8192:] = b"\xff" * (len(content) - 8192)
    database.write_bytes(content)
    for end in ("-wal", "-shm"):
        Path(f"{database}{end}").unlink(missing_ok=True)


def test_a_directory_that_was_never_used_is_fine_and_stays_as_it_is(
    call: Call, tinyagent: Tinyagent
) -> None:
    """Nothing is wrong, nothing is made, and it says how to begin."""
    code, found = examined(call)
    assert code == 0
    assert {"state_home", "workspace", "provider"} <= set(found)
    assert {one["severity"] for one in found.values()} <= {"ok", "info"}
    assert list(tinyagent.workspace.iterdir()) == []
    assert not Path(tinyagent.environment["TINYAGENT_STATE_HOME"]).exists()


def test_a_workspace_in_use_is_fine_and_nothing_of_it_changes(
    call: Call, tinyagent: Tinyagent
) -> None:
    """Everything that there is was looked at; what SQLite makes for reading is all that is new."""
    call("run", "hello")
    call("store", "backup")
    before = tree(tinyagent.workspace.parent)
    code, found = examined(call)
    assert code == 0, found
    assert {
        *("state_home", "workspace", "permissions", "disk_space", "sqlite_version", "filesystem"),
        *("schema", "integrity", "search_index", "backup", "journal", "sizes", "provider"),
    } <= set(found)
    assert {one["severity"] for one in found.values()} <= {"ok", "info"}
    assert tree(tinyagent.workspace.parent) == before
    _, output, errors = call("doctor")
    assert "Nothing is wrong." in errors
    assert "backups" in output


def test_rights_of_others_are_found_with_the_command_that_takes_them(
    call: Call, tinyagent: Tinyagent
) -> None:
    """What is typed as told makes it fine again."""
    call("run", "hello")
    tinyagent.database().chmod(0o644)
    code, found = examined(call)
    assert code == 0
    assert found["permissions"]["severity"] == "warning"
    assert "1 of " in found["permissions"]["message"]
    command = found["permissions"]["hint"].removeprefix("Run: ")
    subprocess.run(["bash", "-c", command], check=True)
    assert examined(call)[1]["permissions"]["severity"] == "ok"


def test_a_damaged_database_is_exit_code_5_and_the_rest_is_examined(
    call: Call, tinyagent: Tinyagent
) -> None:
    """The way back is named; journals, backups and the provider are looked at all the same."""
    call("run", "hello")
    call("store", "backup")
    spoil(tinyagent.database())
    code, found = examined(call)
    assert code == 5, found
    assert found["damaged"]["severity"] == "error"
    assert "store restore --over-damaged" in found["damaged"]["hint"]
    assert found["journal"]["severity"] == "ok"
    assert found["backup"]["severity"] == "ok"
    assert "provider" in found


def test_a_file_that_is_no_database_is_exit_code_5(call: Call, tinyagent: Tinyagent) -> None:
    """Damage that keeps it from being opened at all."""
    call("run", "hello")
    database = tinyagent.database()
    for end in ("-wal", "-shm"):
        Path(f"{database}{end}").unlink(missing_ok=True)
    database.write_bytes(b"no database, and long enough for a header. " * 100)
    code, found = examined(call)
    assert code == 5, found
    assert any(one["severity"] == "error" for one in found.values())


def test_a_lost_database_is_exit_code_5(call: Call, tinyagent: Tinyagent) -> None:
    """Its backups are there, so it is not taken for a new workspace."""
    call("run", "hello")
    call("store", "backup")
    database = tinyagent.database()
    for end in ("", "-wal", "-shm"):
        Path(f"{database}{end}").unlink(missing_ok=True)
    code, found = examined(call)
    assert code == 5, found
    assert found["store_lost"]["severity"] == "error"


def test_a_newer_database_is_exit_code_6_and_keeps_its_bytes(
    call: Call, tinyagent: Tinyagent
) -> None:
    """Another version of the program wrote it; the journals are checked without it."""
    call("run", "hello")
    database = tinyagent.database()
    with closing(apsw.Connection(str(database))) as connection:
        connection.pragma("user_version", 99)
        connection.pragma("wal_checkpoint", "TRUNCATE")
    before = database.read_bytes()
    code, found = examined(call)
    assert code == 6, found
    assert found["store_newer"]["severity"] == "error"
    assert found["journal"]["severity"] == "ok"
    assert database.read_bytes() == before


def test_an_older_database_is_told_of_and_not_upgraded(call: Call, tinyagent: Tinyagent) -> None:
    """Looking is no opening; the next command makes a backup first."""
    made_by_the_first_schema(tinyagent)
    code, found = examined(call)
    assert code == 0, found
    assert found["schema"]["severity"] == "info"
    assert "schema 1" in found["schema"]["message"]
    assert call("store", "backups", "--json")[1].count('"path"') == 0


def test_an_unreadable_marker_leaves_the_rest_to_be_examined(
    call: Call, tinyagent: Tinyagent
) -> None:
    """A marker that is a link is refused, and state home and provider are still looked at."""
    (tinyagent.workspace / ".tinyagent").mkdir()
    (tinyagent.workspace / ".tinyagent" / "workspace-id").symlink_to("/etc/hostname")
    code, found = examined(call)
    assert code == 1
    assert found["unsafe_workspace"]["severity"] == "error"
    assert {"state_home", "provider"} <= set(found)


def test_a_directory_that_is_not_there_is_a_finding(call: Call) -> None:
    """With `--workspace`, typed wrongly."""
    code, found = examined(call, "--workspace", "not/there")
    assert code == 1
    assert found["workspace_missing"]["severity"] == "error"


def test_a_home_that_cannot_be_written_is_an_error_and_is_examined(tinyagent: Tinyagent) -> None:
    """Nothing new would be saved, and what is there is looked over all the same."""
    bound: tuple[str, ...] = ()
    if os.geteuid() == 0:  # to whom rights mean nothing, until the capability for that is gone
        if shutil.which("setpriv") is None:
            pytest.skip("everything may be written by this user")
        bound = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
    tinyagent("run", "hello")
    places = [Path(tinyagent.environment["TINYAGENT_STATE_HOME"]), tinyagent.database().parent]
    for place in places:
        place.chmod(0o500)
    try:
        with tinyagent.start("doctor", "--json", program=(*bound, *PROGRAM)) as process:
            output, errors = process.communicate(timeout=60)
    finally:
        for place in places:
            place.chmod(0o700)
    assert process.returncode == 1, errors
    found = {one["kind"]: one for one in json.loads(output)["findings"]}
    assert found["state_home"]["severity"] == "error"
    assert found["integrity"]["severity"] == "ok"


def test_a_state_home_that_is_a_file_is_an_error(call: Call, tinyagent: Tinyagent) -> None:
    """Nothing can be kept there."""
    Path(tinyagent.environment["TINYAGENT_STATE_HOME"]).write_text("a file")
    code, found = examined(call)
    assert code == 1
    assert found["state_home"]["severity"] == "error"


def test_a_broken_journal_and_lost_lines_are_found(call: Call, tinyagent: Tinyagent) -> None:
    """A changed line breaks the chain; lines that could not be written are counted."""
    call("run", "hello")
    directory = Path(json.loads(call("path", "--json")[1])["journal_dir"])
    (journal,) = [one for one in directory.glob("*.jsonl") if one.name != "workspace.jsonl"]
    journal.write_bytes(journal.read_bytes().replace(b'"offline"', b'"0ffline"', 1))
    code, found = examined(call)
    assert code == 1
    assert found["chain_broken"]["severity"] == "error"
    assert "tinyagent sessions verify" in found["chain_broken"]["hint"]
    shutil.rmtree(directory)
    directory.write_text("no directory")
    call("run", "again", "--continue")
    _, found = examined(call)
    assert found["journal_lost"]["severity"] == "warning"


def test_forks_and_imports_are_no_false_alarm(call: Call, tinyagent: Tinyagent) -> None:
    """Nobody has told here of runs that were copied or came from elsewhere."""
    call("run", "hello")
    call("sessions", "fork", "latest")
    call("sessions", "export", "latest", "--format", "archive", "-o", "talk.jsonl")
    call("sessions", "delete", "latest", "--yes")
    assert call("sessions", "import", "talk.jsonl")[0] == 0
    for flags in ((), ("--all",)):
        code, found = examined(call, *flags)
        assert code == 0, found
        assert found["journal"]["severity"] == "ok"
        assert {one["severity"] for one in found.values()} <= {"ok", "info"}


def test_a_killed_run_is_told_of_and_not_touched(call: Call, tinyagent: Tinyagent) -> None:
    """Its process is dead; the next conversation notes it, looking does not."""
    call("run", "hello")
    with closing(apsw.Connection(str(tinyagent.database()))) as connection:
        connection.execute(
            "UPDATE runs SET status = 'pending', error_type = NULL, finished_at = NULL,"
            " owner = 'aaaaaaaa-1111-4111-8111-111111111111';"
            " UPDATE sessions SET status = 'running'"
        )
    for _ in range(2):
        _, found = examined(call)
        assert found["run_interrupted"]["severity"] == "warning"


def test_a_store_that_is_open_elsewhere_says_by_whom(call: Call, tinyagent: Tinyagent) -> None:
    """The pid stands in it."""
    call("run", "hello")
    from sessions_api import Agent  # noqa: PLC0415 - opened for this test alone

    with Agent(
        tinyagent.workspace,
        provider="offline",
        state_home=tinyagent.environment["TINYAGENT_STATE_HOME"],
    ):
        code, found = examined(call)
    assert code == 0, found
    assert str(os.getpid()) in found["in_use"]["message"]


def test_a_damaged_backup_is_found(call: Call, tinyagent: Tinyagent) -> None:
    """It would be no help when it is needed."""
    call("run", "hello")
    made = json.loads(call("store", "backup", "--json")[1])["backup"]["path"]
    Path(made).write_bytes(b"no backup")
    _, found = examined(call)
    assert found["backup_damaged"]["object"] == made


def test_a_large_log_is_a_warning(call: Call, tinyagent: Tinyagent) -> None:
    """More than 64 MiB mean that somebody reads for very long."""
    call("run", "hello")
    log = Path(f"{tinyagent.database()}-wal")
    with log.open("ab") as file:
        file.truncate(64 * 1024 * 1024 + 1)
    _, found = examined(call)
    assert found["log_size"]["severity"] == "warning"


@pytest.mark.parametrize(
    ("settings", "kind", "severity"),
    [
        ({"TINYAGENT_PROVIDER": "nobody"}, "provider_unknown", "error"),
        ({"TINYAGENT_PROVIDER": "openai"}, "provider_unavailable", "error"),
        ({"TINYAGENT_PROVIDER": "openai", "TINYAGENT_API_KEY": "made-up-key"}, "model", "warning"),
        (
            {
                "TINYAGENT_PROVIDER": "openai",
                "TINYAGENT_BASE_URL": "http://user:made-up-key@127.0.0.1:9/v1",
                "TINYAGENT_MODEL": "m",
            },
            "provider",
            "ok",
        ),
    ],
    ids=["unknown", "no-key", "no-model", "local"],
)
def test_the_provider_is_examined_without_being_called_and_no_key_is_shown(
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    kind: str,
    severity: str,
) -> None:
    """Nothing listens at the address; whether there is a key is all that is said of it."""
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    code, output, _ = call("doctor", "--json")
    assert "made-up-key" not in output
    (found,) = [one for one in json.loads(output)["findings"] if one["kind"] == kind]
    assert found["severity"] == severity
    assert code == (1 if severity == "error" else 0)
    assert "made-up-key" not in call("doctor")[1]


def test_a_configuration_that_cannot_be_read_is_an_error(call: Call, tinyagent: Tinyagent) -> None:
    """The file is named, and nothing of its content."""
    call("run", "hello")
    home = Path(tinyagent.environment["TINYAGENT_STATE_HOME"])
    (home / "config.toml").write_text("api_key = made-up-key")
    code, output, _ = call("doctor", "--json")
    assert code == 1
    assert "settings_invalid" in output
    assert "made-up-key" not in output


def test_a_marker_that_git_tracks_is_a_warning(call: Call, tinyagent: Tinyagent) -> None:
    """Every clone would claim to be this workspace."""
    call("run", "hello")
    for arguments in (("init", "-q"), ("add", "-f", ".tinyagent/workspace-id")):
        subprocess.run(["git", *arguments], cwd=tinyagent.workspace, check=True)
    _, found = examined(call)
    assert found["marker_tracked"]["severity"] == "warning"
    assert "git rm --cached" in found["marker_tracked"]["hint"]


@pytest.mark.parametrize(
    ("version", "is_faulty"),
    [("3.6.23", False), ("3.7.0", True), ("3.40.1", True), ("3.51.2", True), ("3.51.3", False)],
)
def test_versions_of_sqlite_with_a_known_fault_are_known(version: str, *, is_faulty: bool) -> None:
    """From the first with a write-ahead log to the last before the fix."""
    assert (fault_of(version) is not None) == is_faulty


def test_a_check_that_breaks_hides_no_other(
    call: Call, tinyagent: Tinyagent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a finding itself, and its words, which may hold anything, are not shown."""

    def breaking(_: object) -> list[Finding]:
        raise RuntimeError("made-up-key")

    monkeypatch.setattr("sessions_api.health.diagnosing.CHECKS", (breaking, *CHECKS))
    health = diagnose(tinyagent.workspace)
    assert health.findings[0].kind == "internal"
    assert "made-up-key" not in str(health.findings)
    assert len(health.findings) > 2


def test_on_a_terminal_and_in_a_pipe_it_is_one_page(call: Call) -> None:
    """A line for what is fine, and the next command below what is not."""
    call("run", "hello")
    code, output, errors = call("doctor")
    assert code == 0
    assert len(output.splitlines()) < 40
    assert "tinyagent store backup" in output
    assert errors == "Nothing is wrong.\n"
