"""Which tariff zone a destination lies in."""

from __future__ import annotations

ZONES: dict[str, int] = {
    "DE": 1,
    "AT": 2, "BE": 2, "CZ": 2, "DK": 2, "FR": 2, "LU": 2, "NL": 2, "PL": 2,
    "ES": 3, "FI": 3, "GB": 3, "HU": 3, "IE": 3, "IT": 3, "PT": 3, "SE": 3, "SI": 3, "SK": 3,
    "BG": 4, "EE": 4, "GR": 4, "HR": 4, "LT": 4, "LV": 4, "RO": 4,
    "CH": 5, "IS": 5, "LI": 5, "NO": 5,
    "AL": 6, "BA": 6, "MD": 6, "ME": 6, "MK": 6, "RS": 6, "TR": 6, "UA": 6,
    "CA": 7, "US": 7,
    "AU": 8, "JP": 8, "KR": 8, "NZ": 8, "SG": 8,
}
REST_OF_WORLD = 9
FORBIDDEN = {"KP", "SY"}


def zone_of(destination: str) -> int:
    """The zone of a destination: a country code like NO, or a region of one like GB-SCT."""
    code = destination.strip().upper()
    if code in FORBIDDEN:
        raise ValueError(f"no parcels to {code}")
    if code in ZONES:
        return ZONES[code]
    if "-" in code:
        raise ValueError(f"unknown zone {code!r}")
    return REST_OF_WORLD
