from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from faces import ONE_TOKEN, Looker, calling, said
from sessions_api import (
    Agent,
    ModelReply,
    ModelRequest,
    ProviderError,
    RunFailed,
    SessionBusy,
    SessionsError,
    ToolCall,
    Usage,
)
from sessions_api.runs.machine import MAX_PROVIDER_CALLS

if TYPE_CHECKING:
    from pathlib import Path

OpenAgent = Callable[..., Any]

SERVICE_FAILURES = [
    "provider.auth",
    "provider.rate_limit",
    "provider.timeout",
    "provider.unavailable",
    "provider.bad_response",
]


ONE_CALL = ToolCall(id="1", name="x", arguments="{}")
NO_TEXT: Any = 5
WRONG_CALLS: list[Any] = [
    None,
    "text",
    [{"name": "x"}],
    (None,),
    (ONE_CALL, replace(ONE_CALL, id=NO_TEXT)),
    (replace(ONE_CALL, name=NO_TEXT),),
    (replace(ONE_CALL, arguments=NO_TEXT),),
]
MALFORMED: list[dict[str, Any]] = [
    *({"content": value} for value in (b"bytes", 12, ["text"], {"text": "x"})),
    {"reasoning_content": 1.5},
    {"finish_reason": object},
    {"provider_data": {"id": "x"}},
    *({"tool_calls": value} for value in WRONG_CALLS),
    *({"usage": value} for value in (None, {"input_tokens": 3}, 7)),
]


def service_failure(error_type: str) -> ProviderError:
    """Return what a provider raises for that type."""
    retryable = error_type in {"provider.rate_limit", "provider.timeout", "provider.unavailable"}
    return ProviderError("no.", error_type=error_type, retryable=retryable, status=500)


FAILURES = [
    *((service_failure(name), name) for name in SERVICE_FAILURES),
    (ProviderError("mine", error_type="provider.of_my_own"), "internal"),
    (TimeoutError("t"), "provider.timeout"),
    (ConnectionResetError("c"), "provider.unavailable"),
    (ValueError("v"), "internal"),
    (AssertionError("a"), "internal"),
]


@pytest.mark.parametrize(("error", "error_type"), FAILURES, ids=lambda one: str(one)[:24])
def test_a_failing_provider_ends_the_run_as_failed_and_keeps_the_input(
    open_agent: OpenAgent, look: Looker, error: Exception, error_type: str
) -> None:
    """The type is stable, the cause is the provider's own, and no answer is made up."""
    agent = open_agent([error])
    with pytest.raises(RunFailed) as caught:
        agent.run("private words")
    failed = caught.value
    (run,) = look.runs()
    assert (failed.run_id, failed.session_id) == (run.id, run.session_id)
    assert failed.error_type == run.error_type == error_type
    assert failed.retryable is (
        error_type in {"provider.rate_limit", "provider.timeout", "provider.unavailable"}
    )
    assert failed.__cause__ is error
    assert "private words" not in str(failed) + str(failed.hint)
    assert look.texts() == [("user", "private words")]
    assert agent.sessions.active.status == "failed"
    assert f'"error_type":"{error_type}"' in look.journal()


def test_a_failed_run_survives_pickling() -> None:
    """A process pool can hand it on with all its facts."""
    failed = RunFailed(run_id="r" * 36, session_id="s" * 36, error_type="internal", retryable=True)
    copy = pickle.loads(pickle.dumps(failed))  # noqa: S301 - our own bytes
    assert type(copy) is RunFailed
    assert str(copy) == str(failed)
    assert vars(copy) == vars(failed)
    assert isinstance(copy, SessionsError)


def test_the_input_of_a_failed_run_is_kept_and_not_replayed(
    open_agent: OpenAgent, look: Looker
) -> None:
    """The next turn goes on as if it had not been said; people still see that it was."""
    agent = open_agent([said("one"), ConnectionError(), said("three")])
    agent.run("a")
    with pytest.raises(RunFailed):
        agent.run("lost")
    agent.run("c")
    request: ModelRequest = agent.provider.requests[-1]
    assert [message.content for message in request.messages] == ["a", "one", "c"]
    assert [content for _, content in look.texts()] == ["a", "one", "lost", "c", "three"]
    assert look.endings() == [
        ("completed", None),
        ("failed", "provider.unavailable"),
        ("completed", None),
    ]
    assert agent.sessions.active.status == "idle"


def test_a_failure_after_tools_keeps_what_they_did(open_agent: OpenAgent, look: Looker) -> None:
    """Calls and results stay, usage is unknown; the whole exchange is not replayed."""

    def one() -> int:
        """Return one."""
        return 1

    script = [calling(("one", "{}")), TimeoutError("x"), said("ok")]
    agent = open_agent(script, tools=[one])
    with pytest.raises(RunFailed):
        agent.run("a")
    assert [role for role, _ in look.texts()] == ["user", "assistant", "tool"]
    assert look.outcomes() == ["ok"]
    assert look.runs()[0].usage == Usage()
    agent.run("b")
    assert [m.content for m in agent.provider.requests[-1].messages] == ["b"]


@pytest.mark.parametrize("answer", [None, "text", {"content": "x"}], ids=repr)
def test_a_provider_that_answers_nonsense_is_told_what_to_return(
    open_agent: OpenAgent, answer: object
) -> None:
    """Whoever writes a provider reads what is wrong with it."""

    class Odd:
        name = "odd"
        endpoint = None

        def reply(self, _: ModelRequest) -> object:
            """Answer with something."""
            return answer

    agent = open_agent(provider=Odd())
    with pytest.raises(RunFailed) as caught:
        agent.run("x")
    assert isinstance(caught.value.__cause__, ProviderError)
    assert caught.value.error_type == "provider.bad_response"
    assert "ModelReply" in str(caught.value.__cause__)


