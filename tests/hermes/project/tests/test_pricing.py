import pytest

from parcels.model import Parcel
from parcels.money import Money
from parcels.pricing import quote
from parcels.tariffs import Row, Tariffs
from parcels.zones import zone_of

TABLE = Tariffs(
    [
        Row(1, "standard", 0, 1000, Money(400), Money(50)),
        Row(1, "standard", 1000, 5000, Money(500), Money(50)),
        Row(5, "standard", 0, 31500, Money(1000), Money(200)),
    ]
)


def test_a_band_ends_with_its_last_gram():
    assert TABLE.find(1, "standard", 1000).base == Money(400)
    assert TABLE.find(1, "standard", 1001).base == Money(500)


def test_freight_and_fuel():
    quoted = quote(Parcel("DE", 1000), TABLE)
    assert [line.text for line in quoted.lines] == ["freight zone 1 standard", "fuel"]
    assert quoted.lines[0].amount == Money(450)


def test_remote_places_cost_more():
    near, far = quote(Parcel("NO", 1000), TABLE), quote(Parcel("IS", 1000), TABLE)
    assert far.total == near.total + Money(450)


def test_no_parcels_to_some_places():
    with pytest.raises(ValueError, match="no parcels to KP"):
        zone_of("kp")


def test_a_parcel_weighs_something():
    with pytest.raises(ValueError, match="weighs something"):
        Parcel("DE", 0)
