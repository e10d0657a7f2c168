from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sessions_api import Message, ModelMessage, Run, ToolCall, ToolExecution, Usage
from sessions_api.runs.replay import MISSING_RESULT, context, paired, replay

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)
FIELDS: dict[str, Any] = {
    "id": 0,
    "session_id": "s",
    "run_id": None,
    "content": None,
    "reasoning_content": None,
    "tool_calls": None,
    "tool_call_id": None,
    "name": None,
    "kind": "original",
    "covers": None,
    "parts": None,
    "provider_data": None,
    "repaired": False,
    "created_at": MOMENT,
    "imported_at": None,
}


def stored(*messages: dict[str, Any]) -> list[Message]:
    """Return rows with seq 1, 2, 3 …."""
    return [Message(**{**FIELDS, "seq": seq, **one}) for seq, one in enumerate(messages, 1)]


def call(*ids: str) -> tuple[ToolCall, ...]:
    """Return calls with these ids."""
    return tuple(ToolCall(id=one, name=f"f{one}", arguments="{}") for one in ids)


def run(run_id: str, status: str = "completed", **more: Any) -> Run:
    """Return a run's row."""
    fields: dict[str, Any] = {
        "first_seq": 1,
        "error_type": None,
        "started_at": MOMENT,
        "finished_at": None,
        "owner": "o",
        "usage": Usage(),
        "cost": None,
        "provider": None,
        "model": None,
        "retry_of": None,
        "undone_at": None,
        "journal_head": None,
        "journal_lost_count": 0,
    }
    return Run(id=run_id, session_id="s", status=status, **(fields | more))  # type: ignore[arg-type]  # any status is tried


USER = {"role": "user", "content": "hi"}


def test_c06_a_call_without_a_result_gets_one_at_its_place() -> None:
    """The request is legal, and the model reads that the call was interrupted."""
    calls = call("c1")
    rows = stored(USER, {"role": "assistant", "tool_calls": calls}, {**USER, "content": "go on"})
    sent = replay(rows, ())
    assert [message.role for message in sent] == ["user", "assistant", "tool", "user"]
    assert (sent[2].content, sent[2].tool_call_id) == (MISSING_RESULT, "c1")


def test_c07_a_cut_history_never_sends_half_a_pair() -> None:
    """Whatever rows are left, each call has its result and each result its call."""
    rows = stored(
        USER,
        {"role": "assistant", "tool_calls": call("a", "b", "c")},
        *({"role": "tool", "tool_call_id": one, "content": one} for one in "bca"),
        {"role": "assistant", "content": "done"},
    )
    for start in range(len(rows) + 1):
        for end in range(start, len(rows) + 1):
            assert_legal(replay(rows[start:end], ()))


def test_c08_of_too_many_results_the_first_is_sent() -> None:
    """Duplicates and results of calls that nobody made stay in the store and at home."""
    rows = stored(
        USER,
        {"role": "assistant", "tool_calls": call("c1", "c2")},
        {"role": "tool", "tool_call_id": "c1", "content": "right"},
        {"role": "tool", "tool_call_id": "c1", "content": "stale"},
        {"role": "tool", "tool_call_id": "c9", "content": "never asked"},
    )
    sent = replay(rows, ())
    assert [message.content for message in sent] == ["hi", None, "right", MISSING_RESULT]


def test_failed_undone_and_pending_runs_are_not_replayed() -> None:
    """Only what was completed, and what belongs to no run, is the conversation."""
    runs = [
        run("done"),
        run("failed", "failed"),
        run("undone", undone_at=MOMENT),
        run("pending", "pending"),
    ]
    ids = [None, "done", "failed", "undone", "pending"]
    rows = stored(*({**USER, "run_id": one, "content": str(one)} for one in ids))
    assert [message.content for message in replay(rows, runs)] == ["None", "done"]


def test_results_go_to_the_calls_that_the_rows_name() -> None:
    """Ids may be empty or all the same; stored order is the order of finishing."""
    for call_id in ("", "x"):
        rows = stored(
            USER,
            {"role": "assistant", "tool_calls": call(call_id, call_id, call_id)},
            *({"role": "tool", "tool_call_id": call_id, "content": str(n)} for n in (2, 0, 1)),
        )
        executions = [execution(index, result) for index, result in ((0, 4), (1, 5), (2, 3))]
        sent = replay(rows, (), executions)
        assert [message.content for message in sent[2:]] == ["0", "1", "2"]


def execution(index: int, result_seq: int) -> ToolExecution:
    """Return the row of the call at *index* of message 2."""
    return ToolExecution(
        run_id="r",
        session_id="s",
        call_seq=2,
        call_index=index,
        call_id="",
        name="f",
        replay="safe",
        started_at=MOMENT,
        finished_at=MOMENT,
        outcome="ok",
        result_seq=result_seq,
    )


