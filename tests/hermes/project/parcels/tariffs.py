"""The tariff table: which row holds for a zone, a service and a weight."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from parcels.money import Money

COLUMNS = ("zone", "service", "from_grams", "to_grams", "base", "per_kg")
DEFAULT = Path(__file__).resolve().parent.parent / "data" / "tariffs.csv"


@dataclass(frozen=True)
class Row:
    """A row of the table; weights are grams, `from_grams` exclusive, `to_grams` inclusive."""

    zone: int
    service: str
    from_grams: int
    to_grams: int
    base: Money
    per_kg: Money


class Tariffs:
    """All rows of a table."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.looked_at = 0

    @classmethod
    def load(cls, path: Path = DEFAULT) -> Tariffs:
        """Read a table from a CSV file with the columns of COLUMNS."""
        rows = []
        with open(path, encoding="utf-8") as file:
            for record in csv.DictReader(file):
                rows.append(
                    Row(
                        zone=int(record["zone"]),
                        service=record["service"],
                        from_grams=int(record["from_grams"]),
                        to_grams=int(record["to_grams"]),
                        base=Money.parse(record["base"]),
                        per_kg=Money.parse(record["per_kg"]),
                    )
                )
        return cls(rows)

    def find(self, zone: int, service: str, grams: int) -> Row:
        """The row that holds."""
        for row in self.rows:
            self.looked_at += 1
            if row.zone == zone and row.service == service and row.from_grams < grams <= row.to_grams:
                return row
        raise ValueError(f"no tariff for zone {zone}, {service}, {grams} g")
