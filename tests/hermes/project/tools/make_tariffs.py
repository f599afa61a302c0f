"""Make data/tariffs.csv: nine zones, three services, twenty-four weight bands."""

from pathlib import Path

BANDS = [250, 500, 750, 1000, 1500, 2000, 2500, 3000, 3500, 4000, 5000, 6000, 7000, 8000, 9000, 10000,
         12000, 14000, 16000, 18000, 20000, 24000, 28000, 31500]
BASE = {"economy": 310, "standard": 445, "express": 1190}
PER_KG = {"economy": 41, "standard": 57, "express": 129}


def euros(cents):
    return f"{cents // 100}.{cents % 100:02d}"


def rows():
    for zone in range(1, 10):
        for service in ("economy", "standard", "express"):
            below = 0
            for place, band in enumerate(BANDS):
                base = BASE[service] + 135 * (zone - 1) + 23 * place
                per_kg = PER_KG[service] + 29 * (zone - 1) - place
                yield zone, service, below, band, euros(base), euros(per_kg)
                below = band


with open(Path(__file__).parent.parent / "data" / "tariffs.csv", "w", encoding="utf-8") as file:
    file.write("zone,service,from_grams,to_grams,base,per_kg\n")
    for row in rows():
        file.write(",".join(str(value) for value in row) + "\n")
