from __future__ import annotations

import hashlib
import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from faces import calling, said
from full_sessions import WORKSPACE_ID, filled, of_store, sessions_in
from made_sessions import PLANS, make
from sessions_api import ImportInvalid, ModelReply
from sessions_api.transfer.archive_lines import MESSAGE_FIELDS
from sessions_api.transfer.archive_shapes import EXECUTION, HEADER, MESSAGE, RUN, SESSION
from state_store import (
    NewMessage,
    NewSession,
    SessionNotFound,
    SessionState,
    SqliteStore,
    Usage,
    new_id,
)

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import OpenAgent
    from faces import Looker
    from sessions_api import Sessions

LOCAL = {"owner", "journal_head", "journal_lost_count", "revision", "imported_at", "id"}


def archive_of(sessions: Sessions, ref: str | None = None) -> bytes:
    """Return an archive of one session, or of all."""
    chunks = sessions.export_all() if ref is None else sessions.export(ref, "archive")
    return b"".join(chunks)


def without_header(archive: bytes) -> bytes:
    """Return what an archive says but for when and by which version it was made."""
    return archive.partition(b"\n")[2]


def lines_of(archive: bytes) -> list[dict[str, Any]]:
    """Return the lines of an archive, parsed."""
    return [json.loads(line) for line in archive.splitlines()]


def everything(store: SqliteStore) -> list[Any]:
    """Return all records of a store, without what belongs to one machine."""
    found: list[Any] = []
    for archived in (False, True):
        for one in sorted(store.list(limit=None, archived=archived).items, key=lambda s: s.id):
            snapshot = store.snapshot(one.id)
            messages = store.messages(one.id, view="all").items
            records: tuple[Any, ...] = (snapshot.session, *snapshot.runs)
            records += (*snapshot.executions, *messages)
            found += [
                {
                    field.name: _rounded(getattr(record, field.name))
                    for field in fields(record)
                    if field.name not in LOCAL or (field.name == "id" and record not in messages)
                }
                for record in records
            ]
    return found


def _rounded(value: Any) -> Any:
    """Return a total as exact as a sum is: one counted again may differ in its last bit."""
    return f"{value:.12g}" if isinstance(value, float) else value


@given(st.lists(PLANS, min_size=1, max_size=3))
@settings(max_examples=25, deadline=None, phases=(Phase.explicit, Phase.generate))
def test_export_and_import_are_the_identity(plans: list[Any]) -> None:
    """Whatever a store holds comes back equal, and is exported again with the same bytes."""
    with sessions_in() as first, sessions_in() as second, sessions_in() as third:
        for plan in plans:
            make(first._store, plan)
        one = archive_of(first)
        assert {each.outcome for each in second.import_(one).outcomes} == {"new"}
        assert everything(second._store) == everything(first._store)
        two = archive_of(second)
        assert without_header(two) == without_header(one)
        third.import_(two)
        assert without_header(archive_of(third)) == without_header(one)
        for sessions in (first, second, third):
            again = sessions.import_(one).outcomes
            assert {each.outcome for each in again} == {"already_there"}


def test_a_line_has_the_fields_that_are_read(tmp_path: Path) -> None:
    """No more and no less: neither side can forget one that the other has."""
    with sessions_in(tmp_path) as sessions:
        found = lines_of(archive_of(sessions, filled(sessions._store)))
    shapes = {"header": HEADER, "session": SESSION, "run": RUN, "tool_execution": EXECUTION}
    for line in found:
        if (shape := shapes.get(line["type"])) is not None:
            assert line.keys() == {"type", *shape}
    assert {"type", *MESSAGE} == MESSAGE_FIELDS
    said_of_messages = set().union(*(line for line in found if line["type"] == "message"))
    unused = {"undone_at", "undone_after", "extra", "repaired"}
    assert said_of_messages == MESSAGE_FIELDS - unused


