from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sessions_api
from sessions_api import Agent, AsyncAgent, AsyncRunStream, AsyncSessions, RunStream, Sessions
from sessions_api.testing import AsyncScriptedProvider, ScriptedProvider

FACES = [(Agent, AsyncAgent), (Sessions, AsyncSessions), (RunStream, AsyncRunStream)]
# What only one face has, with the reason.
SYNC_ONLY = {
    Sessions: {
        "used": "a run calls it, inside the conversation's thread",
        "changed": "the same",
    }
}
ASYNC_ONLY = {AsyncAgent: {"open": "a constructor cannot wait; `async with` does it"}}
AT_ONCE = {"stream"}  # returns what does nothing until it is iterated
PAIRS = {
    "__enter__": "__aenter__",
    "__exit__": "__aexit__",
    "__iter__": "__aiter__",
    "__next__": "__anext__",
}


def public(cls: type[Any]) -> dict[str, Any]:
    """Return the public methods and properties of *cls*, inherited ones too."""
    return {name: value for name, value in inspect.getmembers(cls) if not name.startswith("_")}


def signature(function: Any) -> list[tuple[str, Any, Any, str]]:
    """Return the parameters without self, as they can be given."""
    found = inspect.signature(function).parameters.values()
    rows = [(one.name, one.kind, one.default, str(one.annotation)) for one in found]
    return rows[1:]


def returned(function: Any) -> str:
    """Return what comes back, by the name that it has in the synchronous face."""
    return str(inspect.signature(function).return_annotation).replace("Async", "")


def differences(sync: type[Any], asynchronous: type[Any]) -> list[str]:
    """Return what somebody who knows one face would not expect of the other."""
    left, right = public(sync), public(asynchronous)
    found = [f"only in one: {name}" for name in sorted(set(left) ^ set(right))]
    for name in sorted(set(left) & set(right)):
        one, other = left[name], right[name]
        if isinstance(one, property) or isinstance(other, property):
            if type(one) is not type(other) or returned(one.fget) != returned(other.fget):
                found.append(f"another property: {name}")
            continue
        if signature(one) != signature(other):
            found.append(f"other parameters: {name}")
        if returned(one) != returned(other):
            found.append(f"another answer: {name}")
        waits = inspect.iscoroutinefunction(other) or inspect.isasyncgenfunction(other)
        if waits is (name in AT_ONCE):
            found.append(f"blocks the event loop: {name}")
        if not inspect.getdoc(one) or not inspect.getdoc(other):
            found.append(f"undocumented: {name}")
    for name, pair in PAIRS.items():
        if hasattr(sync, name) is not hasattr(asynchronous, pair):
            found.append(f"only in one: {name}")
    return found


@pytest.mark.parametrize(("sync", "asynchronous"), FACES, ids=lambda cls: cls.__name__)
def test_both_faces_have_the_same_methods_with_the_same_signatures(
    sync: type[Any], asynchronous: type[Any]
) -> None:
    """Whoever knows one face knows the other (C32): names, kinds, defaults, types, answers."""
    alone = {**SYNC_ONLY.get(sync, {}), **ASYNC_ONLY.get(asynchronous, {})}
    assert differences(sync, asynchronous) == [f"only in one: {name}" for name in sorted(alone)]


def test_both_agents_are_made_alike() -> None:
    """The same workspace, the same options."""
    assert signature(Agent.__init__) == signature(AsyncAgent.__init__)


def test_the_comparison_of_the_faces_finds_every_kind_of_difference() -> None:
    """So that the test above could fail."""

    class Left:
        @property
        def kept(self) -> int:
            return 1

        def gone(self) -> None:
            """Do nothing."""

        def renamed(self, ref: str) -> None:
            """Do nothing."""

        def defaulted(self, limit: int = 20) -> None:
            """Do nothing."""

        def positional(self, cursor: str) -> None:
            """Do nothing."""

        def typed(self, ref: str) -> None:
            """Do nothing."""

        def answering(self) -> int:
            """Do nothing."""
            return 1

        def blocking(self) -> None:
            """Do nothing."""

        def silent(self) -> None: ...

        def __enter__(self) -> None: ...

    class Right:
        async def kept(self) -> int:
            """Do nothing."""
            return 1

        async def renamed(self, session: str) -> None:
            """Do nothing."""

        async def defaulted(self, limit: int = 10) -> None:
            """Do nothing."""

        async def positional(self, *, cursor: str) -> None:
            """Do nothing."""

        async def typed(self, ref: str | None) -> None:
            """Do nothing."""

        async def answering(self) -> str:
            """Do nothing."""
            return ""

        def blocking(self) -> None:
            """Do nothing."""

        async def silent(self) -> None: ...

    assert differences(Left, Right) == [
        "only in one: gone",
        "another answer: answering",
        "blocks the event loop: blocking",
        "other parameters: defaulted",
        "another property: kept",
        "other parameters: positional",
        "other parameters: renamed",
        "undocumented: silent",
        "other parameters: typed",
        "only in one: __enter__",
    ]


def test_all_names_are_sorted_and_resolve() -> None:
    """`__all__` is what is there, and nothing is there that is not in it."""
    assert sessions_api.__all__ == sorted(sessions_api.__all__)
    for name in sessions_api.__all__:
        found = getattr(sessions_api, name)
        assert getattr(sessions_api, name) is found
    assert dir(sessions_api) == sessions_api.__all__
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = sessions_api.no_such_name


def test_type_checkers_see_the_same_names_as_programs() -> None:
    """The imports for type checkers and the table of homes name the same things."""
    tree = ast.parse(Path(sessions_api.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == set(sessions_api.__all__)


def test_importing_the_package_loads_nothing_heavy() -> None:
    """A command that only lists sessions pays for nothing else."""
    code = (
        "import sys, sessions_api\n"
        "heavy = {'loguru', 'pydantic', 'typer', 'rich', 'openai', 'apsw', 'asyncio', 'httpx'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_conversation_with_a_given_provider_loads_no_settings_and_no_service(
    tmp_path: Path,
) -> None:
    """The settings cost a third of a second, a provider's package more."""
    (tmp_path / "ws").mkdir()
    code = (
        "import sys\n"
        "from sessions_api import Agent\n"
        f"with Agent({str(tmp_path / 'ws')!r}, provider='offline',"
        f" state_home={str(tmp_path / 'home')!r}) as agent:\n"
        "    agent.run('hello')\n"
        "heavy = {'pydantic', 'pydantic_settings', 'typer', 'rich', 'openai', 'httpx'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_kits_providers_have_the_same_methods() -> None:
    """A test written for one face can be written for the other."""
    assert set(public(AsyncScriptedProvider)) == set(public(ScriptedProvider))
