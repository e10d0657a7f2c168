"""Whether an invented secret, or a text of a conversation, comes out of a run somewhere.

All shapes at all entrances with RUN_JOURNAL_LONG=1; otherwise a sixth of the shapes at each, so
that every shape and every entrance is tried and the whole takes seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import redaction_program
from redaction_cell import Cell
from redaction_entrances import ENTRANCES, EXPOSED, STORED
from redaction_modes import ANSWER, ARGUMENT, MARKERS, MODES, RESULT, USER
from redaction_program import UNGUARDED, shapes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

TIMEOUT_S = 280
pytestmark = pytest.mark.timeout(TIMEOUT_S + 10)
LONG = os.environ.get("RUN_JOURNAL_LONG", "0") not in ("", "0")
STEP = 6
CONTROLS = ("openai", "one-word", "azure")
MODES_STEP = 3


def _some(names: Iterable[str], entrance: str, *, step: int = STEP) -> list[str]:
    """Return all *names*, or each *step*-th of them, beginning elsewhere at the next entrance."""
    return list(names) if LONG else list(names)[list(ENTRANCES).index(entrance) % step :: step]


def _run(directory: Path, what: str, *names: str) -> None:
    home = directory / "nobody"
    home.mkdir()
    done = subprocess.run(
        [sys.executable, redaction_program.__file__, str(directory), what, *names],
        env={"PATH": os.defpath, "HOME": str(home), "SSL_CERT_DIR": str(home), "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_c35_no_secret_comes_out_whatever_its_shape(tmp_path: Path, entrance: str) -> None:
    """At this entrance: not in journal, standard error, error columns, pages.

    Where it is no part of the conversation it is in no byte of the state home either.
    """
    kit = shapes()
    assert len(kit.SHAPES) >= 25
    assert len(ENTRANCES) == 11
    names = _some(kit.SHAPES, entrance)
    _run(tmp_path, entrance, *names)
    line_count = told_count = 0
    for name in names:
        secret, cell = kit.SHAPES[name], Cell(tmp_path / name)
        outputs = cell.outputs()
        for place, text in outputs.items():
            assert not kit.shows(secret, text), f"{name} stands in {place}"
        if entrance not in STORED:
            assert not kit.shows(secret, cell.all_else()), f"{name} is stored"
        line_count += cell.line_count()
        told_count += bool(outputs["printed"] or outputs["stderr"])
    # Some shapes can be no key that a request carries: nothing was sent then, and it was said.
    assert line_count > 3 * len(names)
    assert told_count == len(names)


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_with_the_guards_switched_off_the_search_finds_the_secrets(
    tmp_path: Path, entrance: str
) -> None:
    """The control: the same entrance, the same search, and every secret comes out."""
    kit = shapes()
    names = _some(CONTROLS, entrance, step=len(CONTROLS))
    _run(tmp_path, entrance, UNGUARDED, *names)
    for name in names:
        texts = Cell(tmp_path / name).outputs()
        found = {place for place, text in texts.items() if kit.shows(kit.SHAPES[name], text)}
        assert found >= EXPOSED.get(entrance, {"journal", "error columns"}), f"{name}: {found}"


def test_no_text_of_a_conversation_comes_out_however_it_fails(tmp_path: Path) -> None:
    """User, model, reasoning, arguments, result, system prompt; every mode; all are stored."""
    assert len(MODES) >= 25
    _run(tmp_path, "modes", *MODES)
    for name in MODES:
        cell = Cell(tmp_path / name)
        stored = cell.messages()
        assert [one for one in MARKERS if one not in stored] == [], name
        outputs = cell.outputs()
        for place, text in outputs.items():
            assert [one for one in MARKERS if one in text] == [], f"{name}: {place}"
        if name == "journal gone":  # the run went on, and what was lost is counted and shown
            assert cell.lost_line_count() >= 3
            assert "of the journal's lines could not be written" in outputs["printed"]
        else:
            assert cell.line_count() >= 3, name
            assert cell.lost_line_count() == 0, name


def test_with_the_guards_switched_off_texts_of_conversations_come_out(tmp_path: Path) -> None:
    """The control: in every mode the same search finds what was said."""
    names = list(MODES)[:: 1 if LONG else MODES_STEP]
    _run(tmp_path, "modes", UNGUARDED, *names)
    for name in names:
        if name != "journal gone":
            journal = Cell(tmp_path / name).journal()
            found = {one for one in MARKERS if one in journal}
            assert found >= {USER, ANSWER, ARGUMENT, RESULT}, name
