"""What a run costs: each call at the price of its moment, from a list that lies on the disk.

Owns the use of `genai-prices`. Invariants: a price is known or None, and never a guess: the model
has to be one of the service that was asked, so what a local server calls "gpt-4o" costs nothing we
know of; whatever the list or its package does, the run goes on. Nothing is fetched.

Must not: import the package (an extra that takes half a second) before a run that may have a
price, or make a run wait for it: it loads while the model thinks. Tokens that were written to a
cache are priced as plain input, because a usage does not tell them apart.
"""

from __future__ import annotations

import re
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from decimal import Decimal

    from state_store import Usage

_LOADED = "genai_prices.data"
_PUBLIC_NAME = re.compile(r".+\.[a-z][a-z0-9-]*[a-z]")  # no address, and not just "localhost"


class RunCost:
    """The cost of one run, in USD. Make it before the model is asked, `add` each answer's usage."""

    def __init__(self, *, endpoint: str | None, model: str | None) -> None:
        self._service = endpoint if endpoint and _is_public(endpoint) else None
        self._model = model
        self._prices: list[Decimal | None] = []
        if self._service and self._model and _LOADED not in sys.modules:
            nothing = (self._service, self._model, 0, 0, 0)
            with suppress(RuntimeError):  # no thread to be had: then the list loads when it is used
                threading.Thread(target=_price, args=nothing, name="prices", daemon=True).start()

    def add(self, usage: Usage) -> None:
        """Price one answer now. Never raises."""
        price = None
        if self._service and self._model and _is_known(usage):
            price = _price(
                self._service,
                self._model,
                usage.input_tokens or 0,
                usage.cached_input_tokens or 0,
                usage.output_tokens or 0,
            )
        self._prices.append(price)

    @property
    def total(self) -> float | None:
        """The sum of all answers so far; None when there is none, or one of them has no price."""
        known = [price for price in self._prices if price is not None]
        return float(sum(known)) if known and len(known) == len(self._prices) else None


def _price(service: str, model: str, read: int, cached: int, written: int) -> Decimal | None:
    try:
        from genai_prices import Usage, calc_price  # noqa: PLC0415 - an extra, on first use

        usage = Usage(input_tokens=read, cache_read_tokens=cached, output_tokens=written)
        return calc_price(usage, model, provider_api_url=service).total_price
    except Exception:  # noqa: BLE001 - no package, no such model, odd numbers: there is no price
        return None


def _is_known(usage: Usage) -> bool:
    return usage.input_tokens is not None and usage.output_tokens is not None


def _is_public(endpoint: str) -> bool:
    try:
        host = urlsplit(endpoint).hostname
    except ValueError:
        return False
    return bool(host and _PUBLIC_NAME.fullmatch(host))
