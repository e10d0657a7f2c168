"""Export: from sessions to bytes, in the format that is asked for.

Invariant: what is yielded depends on what was committed when the export of a session began, and on
nothing that happens while somebody reads; nothing of the store is held open meanwhile. `jsonl` and
`archive` are exact unless masking is asked for; `html`, which is made for being given away, is
masked unless exactness is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from sessions_api.errors import ArgumentInvalid
from sessions_api.transfer.moment import Moment
from state_store import jsonl_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sessions_api.transfer.masking import Masking
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
) -> Iterator[bytes]:
    """Return the export of one session; SessionNotFound and ArgumentInvalid at once."""
    if format_name not in get_args(ExportFormat):
        raise ArgumentInvalid("format", wanted=f"one of {', '.join(get_args(ExportFormat))}")
    masking = _masking(secrets) if is_redacted(format_name, redact) else None
    match format_name:
        case "archive":
            return _archive((Moment(store, session_id),), 1, masking)
        case "markdown":
            from sessions_api.transfer.markdown import markdown_chunks  # noqa: PLC0415 - where used

            return markdown_chunks(Moment(store, session_id), masking)
        case "html":
            from sessions_api.transfer.html import html_chunks  # noqa: PLC0415 - where it is used

            return html_chunks(Moment(store, session_id), masking)
        case _:
            return _jsonl(Moment(store, session_id), masking)


def export_all(
    store: SqliteStore, *, redact: bool | None, secrets: Callable[[], Iterable[str]]
) -> Iterator[bytes]:
    """Return an archive of every session, archived ones too, in the order they were created."""
    found = [
        (one.created_at, one.id)
        for archived in (False, True)
        for one in store.list(limit=None, archived=archived).items
    ]
    masking = _masking(secrets) if is_redacted("archive", redact) else None
    # Parents come before their forks: an import that gives one a new id tells the other.
    moments = (Moment(store, session_id) for _, session_id in sorted(found))
    return _archive(moments, len(found), masking)


def _archive(moments: Iterable[Moment], count: int, masking: Masking | None) -> Iterator[bytes]:
    from sessions_api.transfer.archive_writing import archive_lines  # noqa: PLC0415 - where used

    return archive_lines(moments, count=count, masking=masking)


def _jsonl(moment: Moment, masking: Masking | None) -> Iterator[bytes]:
    snapshot = moment.snapshot
    session, messages = snapshot.session, moment.originals()
    if masking is not None:
        masking = masking.knowing(moment)
        session, messages = masking.session(session), map(masking.message, messages)
    yield from jsonl_lines(session, messages, snapshot.executions)


def _masking(secrets: Callable[[], Iterable[str]]) -> Masking:
    # The journal's package, which knows how secrets look, is a third of a reader's start.
    from sessions_api.transfer.masking import Masking, environment_secrets  # noqa: PLC0415 - above

    return Masking({*environment_secrets(), *secrets()})
