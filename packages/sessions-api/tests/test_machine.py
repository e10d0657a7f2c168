from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_api import ModelMessage, ModelReply, ModelRequest, ToolCall, Usage
from sessions_api.runs.machine import (
    MAX_PROVIDER_CALLS,
    AskProvider,
    Begin,
    Begun,
    Broke,
    CallTools,
    Complete,
    Effect,
    Ended,
    Event,
    Fail,
    KeepResult,
    Replied,
    ResultKept,
    RunMachine,
    StartTools,
    State,
    Stopped,
    ToolResult,
    ToolReturned,
    ToolsStarted,
)
from sessions_api.runs.machine_table import rendered_table

DOCUMENT = Path(__file__).parents[3] / "docs" / "run.md"
CALL = ToolCall(id="c", name="f", arguments="{}")
RESULT = ToolResult(index=0, call=CALL, content="r", outcome="ok")
CALLING = ModelMessage(role="assistant", tool_calls=(CALL,))
ANSWER = ModelMessage(role="tool", content="r")
SAMPLES: dict[type[Any], Event] = {
    Begun: Begun(ModelRequest(model=None, messages=(ModelMessage(role="user", content="x"),))),
    Replied: Replied(ModelReply(content="x")),
    ToolsStarted: ToolsStarted(CALLING),
    ToolReturned: ToolReturned(RESULT),
    ResultKept: ResultKept(0, ANSWER),
    Ended: Ended(),
    Broke: Broke("internal"),
    Stopped: Stopped("cancelled"),
}
OVER = {State.COMPLETED, State.FAILED}


def machine(state: State = State.NEW) -> RunMachine:
    """Return a machine in *state*."""
    return RunMachine(ModelRequest(model=None), state=state)


def test_there_is_a_sample_of_every_event() -> None:
    """A new event has to be added here, and is then tried in every state."""
    assert set(SAMPLES) == set(get_args(Event))


@pytest.mark.parametrize(("state", "kind"), list(product(State, SAMPLES)))
def test_every_event_is_a_transition_or_refused(state: State, kind: type[Any]) -> None:
    """What a state does not expect is a programming error and changes nothing."""
    run = machine(state)
    if (state, kind) in RunMachine.TRANSITIONS:
        effects = run.handle(SAMPLES[kind])
        assert all(isinstance(effect, get_args(Effect)) for effect in effects)
        return
    with pytest.raises(AssertionError, match=str(state)):
        run.handle(SAMPLES[kind])
    assert run.state is state


def test_every_state_can_be_stopped_and_ended_ones_stay_as_they_are() -> None:
    """Whoever stops a run need not know what it is at; a run ends once."""
    assert {state for state, event in RunMachine.TRANSITIONS if event is Stopped} == set(State)
    under_way = set(State) - OVER - {State.NEW}
    assert {state for state, event in RunMachine.TRANSITIONS if event is Broke} >= under_way
    for state, event in RunMachine.TRANSITIONS:
        if state in OVER:
            run = machine(state)
            assert (run.handle(SAMPLES[event]), run.state) == ((), state)


def replies(run: RunMachine) -> list[Replied]:
    """Return replies with no call and some; the third of a run calls nothing any more."""
    counts = {1: (0, 1, 2), 2: (0, 2), 3: (0,)}[run._provider_calls]
    return [Replied(ModelReply(tool_calls=(CALL,) * count)) for count in counts]


def results(calls: tuple[ToolCall, ...], *, but: set[int]) -> list[ToolReturned]:
    """Return the results of *calls* that are still out, each of which may be the next."""
    out = [index for index in range(len(calls)) if index not in but]
    return [
        ToolReturned(ToolResult(index=index, call=CALL, content=str(index), outcome="ok"))
        for index in out
    ]


def committed(effect: Effect) -> Event:
    """Return what is reported of a commit that went well."""
    match effect:
        case StartTools(reply):
            return ToolsStarted(ModelMessage(role="assistant", tool_calls=reply.tool_calls))
        case KeepResult(result):
            kept = ModelMessage(role="tool", content=result.content)
            return ResultKept(result.index, kept)
        case Begin():
            return SAMPLES[Begun]
    return Ended()


