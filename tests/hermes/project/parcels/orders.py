"""A day's orders: a CSV file with number, weight in kilograms, destination, service, size."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from parcels.model import Parcel


def parse_size(text: str) -> tuple[int, int, int] | None:
    """A size written like 60x40x30, in centimetres; nothing for nothing."""
    if not text:
        return None
    length, width, height = (int(part) for part in text.lower().split("x"))
    return length, width, height


def read_orders(path: Path) -> Iterator[tuple[str, Parcel]]:
    """The orders of a file: number and parcel."""
    with open(path, encoding="utf-8") as file:
        for number, weight, destination, service, size in csv.reader(file):
            if number == "number":
                continue
            yield number, Parcel(destination, round(float(weight) * 1000), service, parse_size(size))
