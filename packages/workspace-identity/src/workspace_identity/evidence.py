"""Gathering the evidence for a decision: all reading, no judging, nothing written.

It looks only as far as the decision needs: a workspace that is where its record says costs two
small files, one that has another spelling a look at that path. Only then the registry is scanned.
Recorded paths are looked at for a bounded time.
"""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

from workspace_identity.decision import Evidence, Original
from workspace_identity.directory import Directory
from workspace_identity.errors import StateHomeUnusable, WorkspaceMissing
from workspace_identity.git import is_tracked
from workspace_identity.hazards import find_hazard
from workspace_identity.history import History
from workspace_identity.marker import Marker, MarkerState, marker_is_writable, read_marker
from workspace_identity.patience import in_time
from workspace_identity.place import Place, place_of, same_place
from workspace_identity.record import NewerRecordError, Record
from workspace_identity.registry import Registry, Unusable
from workspace_identity.state_home import state_home_errors

_ANOTHER_DEVICE = "{} is on another device than the one recorded"


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
    status = root.status()
    claimed, is_lost = _find_claimed(evidence.marker, registry, state_home)
    evidence = replace(evidence, claimed=claimed, record_lost=is_lost)
    if is_lost and claimed is None:
        evidence = replace(evidence, marker=_unless_forgotten(evidence, state_home))
    if claimed is not None:
        if _is_at(claimed, evidence.path, evidence.place):
            return replace(evidence, record_here=claimed)
        if claimed.path != evidence.path:
            evidence = _with_original(evidence, claimed, status)
            if evidence.original is Original.THIS and same_place(evidence.place, claimed.place):
                return evidence
    evidence = replace(
        evidence,
        record_here=_find_here(evidence, registry, status),
        writable=marker_is_writable(root),
    )
    if evidence.record_here is None and evidence.marker.workspace_id is not None:
        return replace(evidence, tracked=claimed is None and is_tracked(evidence.path))
    return evidence


def _find_claimed(
    marker: Marker, registry: Registry, state_home: Path
) -> tuple[Record | None, bool]:
    """Return the record of the marker's id, and whether the history had to stand in for it."""
    if marker.workspace_id is None:
        return None, False
    try:
        found = registry.find(marker.workspace_id)
    except NewerRecordError as error:
        raise StateHomeUnusable(
            f"Cannot use the record of workspace {marker.workspace_id}: {error}.",
            hint="Use the newer version that wrote it; nothing was changed.",
            state_home=state_home,
        ) from error
    if isinstance(found, Unusable):
        return History(state_home).last_record(marker.workspace_id), True
    return found, False


def _unless_forgotten(evidence: Evidence, state_home: Path) -> Marker:
    """Return the marker, as damaged where it names a workspace that this directory was taken from.

    `forget` cannot remove a marker from a read-only directory, nor from one that was moved and not
    opened since, and a tool may bring it back. So the place counts, whatever its path is now.
    """
    marker = evidence.marker
    former = History(state_home).last_forgotten(marker.workspace_id or "")
    if former is None or not same_place(former.place, evidence.place):
        return marker
    return Marker(state=MarkerState.DAMAGED, problem="it names a workspace that was forgotten here")


def records_of(path: str, place: Place, status: os.stat_result, registry: Registry) -> list[Record]:
    """Return the records of the directory at *path*, those that spell it so before others.

    Scans the registry. A record with another path counts when that leads to this very directory,
    as a bind mount or another spelling does.
    """
    same = [one for one in registry.find_inode(place.inode) if same_place(one.place, place)]
    here = [record for record in same if record.path == path]
    other = [record for record in same if record.path != path and _leads_to(record.path, status)]
    return here + other


def _find_here(evidence: Evidence, registry: Registry, status: os.stat_result) -> Record | None:
    """Return the record of this path and this place, the one seen last if there are several."""
    found = records_of(evidence.path, evidence.place, status, registry)
    here = [record for record in found if record.path == evidence.path] or found
    return max(here, key=lambda record: record.last_seen_at, default=None)


def _is_at(record: Record, path: str, place: Place) -> bool:
    return record.path == path and same_place(record.place, place)


def _leads_to(path: str, status: os.stat_result) -> bool:
    def ask() -> bool:
        try:
            return os.path.samestat(Path(path).stat(), status)
        except (OSError, ValueError):
            return False

    return in_time(ask) or False


def _with_original(evidence: Evidence, claimed: Record, status: os.stat_result) -> Evidence:
    answer = in_time(lambda: _judge(claimed, evidence.marker, status))
    if answer is None:
        answer = Original.UNKNOWN, None, "no answer in time"
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
        if there.workspace_id == marker.workspace_id:
            return Original.CARRIES_MARKER, place, ""
        if there.state in (MarkerState.UNREADABLE, MarkerState.UNSAFE):
            return Original.UNKNOWN, place, there.problem
        if place.device != claimed.place.device:  # the empty mount point of the recorded disk
            return Original.UNKNOWN, place, _ANOTHER_DEVICE.format("the directory there")
        return Original.ANOTHER, place, ""


def _judge_absence(claimed: Record) -> tuple[Original, Place | None, str]:
    """Tell a directory that is gone from one whose filesystem is not mounted now."""
    missing = Path(claimed.path)
    for above in missing.parents:
        try:
            device = above.stat().st_dev
            is_dangling = missing.is_symlink()
        except (FileNotFoundError, NotADirectoryError):
            missing = above
            continue
        except OSError as error:
            return Original.UNKNOWN, None, error.strerror or "I/O error"
        if is_dangling:  # it was moved to where it leads, which may be a disk that is not mounted
            return Original.UNKNOWN, None, f"{missing} is a link that leads nowhere now"
        if device == claimed.place.device:
            return Original.GONE, None, ""
        return Original.UNKNOWN, None, _ANOTHER_DEVICE.format(above)
    return Original.UNKNOWN, None, "no parent of it exists"


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
        f"Cannot open the workspace {os.fspath(path)!r}: {reason}.",
        hint="Name an existing directory with --workspace DIR (-w).",
        path=Path(path),
    )
