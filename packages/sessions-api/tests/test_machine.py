from __future__ import annotations

from itertools import product
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
    ToolResult,
    ToolReturned,
    ToolsStarted,
)

CALL = ToolCall(id="c", name="f", arguments="{}")
RESULT = ToolResult(index=0, call=CALL, content="r", outcome="ok")
CALLING = ModelMessage(role="assistant", tool_calls=(CALL,))
ANSWER = ModelMessage(role="tool", content="r")
SAMPLES: dict[type[Any], Event] = {
    Begun: Begun((ModelMessage(role="user", content="x"),)),
    Replied: Replied(ModelReply(content="x")),
    ToolsStarted: ToolsStarted(CALLING),
    ToolReturned: ToolReturned(RESULT),
    ResultKept: ResultKept(0, ANSWER),
    Ended: Ended(),
    Broke: Broke("internal"),
}


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


def test_ended_states_take_nothing_and_open_ones_can_break() -> None:
    """A run ends once; until then every step may fail."""
    froms = {state for state, _ in RunMachine.TRANSITIONS}
    assert froms == set(State) - {State.NEW, State.COMPLETED, State.FAILED}
    assert {state for state in froms if (state, Broke) in RunMachine.TRANSITIONS} == froms


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
