"""What `Agent(select=…)` is given, what it may answer, and what then is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faces import calling, said
from sessions_api import (
    Agent,
    ArgumentInvalid,
    Exchange,
    ModelMessage,
    RunFailed,
    SelectionInvalid,
    Session,
    tool,
)
from sessions_api.runs.exchanges import past_of
from sessions_api.testing import ScriptedProvider
from state_store import Message, SqliteStore
from test_replay import USER, assert_legal, call, stored

if TYPE_CHECKING:
    from pathlib import Path

    from faces import Looker

OpenAgent = Callable[..., Any]
Exchanges = tuple[Exchange, ...]


@tool(replay="safe")
def echo(text: str) -> str:
    """Say it again."""
    return text


THREE = ("a", "b", "c")
THREE_CALLS = calling(*(("echo", f'{{"text": "{one}"}}') for one in THREE))


def contents(messages: Iterable[ModelMessage]) -> list[str | None]:
    """Return what the messages say."""
    return [message.content for message in messages]


def test_the_newest_exchanges_are_sent_whole_and_the_new_message_always(
    open_agent: OpenAgent,
) -> None:
    """The ready-made example: the last so many, with all their calls and results."""
    agent = open_agent(
        [said("1"), THREE_CALLS, said("2"), said("3"), said("4")],
        tools=[echo],
        select=lambda exchanges: exchanges[-2:],
    )
    for text in ("one", "two", "three", "four"):
        agent.run(text)
    assert contents(agent.provider.requests[-1].messages) == [
        *("two", None, "a", "b", "c", "2"),
        *("three", "3"),
        "four",
    ]


@pytest.mark.parametrize("count", range(5))
def test_c07_a_selected_history_never_has_one_side_of_a_pair(
    open_agent: OpenAgent, count: int
) -> None:
    """However few exchanges are asked for, a turn of three parallel calls is sent whole or not."""
    agent = open_agent(
        [said("1"), THREE_CALLS, said("2"), said("3")],
        tools=[echo],
        select=lambda exchanges: exchanges[len(exchanges) - count :] if count < 3 else exchanges,
    )
    for text in ("one", "two", "three"):
        agent.run(text)
    for request in agent.provider.requests:
        assert_legal(request.messages)
    assert agent.provider.requests[-1].messages[-1].content == "three"


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
def test_c07_a_raw_listing_may_cut_anywhere_and_its_pages_are_the_whole(
    open_agent: OpenAgent, limit: int
) -> None:
    """A page ends where its limit says, between a call and its result too; nothing is lost."""
    agent = open_agent([THREE_CALLS, said("done")], tools=[echo])
    agent.run("go")
    pages, cursor = [], None
    while True:
        page = agent.sessions.messages(limit=limit, cursor=cursor)
        pages.append(page.items)
        if (cursor := page.next_cursor) is None:
            break
    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    assert [one.seq for page in pages for one in page] == [1, 2, 3, 4, 5, 6]
    with pytest.raises(ArgumentInvalid, match="limit"):  # what is sent comes uncut or not at all
        agent.sessions.messages(view="context", limit=limit)


@pytest.mark.parametrize("limit", [0, -1, -(2**63)])
@pytest.mark.parametrize("view", ["original", "context", "all"])
def test_c07_a_limit_below_one_is_refused(open_agent: OpenAgent, limit: int, view: str) -> None:
    """It is neither "all" nor "the last ones"."""
    agent = open_agent([said("1")])
    agent.run("one")
    with pytest.raises(ValueError, match="limit"):
        agent.sessions.messages(view=view, limit=limit)
    with pytest.raises(ValueError, match="limit"):
        agent.sessions.list(limit=limit)


def _raises(_: Exchanges) -> Exchanges:
    raise KeyError("secret words")


WRONG: dict[str, Callable[[Exchanges], Any]] = {
    "it raises": _raises,
    "no exchanges": lambda exchanges: [one.messages for one in exchanges],
    "nothing iterable": lambda _: None,
    "a copy": lambda exchanges: [replace(one) for one in exchanges],
    "half of one": lambda exchanges: [Exchange(messages=exchanges[0].messages[:1])],
    "one of no place": lambda _: [Exchange(messages=(), place=99)],
    "one from behind": lambda _: [Exchange(messages=(), place=-1)],
    "twice": lambda exchanges: (*exchanges, exchanges[-1]),
    "out of order": lambda exchanges: exchanges[::-1],
}


def test_an_answer_that_is_no_list_is_called_that(open_agent: OpenAgent) -> None:
    """Whoever forgot to return something reads what came instead."""
    agent = open_agent([said("1"), said("2")], select=lambda _: None)
    agent.run("one")
    with pytest.raises(SelectionInvalid, match="it returned NoneType"):
        agent.run("two")


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("streaming", [False, True], ids=["run", "stream"])
def test_a_wrong_answer_refuses_the_turn_before_anything_is_stored_or_sent(
    open_agent: OpenAgent, look: Looker, wrong: Callable[[Exchanges], Any], *, streaming: bool
) -> None:
    """The session is as it was, and the next turn is answered once select behaves."""
    answers = iter([tuple, wrong, tuple])

    def in_turn(exchanges: Exchanges) -> Any:
        return next(answers)(exchanges)

    agent = open_agent([said("1"), said("2"), said("3")], select=in_turn)
    agent.run("one")
    agent.run("two")
    rows, session = look.messages(), agent.sessions.get()
    with pytest.raises(SelectionInvalid) as refused:
        (agent.stream if streaming else agent.run)("three")
    assert "secret" not in str(refused.value)
    assert len(agent.provider.requests) == 2
    assert look.messages() == rows
    assert agent.sessions.get() == session
    assert agent.run("three").text == "3"
    assert contents(agent.provider.requests[-1].messages) == ["one", "1", "two", "2", "three"]


def test_the_history_that_is_kept_is_the_whole_one(open_agent: OpenAgent) -> None:
    """What was not sent once can be sent the next time, and select is always given everything."""
    seen: list[Exchanges] = []

    def none_then_all(exchanges: Exchanges) -> Exchanges:
        seen.append(exchanges)
        return exchanges if len(seen) > 2 else ()

    agent = open_agent([said(str(n)) for n in range(1, 5)], select=none_then_all)
    for text in ("one", "two", "three", "four"):
        agent.run(text)
    sent = [contents(request.messages) for request in agent.provider.requests]
    assert sent[:3] == [["one"], ["two"], ["three"]]
    assert sent[3] == ["one", "1", "two", "2", "three", "3", "four"]
    assert [len(exchanges) for exchanges in seen] == [1, 2, 3]
    # An exchange that is kept is the same object, and so what was worked out about it stays.
    assert seen[2][0] is seen[0][0]


def test_select_reads_the_rows_once_as_long_as_nobody_else_writes(
    open_agent: OpenAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn does not become as slow as the session is long."""
    agent = open_agent([said("x")] * 4, select=tuple)
    reads: list[str] = []
    read = SqliteStore.messages

    def counted(self: SqliteStore, session_id: str, **options: Any) -> Any:
        reads.append(session_id)
        return read(self, session_id, **options)

    monkeypatch.setattr(SqliteStore, "messages", counted)
    for _ in range(4):
        agent.run("again")
    assert len(reads) == 1


