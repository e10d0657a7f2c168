"""The physical place: what makes two looks at a directory the same directory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from workspace_identity import Place
from workspace_identity.directory import Directory
from workspace_identity.place import place_of, same_place

if TYPE_CHECKING:
    from pathlib import Path

PLACE = Place(device=1, inode=10, birth_ns=100)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (PLACE, True),
        (replace(PLACE, device=2), True),
        (replace(PLACE, inode=11), False),
        (replace(PLACE, birth_ns=101), False),
        (replace(PLACE, birth_ns=None), True),
        (replace(PLACE, birth_ns=None, device=2), False),
        (replace(PLACE, birth_ns=None, inode=11), False),
    ],
)
def test_inode_and_birth_time_decide_and_the_device_stands_in(
    other: Place, *, expected: bool
) -> None:
    """Device numbers change over reboots, so they count only where a birth time is missing."""
    assert same_place(PLACE, other) is expected
    assert same_place(other, PLACE) is expected


def test_a_place_stays_when_the_directory_is_renamed_and_filled(project: Path) -> None:
    """Neither name nor content is part of it."""
    with Directory.open(project) as directory:
        before = place_of(directory)
    (project / "file").touch()
    moved = project.rename(project.with_name("moved"))
    with Directory.open(moved) as directory:
        assert place_of(directory) == before


def test_the_birth_time_is_that_of_the_directory(project: Path) -> None:
    """It lies between the parent's making and now, in nanoseconds since 1970."""
    with Directory.open(project) as directory:
        birth_ns = place_of(directory).birth_ns
    if birth_ns is None:
        pytest.skip("this filesystem tells no birth time")
    assert abs(birth_ns - project.stat().st_ctime_ns) < 60 * 1_000_000_000
