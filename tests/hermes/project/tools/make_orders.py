"""Make data/orders.csv: a day of orders, always the same day."""

from pathlib import Path

PLACES = ["DE", "NO", "FR", "GB", "SE", "US", "IT", "PL", "CH", "DE", "AT", "NL", "IS", "JP", "ES", "BR"]
SIZES = ["", "30x20x10", "60x40x30", "", "80x40x30", "25x25x25"]


def orders():
    seed = 20250314
    for number in range(1, 161):
        seed = seed * 1103515245 + 12345 & 0x7FFFFFFF
        place = PLACES[(seed >> 16) % len(PLACES)]
        if number == 143:
            place = "GB-NIR"
        weight = 0.2 + (seed >> 8) % 9000 / 1000
        service = ("standard", "economy", "express")[(seed >> 20) % 3]
        size = "120x60x40" if number == 151 else SIZES[(seed >> 12) % len(SIZES)]
        yield f"A{number:05d}", f"{weight:.2f}", place, service, size


with open(Path(__file__).parent.parent / "data" / "orders.csv", "w", encoding="utf-8") as file:
    file.write("number,weight,destination,service,size\n")
    for order in orders():
        file.write(",".join(order) + "\n")