def test_an_archive_says_what_is_in_it() -> None:
    """Format, version and count before; counts and digest behind each session."""
    with sessions_in() as sessions:
        filled(sessions._store)
        archive = archive_of(sessions)
    lines = lines_of(archive)
    assert lines[0] | {"created_at": "", "created_by": ""} == {
        "type": "header",
        "format": "tinyagent-archive",
        "version": 1,
        "created_at": "",
        "created_by": "",
        "session_count": 1,
        "redacted": False,
    }
    kinds = [line["type"] for line in lines]
    counts = {"header": 1, "session": 1, "run": 2, "tool_execution": 3, "message": 12, "end": 1}
    assert kinds == [kind for kind, count in counts.items() for _ in range(count)]
    body = archive.splitlines(keepends=True)[1:-1]
    assert lines[-1]["sha256"] == hashlib.sha256(b"".join(body)).hexdigest()
    assert (lines[-1]["run_count"], lines[-1]["message_count"]) == (2, 12)


def test_what_is_under_way_comes_back_interrupted() -> None:
    """A run that was pending there is nobody's here; from then on the bytes stay the same."""
    with sessions_in() as first, sessions_in() as second, sessions_in() as third:
        session_id = first._store.create_session().id
        first._store.begin_run(session_id, NewMessage(role="user", content="x"), run_id=new_id())
        second.import_(archive_of(first))
        (run,) = second.runs(session_id).items
        assert (run.status, run.error_type) == ("failed", "interrupted")
        assert second.get(session_id).status == "failed"
        two = archive_of(second)
        third.import_(two)
        assert without_header(archive_of(third)) == without_header(two)


def test_a_taken_id_gives_way_to_a_new_one(tmp_path: Path) -> None:
    """Another session of that id stays what it is; a fork follows its parent to the new id."""
    with sessions_in() as first, sessions_in(tmp_path) as second:
        parent = filled(first._store)
        fork = first._store.fork_session(parent).id
        archive = archive_of(first)
        other = SessionState(id=parent, settings=NewSession(title="another"))
        second._store.save(other, timedelta())
        imported = second.import_(archive)
        assert [one.outcome for one in imported.outcomes] == ["renamed", "new"]
        assert [one.source_id for one in imported.outcomes] == [parent, fork]
        assert second.get(parent).title == "another"
        assert imported[0].id != parent
        assert imported[1].forked_from is not None
        assert imported[1].forked_from[0] == imported[0].id
        again = second.import_(archive)
        assert [one.outcome for one in again.outcomes] == ["already_there"] * 2
        assert [one.id for one in again] == [one.id for one in imported]
        assert len(second.list(limit=None).items) == 3


def test_a_session_that_went_on_since_is_imported_beside(tmp_path: Path) -> None:
    """What is here is newer than the archive: it stays, and the archive's comes under a new id."""
    with sessions_in() as first, sessions_in(tmp_path) as second:
        session_id = filled(first._store)
        archive = archive_of(first)
        first._store.begin_run(session_id, NewMessage(role="user"), run_id=new_id())
        assert first.import_(archive).outcomes[0].outcome == "renamed"
        second.import_(archive)
        run, _ = second._store.begin_run(session_id, NewMessage(role="user"), run_id=new_id())
        second._store.fail_run(run.id, "internal", usage=run.usage)
        assert second.import_(archive).outcomes[0].outcome == "already_there"


def test_a_deleted_session_comes_back_under_a_new_id(tmp_path: Path) -> None:
    """A tombstone says that this id is gone for good; its content may come again when asked for."""
    with sessions_in(tmp_path) as sessions:
        session_id = filled(sessions._store)
        archive = archive_of(sessions)
        sessions.delete(session_id)
        (imported,) = sessions.import_(archive)
        assert imported.id != session_id
        assert imported.message_count == 11


def test_times_are_the_sources_and_missing_ones_stay_missing() -> None:
    """Order is that of the source; when it was imported is noted apart."""
    past = datetime(2001, 2, 3, 4, 5, 6, 7, tzinfo=UTC)
    messages = (
        NewMessage(role="user", content="b", created_at=past, imported_at=past),
        NewMessage(role="user", content="a", imported_at=past),
    )
    with sessions_in() as first, sessions_in() as second:
        state = SessionState(id=new_id(), messages=messages)
        first._store.save(state, timedelta())
        second.import_(archive_of(first))
        found = second.messages(state.id).items
        assert [(one.content, one.created_at) for one in found] == [("b", past), ("a", None)]
        assert all(one.imported_at is not None and one.imported_at > past for one in found)


