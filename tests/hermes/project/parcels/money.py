"""Amounts of money: whole cents inside, euros outside."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Money:
    """An amount in euro cents."""

    cents: int

    @classmethod
    def euros(cls, value: float) -> Money:
        """An amount given in euros."""
        return cls(int(value * 100))

    @classmethod
    def parse(cls, text: str) -> Money:
        """An amount written like 12.30 or 12,30."""
        return cls.euros(float(text.strip().replace(",", ".")))

    def __add__(self, other: Money) -> Money:
        return Money(self.cents + other.cents)

    def __mul__(self, factor: float) -> Money:
        return Money.euros(self.cents / 100 * factor)

    def __str__(self) -> str:
        return f"{self.cents // 100}.{self.cents % 100:02d} EUR"


ZERO = Money(0)