def test_a_summary_stands_where_its_range_was() -> None:
    """Once, before what follows; the latest wins where ranges overlap."""
    rows = stored(*({**USER, "content": str(n)} for n in range(1, 6)))
    rows += [
        replace(rows[0], seq=6, kind="summary", covers=(2, 3), content="old 2-3"),
        replace(rows[0], seq=7, kind="summary", covers=(1, 3), content="1-3"),
        replace(rows[0], seq=8, kind="derived", covers=None, content="covers nothing"),
    ]
    assert [message.content for message in context(rows, ())] == ["1-3", "4", "5"]


def test_a_summary_whose_range_begins_with_a_failed_run_is_not_lost() -> None:
    """It stands for what is left of its range; with nothing left it has no place either."""
    rows = stored(
        {**USER, "run_id": "bad", "content": "lost"},
        {**USER, "content": "kept"},
        {**USER, "content": "later"},
        {"role": "system", "kind": "summary", "covers": (1, 2), "content": "summary"},
    )
    failed = [run("bad", "failed")]
    assert [message.content for message in context(rows, failed)] == ["summary", "later"]
    only_failed = [rows[0], rows[2], replace(rows[3], covers=(1, 1))]
    assert [message.content for message in context(only_failed, failed)] == ["later"]


def test_a_summary_that_says_what_was_taken_back_does_not_count() -> None:
    """Unless that was undone before it was made, so that its text does not have it."""
    rows = stored(
        {**USER, "content": "one"},
        {**USER, "content": "two", "run_id": "back"},
        {**USER, "content": "three"},
        {"role": "system", "kind": "summary", "covers": (1, 1), "content": "early"},
        {"role": "system", "kind": "summary", "covers": (1, 3), "content": "late"},
    )

    def said(**undone: Any) -> list[str | None]:
        return [message.content for message in context(rows, [run("back", **undone)])]

    assert said() == ["late"]
    assert said(undone_at=MOMENT, undone_after=5) == ["early", "three"]
    assert said(undone_at=MOMENT, undone_after=4) == ["late"]
    assert said(undone_at=MOMENT, undone_after=None) == ["early", "three"]
    rows[1] = replace(rows[1], run_id=None, undone_at=MOMENT, undone_after=5)
    assert said() == ["early", "three"]


ids = st.sampled_from(["", "a", "b"])
histories = st.lists(
    st.one_of(
        st.builds(ModelMessage, role=st.sampled_from(["user", "system", "odd"]), content=st.text()),
        st.builds(
            ModelMessage,
            role=st.sampled_from(["assistant", "assistant", "tool"]),
            tool_calls=st.none() | st.lists(ids, max_size=3).map(lambda many: call(*many)),
        ),
        st.builds(
            ModelMessage, role=st.just("tool"), tool_call_id=st.none() | ids, content=st.text()
        ),
    ),
    max_size=12,
)


def assert_legal(sent: tuple[ModelMessage, ...]) -> None:
    """Every call is followed at once by its one result, in call order; no result is alone."""
    expected: list[str] = []
    for message in sent:
        if message.role == "tool":
            assert expected, "a result without a call"
            assert (message.tool_call_id or "") == expected.pop(0)
            continue
        assert not expected, "a call without a result"
        expected = [one.id for one in message.tool_calls or ()]
    assert not expected


@given(histories)
def test_every_history_becomes_legal_and_stays_as_it_then_is(said: list[ModelMessage]) -> None:
    """Nothing but tool results is added, left out or moved."""
    sent = paired(said)
    assert_legal(sent)
    assert paired(sent) == sent
    assert paired(said) == sent
    others = [message for message in said if message.role != "tool"]
    assert [message for message in sent if message.role != "tool"] == others
    kept = [message for message in sent if message.role == "tool"]
    assert all(message in said or message.content == MISSING_RESULT for message in kept)


@given(st.lists(st.sampled_from([None, "done", "failed", "undone"]), max_size=8), st.data())
def test_what_is_sent_depends_on_the_rows_alone(
    owners: list[str | None], data: st.DataObject
) -> None:
    """The same rows give the same request, and rows that do not count change nothing."""
    runs = [run("done"), run("failed", "failed"), run("undone", undone_at=MOMENT)]
    rows = stored(*({**USER, "run_id": one, "content": str(n)} for n, one in enumerate(owners)))
    sent = replay(rows, data.draw(st.permutations(runs)))
    assert sent == replay(rows, runs)
    counted = [row for row in rows if row.run_id in {None, "done"}]
    assert sent == replay(counted, runs)


def test_a_summary_late_in_a_long_session_costs_no_more_than_an_early_one() -> None:
    """It is known by its place that it stands already, not by looking through what is kept."""

    class Counted(Message):
        compared_count = 0

        def __eq__(self, other: object) -> bool:
            Counted.compared_count += 1
            return self is other

        __hash__ = None  # type: ignore[assignment]  # as a class that compares has none

    plain = stored(*({**USER, "content": str(n)} for n in range(40)))
    plain.append(replace(plain[0], seq=41, kind="summary", covers=(21, 40), content="late"))
    names = Message.__dataclass_fields__
    rows = [Counted(**{name: getattr(row, name) for name in names}) for row in plain]
    assert len(context(rows, ())) == 21
    assert Counted.compared_count == 0
