from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from full_sessions import filled, sessions_in
from sessions_api import ImportInvalid
from sessions_api.transfer.importing import checked
from state_store import NewMessage, NewSession, ToolCall, Usage, new_id
from test_transfer_archive import archive_of, everything, resealed, without_header

if TYPE_CHECKING:
    from pathlib import Path


def small_archive() -> bytes:
    """Return an archive of three sessions: one with a run and a tool, an empty one, a fork."""
    with sessions_in() as sessions:
        store = sessions._store
        first = store.create_session().id
        run, _ = store.begin_run(first, NewMessage(role="user", content="é"), run_id=new_id())
        asked = NewMessage(role="assistant", tool_calls=(ToolCall(id="", name="t", arguments=""),))
        seq = store.start_tools(run.id, asked, ["safe"]).seq
        told = NewMessage(role="tool", content="1", tool_call_id="")
        store.finish_tool(run.id, call_seq=seq, call_index=0, outcome="ok", message=told)
        store.complete_run(run.id, NewMessage(role="assistant"), usage=Usage(input_tokens=1))
        store.create_session(NewSession(title="empty"))
        store.fork_session(first)
        return archive_of(sessions)


@pytest.fixture(scope="module")
def archive() -> bytes:
    """Return a small archive."""
    return small_archive()


def found_in(archive: bytes) -> list[Any] | None:
    """Return what is found in an archive, None if it is refused."""
    try:
        with checked(archive) as source:
            return [(entry.session, entry.digest) for entry in source._entries if entry.is_archived]
    except ImportInvalid:
        return None


def test_every_truncation_is_refused(archive: bytes) -> None:
    """At every byte; only the newline at the very end says nothing."""
    whole = found_in(archive)
    assert whole is not None
    assert len(whole) == 3
    for length in range(len(archive) - 1):
        assert found_in(archive[:length]) is None, length
    assert found_in(archive[:-1]) == whole


def test_no_flipped_byte_changes_a_session_silently(archive: bytes) -> None:
    """Every byte, to another value: refused, or everything is as it was."""
    random_ = random.Random(36)
    whole = found_in(archive)
    accepted = 0
    for place in range(len(archive)):
        damaged = bytearray(archive)
        damaged[place] ^= random_.randrange(1, 256)
        found = found_in(bytes(damaged))
        assert found in (None, whole), place
        accepted += found is not None
    # Nothing but when and by what it was made can differ: there no digest is.
    assert accepted < len(archive.partition(b"\n")[0])


def test_lines_that_are_lost_doubled_or_changed_in_order_are_refused(archive: bytes) -> None:
    """By the digest, where not before."""
    lines = archive.splitlines(keepends=True)
    for place in range(len(lines)):
        assert found_in(b"".join([*lines[:place], *lines[place + 1 :]])) is None
        assert found_in(b"".join([*lines[: place + 1], *lines[place:]])) is None
        swapped = [*lines[:place], *reversed(lines[place : place + 2]), *lines[place + 2 :]]
        assert place == len(lines) - 1 or found_in(b"".join(swapped)) is None


def test_a_refused_archive_leaves_nothing_behind(archive: bytes, tmp_path: Path) -> None:
    """Also where only its last session is damaged: all of it is read before anything is written."""
    with sessions_in(tmp_path) as sessions:
        with pytest.raises(ImportInvalid):
            sessions.import_(archive[:-20])
        assert everything(sessions._store) == []


