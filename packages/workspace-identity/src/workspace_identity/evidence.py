"""Gathering the evidence for a decision: all reading, no judging, nothing written.

It looks only as far as the decision needs: a workspace that is where its record says costs two
small files, a scan of the registry comes after that, other people's directories come last and for
a bounded time, because a dead network mount answers never.
"""

from __future__ import annotations

import errno
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from workspace_identity.decision import Evidence, Original
from workspace_identity.directory import Directory
from workspace_identity.errors import StateHomeUnusable, WorkspaceMissing
from workspace_identity.git import is_tracked
from workspace_identity.hazards import find_hazard
from workspace_identity.history import History
from workspace_identity.marker import Marker, MarkerState, marker_is_writable, read_marker
from workspace_identity.place import Place, place_of, same_place
from workspace_identity.record import NewerRecordError, Record
from workspace_identity.registry import Registry, Unusable
from workspace_identity.state_home import state_home_errors

if TYPE_CHECKING:
    from collections.abc import Callable

JUDGE_TIMEOUT_S = 3.0


def gather(path: str | os.PathLike[str], state_home: Path) -> Evidence:
    """Return the evidence about the directory *path*, as far as the decision needs it.

    Raises WorkspaceMissing, and StateHomeUnusable where the registry cannot be read.
    """
    real = _real_path(path)
    with _open_workspace_dir(path, real) as root:
        place, status = place_of(root), root.status()
        hazard = find_hazard(real, status, state_home)
        if hazard is not None:
            return Evidence(
                path=real, place=place, marker=Marker(state=MarkerState.ABSENT), hazard=hazard
            )
        evidence = Evidence(path=real, place=place, marker=read_marker(root))
        if evidence.marker.state is MarkerState.UNSAFE:
            return evidence
        with state_home_errors(state_home):
            return _with_records(evidence, root, state_home)


def _with_records(evidence: Evidence, root: Directory, state_home: Path) -> Evidence:
    registry = Registry(state_home)
    claimed = _find_claimed(evidence.marker, registry, state_home)
    if claimed is not None and _is_here(evidence, claimed):
        return replace(evidence, claimed=claimed, record_here=claimed)
    evidence = replace(
        evidence,
        claimed=claimed,
        record_here=_find_here(evidence, registry),
        writable=marker_is_writable(root),
    )
    marker_id = evidence.marker.workspace_id
    if evidence.record_here is not None or marker_id is None:
        return evidence
    if claimed is None:
        return replace(evidence, tracked=is_tracked(evidence.path))
    if claimed.path == evidence.path:
        return evidence
    return _with_original(evidence, claimed, root)


def _find_claimed(marker: Marker, registry: Registry, state_home: Path) -> Record | None:
    if marker.workspace_id is None:
        return None
    try:
        found = registry.find(marker.workspace_id)
    except NewerRecordError as error:
        raise StateHomeUnusable(
            f"the record of workspace {marker.workspace_id} cannot be used: {error}",
            hint="use the newer version that wrote it",
            state_home=state_home,
        ) from error
    if isinstance(found, Unusable):
        return History(state_home).last_record(marker.workspace_id)
    return found


def _find_here(evidence: Evidence, registry: Registry) -> Record | None:
    """Return the record of this path and this place, the one seen last if there are several."""
    here = [
        record
        for record in registry.scan()
        if isinstance(record, Record) and _is_here(evidence, record)
    ]
    return max(here, key=lambda record: record.last_seen_at, default=None)


def _is_here(evidence: Evidence, record: Record) -> bool:
    return record.path == evidence.path and same_place(record.place, evidence.place)


def _with_original(evidence: Evidence, claimed: Record, root: Directory) -> Evidence:
    status = root.status()
    answer = _in_time(lambda: _judge(claimed, evidence.marker, status))
    if answer is None:
        answer = Original.UNKNOWN, None, f"no answer within {JUDGE_TIMEOUT_S:g} s"
    original, place, problem = answer
    return replace(evidence, original=original, original_place=place, original_problem=problem)


def _judge(
    claimed: Record, marker: Marker, here: os.stat_result
) -> tuple[Original, Place | None, str]:
    """Say what stands at the recorded path now."""
    try:
        directory = Directory.open(os.path.realpath(claimed.path))
    except (FileNotFoundError, NotADirectoryError):
        return _judge_absence(claimed)
    except OSError as error:
        return Original.UNKNOWN, None, error.strerror or "I/O error"
    with directory:
        try:
            status, place = directory.status(), place_of(directory)
        except OSError as error:
            return Original.UNKNOWN, None, error.strerror or "I/O error"
        if os.path.samestat(status, here):
            return Original.THIS, place, ""
        if same_place(place, claimed.place):
            return Original.RECORDED, place, ""
        there = read_marker(directory)
        if there.state is MarkerState.UNREADABLE:
            return Original.UNKNOWN, place, there.problem
        if there.workspace_id == marker.workspace_id:
            return Original.CARRIES_MARKER, place, ""
        return Original.ANOTHER, place, ""


def _judge_absence(claimed: Record) -> tuple[Original, Place | None, str]:
    """Tell a directory that is gone from one whose filesystem is not mounted now."""
    path = Path(claimed.path)
    for above in path.parents:
        try:
            device = above.stat().st_dev
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return Original.UNKNOWN, None, error.strerror or "I/O error"
        if device == claimed.place.device:
            return Original.GONE, None, ""
        return Original.UNKNOWN, None, f"{above} is on another device than the one recorded"
    return Original.UNKNOWN, None, "no parent of it exists"


def _in_time(
    judge: Callable[[], tuple[Original, Place | None, str]],
) -> tuple[Original, Place | None, str] | None:
    answers: list[tuple[Original, Place | None, str]] = []
    # A system call on a dead mount cannot be interrupted, only left behind.
    thread = threading.Thread(target=lambda: answers.append(judge()), daemon=True)
    thread.start()
    thread.join(JUDGE_TIMEOUT_S)
    return answers[0] if answers else None


def _real_path(path: str | os.PathLike[str]) -> str:
    try:
        text = os.fspath(path)
        if not text:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), text)
        return os.path.realpath(text, strict=True)
    except (OSError, ValueError) as error:
        raise _missing(path, error) from error


def _open_workspace_dir(path: str | os.PathLike[str], real: str) -> Directory:
    try:
        return Directory.open(real)
    except OSError as error:
        raise _missing(path, error) from error


def _missing(path: str | os.PathLike[str], error: OSError | ValueError) -> WorkspaceMissing:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return WorkspaceMissing(
        f"the workspace {os.fspath(path)!r} cannot be opened: {reason}",
        hint="name an existing directory with --workspace DIR (-w)",
        path=Path(path),
    )
