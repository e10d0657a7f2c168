"""What runs used, added up: nothing twice, nothing made up (C40)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from faces import core_of
from sessions_api import Agent, ModelReply, NoActiveSession, RunFailed, Usage
from sessions_api.testing import ScriptedProvider

if TYPE_CHECKING:
    from pathlib import Path

OpenAgent = Callable[..., Any]
PRICED: Mapping[str, Any] = {"cost": {"input": 1.0, "output": 1.0}}  # USD per million tokens


def using(tokens: int) -> ModelReply:
    """Return an answer that took *tokens*, a fifth of them as output."""
    output = tokens // 5
    return ModelReply(content="x", usage=Usage(input_tokens=tokens - output, output_tokens=output))


def used(totals: Any) -> tuple[int, int]:
    """Return a session's own tokens, and those that it has inherited."""
    return totals.total_tokens, totals.inherited_tokens


def test_c40_a_fork_counts_nothing_twice(open_agent: OpenAgent) -> None:
    """A used 100, its fork B 50 more; when A goes its usage goes with it, and B keeps its own."""
    agent = open_agent([using(100), using(50)], model_config=PRICED)
    agent.run("a")
    parent = agent.sessions.active.id
    assert used(agent.sessions.totals()) == (100, 0)
    fork = agent.sessions.fork().id
    assert used(agent.sessions.totals()) == (0, 100)
    agent.run("b")
    assert used(agent.sessions.totals(parent)) == (100, 0)
    assert used(agent.sessions.totals(fork)) == (50, 100)
    assert used(agent.sessions.workspace_totals()) == (150, 0)
    assert agent.sessions.totals(fork).cost == pytest.approx(50 / 1e6)
    assert agent.sessions.totals(fork).inherited_cost == pytest.approx(100 / 1e6)
    assert agent.sessions.workspace_totals().cost == pytest.approx(150 / 1e6)
    listed = {one.id: one.total_tokens for one in agent.sessions.list().items}
    assert listed == {parent: 100, fork: 50}
    agent.sessions.delete(parent)
    assert used(agent.sessions.totals(fork)) == (50, 100)
    assert used(agent.sessions.workspace_totals()) == (50, 0)


def test_c40_an_imported_fork_has_used_what_it_had_used(
    open_agent: OpenAgent, tmp_path: Path
) -> None:
    """Taken to another workspace, or back after it was deleted: own and inherited stay apart."""
    agent = open_agent([using(100), using(50)])
    agent.run("a")
    agent.sessions.fork()
    agent.run("b")
    fork = agent.sessions.active.id
    archive = b"".join(agent.sessions.export(format="archive"))
    agent.sessions.delete(fork)
    (back,) = agent.sessions.import_(archive)
    assert used(agent.sessions.totals(back.id)) == (50, 100)
    assert used(agent.sessions.workspace_totals()) == (150, 0)
    (tmp_path / "elsewhere").mkdir()
    with Agent(tmp_path / "elsewhere", state_home=tmp_path / "other", provider="offline") as other:
        (there,) = other.sessions.import_(archive)
        assert used(other.sessions.totals(there.id)) == (50, 100)
        assert used(other.sessions.workspace_totals()) == (50, 0)


def test_undone_and_failed_runs_have_used_what_they_used(open_agent: OpenAgent) -> None:
    """And of runs that reported nothing it is said how many there are."""
    agent = open_agent([using(10), using(20), ModelReply(content="y"), ConnectionError()])
    for text in ("a", "b", "c"):
        agent.run(text)
    with pytest.raises(RunFailed):
        agent.run("d")
    agent.sessions.undo(3)
    totals = agent.sessions.totals()
    assert (totals.total_tokens, totals.run_count, totals.unreported_count) == (30, 4, 2)
    assert (totals.input_tokens, totals.output_tokens) == (24, 6)
    assert (totals.cost, totals.unpriced_count) == (None, 4)


def test_a_run_under_way_is_not_counted_yet(open_agent: OpenAgent) -> None:
    """Nobody knows yet what it will have used."""
    seen: list[int] = []

    def meanwhile(_: Any) -> Any:
        seen.append(core.workspace_totals().run_count)
        return using(5)

    agent = open_agent([using(10), meanwhile])
    core = core_of(open_agent())
    agent.run("a")
    agent.run("b")
    assert (seen, core.workspace_totals().run_count) == ([1], 2)


def test_totals_are_told_by_provider_and_model(workspace: Path, state_home: Path) -> None:
    """In the order of these, and their sum is the whole."""
    for model, tokens in (("m2", 30), ("m1", 10), ("m2", 5)):
        provider = ScriptedProvider([using(tokens)])
        with Agent(workspace, state_home=state_home, provider=provider, model=model) as agent:
            agent.run("hello")
    with Agent(workspace, state_home=state_home, provider="offline") as agent:
        totals = agent.sessions.workspace_totals()
        with pytest.raises(NoActiveSession):
            agent.sessions.totals()
        assert agent.sessions.totals("latest").total_tokens == 5
    assert [(one.provider, one.model, one.total_tokens) for one in totals.by_model] == [
        ("scripted", "m1", 10),
        ("scripted", "m2", 35),
    ]
    assert totals.total_tokens == 45
