"""What is swapped between a check and its use leads nowhere, while checking first would leak."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from confined import STATE_FILE, UNSEEN, Surroundings, make_surroundings, refused
from sessions_api.runs.tools import ToolArgumentsInvalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FOR_S = 0.5
PATIENCE_S = 20.0  # until both names were met often enough to say something
CONTROL_S = 5.0  # it leaks within milliseconds; this is for a machine that is busy
SWAPS = """
import os, select, sys
here, other, spare = sys.argv[1:]
count = made = 0
def put(source):
    global made
    try:
        os.rename(source, here)
    except OSError:  # a writer made a directory of that name in the meantime
        made += 1
        os.rename(here, f"{spare}{made}")
        put(source)
while not select.select([0], [], [], 0)[0]:
    for _ in range(20):
        os.rename(here, spare)
        put(other)
        os.rename(here, other)
        put(spare)
        count += 1
print(count)
"""


@contextmanager
def swapping(here: Path, other: Path, counted: list[int]) -> Iterator[None]:
    """Give *other* the name of *here* and back, as fast as another process can."""
    spare = here.with_name("spare")
    command = [sys.executable, "-c", SWAPS, *map(str, (here, other, spare))]
    before = here.lstat().st_ino
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            with suppress(FileNotFoundError):  # it has begun as well when the name is gone
                while here.lstat().st_ino == before:
                    time.sleep(0.001)
            yield
        finally:
            output, _ = process.communicate(b"", timeout=10)
            counted.append(int(output))


def directory(around: Surroundings) -> tuple[Path, Path, str]:
    """Swap a directory for a link to one outside."""
    (around.ws / "d").mkdir()
    (around.ws / "d" / "secret.txt").write_text("inside")
    (around.ws / "other").symlink_to(around.outside)
    return around.ws / "d", around.ws / "other", "d/secret.txt"


def file(around: Surroundings) -> tuple[Path, Path, str]:
    """Swap a file for a link to one outside."""
    (around.ws / "f").write_text("inside")
    (around.ws / "other").symlink_to(around.outside / "secret.txt")
    return around.ws / "f", around.ws / "other", "f"


def database(around: Surroundings) -> tuple[Path, Path, str]:
    """Swap a file for a hard link to the database."""
    (around.ws / "f").write_text("inside")
    (around.ws / "other").hardlink_to(around.home / STATE_FILE)
    return around.ws / "f", around.ws / "other", "f"


def read_for(seconds: float, read: Callable[[], str]) -> dict[str, int]:
    """Read until the time is over or the secret is out; return how often what came."""
    seen = {"inside": 0, "refused": 0, UNSEEN: 0}
    end = time.monotonic() + seconds
    patient_until = end + PATIENCE_S
    while not seen[UNSEEN]:
        now = time.monotonic()
        met_both = min(seen["inside"], seen["refused"]) > 10
        if now > patient_until or (now > end and met_both):
            break
        try:
            seen[read()] += 1
        except (ToolArgumentsInvalid, OSError):
            seen["refused"] += 1
    return seen


@pytest.mark.parametrize("swap", [directory, file, database])
def test_a_swap_during_reads_never_shows_what_is_outside(
    tmp_path: Path, swap: Callable[[Surroundings], tuple[Path, Path, str]]
) -> None:
    """Thousands of times, while a reader that checks the real path before it opens leaks."""
    around = make_surroundings(tmp_path)
    here, other, path = swap(around)
    read_file = around.tools()["read_file"]
    forbidden = (around.home / STATE_FILE).stat().st_ino
    counted: list[int] = []

    def check_then_open() -> str:
        real = os.path.realpath(around.ws / path)
        if not real.startswith(f"{around.ws}/") or os.stat(real).st_ino == forbidden:  # noqa: PTH116 - the plainest way
            raise PermissionError
        return (around.ws / path).read_text()

    with swapping(here, other, counted):
        seen = read_for(FOR_S, lambda: str(read_file(path=path)))
        control = read_for(CONTROL_S, check_then_open)
    assert seen[UNSEEN] == 0
    assert seen["inside"] > 10
    assert seen["refused"] > 10
    assert control[UNSEEN] == 1, control
    assert counted[0] > 50


@pytest.mark.parametrize("kind", ["link", "database", "pipe"])
def test_a_swap_at_the_last_moment_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Right between looking at a name and opening it, where no luck is needed to hit."""
    around = make_surroundings(tmp_path)
    here, other = around.ws / "f", around.ws / "other"
    here.write_text("inside")
    if kind == "link":
        other.symlink_to(around.outside / "secret.txt")
    elif kind == "database":
        other.hardlink_to(around.home / STATE_FILE)
    else:
        os.mkfifo(other)
    really_open = os.open
    swapped: list[str] = []

    def late(path: Any, *arguments: Any, **options: Any) -> int:
        if path == "f":
            other.replace(here)
            swapped.append(path)
        return really_open(path, *arguments, **options)

    read_file = around.tools()["read_file"]
    monkeypatch.setattr(os, "open", late)
    said = refused(read_file, path="f")
    assert {"link": "link", "database": "cannot be used", "pipe": "but a pipe"}[kind] in said
    assert swapped == ["f"]


def test_a_swap_during_writes_never_changes_what_is_outside(tmp_path: Path) -> None:
    """Neither the file there nor the directory gets anything; writes inside are whole."""
    around = make_surroundings(tmp_path)
    here, other, path = directory(around)
    write_file = around.tools()["write_file"]
    before = around.snapshot()
    counted: list[int] = []
    done = 0
    with swapping(here, other, counted):
        end = time.monotonic() + FOR_S
        while time.monotonic() < end:
            with suppress(ToolArgumentsInvalid):
                write_file(path=path, content=f"whole {done}")
                done += 1
    assert around.snapshot() == before
    assert done > 0
    assert counted[0] > 50
    written = [one.read_text() for one in around.ws.rglob("secret.txt")]
    assert f"whole {done - 1}" in written
    assert not list(around.ws.rglob("*.new"))