UUID = "01890000-0000-7000-8000-00000000000a"
# Which line, its field, the value, and a word of what is said; the digest is right each time.
IMPOSSIBLE: list[tuple[str, str, Any, str]] = [
    ("session", "id", "../../etc/passwd", "UUID"),
    ("session", "id", UUID.upper(), "UUID"),
    ("session", "id", 7, "UUID"),
    ("session", "status", "asleep", "one of"),
    ("session", "duration_ms", -1, "whole number"),
    ("session", "duration_ms", 1.0, "whole number"),
    ("session", "duration_ms", True, "whole number"),
    ("session", "created_at", "yesterday", "time"),
    ("session", "created_at", "2026-01-02T03:04:05Z", "time"),
    ("session", "created_at", None, "time"),
    ("session", "forked_from", [UUID], "array of two"),
    ("session", "metadata", [], "JSON object"),
    ("session", "metadata", {"a": float("inf")}, "JSON"),
    ("session", "show_reasoning", 1, "true or false"),
    ("session", "later", 1, "not known"),
    ("run", "id", "x", "UUID"),
    ("run", "first_seq", 0, "whole number"),
    ("run", "first_seq", 8, "begins with"),
    ("run", "first_seq", 99, "first_seq"),
    ("run", "status", "done", "one of"),
    ("run", "status", "failed", "error_type"),
    ("run", "status", "pending", "finished_at"),
    ("run", "error_type", "", "not empty"),
    ("run", "input_tokens", 2**40, "whole number"),
    ("run", "cost", -0.1, "not negative"),
    ("run", "cost", "1", "not negative"),
    ("run", "cost", 1e300, "cost"),
    ("run", "undone_after", 9, "undone_after"),
    ("run", "later", 1, "not known"),
    ("tool_execution", "run_id", UUID, "no run"),
    ("tool_execution", "call_index", 3, "order"),
    ("tool_execution", "call_seq", 99, "order"),
    ("tool_execution", "result_seq", 99, "missing"),
    ("tool_execution", "result_seq", 8, "is none"),
    ("tool_execution", "finished_at", None, "finished_at"),
    ("tool_execution", "outcome", "fine", "one of"),
    ("message", "seq", 0, "whole number"),
    ("message", "seq", 2, "greater"),
    ("message", "seq", 2**60, "whole number"),
    ("message", "role", None, "text"),
    ("message", "run_id", UUID, "no run"),
    ("message", "kind", "thought", "one of"),
    ("message", "covers", [1, 1], "summary"),
    ("message", "kind", "summary", "no run"),
    ("message", "content", ["x"], "text"),
    ("message", "tool_calls", {}, "array"),
    ("message", "tool_calls", [{"id": "", "name": ""}], "missing"),
    ("message", "tool_calls", [{"id": "", "name": "", "arguments": {}}], "text"),
    ("message", "parts", [1], "JSON object"),
    ("message", "repaired", "no", "true or false"),
    ("message", "undone_at", "2026-01-02T03:04:05.000006Z", "its run"),
    ("message", "extra", "x", "both"),
    ("message", "undone_after", 9, "undone_after"),
    ("message", "covers", [2, 1], "covers"),
    ("end", "run_count", 3, "run_count"),
    ("end", "session_id", UUID, "session_id"),
    ("end", "sha256", "0" * 64, "digest"),
    ("end", "later", 1, "not known"),
    ("end", "complete", None, "true or false"),
    ("header", "version", 2, "version 2"),
    ("header", "session_count", 2, "begin here"),
    ("header", "session_count", 0, "more than"),
    ("header", "format", "other", "header"),
    ("header", "redacted", None, "true or false"),
    ("header", "later", 1, "not known"),
]


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    """Return the lines of an archive of one session."""
    with sessions_in() as sessions:
        return archive_of(sessions, filled(sessions._store)).splitlines(keepends=True)


@pytest.mark.parametrize(
    ("kind", "field", "value", "words"), IMPOSSIBLE, ids=lambda one: str(one)[:20]
)
def test_what_cannot_be_is_refused_by_name(
    lines: list[bytes], kind: str, field: str, value: Any, words: str
) -> None:
    """Whoever wrote it knew how to make a digest; the line and the field are named."""
    changed = list(lines)
    # Of messages the answer with calls, or what `parts` and the like are read from.
    place = next(n for n, line in enumerate(lines) if f'"type":"{kind}"'.encode() in line)
    if kind == "message":
        place = next(n for n, line in enumerate(lines) if b'"seq":8,' in line)
    found = json.loads(lines[place]) | {field: value}
    if field == "extra":
        found["later"] = 1
    changed[place] = json.dumps(found).encode() + b"\n"
    if kind not in {"header", "end"}:
        changed = resealed(changed).splitlines(keepends=True)
    # The first reading finds it: before it, nothing of any session is written.
    with pytest.raises(ImportInvalid) as caught, checked(b"".join(changed)):
        pass
    assert words in caught.value.reason
    assert 1 <= caught.value.line <= len(lines) + 1