def test_a_failed_exchange_is_not_offered_and_a_retried_session_goes_on(
    open_agent: OpenAgent,
) -> None:
    """Only what would be sent can be selected."""
    seen: list[int] = []

    def noting(exchanges: Exchanges) -> Exchanges:
        seen.append(len(exchanges))
        return exchanges

    agent = open_agent([said("1"), ConnectionError("gone"), said("3")], select=noting)
    agent.run("one")
    with pytest.raises(RunFailed):
        agent.run("two")
    agent.run("three")
    assert seen == [1, 1]
    assert contents(agent.provider.requests[-1].messages) == ["one", "1", "three"]


def test_what_another_process_added_between_selection_and_begin_is_selected_from(
    workspace: Path, state_home: Path
) -> None:
    """The choice was made from what is no longer so: it is made again before anything is sent."""
    seen: list[int] = []
    meddles = True

    def meddling(exchanges: Exchanges) -> Exchanges:
        nonlocal meddles
        seen.append(len(exchanges))
        if meddles:
            meddles = False
            provider = ScriptedProvider([said("their answer")])
            with Agent(workspace, provider=provider, state_home=state_home) as other:
                other.sessions.resume("latest")
                other.run("theirs")
        return exchanges[-1:]

    provider = ScriptedProvider([said("1"), said("2")])
    with Agent(workspace, provider=provider, state_home=state_home, select=meddling) as agent:
        agent.run("one")
        agent.run("two")
    assert seen == [1, 2]
    assert contents(provider.requests[-1].messages) == ["theirs", "their answer", "two"]


def test_a_resumed_session_is_selected_from_as_well(open_agent: OpenAgent) -> None:
    """In another agent, where the rows are read anew."""
    open_agent([said("1"), said("2")]).run("one")
    agent = open_agent([said("3")], select=lambda exchanges: exchanges[:0])
    agent.sessions.resume("latest")
    agent.run("two")
    assert contents(agent.provider.requests[0].messages) == ["two"]


