from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from faces import Looker, said
from sessions_api import (
    Agent,
    EndpointChanged,
    ModelReply,
    ModelRequest,
    ProviderUnavailable,
    ProviderUnknown,
    RunFailed,
)
from sessions_api.state import read_state
from sessions_api.testing import ScriptedProvider
from wire_server import Turn, WireServer

if TYPE_CHECKING:
    from pathlib import Path

OpenAgent = Callable[..., Any]
KEY = "sk-" + "made-up-for-tests-0123456789"


class Elsewhere:
    """A provider at an address."""

    name = "elsewhere"

    def __init__(self, endpoint: str | None) -> None:
        self.endpoint = endpoint
        self.requests: list[ModelRequest] = []

    def reply(self, request: ModelRequest) -> ModelReply:
        """Keep the request and answer."""
        self.requests.append(request)
        return said("x")


def test_history_model_and_parameters_come_back(open_agent: OpenAgent) -> None:
    """A new agent that names nothing goes on as the session was."""
    options: Any = {"model": "m-1", "parameters": {"temperature": 0.1}, "system_prompt": "nice"}
    first = open_agent([said("one")], **options)
    first.run("a")
    first.close()
    second = open_agent([said("two")])
    second.sessions.resume("latest")
    second.run("b")
    request = second.provider.requests[0]
    assert [message.content for message in request.messages] == ["a", "one", "b"]
    assert (request.model, request.system_prompt) == ("m-1", "nice")
    assert request.parameters == {"temperature": 0.1}


def test_what_the_caller_names_wins_and_is_kept(open_agent: OpenAgent) -> None:
    """The session remembers who answers it from now on."""
    open_agent([said("one")], model="m-1").run("a")
    second = open_agent([said("two")], model="m-2")
    second.sessions.resume()
    second.run("b")
    assert second.provider.requests[0].model == "m-2"
    assert second.sessions.get().model_id == "m-2"
    assert [run.model for run in second.sessions.runs().items] == ["m-1", "m-2"]


@pytest.mark.parametrize(
    ("stored", "current", "same"),
    [
        ("https://a.example/v1", "https://A.example:443/other", True),
        ("http://a.example", "http://a.example:80/v1", True),
        ("https://a.example", "http://a.example", False),
        ("https://a.example", "https://b.example", False),
        ("https://a.example", "https://a.example:8443", False),
        ("https://ann:pass@a.example/?key=k", "https://a.example", True),
        ("http://[::1]:80/v1", "http://[::1]", True),
        ("http://[::1]", "http://[::2]", False),
        ("service-a", "service-a", True),
        ("service-a", "service-b", False),
        ("http://a.example:port", "http://a.example", False),
        ("http://[", "https://a.example", False),
        ("https://a.example", None, True),
        (None, "https://a.example", True),
    ],
)
def test_a_history_goes_to_another_origin_only_with_consent(
    open_agent: OpenAgent, look: Looker, stored: str | None, current: str | None, *, same: bool
) -> None:
    """Nothing is sent and nothing stored before; a provider in this process sends nothing."""
    open_agent(provider=Elsewhere(stored)).run("a")
    now = Elsewhere(current)
    agent = open_agent(provider=now)
    agent.sessions.resume()
    if same:
        agent.run("b")
        assert len(now.requests) == 1
        return
    with pytest.raises(EndpointChanged) as caught:
        agent.run("b")
    assert (caught.value.stored, caught.value.current) == (stored, current)
    assert now.requests == []
    assert len(look.messages()) == 2
    assert agent.sessions.get().endpoint == stored
    consenting = open_agent(provider=now, accept_endpoint=True)
    consenting.sessions.resume()
    consenting.run("b")
    assert consenting.sessions.get().endpoint == current
    agent.sessions.resume()
    agent.run("c")


def test_what_is_secret_in_a_providers_address_is_stored_nowhere(
    open_agent: OpenAgent, look: Looker
) -> None:
    """One's own provider may have a key in it; where the history went is known all the same."""
    agent = open_agent(provider=Elsewhere("https://ann:hunter2@a.example/v1?key=hunter2"))
    agent.run("a")
    agent.sessions.create("b")
    agent.run("b")
    sessions = [agent.sessions.get(one.id) for one in agent.sessions.list().items]
    assert [one.endpoint for one in sessions] == ["https://a.example/v1"] * 2
    assert b"hunter2" not in b"".join(
        path.read_bytes() for path in look.database().parent.rglob("*") if path.is_file()
    )
    assert "hunter2" not in look.journal()


