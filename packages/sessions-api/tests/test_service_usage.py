"""What is booked of an answer's usage, and how often, whichever service told it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from services import WIRES
from sessions_api import RunFailed
from sessions_api.providers import anthropic_answer, openai_answer, responses_answer
from sessions_api.providers.answer_reading import count_in
from state_store import Usage
from wire_server import Turn, WireServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faces import Looker

OpenAgent = Callable[..., Any]

ELEVEN_SEVEN = {
    "chat": {"prompt_tokens": 11, "completion_tokens": 7},
    "messages": {"input_tokens": 11, "output_tokens": 7},
    "responses": {"input_tokens": 11, "output_tokens": 7},
}
PROVIDERS = {"chat": "openai", "messages": "anthropic", "responses": "openai-responses"}


@pytest.fixture(params=WIRES, ids=[name for name, *_ in WIRES])
def served(
    request: pytest.FixtureRequest, no_other_service: None
) -> Iterator[tuple[str, WireServer]]:
    """Run a service of each wire format."""
    name, server, *_ = request.param
    with server() as wire:
        yield name, wire


def test_a_repeated_request_is_booked_once(
    open_agent: OpenAgent, served: tuple[str, WireServer], look: Looker
) -> None:
    """The package tries again by itself; the run has the usage of the answer that came."""
    name, wire = served
    again = Turn(status=500, headers={"retry-after-ms": "1"})
    wire.script(again, again, Turn(text="hi", usage=ELEVEN_SEVEN[name]))
    agent = open_agent(provider=PROVIDERS[name], model="m", base_url=wire.base_url)
    assert agent.run("x").text == "hi"
    (run,) = look.runs()
    assert (run.usage.input_tokens, run.usage.output_tokens) == (11, 7)
    assert len(wire.requests) == 3
    assert look.texts() == [("user", "x"), ("assistant", "hi")]


def test_a_stream_that_breaks_books_nothing_that_was_not_told(
    open_agent: OpenAgent, served: tuple[str, WireServer], look: Looker
) -> None:
    """What was read and written is not known, which is not 0, and no answer is made up."""
    name, wire = served
    wire.script(Turn(text="one two three", usage=ELEVEN_SEVEN[name], drop="inside"))
    agent = open_agent(provider=PROVIDERS[name], model="m", base_url=wire.base_url)
    with pytest.raises(RunFailed):
        agent.stream("x")
    (run,) = look.runs()
    assert (run.status, run.usage, run.cost) == ("failed", Usage(), None)
    assert look.texts() == [("user", "x")]


def test_an_impossible_number_of_tokens_fails_no_run(
    open_agent: OpenAgent, served: tuple[str, WireServer], look: Looker
) -> None:
    """A number that no database holds is not known; the answer is kept."""
    name, wire = served
    odd = dict(zip(ELEVEN_SEVEN[name], (2**70, 7), strict=True))
    wire.script(Turn(text="hi", usage=odd))
    agent = open_agent(provider=PROVIDERS[name], model="m", base_url=wire.base_url)
    assert agent.run("x").text == "hi"
    (run,) = look.runs()
    assert (run.usage.input_tokens, run.usage.output_tokens) == (None, 7)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("odd", [3, "many", [1], {}, True], ids=repr)
def test_a_usage_that_cannot_be_read_is_unknown_and_costs_no_answer(
    open_agent: OpenAgent,
    served: tuple[str, WireServer],
    look: Looker,
    odd: Any,
    *,
    streaming: bool,
) -> None:
    """What was answered is kept, and so is that nobody knows what it used."""
    name, wire = served
    wire.script(Turn(text="hi", usage=odd))
    agent = open_agent(provider=PROVIDERS[name], model="m", base_url=wire.base_url)
    if streaming:
        agent.stream("x")
    else:
        agent.run("x")
    (run,) = look.runs()
    assert (run.status, run.usage, run.cost) == ("completed", Usage(), None)
    assert look.texts() == [("user", "x"), ("assistant", "hi")]
    assert agent.sessions.get().usage_complete is False


@pytest.mark.parametrize(
    ("value", "count"),
    [(0, 0), (7, 7), (7.0, 7), (10**12, 10**12)]
    + [(odd, None) for odd in (None, True, -1, 7.5, "7", [7], 2**63, 1e300, float("inf"))]
    + [(float("nan"), None)],
)
def test_a_count_is_a_count_or_unknown(value: object, count: int | None) -> None:
    """Nothing is guessed from a text, and nothing is too large for the sums."""
    assert count_in(value) == count
    assert type(count_in(value)) is type(count)


def test_cumulative_counters_are_totals_and_not_added() -> None:
    """Later events replace what earlier ones said; what they leave out stays."""
    answer = anthropic_answer.Answer(endpoint="http://x", model="m")
    start = {"input_tokens": 5, "cache_read_input_tokens": 4, "output_tokens": 1}
    answer.feed_event({"type": "message_start", "message": {"usage": start}})
    for written in (3, 7, 7):
        end = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": written}}
        answer.feed_event(end)
    odd = {"input_tokens": None, "cache_read_input_tokens": None, "output_tokens": None}
    answer.feed_event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": odd})
    usage = answer.reply(streamed=True).usage
    assert usage == Usage(input_tokens=9, output_tokens=7, cached_input_tokens=4)


def test_usage_in_every_chunk_is_the_last_one() -> None:
    """Some services count along in a stream; the final chunk has no choices."""
    answer = openai_answer.Answer(endpoint="http://x", model="m")
    for written in (1, 2, 7, 7):
        usage = {"prompt_tokens": 11, "completion_tokens": written}
        answer.feed_event({"choices": [{"delta": {"content": "x"}}], "usage": usage})
    answer.feed_event({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": None})
    answer.feed_event({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 8}})
    assert answer.reply(streamed=True).usage == Usage(input_tokens=11, output_tokens=8)


@pytest.mark.parametrize(("total", "written"), [(18, 7), (20, 9), (None, 7), (19, 7)])
def test_reasoning_that_is_counted_apart_is_output_as_well(total: int | None, written: int) -> None:
    """Only where the service's own total shows it: 11 read, 7 written, 2 reasoned."""
    details = {"reasoning_tokens": 2}
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": total}
    payload = {
        "choices": [{"message": {"content": "x"}, "finish_reason": "stop"}],
        "usage": {**usage, "completion_tokens_details": details},
    }
    answer = openai_answer.Answer(endpoint="http://x", model="m")
    answer.feed_whole(json.dumps(payload).encode())
    found = answer.reply(streamed=False).usage
    assert (found.output_tokens, found.reasoning_tokens) == (written, 2)


def test_a_response_in_progress_has_no_usage_yet() -> None:
    """Of a stream's responses only the last one counts."""
    answer = responses_answer.Answer(endpoint="http://x", model="m")
    usage = {"input_tokens": 11, "output_tokens": 7}
    for kind, told in (("created", {"input_tokens": 1}), ("completed", usage)):
        response = {"status": kind, "output": [], "usage": told}
        answer.feed_event({"type": f"response.{kind}", "response": response})
    assert answer.reply(streamed=True).usage == Usage(input_tokens=11, output_tokens=7)
