from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from faces import Looker, calling, said
from sessions_api import (
    Agent,
    ModelReply,
    ModelRequest,
    RetryRefused,
    RunFailed,
    SessionBusy,
    UnsafeRetry,
    tool,
)
from sessions_api.testing import ScriptedProvider
from state_store import NewMessage, RunNotFound, SqliteStore, new_id

if TYPE_CHECKING:
    from pathlib import Path

OpenAgent = Callable[..., Any]


def failed_run(agent: Any, text: str = "go") -> str:
    """Let the next run fail and return its id."""
    with pytest.raises(RunFailed) as caught:
        agent.run(text)
    return caught.value.run_id


@tool(replay="unsafe")
def pay() -> str:
    """Pay."""
    return "paid"


@tool(replay="safe")
def peek() -> str:
    """Look."""
    return "seen"


def test_a_failed_run_is_tried_again_with_the_same_input(
    open_agent: OpenAgent, look: Looker
) -> None:
    """It is a new run that says which one it retries; the model reads the input once."""
    text = " exactly  this\n\u2028 \x00 text "
    agent = open_agent([said("one"), TimeoutError(), said("two"), said("three")])
    agent.run("before")
    run_id = failed_run(agent, text)
    result = agent.retry(run_id)
    assert result.text == "two"
    failed, retried = look.runs()[1:]
    assert (failed.status, failed.retry_of) == ("failed", None)
    assert (retried.id, retried.status, retried.retry_of) == (result.run_id, "completed", run_id)
    sent = [message.content for message in agent.provider.requests[-1].messages]
    assert sent == ["before", "one", text]
    assert look.texts()[2:] == [("user", text), ("user", text), ("assistant", "two")]
    agent.run("after")
    sent = [message.content for message in agent.provider.requests[-1].messages]
    assert sent == ["before", "one", text, "two", "after"]
    assert f'"retry_of":"{run_id}"' in look.journal()


def test_a_run_that_did_not_fail_is_not_tried_again(open_agent: OpenAgent, look: Looker) -> None:
    """Neither one that is answered, nor one that is under way, nor one that nobody knows."""
    seen: list[RetryRefused] = []

    def meanwhile(_: ModelRequest) -> ModelReply:
        run = look.runs()[-1]
        with (
            Agent(look.workspace, provider="offline", state_home=look.state_home) as other,
            pytest.raises(RetryRefused) as caught,
        ):
            other.retry(run.id)
        seen.append(caught.value)
        return said("fine")

    agent = open_agent([meanwhile])
    run_id = agent.run("go").run_id
    assert (seen[0].run_id, seen[0].status) == (run_id, "pending")
    with pytest.raises(RetryRefused, match="completed") as caught:
        agent.retry(run_id)
    assert (caught.value.status, caught.value.session_id) == (
        "completed",
        look.runs()[0].session_id,
    )
    assert isinstance(caught.value, ValueError)
    with pytest.raises(RunNotFound):
        agent.retry("00000000-0000-7000-8000-000000000000")
    assert look.endings() == [("completed", None)]


def test_safe_tools_are_run_again(open_agent: OpenAgent, look: Looker) -> None:
    """That is what "safe" says."""
    script = [calling(("peek", "{}")), TimeoutError(), calling(("peek", "{}")), said("done")]
    agent = open_agent(script, tools=[peek])
    assert agent.retry(failed_run(agent)).text == "done"
    assert look.outcomes() == ["ok", "ok"]
    assert [m.role for m in agent.provider.requests[2].messages] == ["user"]


def test_unsafe_tools_are_not_run_again_without_being_told_to(
    open_agent: OpenAgent, look: Looker
) -> None:
    """The error names them and how they ended; nothing is stored, and saying so makes it go on."""
    calls = calling(("peek", "{}"), ("pay", "{}"), ("pay", '{"wrong":1}'), ("made up!", "{}"))
    agent = open_agent([calls, TimeoutError(), calls, said("done")], tools=[peek, pay])
    run_id = failed_run(agent)
    with pytest.raises(UnsafeRetry, match=r"pay \(ok\), pay \(error\), an unknown tool") as caught:
        agent.retry(run_id)
    refused = caught.value
    assert isinstance(refused, RetryRefused)
    assert [(one.name, one.outcome) for one in refused.executions] == [
        ("pay", "ok"),
        ("pay", "error"),
        ("made up!", "error"),
    ]
    copy = pickle.loads(pickle.dumps(refused))  # noqa: S301 - our own bytes
    assert (type(copy), vars(copy)) == (UnsafeRetry, vars(refused))
    assert "allow_unsafe" in str(refused.hint)
    assert "made up!" not in str(refused)
    assert len(look.runs()) == 1
    assert agent.retry(run_id, allow_unsafe=True).text == "done"
    assert look.outcomes()[4:] == ["ok", "ok", "error", "error"]


