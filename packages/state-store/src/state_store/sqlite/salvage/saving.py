"""Save what a damaged database still holds into a new one.

The new database is built under a temporary name and gets its own when it is whole, verified and on
the disk. Invariants: the damaged file and its log are only read, and by Python, since SQLite would
refuse them: nobody may have them open meanwhile, which whoever calls this makes sure of. Every row
that can be read is saved; nothing is saved that was not stored, but for rows without which others
could not be kept (see `mending`), and the report counts those. A deleted session stays deleted.

The new database has a new generation, so that nothing made from the damaged one is taken for its
own, and the ids of messages go on behind the last one that was saved.
"""

from __future__ import annotations

import os
import uuid
from contextlib import closing
from typing import TYPE_CHECKING

import apsw

from state_store.clock import to_text
from state_store.errors import (
    StateStoreError,
    StoreDamaged,
    StoreForeign,
    StoreMissing,
    StoreNewer,
    StoreUnavailable,
)
from state_store.findings import SalvageReport
from state_store.sqlite import policy
from state_store.sqlite.connecting import require_not_lost
from state_store.sqlite.creating import (
    building_beside,
    connect_to_new,
    record_migration,
    sync_directory,
    sync_file,
)
from state_store.sqlite.faults import newest_backup, translated, unavailable
from state_store.sqlite.salvage.collecting import Collection
from state_store.sqlite.salvage.mending import settle
from state_store.sqlite.salvage.pages import PageImage
from state_store.sqlite.salvage.recognition import Survey
from state_store.sqlite.schema import APPLICATION_ID
from state_store.sqlite.values import is_id, is_time, tables_of

if TYPE_CHECKING:
    from pathlib import Path

    from state_store.sqlite.place import Place
    from state_store.sqlite.schema import Schema
    from state_store.sqlite.values import Table

# Of a deleted session that was met on the way nothing must be left in the new file.
_RULES = (*policy.READING, policy.overwrite_deleted)
# Another workspace's id differs in most of its digits, a damaged one in a few.
_DAMAGED_DIGITS_MAX = 8


def salvage(place: Place, into: Path) -> SalvageReport:
    """Write a new database at *into*, where nothing is yet, with all that *place* still holds.

    Returns when it is on the disk. StoreDamaged when nothing of this package can be read in the
    old one, StoreForeign when it is another workspace's, StoreNewer when a newer program wrote it;
    then, and after any other error, nothing is at *into*. Nobody may have the old one open until
    it returns.
    """
    path = place.path
    if os.path.lexists(into):
        raise _taken(into)
    try:
        image = PageImage.open(path)
    except FileNotFoundError:
        require_not_lost(path)
        raise StoreMissing(path) from None
    except OSError as error:
        raise unavailable(path, error) from error
    with image, building_beside(into) as building:
        with translated(into, waited_ms=0), closing(connect_to_new(building)) as connection:
            report = _rebuild(connection, image, place, into=into)
        sync_file(building)
        try:
            os.link(building, into)
        except FileExistsError as error:
            raise _taken(into) from error
        sync_directory(into.parent)
    return report


def _taken(into: Path) -> StoreUnavailable:
    return StoreUnavailable(
        into, "something is there already", hint="Name a file that does not exist."
    )


def _rebuild(
    connection: apsw.Connection, image: PageImage, place: Place, *, into: Path
) -> SalvageReport:
    """Fill the new database in one transaction and verify it."""
    for rule in _RULES:
        rule(connection, into)
    # Neither matters before the file has its name: what a crash leaves is never looked at.
    connection.execute("PRAGMA synchronous=OFF; PRAGMA journal_mode=MEMORY")
    policy.pragma(connection, "foreign_keys=OFF")  # parents come after children, or not at all
    connection.execute("BEGIN IMMEDIATE")
    path, schema, now = place.path, place.schema, to_text(place.clock())
    about = Survey(image, {}, least={})
    version = _version_of(image, about, place)
    created_at = _created_at(about, place)
    tables, least = _tables(schema, version)
    survey = Survey(image, tables, least=least)
    for number, migration in schema.after(0)[:version]:
        migration.apply(connection)
        record_migration(connection, number, migration.name, now=now)
    connection.execute(
        "INSERT INTO store (workspace_id, generation, created_at) VALUES (?, ?, ?)",
        (place.workspace_id, uuid.uuid4().hex, created_at or now),
    )
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    collection = Collection(connection, tables)
    for name in tables:
        place.progress(f"reading {name}", 0, 0)
        collection.take(survey.rows_in(name))
    place.progress("reading pages that nothing leads to", 0, 0)
    collection.take(survey.rows_elsewhere())
    if image.log_damaged:
        # What could not be read in the log may lie in the file already, beneath older images of
        # its pages that the log still has.
        file, pages = image.beneath_log()
        collection.take_missing(Survey(file, tables, least=least).rows_on_pages(pages))
    if created_at is None and not collection.found_anything:
        raise _nothing_in(path, image)
    incomplete = settle(connection, collection, now=now)
    for number, migration in schema.after(version):
        migration.apply(connection)
        record_migration(connection, number, migration.name, now=now)
    connection.execute("COMMIT")
    if not policy.is_sound(connection):
        raise StateStoreError(f"What was saved from {path} is not sound; nothing was written.")
    policy.use_wal(connection, into)
    return SalvageReport(
        path=str(path),
        into=str(into),
        version=version,
        tables=collection.report(),
        session_count=collection.saved_count("sessions"),
        incomplete=tuple(sorted(incomplete)),
        page_count=image.page_count,
        damaged_page_count=survey.damaged_page_count,
        log_damaged=image.log_damaged,
    )


def _tables(schema: Schema, version: int) -> tuple[dict[str, Table], dict[str, int]]:
    """Return the tables that *version* has, and how few columns a row from before it may have."""
    least: dict[str, int] = {}
    with closing(apsw.Connection(":memory:")) as connection:
        for _, migration in schema.after(0)[:version]:
            migration.apply(connection)
            for name, table in tables_of(connection).items():
                least[name] = min(len(table.columns), least.get(name, len(table.columns)))
        return tables_of(connection), least


def _version_of(image: PageImage, survey: Survey, place: Place) -> int:
    """Return the version that the rows have; the newest one when nothing says it any more."""
    newest = place.schema.version
    said = {int.from_bytes(image.header()[60:64], "big"), *survey.numbers_in("schema_version")}
    said = {number for number in said if number > 0} or {newest}
    known = [number for number in said if number <= newest]
    if not known:
        raise StoreNewer(place.path, found=max(said), supported=newest)
    return max(known)


def _created_at(survey: Survey, place: Place) -> str | None:
    """Return when the database was made, if that can be read; StoreForeign for another's."""
    for values in survey.values_in("store"):
        match values:
            case (str(found), _, str(created_at), *_):
                if _is_of_another(found, place.workspace_id):
                    reason = f"it belongs to workspace {found}, not {place.workspace_id}"
                    raise StoreForeign(place.path, reason)
                if is_time(created_at):
                    return created_at
    return None


def _is_of_another(found: str, workspace_id: str) -> bool:
    if not is_id(workspace_id):
        return found != workspace_id
    differing = sum(one != other for one, other in zip(found, workspace_id, strict=False))
    return is_id(found) and differing > _DAMAGED_DIGITS_MAX


def _nothing_in(path: Path, image: PageImage) -> StateStoreError:
    if any(image.header()) and int.from_bytes(image.header()[68:72], "big") != APPLICATION_ID:
        return StoreForeign(path, "another program made it")
    return StoreDamaged(path, "nothing in it can be read", backup_path=newest_backup(path))
