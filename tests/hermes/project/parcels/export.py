"""Quotes as JSON lines, for the shop."""

from __future__ import annotations

import json
from collections.abc import Iterable

from parcels.model import Quote


def record(quote: Quote) -> dict[str, object]:
    """A quote as the shop reads it; the shop knows these keys and no others."""
    parcel = quote.parcel
    return {
        "to": parcel.destination,
        "grams": parcel.grams,
        "service": parcel.service,
        "size": list(parcel.size) if parcel.size else None,
        "zone": quote.zone,
        "total_cents": quote.total.cents,
        "lines": [{"text": line.text, "cents": line.amount.cents} for line in quote.lines],
    }


def json_lines(quotes: Iterable[Quote]) -> str:
    """One line a quote."""
    return "".join(json.dumps(record(quote)) + "\n" for quote in quotes)
