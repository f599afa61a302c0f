from parcels.money import Money


def test_adds():
    assert Money(120) + Money(5) == Money(125)


def test_is_shown_in_euros():
    assert str(Money(1205)) == "12.05 EUR"


def test_parses_point_and_comma():
    assert Money.parse("12.50") == Money(1250)
    assert Money.parse(" 12,50 ") == Money(1250)


def test_is_ordered():
    assert Money(99) < Money(100)