def test_c28_a_session_whose_provider_is_gone_opens_and_does_not_fall_back(
    open_agent: OpenAgent, look: Looker
) -> None:
    """Its history can be read, exported and deleted; only running needs another provider."""
    first = open_agent([said("one")])
    session = first.run("a").session_id
    first.close()
    agent = open_agent(provider=None)
    assert agent.sessions.resume("latest").id == session
    assert len(agent.sessions.messages().items) == 2
    assert b"one" in b"".join(agent.sessions.export())
    with pytest.raises(ProviderUnknown) as caught:
        agent.run("b")
    assert caught.value.name == "scripted"
    assert "offline" in (caught.value.hint or "")
    assert len(look.messages()) == 2
    chosen = open_agent(provider="offline")
    chosen.sessions.resume()
    assert "2 times" in chosen.run("b").text
    assert chosen.sessions.get().provider == "offline"
    assert chosen.sessions.delete(session).message_count == 4


def test_c28_a_missing_key_or_model_is_said_when_it_is_needed(
    open_agent: OpenAgent, look: Looker
) -> None:
    """Nothing is stored of a run that could not begin."""
    agent = open_agent(provider="openai", base_url="http://127.0.0.1:9/v1", api_key=KEY)
    with pytest.raises(ProviderUnavailable, match="model"):
        agent.run("x")
    assert agent.sessions.list().items == ()
    with pytest.raises(ProviderUnknown):
        open_agent(provider="no such")
    assert not [path for path in look.state_home.glob("*") if path.suffix == ".sqlite3"]


def test_a_real_service_is_sent_the_earlier_turns_and_no_key_is_stored(
    open_agent: OpenAgent, wire: WireServer, state_home: Path
) -> None:
    """The whole way over HTTP, in two agents, with the provider chosen by its stored name."""
    options: Any = {"base_url": wire.base_url, "api_key": KEY}
    wire.script(Turn(text="one"), Turn(text="two"))
    first = open_agent(provider="openai", model="m-1", **options)
    first.run("a")
    first.close()
    second = open_agent(provider=None, **options)
    second.sessions.resume()
    assert second.run("b").text == "two"
    body = wire.requests[-1].body
    assert [message["content"] for message in body["messages"]] == ["a", "one", "b"]
    assert body["model"] == "m-1"
    second.close()
    files = [path for path in state_home.rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def test_a_failing_service_leaves_a_run_that_says_so(
    open_agent: OpenAgent, wire: WireServer, look: Looker
) -> None:
    """The service's words, which repeat the key, reach neither store nor journal nor error."""
    wire.script(Turn(status=401))
    agent = open_agent(provider="openai", model="m", base_url=wire.base_url, api_key=KEY)
    with pytest.raises(RunFailed) as caught:
        agent.run("x")
    assert caught.value.error_type == "provider.auth"
    printed = "".join(traceback.format_exception(caught.value))
    assert KEY not in printed + look.journal()
    assert "openai.AuthenticationError" in look.journal()  # its type is a fact
    assert look.endings() == [("failed", "provider.auth")]


def test_reading_needs_no_provider_and_writes_nothing(
    open_agent: OpenAgent, workspace: Path, state_home: Path, tmp_path: Path
) -> None:
    """A reader of an unused workspace finds it empty; of a used one, what is there."""
    unused = tmp_path / "unused"
    unused.mkdir()
    with_nothing = read_state(unused, state_home=state_home)
    assert with_nothing.store.list().items == ()
    with_nothing.close()
    assert list(unused.iterdir()) == []
    assert not state_home.exists()
    open_agent([said("x")]).run("a")
    before = _rows(state_home)
    state = read_state(workspace, state_home=state_home)
    assert len(state.store.list().items) == 1
    state.close()
    assert _rows(state_home) == before


def _rows(state_home: Path) -> list[Any]:
    (path,) = state_home.glob("workspaces/*/state.sqlite3")
    # The store's own SQLite: a second one in this process would cancel the locks of the first.
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    rows = connection.execute("SELECT id, revision, status FROM sessions").fetchall()
    connection.close()
    return rows


def test_a_created_session_is_held_with_what_its_agent_was_told(open_agent: OpenAgent) -> None:
    """Provider and model come back with it although nothing was sent yet."""
    agent = open_agent(provider="openai", model="m-7", base_url="http://127.0.0.1:9/v1")
    session = agent.sessions.create("later")
    assert (session.provider, session.model_id, session.endpoint) == ("openai", "m-7", None)
    agent.close()
    other = open_agent()
    assert other.sessions.create().provider == "scripted"


def test_a_session_gets_the_tools_of_the_provider_that_answers_it(tmp_path: Path) -> None:
    """An agent opened for one provider and resumed into another's session offers the latter's."""
    workspace, home = tmp_path / "project", tmp_path / "home"
    workspace.mkdir()
    with Agent(workspace, provider="offline", state_home=home) as agent:
        assert "answered: “2”" in agent.run("count words: a b").text
        offline = agent.sessions.active
    scripted = ScriptedProvider(["x"])
    with Agent(workspace, provider=scripted, state_home=home) as agent:
        agent.run("hello")
    assert [tool.name for tool in scripted.requests[0].tools] == []
    with Agent(workspace, state_home=home) as agent:
        assert offline is not None
        agent.sessions.resume(offline.id)
        assert "answered: “3”" in agent.run("count words: a b c").text
