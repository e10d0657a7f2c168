"""`tinyagent sessions search`: which sessions have these words."""

from __future__ import annotations

import shlex
from enum import StrEnum
from typing import Annotated

import typer

from sessions_api.cli.listing import Cursor, Limit  # noqa: TC001 - Typer reads it
from sessions_api.cli.opened import reading
from sessions_api.cli.options import JSON, PLACE, Call, command
from sessions_api.command_line import typed
from sessions_api.showing.hits import hit_lines


class Order(StrEnum):
    """In which order messages are found."""

    NEWEST = "newest"
    RELEVANCE = "relevance"


Words = Annotated[
    list[str],
    typer.Argument(metavar="WORDS...", help='All of them; "in quotes" next to one another.'),
]
OrderOption = Annotated[
    Order, typer.Option("--order", help="newest: stored last; relevance: often, in few words.")
]


def add_to(sessions: typer.Typer) -> None:
    """Add `search` to `tinyagent sessions`."""
    command(sessions, "search", PLACE, JSON)(search)


def search(
    call: Call,
    words: Words,
    *,
    limit: Limit = 20,
    cursor: Cursor = None,
    order: OrderOption = Order.NEWEST,
) -> None:
    """Find words in titles, messages and results of tools, archived sessions too."""
    query = " ".join(words)
    with reading(call) as opened:
        page = opened.sessions.search(query, limit or None, cursor, order=order.value)
    out = call.out
    if call.json:
        from sessions_api.cli.json_shapes import as_json  # noqa: PLC0415 - for --json alone

        out.record({"hits": as_json(page.items), "next_cursor": page.next_cursor})
        return
    out.lines(hit_lines(page.items, ink=out.ink))
    if not page.items and cursor is None:
        out.note("Nothing has these words.")
    if page.next_cursor:
        ordered = "" if order is Order.NEWEST else f" --order {order}"
        again = f"sessions search {shlex.quote(query)}{ordered} --cursor {page.next_cursor}"
        out.note(f"More: {typed(again, workspace=call.workspace)}")
