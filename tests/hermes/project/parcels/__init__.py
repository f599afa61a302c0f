"""Prices for parcels, from a tariff table."""

__version__ = "0.3.2"