@dataclass
class Course:
    """One order of effects and failures, up to now."""

    run: RunMachine
    done: list[Effect]
    waiting: list[Effect]
    outside: AskProvider | CallTools | None = None
    returned: set[int] = field(default_factory=set)
    stops_left: int = 2

    def after(self, event: Event) -> Course:
        """Return the course in which *event* comes next."""
        new = deepcopy(self)
        if isinstance(event, Stopped):
            new.stops_left -= 1
            new.waiting = []
        elif isinstance(event, ToolReturned):
            new.returned.add(event.result.index)
        elif isinstance(event, Replied):
            new.outside = None
        elif not (isinstance(event, Broke) and new.outside and not new.waiting):
            new.waiting = new.waiting[1:]
        for effect in new.run.handle(event):
            new.done.append(effect)
            if isinstance(effect, AskProvider | CallTools):
                new.outside, new.returned = effect, set()
            else:
                new.waiting.append(effect)
        return new

    def choices(self) -> list[Event]:
        """Return everything that can come next: it goes well, it breaks, somebody stops it."""
        events: list[Event] = []
        if self.waiting:
            events += [committed(self.waiting[0]), Broke("storage.busy")]
        elif isinstance(self.outside, AskProvider):
            events.append(Broke("provider.timeout"))
        if not self.waiting or self.run.state is State.FAILING:  # one commit at a time
            if isinstance(self.outside, AskProvider):
                events += replies(self.run)
            if isinstance(self.outside, CallTools):
                events += results(self.outside.calls, but=self.returned)
        if self.stops_left and self.run.state not in OVER:
            events.append(Stopped("cancelled"))
        return events


def check_course(course: Course) -> None:
    """Check what has been done in a course that is at its end."""
    done, run = course.done, course.run
    assert run.state in OVER
    kinds = [type(effect) for effect in done]
    assert kinds.count(Begin) == 1
    assert kinds[0] is Begin
    assert kinds.count(Complete) <= 1
    ends = [index for index, kind in enumerate(kinds) if kind in {Complete, Fail}]
    assert ends == list(range(ends[0], len(kinds)))  # nothing after the first attempt to end it
    assert (run.state is State.COMPLETED) is (kinds[-1] is Complete)
    for index, effect in enumerate(done):
        if isinstance(effect, CallTools):
            assert kinds[index - 1] is StartTools
        if isinstance(effect, AskProvider) and index > 1:
            asked = [one.calls for one in done[:index] if isinstance(one, CallTools)]
            calls = asked[-1]
            assert kinds[index - len(calls) : index] == [KeepResult] * len(calls)
            assert [one.content for one in effect.request.messages[-len(calls) :]] == [
                str(number) for number in range(len(calls))
            ]


def test_every_order_of_effects_and_failures_keeps_the_order_of_commits() -> None:
    """All courses of a run with up to two rounds of calls: steps go well, break, or are stopped.

    A run may be stopped twice, also while its end is written. What was asked outside and answers
    when all is over changes nothing.
    """
    first = machine()
    courses = [Course(first, list(effects := first.start()), list(effects))]
    ended_count = 0
    while courses:
        course = courses.pop()
        following = [] if course.run.state in OVER else course.choices()
        courses += [course.after(event) for event in following]
        if following:
            continue
        ended_count += 1
        check_course(course)
        late = [SAMPLES[Replied], SAMPLES[ToolReturned], SAMPLES[Broke], SAMPLES[Stopped]]
        for event in late if course.run.state is State.FAILED else late[-1:]:
            assert course.run.handle(event) == ()
    assert ended_count > 1_000


def test_a_run_that_never_began_has_nothing_to_write() -> None:
    """A stream that is left before its first event stores nothing."""
    run = machine()
    assert run.handle(SAMPLES[Stopped]) == ()
    assert run.state is State.FAILED


def outcomes(state: State, kind: type[Any]) -> set[str]:
    """Return the effects and states that *kind* can lead to in *state*, however it turns out."""
    two = ModelMessage(role="assistant", tool_calls=(CALL, CALL))
    variants: list[tuple[RunMachine, Event]] = [(machine(state), SAMPLES[kind])]
    if kind is Replied:
        variants.append((machine(state), Replied(ModelReply(tool_calls=(CALL,)))))
    if kind is ResultKept:
        for calling, asked in ((two, 1), (CALLING, 1), (CALLING, MAX_PROVIDER_CALLS)):
            run = machine(state)
            run._calling, run._provider_calls = calling, asked
            variants.append((run, SAMPLES[kind]))
    found: set[str] = set()
    for run, event in variants:
        found |= {type(effect).__name__ for effect in run.handle(event)}
        found.add(str(run.state))
    return found


@pytest.mark.parametrize(("state", "kind"), RunMachine.TRANSITIONS, ids=str)
def test_the_words_of_a_transition_name_what_it_does(state: State, kind: type[Any]) -> None:
    """The table in the document is made of these words."""
    words = RunMachine.TRANSITIONS[state, kind].__doc__ or ""
    named = set(re.findall(r"[`*]([A-Za-z ]+)[`*]", words))
    assert named - {str(state)} == outcomes(state, kind) - {str(state)}


@pytest.mark.skipif(not DOCUMENT.exists(), reason="docs/ is in the repository, not in the sdist")
def test_the_table_in_the_document_is_that_of_the_code() -> None:
    """Rendered from the transitions themselves, and found word for word."""
    text = DOCUMENT.read_text(encoding="utf-8")
    first = text.index("| state |")
    last = text.index("\n\n", first)
    assert text[first:last] + "\n" == rendered_table()


