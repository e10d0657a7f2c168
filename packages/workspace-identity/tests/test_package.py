"""The package as others see it: public names, errors that travel, a light import."""

from __future__ import annotations

import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import workspace_identity
from workspace_identity import (
    MarkerDamaged,
    RegistryBusy,
    StateHomeUnusable,
    UnknownWorkspace,
    UnsafeWorkspace,
    WorkspaceIdentityError,
    WorkspaceMissing,
    errors,
    forget,
    open_workspace,
    relink,
)
from workspace_identity.lock import registry_lock

if TYPE_CHECKING:
    from collections.abc import Callable

PATH = Path("/w")
ERRORS = [
    (UnsafeWorkspace("a", hint="b", path=PATH, hazard="c"), ValueError),
    (WorkspaceMissing("a", hint="b", path=PATH), OSError),
    (MarkerDamaged("a", hint="b", path=PATH, problem="c"), ValueError),
    (UnknownWorkspace("a", hint="b", workspace_id="c"), LookupError),
    (RegistryBusy("a", hint="b", lock_path=PATH, waited_s=1.5, holder_pid=7), TimeoutError),
    (StateHomeUnusable("a", hint="b", state_home=PATH), OSError),
]


def test_all_public_names_are_listed_in_order() -> None:
    """`__all__` is sorted, and holds exactly what the package binds on purpose."""
    public = workspace_identity.__all__
    assert public == sorted(public)
    bound = {
        name
        for name, value in vars(workspace_identity).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert set(public) == bound


@pytest.mark.parametrize(("error", "built_in"), ERRORS, ids=lambda value: type(value).__name__)
def test_errors_are_what_a_caller_expects_and_survive_pickling(
    error: WorkspaceIdentityError, built_in: type[Exception]
) -> None:
    """Type, text, hint and facts come back, across processes too."""
    assert isinstance(error, built_in)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(copy) is type(error)
    assert str(copy) == str(error) == "a"
    assert copy.__dict__ == error.__dict__
    assert copy.hint == "b"


def test_the_tree_of_errors_is_drawn_in_the_docstring() -> None:
    """The picture names every error there is, and no other."""
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__ or ""))
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, WorkspaceIdentityError)
    }
    assert drawn == defined - {"WorkspaceIdentityError"}


def _missing(project: Path, home: Path) -> None:
    open_workspace(project / "missing")


def _unsafe_directory(project: Path, home: Path) -> None:
    open_workspace("/")


def _unsafe_marker(project: Path, home: Path) -> None:
    (project / ".tinyagent").symlink_to(home)
    open_workspace(project)


def _unsafe_relink(project: Path, home: Path) -> None:
    relink(open_workspace(project).id, home)


def _unreadable_marker(project: Path, home: Path) -> None:
    open_workspace(project, state_home=project.parent / "other")
    (project / ".tinyagent" / "workspace-id").chmod(0)
    open_workspace(project)


def _unknown(project: Path, home: Path) -> None:
    forget("11111111-1111-4111-8111-111111111111")


def _busy(project: Path, home: Path) -> None:
    home.mkdir()
    with registry_lock(home):
        open_workspace(project, lock_timeout_s=0)


def _newer_record(project: Path, home: Path) -> None:
    open_workspace(project).paths.record.write_text('{"format": 99}')
    open_workspace(project)


def _file_for_state_home(project: Path, home: Path) -> None:
    home.touch()
    open_workspace(project)


def _link_for_rooms(project: Path, home: Path) -> None:
    home.mkdir()
    (home / "workspaces").symlink_to(project)
    open_workspace(project)


def _no_path(project: Path, home: Path) -> None:
    open_workspace(project, state_home="a\0b")


@pytest.mark.parametrize(
    ("fail", "error_type"),
    [
        (_missing, WorkspaceMissing),
        (_unsafe_directory, UnsafeWorkspace),
        (_unsafe_marker, UnsafeWorkspace),
        (_unsafe_relink, UnsafeWorkspace),
        (_unreadable_marker, MarkerDamaged),
        (_unknown, UnknownWorkspace),
        (_busy, RegistryBusy),
        (_newer_record, StateHomeUnusable),
        (_file_for_state_home, StateHomeUnusable),
        (_link_for_rooms, StateHomeUnusable),
        (_no_path, StateHomeUnusable),
    ],
)
def test_a_message_is_a_sentence_and_its_hint_is_one_too(
    project: Path,
    state_home: Path,
    as_plain_user: None,
    fail: Callable[[Path, Path], None],
    error_type: type[WorkspaceIdentityError],
) -> None:
    """What failed, on what and why; then what to do: both for people, each on one line."""
    with pytest.raises(error_type) as caught:
        fail(project, state_home)
    message, hint = str(caught.value), caught.value.hint
    for text in (message, hint):
        assert text[0].isupper()
        assert text.isprintable()
    assert message.endswith(".")
    assert not message.endswith("..")


def test_a_workspace_survives_pickling(project: Path) -> None:
    """Records go to worker processes."""
    opened = open_workspace(project)
    assert pickle.loads(pickle.dumps(opened)) == opened  # noqa: S301 - our own bytes


def test_importing_is_light_and_touches_no_file() -> None:
    """What only some opens need is imported by those."""
    heavy = ["asyncio", "ctypes", "shutil", "subprocess", "tempfile", "uuid"]
    code = (
        "import sys; before = set(sys.modules); import workspace_identity; "
        f"print(sorted((set(sys.modules) - before) & set({heavy!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    """A reader may copy it."""
    readme = Path(__file__).parents[1] / "README.md"
    (example,) = re.findall(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["new", "moved", "copied"]