def test_what_any_try_has_done_counts_for_all_of_them(open_agent: OpenAgent, look: Looker) -> None:
    """A retry that failed before its tools does not make those of the first try undone."""
    script = [calling(("pay", "{}")), TimeoutError(), ConnectionError(), said("done"), said("x")]
    agent = open_agent(script, tools=[pay])
    first = failed_run(agent)
    with pytest.raises(RunFailed) as caught:
        agent.retry(first, allow_unsafe=True)
    second = caught.value.run_id
    for run_id in (first, second):
        with pytest.raises(UnsafeRetry) as refused:
            agent.retry(run_id)
        assert {one.run_id for one in refused.value.executions} == {first}
    third = agent.retry(second, allow_unsafe=True).run_id
    assert [run.retry_of for run in look.runs()] == [None, first, second]
    assert look.runs()[-1].id == third
    assert [content for role, content in look.texts() if role == "user"] == ["go"] * 3


def test_other_runs_of_the_session_do_not_count(open_agent: OpenAgent) -> None:
    """Only tries at the same input."""
    script = [calling(("pay", "{}")), said("paid"), TimeoutError(), said("fine"), said("again")]
    agent = open_agent(script, tools=[pay])
    agent.run("pay first")
    run_id = failed_run(agent)
    assert agent.retry(run_id).text == "fine"
    assert agent.retry(run_id).text == "again"  # asked for twice, answered twice


@pytest.mark.parametrize("parts", [False, True])
def test_the_model_is_told_only_by_a_note_that_everybody_sees(
    open_agent: OpenAgent, look: Looker, *, parts: bool
) -> None:
    """Without one it reads what it read the first time; with one that, and then the note."""
    agent = open_agent([TimeoutError(), *([] if parts else [ConnectionError()]), said("done")])
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    if parts:
        run_id = failed_run_with(look, agent, image)
    else:
        run_id = failed_run(agent)
        with pytest.raises(RunFailed):
            agent.retry(run_id)
        assert agent.provider.requests[-1].messages == agent.provider.requests[-2].messages
    note = "An earlier try may have paid already."
    agent.retry(run_id, note=note)
    sent = agent.provider.requests[-1].messages[-1]
    assert sent.content == f"go\n\n{note}"
    if parts:
        said_first = {"type": "text", "text": "go"}
        assert sent.parts == (said_first, image, {"type": "text", "text": note})
    assert (look.messages()[-2].content, look.messages()[-2].parts) == (sent.content, sent.parts)


def failed_run_with(look: Looker, agent: Any, part: dict[str, Any]) -> str:
    """Store a failed run whose message has a part besides its text."""
    first = failed_run(agent, "make the database")
    path = look.database()
    owners = path.parent / "owners"
    with SqliteStore.open(path, workspace_id=path.parent.name, owners_dir=owners) as store:
        session_id = store.list().items[0].id
        message = NewMessage(role="user", content="go", parts=(part,))
        run, _ = store.begin_run(session_id, message, run_id=first[:-4] + "ffff")
        store.fail_run(run.id, "provider.timeout", usage=run.usage)
    return run.id


def test_parts_of_the_input_go_in_again_as_they_were(open_agent: OpenAgent, look: Looker) -> None:
    """An image is as much a part of the question as its words."""
    agent = open_agent([TimeoutError(), said("done")])
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    agent.retry(failed_run_with(look, agent, part))
    sent = agent.provider.requests[-1].messages[-1]
    assert (sent.content, sent.parts) == ("go", (part,))


