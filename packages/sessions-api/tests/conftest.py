"""Fixtures of this package's tests, and the folder they import one another from."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

# Test folders are not packages, so what the tests share is found by its folder.
sys.path.insert(0, str(Path(__file__).parent))

from faces import AsyncFace, Face, Looker, SyncFace
from messages_server import MessagesServer
from responses_server import ResponsesServer
from services import WIRES, Service, ask_async, ask_sync
from talking import talk  # noqa: F401 - a fixture for the chat's tests
from tinyagent_process import call, tinyagent  # noqa: F401 - fixtures for all tests
from wire_server import WireServer

if TYPE_CHECKING:
    from asking import Ask


# A loaded machine is no fault of ours: a law is broken by what it says, not by how long it took.
settings.register_profile("laws", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("laws")


@pytest.fixture(autouse=True, scope="session")
def _no_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let no variable of whoever runs the tests count, and no test reach a real home."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("TINYAGENT_"):
                patch.delenv(name)
        patch.setenv("HOME", str(tmp_path_factory.mktemp("nobody")))
        yield


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Make an empty workspace."""
    made = tmp_path / "ws"
    made.mkdir()
    return made


@pytest.fixture
def state_home(tmp_path: Path) -> Path:
    """Name a state home that does not exist yet."""
    return tmp_path / "home"


@pytest.fixture
def look(workspace: Path, state_home: Path) -> Looker:
    """Read what is committed in the workspace."""
    return Looker(workspace, state_home)


OpenAgent = Callable[..., Any]


@pytest.fixture(params=[SyncFace, AsyncFace], ids=["sync", "async"])
def open_agent(
    request: pytest.FixtureRequest, workspace: Path, state_home: Path
) -> Iterator[OpenAgent]:
    """Open an agent's face that plays a script; it is closed at the end of the test."""
    kind: type[Face] = request.param
    opened: list[Face] = []

    def open_agent(script: Iterable[Any] = (), **options: Any) -> Face:
        chosen: dict[str, Any] = {"provider": kind.scripted(script), "state_home": state_home}
        chosen |= options
        face = kind(chosen.pop("workspace", workspace), **chosen)
        opened.append(face)
        return face

    yield open_agent
    for face in opened:
        face.close()


@pytest.fixture
def no_other_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the environment name no service, and no way out of this machine."""
    for name in list(os.environ):
        if name.startswith(("OPENAI_", "ANTHROPIC_")):
            monkeypatch.delenv(name)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    # No certificate is trusted: nothing is reached over TLS, and 20 ms a client are saved.
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))


@pytest.fixture
def wire(no_other_service: None) -> Iterator[WireServer]:
    """Run a chat-completions service without a script, in an environment that names no other."""
    with WireServer() as server:
        yield server


@pytest.fixture
def messages_wire(no_other_service: None) -> Iterator[MessagesServer]:
    """Run a service of the Messages API without a script, in the same environment."""
    with MessagesServer() as server:
        yield server


@pytest.fixture
def responses_wire(no_other_service: None) -> Iterator[ResponsesServer]:
    """Run a service of the Responses API without a script, in the same environment."""
    with ResponsesServer() as server:
        yield server


@pytest.fixture(
    params=[
        pytest.param((server, kind, asking), id=f"{name}-{face}")
        for name, server, *kinds in WIRES
        for kind, asking, face in zip(kinds, (ask_sync, ask_async), ("sync", "async"), strict=True)
    ]
)
def service(request: pytest.FixtureRequest, no_other_service: None) -> Iterator[Service]:
    """Run a service of each wire format, each asked through both faces."""
    server, provider, asking = request.param
    with server() as wire:
        yield Service(wire=wire, server=server, provider=provider, asking=asking)


def _asking_fixture(wire_name: str, wire_fixture: str) -> Any:
    kinds = next(kinds for name, _, *kinds in WIRES if name == wire_name)

    @pytest.fixture(params=zip((ask_sync, ask_async), kinds, strict=True), ids=["sync", "async"])
    def ask(request: pytest.FixtureRequest) -> Ask:
        asking, provider = request.param
        wire = request.getfixturevalue(wire_fixture)
        return Service(wire=wire, server=type(wire), provider=provider, asking=asking).ask

    return ask


ask = _asking_fixture("chat", "wire")
ask_messages = _asking_fixture("messages", "messages_wire")
ask_responses = _asking_fixture("responses", "responses_wire")
