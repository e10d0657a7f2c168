"""What a session knows of its model: kept, restored, and its own price."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from sessions_api import ModelReply, SessionsError, Usage
from sessions_api.runs.rates import rates_of

if TYPE_CHECKING:
    from faces import Looker

OpenAgent = Callable[..., Any]

COST = {"input": 3, "output": 15, "cached_input": 0.3}
CONFIG = {"cost": COST, "context_window": 200_000, "capabilities": ["images", "tools"]}
USAGE = Usage(input_tokens=1_000_000, output_tokens=100_000, cached_input_tokens=500_000)


def answer(usage: Usage = USAGE) -> ModelReply:
    """Return an answer that used so much."""
    return ModelReply(content="x", usage=usage)


def test_a_session_costs_what_its_own_prices_say(open_agent: OpenAgent, look: Looker) -> None:
    """Half a million fresh, half a million cached, a hundred thousand written: 1.5 + 0.15 + 1.5."""
    agent = open_agent([answer(), answer()], model_config=CONFIG)
    assert agent.run("a").cost == pytest.approx(3.15)
    assert agent.run("b").cost == pytest.approx(3.15)
    assert [run.cost for run in look.runs()] == [pytest.approx(3.15)] * 2
    assert agent.sessions.get().cost == pytest.approx(6.3)


def test_it_is_the_sessions_and_comes_back_with_it(open_agent: OpenAgent) -> None:
    """An agent without any, or with another one, goes on with what the session has."""
    first = open_agent([answer()], model_config=CONFIG)
    first.run("a")
    assert first.sessions.get().model_config == CONFIG
    first.close()
    for number, options in enumerate([{}, {"model_config": {"cost": {"input": 9, "output": 9}}}]):
        agent = open_agent([answer()], **options)
        assert agent.sessions.resume("latest").model_config == CONFIG
        assert agent.run(f"b{number}").cost == pytest.approx(3.15)
        agent.close()


def test_a_session_that_is_created_by_name_has_its_own_or_the_agents(
    open_agent: OpenAgent,
) -> None:
    """As with the system prompt and the parameters."""
    agent = open_agent([answer()], model_config=CONFIG)
    assert agent.sessions.create("one").model_config == CONFIG
    own = {"cost": {"input": 1, "output": 2}}
    assert agent.sessions.create("two", model_config=own).model_config == own
    assert agent.run("a").cost == pytest.approx(1.2)  # without its own price cached costs the same


@pytest.mark.parametrize(
    "usage",
    [
        Usage(),
        Usage(input_tokens=5),
        Usage(output_tokens=5),
        Usage(input_tokens=1, output_tokens=1, cached_input_tokens=2),
    ],
)
def test_unknown_or_impossible_usage_has_no_price(open_agent: OpenAgent, usage: Usage) -> None:
    """A price is known or it is None."""
    agent = open_agent([answer(usage)], model_config=CONFIG)
    assert agent.run("a").cost is None


def test_free_is_a_price(open_agent: OpenAgent) -> None:
    """A model of one's own costs nothing, which is not the same as nobody knows."""
    agent = open_agent([answer()], model_config={"cost": {"input": 0, "output": 0}})
    assert agent.run("a").cost == 0


WRONG_COSTS: list[Any] = [
    {},
    {"input": 1},
    {"output": 1},
    {"input": 1, "output": 1, "cached": 1},
    {"input": -1, "output": 1},
    {"input": "1", "output": 1},
    {"input": True, "output": 1},
    {"input": 1, "output": None},
    5,
    [],
]


@pytest.mark.parametrize("cost", WRONG_COSTS, ids=repr)
def test_a_price_of_another_shape_is_refused_and_a_stored_one_is_no_price(
    open_agent: OpenAgent, cost: Any
) -> None:
    """A mistyped name would otherwise cost nothing for ever."""
    assert rates_of(cost) is None
    with pytest.raises(SessionsError, match="cost"):
        open_agent([], model_config={"cost": cost})
    agent = open_agent([])
    with pytest.raises(SessionsError, match="cost"):
        agent.sessions.create(model_config={"cost": cost})
    assert agent.sessions.list().items == ()


@pytest.mark.parametrize("window", [0, -1, 1.5, "200k", True])
def test_a_context_window_is_a_count(open_agent: OpenAgent, window: Any) -> None:
    """In tokens."""
    with pytest.raises(SessionsError, match="context_window"):
        open_agent([], model_config={"context_window": window})


def test_numbers_that_are_none_are_no_price() -> None:
    """JSON cannot carry them, and nothing costs infinitely much."""
    for odd in (float("nan"), float("inf"), 1e308, 10**400):
        assert rates_of({"input": odd, "output": 1}) is None
