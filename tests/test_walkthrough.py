from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from processes import KEY, Place, line_of

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# Every path that the walk may leave behind, and how it is protected.
EXPECTED = {
    r"home": 0o700,
    r"home/registry\.jsonl": 0o600,
    r"home/registry\.lock": 0o600,
    r"home/logs": 0o700,
    rf"home/logs/{UUID}": 0o700,
    rf"home/logs/{UUID}/workspace\.jsonl": 0o600,
    rf"home/logs/{UUID}/[0-9a-f]{{32}}\.jsonl": 0o600,
    r"home/workspaces": 0o700,
    rf"home/workspaces/{UUID}": 0o700,
    rf"home/workspaces/{UUID}/owners": 0o700,
    rf"home/workspaces/{UUID}/workspace\.json": 0o600,
    rf"home/workspaces/{UUID}/state\.sqlite3": 0o600,
    rf"home/workspaces/{UUID}/state\.sqlite3\.(gate|presence)": 0o600,
    r"ws/\.tinyagent": 0o700,
    r"ws/\.tinyagent/workspace-id": 0o600,
}
FORMATS = Path(__file__).parents[1] / "docs" / "formats.md"
# A reader may leave these; they go with the next writer that closes.
SIDE_FILES = rf"home/workspaces/{UUID}/state\.sqlite3-(wal|shm)"


def documented_paths() -> list[str]:
    """Return the paths of the tables in docs/formats.md, as patterns."""
    kinds = {"<uuid>": UUID, "<hex>": "[0-9a-f]+", "<session-hash>": "[0-9a-f]{32}"}
    kinds |= {"<name>": "[0-9a-z]+", "<seq>": "[0-9]{6}"}
    kinds |= {"<time>": "[0-9]{8}T[0-9]{12}Z", "<schema>": "[0-9]+"}
    named = re.findall(r"^\| `([^`]+)` \|", FORMATS.read_text("utf-8"), flags=re.MULTILINE)
    return [
        "".join(kinds.get(part, re.escape(part)) for part in re.split(r"(<[^>]+>)", path))
        for path in named
    ]


def workspace_id(workspace: Path) -> str:
    """Return the id in the workspace's marker."""
    return (workspace / ".tinyagent" / "workspace-id").read_text(encoding="ascii").strip()


def test_a_conversation_goes_on_in_a_new_process(place: Place) -> None:
    """The first run says how to resume; the second one, resumed, knows what was said."""
    first = place.tinyagent("run", "hello")
    assert first.returncode == 0
    assert "“hello”" in first.stdout
    resume = re.search(r"tinyagent --resume ([0-9a-f]{8})", first.stderr)
    assert resume is not None
    second = place.tinyagent("run", "and now?", "--continue")
    assert second.returncode == 0
    assert "2 times" in second.stdout
    assert "“hello”" in second.stdout
    third = place.tinyagent("run", "by name", "--resume", resume[1])
    assert "3 times" in third.stdout
    fresh = place.tinyagent("run", "someone else")
    assert "written once" in fresh.stdout
    assert [one["message_count"] for one in place.json("sessions", "list")["sessions"]] == [2, 6]


