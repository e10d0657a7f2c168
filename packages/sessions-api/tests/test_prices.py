from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import genai_prices
import pytest

from faces import calling
from sessions_api import ModelReply, ProviderError, RunFailed, Usage
from sessions_api.runs.prices import RunCost
from state_store import SqliteStore

if TYPE_CHECKING:
    from faces import Looker

OpenAgent = Callable[..., Any]

OPENAI = "https://api.openai.com/v1"
MODEL = "gpt-4o"
THOUSAND = Usage(input_tokens=1000, output_tokens=1000, cached_input_tokens=0, reasoning_tokens=0)


def expected(model: str = MODEL, cached: int = 0) -> float:
    """Return what the list says for a thousand tokens each way."""
    usage = genai_prices.Usage(input_tokens=1000, cache_read_tokens=cached, output_tokens=1000)
    return float(genai_prices.calc_price(usage, model, provider_id="openai").total_price)


def cost_of(*usages: Usage, endpoint: str | None = OPENAI, model: str | None = MODEL) -> Any:
    """Return the cost of a run with these answers."""
    cost = RunCost(endpoint=endpoint, model=model)
    for usage in usages:
        cost.add(usage)
    return cost.total


def test_a_known_model_has_a_price_and_cached_input_a_lower_one() -> None:
    """Each answer is priced by itself and the run costs their sum."""
    assert cost_of(THOUSAND) == expected() > 0
    cached = Usage(input_tokens=1000, output_tokens=1000, cached_input_tokens=400)
    assert cost_of(cached) == expected(cached=400) < expected()
    assert cost_of(THOUSAND, THOUSAND) == pytest.approx(2 * expected())
    assert cost_of(THOUSAND, endpoint="https://api.anthropic.com", model="claude-sonnet-4-5")


@pytest.mark.parametrize(
    ("endpoint", "model"),
    [
        (OPENAI, "no-such-model"),
        (OPENAI, None),
        (None, MODEL),
        ("https://no.such.service/v1", MODEL),
        ("http://localhost:11434/v1", MODEL),
        ("http://127.0.0.1/v1", MODEL),
        ("http://[::1]/v1", MODEL),
        ("http://[/v1", MODEL),
        ("https://api.anthropic.com", MODEL),
    ],
)
def test_what_is_not_in_the_list_has_no_price(endpoint: str | None, model: str | None) -> None:
    """A local model with a famous name is free for all we know, and never guessed."""
    assert cost_of(THOUSAND, endpoint=endpoint, model=model) is None


@pytest.mark.parametrize(
    "usage",
    [
        Usage(),
        Usage(input_tokens=5),
        Usage(output_tokens=5),
        Usage(input_tokens=1, output_tokens=1, cached_input_tokens=9),
    ],
)
def test_missing_or_impossible_usage_has_no_price(usage: Usage) -> None:
    """One answer of unknown cost makes the run's unknown; there is no cost before an answer."""
    assert cost_of(usage) is None
    assert cost_of(THOUSAND, usage) is None
    assert cost_of() is None


def test_without_the_package_there_is_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra; a broken one is as good as none."""
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert cost_of(THOUSAND) is None
    monkeypatch.undo()

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise AttributeError("no such thing")

    monkeypatch.setattr(genai_prices, "calc_price", broken)
    assert cost_of(THOUSAND) is None


def test_a_thread_that_cannot_be_had_costs_nothing_but_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The list is then loaded when it is used."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.delitem(sys.modules, "genai_prices.data", raising=False)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert cost_of(THOUSAND) == expected()


def test_the_list_is_loaded_aside_and_for_a_service_that_may_be_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run does not wait for it, and one with a local model has no use for it."""
    started: list[str] = []
    monkeypatch.delitem(sys.modules, "genai_prices.data", raising=False)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: started.append(thread.name))
    for endpoint in (None, "http://localhost:11434/v1", "http://192.168.0.7/v1"):
        RunCost(endpoint=endpoint, model=MODEL)
    assert not started
    RunCost(endpoint=OPENAI, model=MODEL)
    assert started == ["prices"]


def priced_agent(open_agent: OpenAgent, *script: Any) -> Any:
    """Open an agent whose scripted provider says that it is a service with a price list."""
    agent = open_agent(script, model=MODEL)
    agent.provider.endpoint = OPENAI
    return agent


CALLING = ModelReply(tool_calls=calling(("t", "{}")).tool_calls, usage=THOUSAND)


def test_a_run_and_its_session_have_the_cost_of_all_answers(
    open_agent: OpenAgent, look: Looker
) -> None:
    """Result, row and session say the same; a run of unknown usage has no cost."""
    agent = priced_agent(
        open_agent,
        CALLING,
        ModelReply(content="x", usage=THOUSAND),
        ModelReply(content="y", usage=Usage()),
    )
    result = agent.run("a")
    assert result.cost == pytest.approx(2 * expected())
    assert agent.run("b").cost is None
    assert [run.cost for run in look.runs()] == [result.cost, None]
    assert agent.sessions.get().cost == result.cost


def test_a_failed_run_costs_what_was_answered_before_a_refusal(
    open_agent: OpenAgent, look: Looker
) -> None:
    """Answers that were given are paid for; what a call that broke has used, nobody knows."""
    refused = ProviderError("Too many.", error_type="provider.rate_limit", status=429)
    for error, cost in ((refused, expected()), (ConnectionError("gone"), None)):
        agent = priced_agent(open_agent, CALLING, error)
        with pytest.raises(RunFailed):
            agent.run("a")
        assert look.runs()[-1].cost == cost
        assert look.runs()[-1].usage == (THOUSAND if cost else Usage())
        agent.close()


def test_what_is_written_to_a_cache_has_the_price_of_that(
    open_agent: OpenAgent, look: Looker
) -> None:
    """Where the list has one; where it is unknown, so is the cost, and tokens are no text."""
    anthropic = ("https://api.anthropic.com", "claude-sonnet-4-5")
    costs = []
    for count in (0, 400, None, 2000):
        cost = RunCost(endpoint=anthropic[0], model=anthropic[1])
        cost.add(THOUSAND, cache_write_tokens=count)
        costs.append(cost.total)
    plain, more, *unknown = costs
    assert plain is not None
    assert more is not None
    assert plain < more
    assert unknown == [None, None]  # the last one is more than all input
    odd = -400
    said = [ModelReply(content="x", usage=THOUSAND, cache_write_tokens=n) for n in (odd, 0)]
    agent = priced_agent(open_agent, *said)
    assert agent.run("a").cost is None
    assert agent.run("b").cost == expected()


def test_a_session_with_a_price_of_its_own_is_not_priced_from_the_list(
    open_agent: OpenAgent, look: Looker
) -> None:
    """What its owner pays is not what the list says."""
    agent = priced_agent(open_agent, *[ModelReply(content="x", usage=THOUSAND)] * 2)
    assert agent.run("a").cost == expected()
    database = look.database()
    with SqliteStore.open(database, workspace_id=database.parent.name) as store:
        store.update_session(agent.sessions.active.id, {"model_config": {"cost": {"input": 1}}})
    assert agent.run("b").cost is None
    assert [run.cost for run in look.runs()] == [expected(), None]
