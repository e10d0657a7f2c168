"""The documents say what is true: examples run, links lead somewhere, commands are real."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sessions_api

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "packages/*/*.md")
    for path in ROOT.glob(pattern)
    if path.name != "LICENSE.md"
)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHORT_ID = re.compile(r"\b[0-9a-f]{8}\b")
READMES = ("README.md", "README.zh-CN.md")
NEEDS_A_NETWORK = ("pip install", "TINYAGENT_API_KEY")


def blocks(path: Path, language: str) -> list[str]:
    """Return the fenced blocks of *language* in a document."""
    return [text for found, text in BLOCK.findall(path.read_text("utf-8")) if found == language]


def links(text: str) -> list[str]:
    """Return where the links of a document lead, without anchors, in order."""
    return re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)


EXAMPLES = [
    pytest.param(text, id=f"{path.relative_to(ROOT)}-{number}")
    for path in DOCUMENTS
    for number, text in enumerate(blocks(path, "python"), 1)
]


@pytest.fixture
def newcomer(tmp_path: Path) -> dict[str, str]:
    """Return the environment of somebody with an empty home."""
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TINYAGENT_")}
    return {**kept, "HOME": str(home), "PYTHONWARNINGS": "error"}


@pytest.mark.parametrize("code", EXAMPLES)
def test_every_python_example_runs_in_an_empty_directory(
    code: str, tmp_path: Path, newcomer: dict[str, str]
) -> None:
    """What a document shows as Python works when it is pasted."""
    workspace = tmp_path / "project"
    workspace.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=workspace,
        env=newcomer,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_readmes_first_conversation_is_what_really_happens(
    tmp_path: Path, newcomer: dict[str, str]
) -> None:
    """The console block of the README, replayed: same commands, same output but for the ids."""
    (transcript,) = blocks(ROOT / "README.md", "console")
    workspace = tmp_path / "project"
    workspace.mkdir()
    commands = re.split(r"^\$ ", transcript, flags=re.MULTILINE)[1:]
    assert len(commands) >= 2
    for command in commands[:2]:
        line, _, expected = command.partition("\n")
        arguments = re.findall(r'"[^"]*"|\S+', line)
        assert arguments[:3] == ["uv", "run", "tinyagent"]
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "sessions_api.cli",
                *(one.strip('"') for one in arguments[3:]),
            ],
            cwd=workspace,
            env=newcomer,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=True,
        )
        assert SHORT_ID.sub("ID", done.stdout) == SHORT_ID.sub("ID", expected)


@pytest.mark.parametrize("page", ["index.md", "recipes.md"])
def test_every_command_of_a_page_for_users_works_in_a_project(
    page: str, tmp_path: Path, newcomer: dict[str, str]
) -> None:
    """What a page has people type ends well, from top to bottom, where "hello" was said before."""
    workspace = tmp_path / "project"
    workspace.mkdir()
    shown = blocks(ROOT / "docs" / page, "sh")
    typed = [text for text in shown if not any(word in text for word in NEEDS_A_NETWORK)]
    assert len(typed) >= 3
    commands = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(['tinyagent run "hello"', *typed])],
        cwd=workspace,
        env={**newcomer, "PATH": f"{commands}{os.pathsep}{newcomer['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_the_sdk_reference_has_every_public_name_once() -> None:
    """A name that is exported and not described is found by nobody."""
    shown = re.findall(
        r"^::: sessions_api\.(\w+)$", (ROOT / "docs/sdk.md").read_text("utf-8"), re.MULTILINE
    )
    assert sorted(shown) == sorted(sessions_api.__all__)


def test_the_chinese_readme_is_kept_in_step() -> None:
    """Same code, same links in the same order, same sections and lists; each leads to the other."""
    english, chinese = ((ROOT / name).read_text("utf-8") for name in READMES)
    assert BLOCK.findall(chinese) == BLOCK.findall(english)
    assert links(chinese)[1:] == links(english)[1:]
    assert [links(text)[0] for text in (chinese, english)] == list(READMES)
    for begins in ("##? ", "- ", r"\| "):
        counts = {len(re.findall(f"^{begins}", one, re.MULTILINE)) for one in (english, chinese)}
        assert len(counts) == 1, begins
    terms = [set(re.findall(r"`[^`\n]+`", BLOCK.sub("", one))) for one in (english, chinese)]
    assert terms[0] == terms[1]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(path: Path) -> None:
    """A link inside the repository that leads nowhere is a promise broken."""
    missing = [
        link
        for link in links(path.read_text("utf-8"))
        if "://" not in link and not (path.parent / link).resolve().exists()
    ]
    assert missing == []


def test_the_entrance_documents_stay_short() -> None:
    """What everybody reads first is read in one sitting."""
    for readme in READMES:
        assert len((ROOT / readme).read_text("utf-8").splitlines()) < 120
    assert len((ROOT / "ARCHITECTURE.md").read_text("utf-8").splitlines()) < 150


def test_continuous_integration_runs_the_readmes_test_command() -> None:
    """One place knows the steps: the README's second command is what CI calls."""
    first, second = (block.strip() for block in blocks(ROOT / "README.md", "sh")[:2])
    assert first == 'pip install uv && uv run tinyagent run "hello"'
    assert second == "pip install uv && uv run nox"
    assert second in (ROOT / ".ci/run").read_text("utf-8").splitlines()


def test_the_architecture_names_only_files_that_exist() -> None:
    """A map with a house that is gone leads people astray."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    folders = (ROOT.glob(f"packages/*/{folder}/**/*.py") for folder in ("src", "tests"))
    sources = {path.name for found in folders for path in found}
    named = set(re.findall(r"`(?:[\w/]+/)?(\w+\.py)`", text))
    assert named - sources - {"noxfile.py"} == set()


def test_every_decision_is_listed() -> None:
    """The list of decisions and the files agree."""
    folder = ROOT / "docs/adr"
    listed = set(re.findall(r"\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text("utf-8")))
    assert listed == {path.name for path in folder.glob("0*.md")}


def test_the_name_on_the_package_index_is_never_recommended() -> None:
    """`tinyagent` on the index belongs to others; no document tells anybody to install it."""
    forbidden = re.compile(r"(pip install|uvx|uv tool install|pipx install)\s+['\"]?tinyagent\b")
    assert [path for path in DOCUMENTS if forbidden.search(path.read_text("utf-8"))] == []
