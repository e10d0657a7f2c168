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
    "used": "a run calls it, inside the conversation's thread",
    "changed": "the same",
}
ASYNC_ONLY = {"open": "a constructor cannot wait; `async with` does it"}


def public(cls: type[Any]) -> dict[str, Any]:
    """Return the public methods and properties of *cls*."""
    return {name: value for name, value in vars(cls).items() if not name.startswith("_")}


def signature(function: Any) -> list[tuple[str, Any, Any, str]]:
    """Return the parameters without self, as they can be given."""
    found = inspect.signature(function).parameters.values()
    rows = [(one.name, one.kind, one.default, str(one.annotation)) for one in found]
    return rows[1:]


@pytest.mark.parametrize(("sync", "asynchronous"), FACES, ids=lambda cls: cls.__name__)
def test_both_faces_have_the_same_methods_with_the_same_signatures(
    sync: type[Any], asynchronous: type[Any]
) -> None:
    """Whoever knows one face knows the other."""
    left, right = public(sync), public(asynchronous)
    assert set(left) - set(right) <= set(SYNC_ONLY)
    assert set(right) - set(left) <= set(ASYNC_ONLY)
    for name in set(left) & set(right):
        if isinstance(left[name], property):
            assert isinstance(right[name], property), name
            continue
        assert signature(left[name]) == signature(right[name]), name
        assert inspect.getdoc(right[name]), name
        waits = inspect.iscoroutinefunction(right[name]) or inspect.isasyncgenfunction(right[name])
        assert waits or name == "stream", f"{name} would block the event loop"
    assert signature(sync.__init__) == signature(asynchronous.__init__) or sync is not Agent


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
