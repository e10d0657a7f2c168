"""Export: from sessions to bytes, in the format that is asked for.

Invariant: what is yielded depends on what was committed when the export of a session began, and on
nothing that happens while somebody reads; nothing of the store is held open meanwhile. `jsonl` and
`archive` are exact unless masking is asked for; `html`, which is made for being given away, is
masked unless exactness is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from sessions_api.errors import ArgumentInvalid
from sessions_api.transfer.moment import StoredMoment
from sessions_api.transfer.strict_json import Unfit
from state_store import StoreDamaged, jsonl_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sessions_api.transfer.masking import Masking
    from sessions_api.transfer.moment import Moment
    from state_store import SqliteStore

ExportFormat = Literal["jsonl", "archive", "markdown", "html"]
_REDACTED_BY_DEFAULT = {"html"}


def is_redacted(format_name: ExportFormat, redact: bool | None) -> bool:  # noqa: FBT001 - None means the format's own default
    """Whether an export is masked, where *redact* leaves that to the format if it is None."""
    return format_name in _REDACTED_BY_DEFAULT if redact is None else redact


def export_session(
    store: SqliteStore,
    session_id: str,
    *,
    format_name: ExportFormat,
    redact: bool | None,
    secrets: Callable[[], Iterable[str]],
    database: str,
) -> Iterator[bytes]:
    """Return the export of one session; SessionNotFound and ArgumentInvalid at once.

    Reading an archive of what no store could take is StoreDamaged, about the *database*.
    """
    if format_name not in get_args(ExportFormat):
        raise ArgumentInvalid("format", wanted=f"one of {', '.join(get_args(ExportFormat))}")
    masking = _masking(secrets) if is_redacted(format_name, redact) else None
    moment = _moment(store, session_id, masking)
    match format_name:
        case "archive":
            return _archive(database, (moment,), 1, is_redacted=masking is not None)
        case "markdown":
            from sessions_api.transfer.markdown import markdown_chunks  # noqa: PLC0415 - where used

            return markdown_chunks(moment)
        case "html":
            from sessions_api.transfer.html import html_chunks  # noqa: PLC0415 - where it is used

            return html_chunks(moment, is_masked=masking is not None)
        case _:
            return _jsonl(moment)


def export_all(
    store: SqliteStore,
    *,
    redact: bool | None,
    secrets: Callable[[], Iterable[str]],
    database: str,
) -> Iterator[bytes]:
    """Return an archive of every session, archived ones too, in the order they were created."""
    found = [
        (one.created_at, one.id)
        for archived in (False, True)
        for one in store.list(limit=None, archived=archived).items
    ]
    masking = _masking(secrets) if is_redacted("archive", redact) else None
    # Parents come before their forks: an import that gives one a new id tells the other.
    moments = (_moment(store, session_id, masking) for _, session_id in sorted(found))
    return _archive(database, moments, len(found), is_redacted=masking is not None)


def _moment(store: SqliteStore, session_id: str, masking: Masking | None) -> Moment:
    moment = StoredMoment(store, session_id)
    if masking is None:
        return moment
    from sessions_api.transfer.masking import MaskedMoment  # noqa: PLC0415 - as `_masking`

    return MaskedMoment(moment, masking)


def _archive(
    database: str, moments: Iterable[Moment], count: int, *, is_redacted: bool
) -> Iterator[bytes]:
    from sessions_api.transfer.archive_writing import archive_lines  # noqa: PLC0415 - where used

    try:
        yield from archive_lines(moments, count=count, is_redacted=is_redacted)
    except Unfit as unfit:  # what an import could not take must not look like an archive
        raise StoreDamaged(database, f"of a record in it, {unfit}") from unfit


def _jsonl(moment: Moment) -> Iterator[bytes]:
    yield from jsonl_lines(moment.session, moment.originals(), moment.executions)


def _masking(secrets: Callable[[], Iterable[str]]) -> Masking:
    # The journal's package, which knows how secrets look, is a third of a reader's start.
    from sessions_api.transfer.masking import Masking, environment_secrets  # noqa: PLC0415 - above

    return Masking({*environment_secrets(), *secrets()})