def test_a_model_that_never_answers_is_stopped() -> None:
    """The number of requests of one run is bounded."""
    run = machine()
    run.start()
    effects = run.handle(SAMPLES[Begun])
    for _ in range(MAX_PROVIDER_CALLS):
        assert isinstance(effects[0], AskProvider)
        run.handle(Replied(ModelReply(tool_calls=(CALL,))))
        run.handle(ToolsStarted(CALLING))
        run.handle(ToolReturned(RESULT))
        effects = run.handle(ResultKept(0, ANSWER))
    assert effects == (Fail("provider.bad_response", Usage()),)


@pytest.mark.parametrize(
    ("end", "known"),
    [
        (Broke("provider.rate_limit"), True),
        (Broke("provider.auth"), True),
        (Broke("provider.unavailable"), False),
        (Broke("provider.timeout"), False),
        (Broke("provider.bad_response"), False),
        (Stopped("cancelled"), False),
    ],
)
def test_a_call_that_breaks_makes_the_usage_unknown(end: Broke | Stopped, *, known: bool) -> None:
    """It may have used tokens, unless it was refused; between two calls all is known."""
    used = Usage(input_tokens=3, output_tokens=4)
    run = machine()
    run.start()
    run.handle(SAMPLES[Begun])
    run.handle(Replied(ModelReply(tool_calls=(CALL,), usage=used)))
    run.handle(ToolsStarted(CALLING))
    between = replace(run)
    assert between.handle(end) == (Fail(end.error_type, used),)
    run.handle(ToolReturned(RESULT))
    run.handle(ResultKept(0, ANSWER))
    assert run.handle(end) == (Fail(end.error_type, used if known else Usage()),)


@given(st.lists(st.none() | st.integers(0, 9), min_size=1, max_size=4))
def test_usage_is_the_sum_and_unknown_where_one_is(tokens: list[int | None]) -> None:
    """Unknown plus anything is unknown."""
    run = machine()
    run.start()
    run.handle(SAMPLES[Begun])
    for number in tokens[:-1]:
        run.handle(Replied(ModelReply(tool_calls=(CALL,), usage=Usage(input_tokens=number))))
        run.handle(ToolsStarted(CALLING))
        run.handle(ToolReturned(RESULT))
        run.handle(ResultKept(0, ANSWER))
    (end,) = run.handle(Replied(ModelReply(usage=Usage(input_tokens=tokens[-1]))))
    assert isinstance(end, Complete)
    expected = None if None in tokens else sum(number or 0 for number in tokens)
    assert end.usage.input_tokens == expected


@given(st.data())
def test_whatever_happens_the_order_of_commits_is_kept(data: st.DataObject) -> None:
    """No request before the input, no tool before its start, and exactly one end."""
    run = machine()
    done: list[Effect] = []
    todo: list[Effect] = list(run.start())
    returned: list[tuple[int, str]] = []
    while todo:
        effect = todo.pop(0)
        done.append(effect)
        if data.draw(st.integers(0, 9)) == 0:
            todo += run.handle(Broke("internal"))
            if run.state in {State.FAILING, State.FAILED}:
                todo = [one for one in todo if isinstance(one, Fail)]
            continue
        match effect:
            case Begin():
                todo += run.handle(SAMPLES[Begun])
            case AskProvider(request):
                assert isinstance(done[0], Begin)
                assert request.messages[0].role == "user"
                count = data.draw(st.integers(0, 3))
                calls = tuple(ToolCall(id="", name=str(n), arguments="") for n in range(count))
                todo += run.handle(Replied(ModelReply(tool_calls=calls)))
            case StartTools(reply):
                message = ModelMessage(role="assistant", tool_calls=reply.tool_calls)
                todo += run.handle(ToolsStarted(message))
            case CallTools(calls):
                assert isinstance(done[-2], StartTools)
                order = data.draw(st.permutations(range(len(calls))))
                returned = [(index, calls[index].name) for index in order]
                for index in order:
                    result = ToolResult(index=index, call=calls[index], content="", outcome="ok")
                    todo += run.handle(ToolReturned(result))
            case KeepResult(result):
                answer = ModelMessage(role="tool", content=str(result.index))
                todo += run.handle(ResultKept(result.index, answer))
                if todo and isinstance(todo[-1], AskProvider):
                    sent = todo[-1].request.messages[-len(returned) :]
                    assert [m.content for m in sent] == [str(n) for n in range(len(returned))]
            case Complete() | Fail():
                todo += run.handle(Ended())
    assert run.state in {State.COMPLETED, State.FAILED}
    ends = [effect for effect in done if isinstance(effect, Complete | Fail)]
    assert isinstance(ends[-1], Complete) is (run.state is State.COMPLETED)
    assert sum(isinstance(effect, Begin) for effect in done) == 1
    assert len([effect for effect in ends if isinstance(effect, Fail)]) <= 1