def test_fields_that_nobody_knows_are_kept_and_written_again() -> None:
    """Number formats, names that stand twice and their order included."""
    unknown = b'"later":{"n":1.10,"n":1e400},"\\u00e9":[1.0, 2]'
    with sessions_in() as first, sessions_in() as second, sessions_in() as third:
        filled(first._store)
        lines = archive_of(first).splitlines(keepends=True)
        at = next(n for n, line in enumerate(lines) if b'"type":"message"' in line)
        lines[at] = lines[at][:-2] + b"," + unknown + b"}\n"
        second.import_(resealed(lines))
        two = archive_of(second)
        assert b'"later":{"n":1.10,"n":1e400},"\xc3\xa9":[1.0, 2]' in two
        third.import_(two)
        assert without_header(archive_of(third)) == without_header(two)


def resealed(lines: list[bytes]) -> bytes:
    """Return the lines of an archive of one session with the digest that they have now."""
    end = json.loads(lines[-1])
    end["sha256"] = hashlib.sha256(b"".join(lines[1:-1])).hexdigest()
    return b"".join(lines[:-1]) + json.dumps(end).encode() + b"\n"


def test_a_masked_archive_is_not_taken_for_data() -> None:
    """C35: a model would use the mask as the password."""
    with sessions_in() as sessions:
        session_id = filled(sessions._store)
        masked = b"".join(sessions.export(session_id, "archive", redact=True))
        with pytest.raises(ImportInvalid, match="masked") as caught:
            sessions.import_(masked)
        assert "--no-redact" in (caught.value.hint or "")


def test_c38_what_a_provider_needs_back_survives_export_and_import(
    open_agent: OpenAgent, tmp_path: Path
) -> None:
    """After a restart the request is byte for byte that of the session it was exported from."""
    data = '{ "signature" : "S1", "x" : 1.10, "x" : 1e400 }'
    script = [replace(calling(("one", "{ }")), provider_data=data)]
    script += [ModelReply(content="x", provider_data=data, reasoning_content="because")]

    def one() -> int:
        """Return one."""
        return 1

    agent = open_agent(script, tools=[one])
    agent.run("a")
    archive = b"".join(agent.sessions.export(format="archive"))
    (tmp_path / "other").mkdir()
    other = open_agent([said("y")], workspace=tmp_path / "other", tools=[one])
    (session,) = other.sessions.import_(archive)
    other.sessions.resume(session.id)
    other.run("b")
    sent = other.provider.requests[-1].messages
    assert [message.provider_data for message in sent] == [None, data, None, data, None]
    assert sent[1].tool_calls[0].arguments == "{ }"
    assert sent[3].reasoning_content == "because"


def test_both_faces_export_all_and_import(open_agent: OpenAgent, look: Looker) -> None:
    """The journal is told of what is new, once."""
    agent = open_agent([said("hi"), said("ho")])
    agent.run("hello")
    agent.sessions.leave()
    agent.run("hello again")
    archive = b"".join(agent.sessions.export_all())
    assert [one["session_count"] for one in lines_of(archive) if "session_count" in one] == [2]
    for one in list(agent.sessions.list().items):
        agent.sessions.delete(one.id)
    imported = agent.sessions.import_(archive)
    assert [one.outcome for one in imported.outcomes] == ["renamed"] * 2
    assert agent.sessions.import_(archive) == list(imported)
    assert [one.title for one in imported] == ["hello", "hello again"]
    told = [json.loads(line) for line in look.journal().splitlines()]
    created = [line["session_id"] for line in told if line["event"] == "session.created"]
    assert [created.count(one.id) for one in imported] == [1, 1]


def test_nothing_that_happens_meanwhile_shows(tmp_path: Path) -> None:
    """An export that is read slowly is of the moment it began, in every format."""
    with sessions_in(tmp_path) as sessions:
        session_id = filled(sessions._store)
        for form in ("jsonl", "archive", "markdown", "html"):
            expected = b"".join(sessions.export(session_id, form, redact=False))
            chunks = sessions.export(session_id, form, redact=False)
            run, _ = sessions._store.begin_run(
                session_id, NewMessage(role="user", content="meanwhile"), run_id=new_id()
            )
            sessions._store.fail_run(run.id, "internal", usage=run.usage)
            sessions.rename(session_id, f"while {form}")
            found = b"".join(chunks)
            if form == "archive":
                found, expected = without_header(found), without_header(expected)
            assert found == expected