def test_the_run_of_another_session_makes_that_one_active(
    open_agent: OpenAgent, look: Looker
) -> None:
    """A retry goes on where the run was, and a refused one changes nothing."""
    script = [TimeoutError(), said("other"), said("again"), said("there")]
    agent = open_agent(script, tools=[pay])
    run_id = failed_run(agent)
    first = agent.sessions.active.id
    agent.sessions.create("second")
    done = agent.run("in the second")
    with pytest.raises(RetryRefused):
        agent.retry(done.run_id)
    assert agent.sessions.active.id == done.session_id
    assert agent.retry(run_id).session_id == first == agent.sessions.active.id
    assert agent.run("next").session_id == first
    done_twice = [("completed", None)] * 2
    assert look.endings() == [("failed", "provider.timeout"), *done_twice]


def test_a_run_that_its_process_left_is_recovered_and_tried_again(
    open_agent: OpenAgent, look: Looker
) -> None:
    """As far as it got counts: its unsafe tool is unknown, and is not run again unasked."""
    agent = open_agent([TimeoutError(), said("fine"), said("done")], tools=[pay])
    setup = failed_run(agent, "make the database")
    path = look.database()
    owners = path.parent / "owners"
    store = SqliteStore.open(path, workspace_id=path.parent.name, owners_dir=owners)
    session_id = store.list().items[0].id
    run, _ = store.begin_run(
        session_id, NewMessage(role="user", content="left"), run_id=setup[:-4] + "ffff"
    )
    asked = NewMessage(role="assistant", tool_calls=calling(("pay", "{}")).tool_calls)
    store.start_tools(run.id, asked, ["unsafe"])
    store.close()
    with pytest.raises(UnsafeRetry) as caught:
        agent.retry(run.id)
    assert [one.outcome for one in caught.value.executions] == ["unknown"]
    assert look.runs()[1].error_type == "interrupted"
    assert agent.retry(run.id, allow_unsafe=True).text == "fine"
    assert '"run.recovered"' in look.journal()


def test_what_another_try_does_before_this_one_begins_counts_too(
    open_agent: OpenAgent, workspace: Path, state_home: Path, look: Looker
) -> None:
    """Two people press "retry" at once: whoever comes second is told of what the first has paid."""
    failed: list[str] = []

    def meanwhile() -> str:
        """Make an id; between the decision to try again and its beginning, somebody else does."""
        if failed:
            run_id = failed.pop()
            provider = ScriptedProvider([calling(("pay", "{}")), TimeoutError()])
            with (
                Agent(workspace, provider=provider, tools=[pay], state_home=state_home) as other,
                pytest.raises(RunFailed),
            ):
                other.retry(run_id)
        return new_id()

    script = [TimeoutError(), calling(("pay", "{}")), said("done")]
    agent = open_agent(script, tools=[pay], new_id=meanwhile)
    run_id = failed_run(agent)
    failed.append(run_id)
    with pytest.raises(UnsafeRetry) as caught:
        agent.retry(run_id)
    assert caught.value.run_id == run_id
    assert [one.name for one in caught.value.executions] == ["pay"]
    assert look.endings()[1:] == [("failed", "provider.timeout"), ("failed", "cancelled")]
    assert look.outcomes() == ["ok"]
    assert len(agent.provider.requests) == 1
    assert agent.retry(run_id, allow_unsafe=True).text == "done"


def test_a_busy_session_is_busy_for_a_retry_too(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """At once, with who holds it."""
    refused: list[SessionBusy] = []
    runs: list[str] = []

    def meanwhile(_: ModelRequest) -> ModelReply:
        with (
            Agent(workspace, provider="offline", state_home=state_home) as other,
            pytest.raises(SessionBusy) as caught,
        ):
            other.retry(runs[0])
        refused.append(caught.value)
        return said("fine")

    script: list[Any] = [TimeoutError(), meanwhile]
    with Agent(workspace, provider=ScriptedProvider(script), state_home=state_home) as agent:
        runs.append(failed_run(agent))
        agent.run("busy")
    assert refused[0].pid is not None
    assert look.endings() == [("failed", "provider.timeout"), ("completed", None)]


def test_a_run_of_a_deleted_session_is_gone(open_agent: OpenAgent) -> None:
    """Nothing of it is left to try again."""
    agent = open_agent([TimeoutError()])
    run_id = failed_run(agent)
    agent.sessions.delete("latest")
    with pytest.raises(RunNotFound):
        agent.retry(run_id)
