"""What is sent, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass, field

from parcels.money import Money

SERVICES = ("economy", "standard", "express")


@dataclass(frozen=True)
class Parcel:
    """A parcel: where it goes, how heavy it is, how large."""

    destination: str
    grams: int
    service: str = "standard"
    size: tuple[int, int, int] | None = None  # centimetres

    def __post_init__(self) -> None:
        if self.grams <= 0:
            raise ValueError(f"a parcel weighs something, not {self.grams} g")
        if self.service not in SERVICES:
            raise ValueError(f"unknown service {self.service!r}, there are: {', '.join(SERVICES)}")
        if self.size is not None and min(self.size) <= 0:
            raise ValueError(f"a parcel has a size, not {self.size}")


@dataclass(frozen=True)
class Line:
    """One line of a quote."""

    text: str
    amount: Money


@dataclass(frozen=True)
class Quote:
    """What a parcel costs, line by line."""

    parcel: Parcel
    zone: int
    lines: tuple[Line, ...] = field(default=())

    @property
    def total(self) -> Money:
        total = Money(0)
        for line in self.lines:
            total = total + line.amount
        return total