def test_an_undo_meanwhile_shows_on_no_page(tmp_path: Path) -> None:
    """Also one of messages without a run, which carry the mark themselves."""
    with sessions_in(tmp_path) as sessions:
        messages = tuple(NewMessage(role="user", content=str(n)) for n in range(120))
        state = SessionState(id=new_id(), messages=messages)
        sessions.save(state, timedelta())
        for change in (sessions._store.undo, sessions._store.redo):
            for form in ("jsonl", "archive"):
                expected = b"".join(sessions.export(state.id, form))
                chunks = sessions.export(state.id, form)
                begun = [next(chunks) for _ in range(4)]
                change(state.id)
                found = b"".join([*begun, *chunks])
                if form == "archive":
                    found, expected = without_header(found), without_header(expected)
                assert found == expected


def test_an_import_that_is_cut_off_has_told_of_what_it_wrote(
    open_agent: OpenAgent, look: Looker
) -> None:
    """The journal has the sessions that are there, and the next import makes the others."""
    agent = open_agent([said("hi"), said("ho")])
    for text in ("one", "two"):
        agent.sessions.leave()
        agent.run(text)
    archive = b"".join(agent.sessions.export_all())
    for one in list(agent.sessions.list().items):
        agent.sessions.delete(one.id)

    told: list[str] = []

    def leave(what: str, _done: int, _total: int) -> None:
        if what == "importing":
            told.append(what)
        if len(told) == 3:  # two messages of the first session, and one of the second
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        agent.sessions.import_(archive, progress=leave)
    (first,) = agent.sessions.list().items
    lines = [json.loads(line) for line in look.journal().splitlines()]
    assert first.id in [line["session_id"] for line in lines if line["event"] == "session.created"]
    outcomes = [one.outcome for one in agent.sessions.import_(archive).outcomes]
    assert outcomes == ["already_there", "renamed"]


def test_what_a_service_says_it_used_is_no_reason_to_refuse(open_agent: OpenAgent) -> None:
    """A count beyond any model is unknown in the run, and so the archive can be imported."""
    agent = open_agent([ModelReply(content="x", usage=Usage(input_tokens=2**45, output_tokens=1))])
    agent.run("a")
    archive = b"".join(agent.sessions.export(format="archive"))
    with sessions_in() as other:
        assert other.import_(archive).outcomes[0].outcome == "new"
    assert [line["input_tokens"] for line in lines_of(archive) if line["type"] == "run"] == [None]


def test_no_transaction_is_open_while_somebody_reads(tmp_path: Path) -> None:
    """C16: a reader that never goes on holds nothing back; the log is emptied beside it."""
    with SqliteStore.open(tmp_path / "state.sqlite3", workspace_id=WORKSPACE_ID) as store:
        sessions = of_store(store)
        session_id = filled(store)
        waiting = [
            sessions.export(session_id, form, redact=False)
            for form in ("jsonl", "archive", "markdown", "html")
        ]
        for chunks in waiting:
            next(chunks)
        assert store._database.checkpoint()
        for chunks in waiting:
            assert list(chunks)


def test_an_export_of_a_session_that_goes_meanwhile_says_so(tmp_path: Path) -> None:
    """It does not end as if that were all."""
    with sessions_in(tmp_path) as sessions:
        messages = tuple(NewMessage(role="user", content=str(n)) for n in range(120))
        for form in ("jsonl", "archive", "markdown", "html"):
            state = SessionState(id=new_id(), messages=messages)
            sessions.save(state, timedelta())
            chunks = sessions.export(state.id, form, redact=False)
            for _ in range(4):
                next(chunks)
            sessions.delete(state.id)
            with pytest.raises(SessionNotFound):
                list(chunks)


def test_what_is_said_about_archives_makes_none() -> None:
    """A conversation about the format is a conversation."""
    source = b'{"role":"user","content":"what is a tinyagent-archive?","type":"header"}\n'
    with sessions_in() as sessions:
        assert sessions.import_(source)[0].title == "what is a tinyagent-archive?"