def test_an_asynchronous_provider_is_refused_by_the_synchronous_agent(
    workspace: Path, state_home: Path, look: Looker
) -> None:
    """It says where it can be used, and leaves no coroutine behind."""

    class Waits:
        name = "waits"
        endpoint = None

        async def reply(self, _: ModelRequest) -> ModelReply:
            """Answer later."""
            return said("x")

    with Agent(workspace, provider=Waits(), state_home=state_home) as agent:
        with pytest.raises(RunFailed) as caught:
            agent.run("x")
        assert "AsyncAgent" in str(getattr(caught.value.__cause__, "hint", ""))
    assert look.endings() == [("failed", "provider.bad_response")]


def test_a_model_that_only_calls_tools_is_stopped(open_agent: OpenAgent, look: Looker) -> None:
    """A loop without end would cost money without end."""

    def again() -> str:
        """Ask for more."""
        return "more"

    def forever() -> Iterator[ModelReply]:
        while True:
            yield calling(("again", "{}"))

    agent = open_agent(forever(), tools=[again])
    with pytest.raises(RunFailed) as caught:
        agent.run("go")
    assert caught.value.error_type == "provider.bad_response"
    assert len(agent.provider.requests) == MAX_PROVIDER_CALLS
    assert look.runs()[0].usage.input_tokens == MAX_PROVIDER_CALLS


def test_names_that_a_model_or_a_provider_makes_up_never_fail_a_run(
    open_agent: OpenAgent, look: Looker
) -> None:
    """The journal takes what it can and marks the rest; the conversation goes on."""
    odd = ["", " ", "a\nb", "x" * 5000, "caf\udce9", "\x00", "DROP TABLE", "ключ"]
    script = [
        calling(*((name, "\ud83d") for name in odd)),
        ModelReply(content="done", finish_reason="odd reason \ud800 " * 100),
    ]
    agent = open_agent(script)
    agent.provider.name = "my odd provider"
    assert agent.run("go").text == "done"
    assert look.outcomes() == ["error"] * len(odd)
    (run,) = look.runs()
    assert run.journal_lost_count == 0


@pytest.mark.parametrize("usage", [-1, 2**70, True, "12"], ids=repr)
def test_usage_that_is_no_count_does_not_lose_the_answer(
    open_agent: OpenAgent, look: Looker, usage: Any
) -> None:
    """A provider's odd number costs the number, not the run."""
    reply = ModelReply(content="fine", usage=type(ONE_TOKEN)(input_tokens=usage, output_tokens=1))
    assert open_agent([reply]).run("x").text == "fine"
    assert look.endings() == [("completed", None)]


def test_a_second_run_of_a_session_is_busy_at_once(
    open_agent: OpenAgent, look: Looker, workspace: Path, state_home: Path
) -> None:
    """C29: it says who holds the session, stores nothing, and works on its own afterwards."""
    refusals: list[SessionBusy] = []

    def meanwhile(_: ModelRequest) -> ModelReply:
        with Agent(workspace, provider="offline", state_home=state_home) as other:
            other.sessions.resume("latest")
            with pytest.raises(SessionBusy) as caught:
                other.run("me too")
        refusals.append(caught.value)
        return said("first")

    agent = open_agent([meanwhile, said("second")])
    agent.run("a")
    assert refusals[0].pid is not None
    assert refusals[0].host
    assert look.texts() == [("user", "a"), ("assistant", "first")]
    agent.run("b")
    assert look.endings() == [("completed", None)] * 2


@pytest.mark.parametrize("wrong", MALFORMED, ids=repr)
def test_a_reply_of_the_wrong_types_fails_the_run_and_nothing_else(
    open_agent: OpenAgent, look: Looker, wrong: dict[str, Any]
) -> None:
    """Whoever wrote the provider reads which part is wrong; nothing of the reply is committed."""
    agent = open_agent([replace(ModelReply(content="secret words"), **wrong), said("fine")])
    with pytest.raises(RunFailed) as caught:
        agent.run("x")
    cause = caught.value.__cause__
    assert isinstance(cause, ProviderError)
    assert (cause.error_type, cause.retryable) == ("provider.bad_response", False)
    assert "ModelReply" in f"{cause} {cause.hint}"
    assert next(iter(wrong)) in str(cause) or "ToolCall" in str(cause)
    assert "secret" not in str(cause)
    assert look.texts() == [("user", "x")]
    assert agent.run("y").text == "fine"
    assert look.endings() == [("failed", "provider.bad_response"), ("completed", None)]


def test_a_fact_that_the_journal_refuses_costs_no_run_its_end(
    open_agent: OpenAgent, look: Looker
) -> None:
    """A provider of somebody's own may report any status; the error type stays what it is."""
    odd = ProviderError("no.", error_type="provider.rate_limit", status=42_900, retryable=True)
    agent = open_agent([odd])
    with pytest.raises(RunFailed) as caught:
        agent.run("x")
    assert caught.value.__cause__ is odd
    assert look.endings() == [("failed", "provider.rate_limit")]
    assert '"run.failed"' in look.journal()


def test_a_run_that_is_not_kept_does_not_say_that_it_is_saved(open_agent: OpenAgent) -> None:
    """Nor does it name a command that would find nothing."""
    agent = open_agent([service_failure("provider.rate_limit")], persistence="ephemeral")
    with pytest.raises(RunFailed) as caught:
        agent.run("x")
    assert caught.value.saved == "nothing"
    assert "Nothing of this conversation is saved." in str(caught.value)
    assert caught.value.hint == "Trying again may well succeed."
