"""The README's agent that dies and goes on, from the README's text, in processes that do die."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from processes import TIMEOUT_S

if TYPE_CHECKING:
    from processes import Place

README = Path(__file__).parents[1] / "packages/sessions-api/README.md"
SECTION = re.compile(r"^## An agent that dies, and goes on$(.*?)^## ", re.MULTILINE | re.DOTALL)


def block(language: str) -> str:
    """Return the one fenced block of *language* in the section.

    The program is fenced as `py`: every block fenced as `python` is run once and has to succeed,
    and this one dies at first.
    """
    section = SECTION.search(README.read_text("utf-8"))
    assert section is not None
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", section[1], re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_readmes_agent_dies_in_the_middle_and_is_tried_again(place: Place) -> None:
    """Both starts do what the README shows; the payment was made once, and both runs are kept."""
    first = place.script("agent", block("py"))
    output, errors = first.communicate(timeout=TIMEOUT_S)
    assert (first.returncode, output, errors) == (1, "", "")  # os._exit: nothing was tidied up
    assert (place.workspace / "paid.txt").read_text("utf-8") == "7"
    (session,) = place.json("sessions", "list")["sessions"]
    (run,) = place.json("sessions", "show", session["id"])["runs"]
    assert (run["status"], run["error_type"]) == ("failed", "interrupted")

    second = place.script("agent", block("py"))
    output, errors = second.communicate(timeout=TIMEOUT_S)
    assert (second.returncode, errors) == (0, "")
    shown = block("console")
    assert output == shown.replace("$ python agent.py\n", "")
    runs = place.json("sessions", "show", session["id"])["runs"]
    assert [one["status"] for one in runs] == ["failed", "completed"]


def test_the_readmes_agent_is_read_in_one_sitting() -> None:
    """Sixty lines, and no network."""
    code = block("py")
    assert len(code.splitlines()) <= 60
    assert "http" not in code