def test_a_session_that_is_new_has_nothing_to_select_from(open_agent: OpenAgent) -> None:
    """Select is not asked about nothing."""
    agent = open_agent([said("1")], select=_raises)
    assert agent.run("one").text == "1"


SUMMARY = {"role": "assistant", "kind": "summary", "covers": (1, 2), "content": "before"}


def test_a_summary_and_what_nobody_asked_for_are_exchanges_of_their_own() -> None:
    """Whatever role the summary has, it is not the answer to what comes before it."""
    rows = stored(
        {"role": "user", "content": "old"},
        {"role": "assistant", "content": "old"},
        {"role": "assistant", "content": "left over"},
        {**USER, "content": "new"},
        {"role": "assistant", "content": "answer"},
        {"role": "system", "content": "a note"},
        SUMMARY,
    )
    past = past_of(_in_context(rows))
    assert [(one.is_summary, contents(one.messages)) for one in past.exchanges] == [
        (True, ["before"]),
        (False, ["left over"]),
        (False, ["new", "answer", "a note"]),
    ]
    first = past_of(stored({"role": "system", "content": "be kind"}, USER))
    assert [contents(one.messages) for one in first.exchanges] == [["be kind"], ["hi"]]


def _in_context(rows: list[Message]) -> tuple[Message, ...]:
    from sessions_api.runs.replay import context  # noqa: PLC0415 - beside its only use

    return context(rows, ())


ROWS = st.lists(
    st.one_of(
        st.just(USER),
        st.builds(
            lambda ids: {"role": "assistant", "tool_calls": call(*ids) or None, "content": "x"},
            st.lists(st.sampled_from(["", "a", "b"]), max_size=3),
        ),
        st.builds(
            lambda one: {"role": "tool", "tool_call_id": one, "content": "r"},
            st.sampled_from(["", "a", "b", "z"]),
        ),
    ),
    max_size=12,
)


@given(ROWS, st.data())
def test_any_selection_of_whole_exchanges_is_a_legal_conversation(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    """Each call has its result and each result its call, whichever exchanges are left out."""
    past = past_of(stored(*rows))
    assert past.messages == tuple(one for each in past.exchanges for one in each.messages)
    kept = [each for each in past.exchanges if data.draw(st.booleans())]
    assert_legal(tuple(one for each in kept for one in each.messages))


@given(runs=st.lists(ROWS, max_size=4), asked=st.booleans())
def test_a_history_grows_into_what_reading_it_whole_would_give(
    runs: list[list[dict[str, Any]]], *, asked: bool
) -> None:
    """Exchange by exchange, and byte by byte, whether or not the size was asked for before."""
    whole = [past_of(stored(USER, *rows)).messages for rows in runs]
    grown = past_of(())
    for messages in whole:
        assert not asked or grown.byte_count >= 0
        grown = grown.then(messages)
    rows = [one for messages in whole for one in messages]
    read = past_of(())
    read = read.then(rows) if rows else read
    assert grown.messages == read.messages
    assert [one.messages for one in grown.exchanges] == [one.messages for one in read.exchanges]
    assert [one.place for one in grown.exchanges] == [*range(len(grown.exchanges))]
    assert grown.byte_count == read.byte_count


def test_a_history_that_could_not_be_read_is_not_kept_as_an_empty_one(
    open_agent: OpenAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that fails while its past is read leaves the past to the next run."""
    agent = open_agent([said("1"), said("3")])
    agent.run("one")
    session: Session = agent.sessions.get()
    agent.sessions.rename(session.id, "a change from outside of runs")

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "tool_executions", interrupted)
        with pytest.raises(KeyboardInterrupt):
            agent.run("two")
    agent.run("three")
    assert contents(agent.provider.requests[-1].messages) == ["one", "1", "three"]


def test_a_retried_run_is_selected_for_like_any_other(open_agent: OpenAgent) -> None:
    """What came before its input is offered, the failed try is not, and a wrong answer stops it."""
    answers = iter([tuple, lambda exchanges: exchanges[1:], _raises])

    def in_turn(exchanges: Exchanges) -> Any:
        return next(answers, tuple)(exchanges)

    script = [said("1"), said("2"), ConnectionError("gone"), said("3")]
    agent = open_agent(script, select=in_turn)
    agent.run("one")
    agent.run("two")
    with pytest.raises(RunFailed) as failed:
        agent.run("three")
    before = agent.sessions.runs().items
    with pytest.raises(SelectionInvalid):
        agent.retry(failed.value.run_id)
    assert agent.sessions.runs().items == before
    agent.retry(failed.value.run_id)
    assert contents(agent.provider.requests[-1].messages) == ["one", "1", "two", "2", "three"]
