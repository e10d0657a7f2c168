"""From an older schema to this program's: checked, backed up, in one transaction, or not at all.

The order: alone in the store; integrity and free space; a verified backup on the disk; then all
migrations, their records, and the check that every session is still there, in one transaction. A
failure before its commit is rolled back, one after it is answered with the backup. A crash at any
point leaves the old database or the new one, and the next start goes on from there: with the check
after the commit, if that was not done (see `unproven`).

Invariant: an upgrade that fails changes nothing, but that its backup is there and, if it had been
committed, what it made, under another name; failing again adds neither again. Must not: know what a
migration does.
"""

from __future__ import annotations

import hashlib
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from state_store.clock import to_text
from state_store.errors import StateStoreError, StoreDamaged, StoreFull, UpgradeFailed
from state_store.sqlite import backups, frozen, policy, unproven
from state_store.sqlite.beside import free_bytes, size_of, was_replaced_since
from state_store.sqlite.connecting import connect, require_file
from state_store.sqlite.creating import record_migration, remove_with_sidecars
from state_store.sqlite.faults import explain, hindered, newest_backup, translated
from state_store.sqlite.gate import enter
from state_store.sqlite.restoring import put_back
from state_store.sqlite.swapping import require_finished
from state_store.sqlite.telling import telling
from state_store.sqlite.unproven import Unproven
from state_store.upkeep import Upgrade

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state_store.sqlite.place import Place

# The backup, the transaction in the log, and the log moved into the database.
SPACE_FACTOR = 3
# What every session looks like from outside. Rows of newer tables are no part of it.
_VISIBLE = (
    "SELECT id, message_count, total_tokens, status FROM sessions"
    " ORDER BY updated_at DESC, id DESC;"
    "SELECT session_id, count(*), max(seq) FROM messages GROUP BY session_id ORDER BY session_id;"
    "SELECT session_id, status, count(*) FROM runs GROUP BY session_id, status"
    " ORDER BY session_id, status;"
    "SELECT session_id FROM tombstones ORDER BY session_id"
)


class _StepFailed(Exception):
    """A step of the upgrade failed, for the `__cause__`; named for a person."""


class _Wrong(Exception):
    """What a migration made is not what it has to be."""


def plan(place: Place) -> Upgrade | None:
    """Return what `upgrade` would do, None when there is nothing to do. Reads only.

    SwapUnfinished while a restore waits to be finished: a reader of a database that lost its log
    already would begin another log, which would then be kept in the place of the old one.
    """
    with closing(enter(place, creating=False)):
        require_finished(place.path)
        return due(place)


def due(place: Place) -> Upgrade | None:
    """Return what `plan` does. For one beside whom nobody changes the files."""
    require_file(place.path)
    with translated(place.path, waited_ms=0, writing=False), _connection(place) as (_, version):
        return None if version == place.schema.version else _planned(place, version)


def upgrade(place: Place) -> Upgrade | None:
    """Bring the database to the place's schema; None when it is there already.

    For one who is alone in the store. UpgradeFailed when a migration fails; StoreDamaged and
    StoreFull when it is not begun.
    """
    path = place.path
    require_file(path)
    if denied := hindered(path, writing=True):
        raise denied
    with translated(path, waited_ms=0):
        _prove_what_is_left(place)
        with _connection(place, writing=True) as (connection, version):
            if version == place.schema.version:
                return None
            planned = _planned(place, version)
            with telling(connection, place.progress, "checking the database"):
                _require_sound(connection, place, version)
            _require_space(path, planned)
            backup = backups.make(connection, place, version=version)
            unproven.note(path, Unproven(version=version, backup=Path(backup.path).name))
            place.progress("upgrading", 0, 0)
            try:
                _migrate(connection, place, version)
            except _StepFailed as failure:
                unproven.forget(path)
                raise _explained(failure, path, planned, Path(backup.path)) from failure.__cause__
            with suppress(apsw.Error):  # what was committed is safe in the log
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            policy.settle_log_on_close(connection)
        _prove(place, planned, Path(backup.path))
    return replace(planned, backup=replace(backup, pruned=backups.prune(place)))


def _prove_what_is_left(place: Place) -> None:
    """Check an upgrade that was cut off after its commit; one that was not is as if never begun."""
    path = place.path
    if (left := unproven.find(path)) is not None:
        with _connection(place) as (_, version):
            planned = replace(_planned(place, left.version), to_version=version)
        if version > left.version:
            _prove(place, planned, path.with_name(left.backup))
    unproven.forget(path)


