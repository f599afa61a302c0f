"""From a parcel to a quote."""

from __future__ import annotations

from parcels.model import Line, Parcel, Quote
from parcels.money import Money
from parcels.tariffs import Tariffs
from parcels.zones import zone_of

FUEL = 0.065  # share of the freight
REMOTE = {"IS", "NZ"}
REMOTE_FEE = Money(450)


def quote(parcel: Parcel, tariffs: Tariffs) -> Quote:
    """What a parcel costs: freight, fuel, and a fee for remote places."""
    zone = zone_of(parcel.destination)
    row = tariffs.find(zone, parcel.service, parcel.grams)
    freight = row.base + row.per_kg * (parcel.grams / 1000)
    lines = [Line(f"freight zone {zone} {parcel.service}", freight), Line("fuel", freight * FUEL)]
    if parcel.destination in REMOTE:
        lines.append(Line("remote", REMOTE_FEE))
    return Quote(parcel, zone, tuple(lines))
