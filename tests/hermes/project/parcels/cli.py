"""The command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from parcels.export import json_lines
from parcels.model import SERVICES, Parcel, Quote
from parcels.money import ZERO
from parcels.orders import parse_size, read_orders
from parcels.pricing import quote
from parcels.tariffs import DEFAULT, Tariffs


def show(quoted: Quote) -> str:
    """A quote for people."""
    lines = [f"  {line.text:<28}{line.amount!s:>12}" for line in quoted.lines]
    return "\n".join([*lines, f"  {'total':<28}{quoted.total!s:>12}"])


def run_quote(options: argparse.Namespace, tariffs: Tariffs) -> int:
    """One parcel."""
    parcel = Parcel(options.to, round(options.weight * 1000), options.service, parse_size(options.size))
    quoted = quote(parcel, tariffs)
    print(json_lines([quoted]) if options.json else show(quoted))
    return 0


def run_batch(options: argparse.Namespace, tariffs: Tariffs) -> int:
    """A file of orders."""
    total = ZERO
    for number, parcel in read_orders(options.orders):
        quoted = quote(parcel, tariffs)
        total = total + quoted.total
        print(f"{number}  {parcel.destination:<7}{parcel.grams:>7} g  {parcel.service:<9}{quoted.total!s:>12}")
    print(f"{'total':<34}{total!s:>16}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run a command; the result is the exit code."""
    parser = argparse.ArgumentParser(prog="parcels", description="What does it cost to send this parcel?")
    parser.add_argument("--tariffs", type=Path, default=DEFAULT, help="the tariff table, a CSV file")
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("quote", help="quote one parcel")
    one.add_argument("--to", required=True, help="country code, or a region like GB-SCT")
    one.add_argument("--weight", type=float, required=True, help="kilograms")
    one.add_argument("--service", choices=SERVICES, default="standard")
    one.add_argument("--size", default="", help="centimetres, like 60x40x30")
    one.add_argument("--json", action="store_true")
    one.set_defaults(run=run_quote)
    batch = commands.add_parser("batch", help="quote a file of orders")
    batch.add_argument("orders", type=Path)
    batch.set_defaults(run=run_batch)
    options = parser.parse_args(arguments)
    return options.run(options, Tariffs.load(options.tariffs))