@pytest.mark.parametrize("text", ["x", "[]", '{"role":1}', '{"a":\n1}', '{"a":NaN}'])
def test_extra_text_that_no_line_could_carry_is_refused(lines: list[bytes], text: str) -> None:
    """By the store's own rule, and in the first reading."""
    changed = list(lines)
    place = next(n for n, line in enumerate(lines) if b'"type":"message"' in line)
    changed[place] = json.dumps(json.loads(lines[place]) | {"extra": text}).encode() + b"\n"
    with pytest.raises(ImportInvalid, match="extra cannot be kept"), checked(resealed(changed)):
        pass


HOSTILE = {
    "nothing": b"",
    "blank": b"\n\n",
    "not JSON": b"hello\n",
    "no object": b"[]\n",
    "not UTF-8": b'{"role":"user","content":"\xff"}\n',
    "NaN": b'{"role":"user","content":"x","n":NaN}\n',
    "infinity": b'{"role":"user","content":"x","n":-Infinity}\n',
    "a name twice": b'{"role":"user","role":"system","content":"x"}\n',
    "deep": b'{"role":"user","content":"x","n":' + b"[" * 200_000 + b"]" * 200_000 + b"}\n",
    "deep parts": b'{"role":"user","content":[{"a":' + b"[" * 300 + b"]" * 300 + b"}]}\n",
    "many digits": b'{"role":"user","content":"x","n":' + b"1" * 10_000 + b"}\n",
    "an endless number": b'{"role":"user","content":[{"n":1e400}]}\n',
    "no role": b'{"content":"x"}\n',
    "a role that is no text": b'{"role":1,"content":"x"}\n',
    "content that is no text": b'{"role":"user","content":1}\n',
    "calls that are none": b'{"role":"assistant","content":null,"tool_calls":[1]}\n',
    "arguments that are no text": b'{"role":"assistant","content":null,"tool_calls":[{"id":"",'
    b'"type":"function","function":{"name":"","arguments":{}}}]}\n',
    "a second line that is none": b'{"role":"user","content":"x"}\n{"role":\n',
    "two on a line": b'{"role":"user","content":"x"}{"role":"user","content":"x"}\n',
    "a database": b"SQLite format 3\x00" + bytes(100),
    "UTF-16": '{"role":"user"}'.encode("utf-16"),
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_no_export_is_refused(source: bytes) -> None:
    """With the line on which it is found, and nothing of what stands there."""
    with pytest.raises(ImportInvalid) as caught, sessions_in() as sessions:
        sessions.import_(source)
    assert caught.value.line in {1, 2}
    assert len(str(caught.value)) < 200
    assert isinstance(caught.value, ValueError)


def test_a_line_has_a_longest_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without a newline does not fill the memory."""
    monkeypatch.setattr("sessions_api.transfer.source_lines.LONGEST_LINE", 1000)
    with sessions_in() as sessions:
        sessions.import_(b'{"role":"user","content":"' + b"x" * 900 + b'"}\n')
        with pytest.raises(ImportInvalid, match="longer than 1000"):
            sessions.import_(b'{"role":"user","content":"' + b"x" * 1000 + b'"}\n')


def test_a_file_that_changes_between_two_readings_is_not_imported(
    archive: bytes, tmp_path: Path
) -> None:
    """What was checked is what is written, or nothing is."""
    path = tmp_path / "archive"
    path.write_bytes(archive)
    with sessions_in() as sessions:
        with checked(path) as source:
            path.write_bytes(archive.replace("é".encode(), "è".encode()))
            with pytest.raises(ImportInvalid):
                list(source.import_into(sessions._store))
        assert everything(sessions._store) == []
        sessions.import_(archive)
        assert without_header(archive_of(sessions)) == without_header(archive)