def test_a_service_is_sent_the_earlier_turns(place: Place) -> None:
    """Over real HTTP, in two processes; the key goes to the service and nowhere else."""
    server, base_url = place.wire({"text": "one"}, {"text": "two"})
    service = {
        "TINYAGENT_PROVIDER": "openai",
        "TINYAGENT_MODEL": "m-1",
        "TINYAGENT_BASE_URL": base_url,
        "TINYAGENT_API_KEY": KEY,
    }
    first = place.tinyagent("run", "hello", more=service)
    assert (first.returncode, first.stdout) == (0, "one\n"), first.stderr
    second = place.tinyagent("run", "and now?", "--continue", more=service)
    assert (second.returncode, second.stdout) == (0, "two\n"), second.stderr
    bodies = [json.loads(line_of(server))["body"] for _ in range(2)]
    sent = [(message["role"], message["content"]) for message in bodies[1]["messages"]]
    assert sent == [("user", "hello"), ("assistant", "one"), ("user", "and now?")]
    files = [path for path in place.root.rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def test_sessions_are_listed_shown_and_deleted(place: Place) -> None:
    """What is deleted is gone from the list, the database and the journals."""
    place.tinyagent("run", "kept words")
    place.tinyagent("run", "gone-marker words")
    listed = place.json("sessions", "list")
    assert [one["title"] for one in listed["sessions"]] == ["gone-marker words", "kept words"]
    gone = listed["sessions"][0]
    shown = place.json("sessions", "show", gone["short_id"])
    assert [message["role"] for message in shown["messages"]] == ["user", "assistant"]
    assert [run["status"] for run in shown["runs"]] == ["completed"]
    assert "gone-marker words" in place.tinyagent("sessions", "show", gone["id"]).stdout
    deleted = place.tinyagent("sessions", "delete", gone["short_id"], "--yes")
    assert deleted.returncode == 0, deleted.stderr
    assert place.tinyagent("sessions", "show", gone["id"]).returncode == 4
    left = place.json("sessions", "list")
    assert [one["title"] for one in left["sessions"]] == ["kept words"]
    files = [path for path in place.home.rglob("*") if path.is_file()]
    assert not [path for path in files if b"gone-marker" in path.read_bytes()]


def test_nothing_lies_where_the_layout_does_not_say(place: Place) -> None:
    """After the walk the whole tree is the expected one, private, and says no word of it."""
    place.tinyagent("run", "secret-question")
    place.tinyagent("run", "again", "--continue")
    place.tinyagent("sessions", "list")
    place.tinyagent("run", "third", "--continue")
    found = {path: mode for path, mode in place.files().items() if path not in {"ws", "nobody"}}
    side = {path for path in found if re.fullmatch(SIDE_FILES, path)}
    assert all(found[path] == 0o600 for path in side)
    met = set()
    for path, mode in found.items():
        if path in side:
            continue
        fitting = [pattern for pattern in EXPECTED if re.fullmatch(pattern, path)]
        assert fitting, f"{path} is in no layout"
        assert mode == EXPECTED[fitting[0]], f"{path} is {mode:o}"
        met.add(fitting[0])
    assert met == set(EXPECTED)
    files = {path.partition("/")[2] for path in found if (place.root / path).is_file()}
    documented = documented_paths()
    assert [one for one in files if not any(re.fullmatch(row, one) for row in documented)] == []
    journal = place.journal()
    assert "secret-question" not in journal
    assert "No model was asked" not in journal
    assert '"event":"run.completed"' in journal
    stored = [path.read_text() for path in place.workspace.rglob("*") if path.is_file()]
    assert stored == [workspace_id(place.workspace) + "\n"]


def test_two_workspaces_are_apart_a_moved_one_keeps_and_a_copied_one_begins(place: Place) -> None:
    """The marker decides: isolated, moved with its history, copied with a new id."""
    other = place.root / "other"
    other.mkdir()
    place.tinyagent("run", "in the first")
    place.tinyagent("run", "in the other", cwd=other)
    assert [one["title"] for one in place.json("sessions", "list", cwd=other)["sessions"]] == [
        "in the other"
    ]
    before = workspace_id(place.workspace)
    assert before != workspace_id(other)

    moved = place.root / "moved"
    place.workspace.rename(moved)
    answer = place.tinyagent("run", "still here?", "--continue", cwd=moved)
    assert "“in the first”" in answer.stdout
    assert workspace_id(moved) == before

    copy = place.root / "copy"
    shutil.copytree(moved, copy)
    fresh = place.tinyagent("run", "in the copy", "--continue", cwd=copy)
    assert fresh.returncode == 4
    assert place.tinyagent("run", "in the copy", cwd=copy).returncode == 0
    assert workspace_id(copy) not in {before, workspace_id(other)}
    assert workspace_id(moved) == before
    titles = [one["title"] for one in place.json("sessions", "list", cwd=moved)["sessions"]]
    assert titles == ["in the first"]
