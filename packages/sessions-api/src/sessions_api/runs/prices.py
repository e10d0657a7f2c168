"""What a run costs: each call at the price of its moment, from a list that lies on the disk.

Owns the use of `genai-prices`. Invariants: a price is known or None, and never a guess: the model
has to be one of the service that was asked, so what a local server calls "gpt-4o" costs nothing we
know of; whatever the list or its package does, the run goes on. Nothing is fetched.

Must not: import the package (an extra that takes half a second) before a run that may have a
price, or make a run wait for it: it loads while the model thinks.
"""

from __future__ import annotations

import re
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from state_store import Usage

if TYPE_CHECKING:
    from decimal import Decimal

    from sessions_api.runs.rates import Rates

_LOADED = "genai_prices.data"
_PUBLIC_NAME = re.compile(r".+\.[a-z][a-z0-9-]*[a-z]")  # no address, and not just "localhost"


class RunCost:
    """The cost of one run, in USD. Make it before the model is asked, `add` each answer's usage."""

    def __init__(
        self, *, endpoint: str | None, model: str | None, rates: Rates | None = None
    ) -> None:
        self._rates = rates  # the session's own: then no list is asked
        self._service = endpoint if endpoint and rates is None and _is_public(endpoint) else None
        self._model = model
        self._prices: list[Decimal | None] = []
        if self._service and self._model and _LOADED not in sys.modules:
            nothing = (self._service, self._model, Usage(input_tokens=0, output_tokens=0), 0)
            with suppress(RuntimeError):  # no thread to be had: then the list loads when it is used
                threading.Thread(target=_price, args=nothing, name="prices", daemon=True).start()

    def add(self, usage: Usage, *, cache_write_tokens: int | None = 0) -> None:
        """Price one answer now. Never raises.

        A list charges *cache_write_tokens*, a part of the input, apart: None of them means that
        their price is unknown. Rates of the session's own have no such price.
        """
        price = None if self._rates is None else self._rates.price(usage)
        if self._service and self._model and usage.complete and cache_write_tokens is not None:
            price = _price(self._service, self._model, usage, cache_write_tokens)
        self._prices.append(price)

    @property
    def total(self) -> float | None:
        """The sum of all answers so far; None when there is none, or one of them has no price."""
        known = [price for price in self._prices if price is not None]
        return float(sum(known)) if known and len(known) == len(self._prices) else None


def _price(service: str, model: str, usage: Usage, cache_write_tokens: int) -> Decimal | None:
    try:
        import genai_prices  # noqa: PLC0415 - an extra, on first use

        counted = genai_prices.Usage(
            input_tokens=usage.input_tokens,
            cache_read_tokens=usage.cached_input_tokens or 0,
            cache_write_tokens=cache_write_tokens,
            output_tokens=usage.output_tokens,
        )
        return genai_prices.calc_price(counted, model, provider_api_url=service).total_price
    except Exception:  # noqa: BLE001 - no package, no such model, odd numbers: there is no price
        return None


def _is_public(endpoint: str) -> bool:
    try:
        host = urlsplit(endpoint).hostname
    except ValueError:
        return False
    return bool(host and _PUBLIC_NAME.fullmatch(host))