def _prove(place: Place, planned: Upgrade, backup: Path) -> None:
    """Check what was committed. UpgradeFailed, and the backup is back, when it is not right."""
    place.progress("checking the upgrade", 0, 0)
    try:
        _check_result(place, planned)
    except _StepFailed as failure:
        _put_back(place, backup)
        raise _explained(failure, place.path, planned, backup, restored=True) from failure.__cause__
    unproven.forget(place.path)


@contextmanager
def _connection(place: Place, *, writing: bool = False) -> Iterator[tuple[apsw.Connection, int]]:
    rules = policy.UPGRADING if writing else policy.READING
    try:
        connection, version = connect(place, rules=rules, writing=writing)
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        if writing or (snapshot := frozen.take(place.path)) is None:
            raise
        connection, version = connect(place, rules=rules, name=frozen.uri_of(place.path))
        frozen.require_unchanged(place.path, snapshot)
    with closing(connection):
        yield connection, version


def _planned(place: Place, version: int) -> Upgrade:
    return Upgrade(
        from_version=version,
        to_version=place.schema.version,
        steps=tuple(migration.name for _, migration in place.schema.after(version)),
        needed_bytes=SPACE_FACTOR * size_of(place.path),
        free_bytes=free_bytes(place.path),
    )


def _require_sound(connection: apsw.Connection, place: Place, version: int) -> None:
    reason = None
    if not policy.is_sound(connection):
        reason = "SQLite found it corrupt"
    elif wrong := place.schema.differences(connection, version):
        named = ", ".join(wrong)
        reason = f"it says it has schema version {version}, and {named} does not agree with that"
    if reason:
        raise StoreDamaged(place.path, reason, backup_path=newest_backup(place.path))


def _require_space(path: Path, planned: Upgrade) -> None:
    if planned.free_bytes < planned.needed_bytes:
        raise StoreFull(
            path,
            f"an upgrade needs {planned.needed_bytes} bytes free beside it, and"
            f" {planned.free_bytes} are",
            hint="Nothing was changed. Free space and start again.",
        )


def _migrate(connection: apsw.Connection, place: Place, version: int) -> None:
    """Do all that is missing in one transaction, and end it whatever happens."""
    now = to_text(place.clock())
    before = _visible(connection)
    connection.execute("BEGIN IMMEDIATE")
    step = "the beginning"
    try:
        for number, migration in place.schema.after(version):
            step = migration.name
            migration.apply(connection)
            record_migration(connection, number, step, now=now)
        step = "the check of what it made"
        _require_kept(connection, place, before)
        connection.execute("COMMIT")
    except Exception as error:
        raise _StepFailed(step) from error
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _require_kept(connection: apsw.Connection, place: Place, before: str) -> None:
    if not place.schema.matches(connection, place.schema.version):
        raise _Wrong("the tables are not those of the new schema")
    if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
        raise _Wrong("a row refers to one that is not there")
    if _visible(connection) != before:
        raise _Wrong("a session, a message or a run would be lost")


def _check_result(place: Place, planned: Upgrade) -> None:
    """Look at the committed upgrade from its first page to its last, with a new connection."""
    step = "the check after the commit"
    try:
        with _connection(place) as (connection, _):
            _require_whole(connection)
            for migration in place.schema.migrations[planned.from_version : planned.to_version]:
                step = f"the check of {migration.name}"
                if migration.check is not None:
                    migration.check(connection)
    except Exception as error:
        raise _StepFailed(step) from error


def _require_whole(connection: apsw.Connection) -> None:
    if not policy.is_sound(connection):
        raise _Wrong("the database is not sound")


def _put_back(place: Place, backup: Path) -> None:
    """Restore, and keep what the migration made for whoever looks into it; once, not every time."""
    failed_before = was_replaced_since(place.path, backup)
    failed = put_back(place, backup)
    if failed is not None and failed_before:
        remove_with_sidecars(failed)


def _explained(
    failure: _StepFailed, path: Path, planned: Upgrade, backup: Path, *, restored: bool = False
) -> StateStoreError:
    """Return what it means: a condition of the moment, or a migration that does not work."""
    error = failure.__cause__
    if isinstance(error, apsw.Error) and not restored:
        known = explain(error, path, waited_ms=0)
        if known is not None and not isinstance(known, StoreDamaged):
            return known
    # Whatever else a migration raises may hold what a person wrote.
    told = isinstance(error, apsw.Error | _Wrong)
    return UpgradeFailed(
        path,
        str(error).rstrip(".") if told else type(error).__name__,
        step=str(failure),
        found=planned.from_version,
        wanted=planned.to_version,
        backup_path=backup,
        restored=restored,
    )


def _visible(connection: apsw.Connection) -> str:
    """Return a digest of what a person sees: sessions, their order, and what they count."""
    digest = hashlib.sha256()
    for row in connection.execute(_VISIBLE):
        digest.update(repr(row).encode())
    return digest.hexdigest()
