"""The recorded session: what the user asks, and what the scripted model says and does.

The code base is `project`, the skills are `skills`.  Only these words are scripted; what the tools answer is real, and some
of it is failure: a test seen red, a first fix that does not hold, a command that dies with a traceback.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from tests.hermes.server import Call, Reply

__all__ = ["SESSION", "SHORT", "Turn"]


@frozen
class Turn:
    """One request of the user and the replies of the model until it is done."""

    request: str
    replies: tuple[Reply, ...]


def run(command: str) -> Call:
    """A command in the project."""
    return Call("terminal", {"command": command})


def read(path: str, **more: Any) -> Call:
    """A file, or the lines of it that `offset` and `limit` name."""
    return Call("read_file", {"path": path} | more)


def skill(name: str) -> Call:
    """A skill, whole."""
    return Call("skill_view", {"name": name})


def write(path: str, content: str) -> Call:
    """A new file, or an old one anew."""
    return Call("write_file", {"path": path, "content": content})


def patch(path: str, old: str, new: str) -> Call:
    """One passage of a file replaced."""
    return Call("patch", {"mode": "replace", "path": path, "old_string": old, "new_string": new})


def search(pattern: str, **more: Any) -> Call:
    """Where a pattern stands."""
    return Call("search_files", {"pattern": pattern} | more)


def say(text: str, *calls: Call) -> Reply:
    """A reply."""
    return Reply(text, calls)


TESTS = "python -m pytest -q"

ROUNDING_TEST = """\
from decimal import ROUND_HALF_UP, Decimal

import pytest

from parcels.money import Money


def test_no_cent_is_lost_between_text_and_cents():
    for cents in range(10_000):
        assert Money.parse(f"{cents // 100}.{cents % 100:02d}") == Money(cents)


@pytest.mark.parametrize(
    ("cents", "factor", "expected"),
    [
        (109, 2.3, 251),  # 250.7
        (853, 0.065, 55),  # 55.445
        (10, 0.25, 3),  # 2.5: halves go up, as on the price list
        (30, 0.25, 8),  # 7.5
        (100, 1.005, 101),  # 100.5
    ],
)
def test_a_product_is_rounded_half_up(cents, factor, expected):
    assert Money(cents) * factor == Money(expected)


def test_a_sweep_agrees_with_exact_arithmetic():
    wrong = []
    for cents in range(1, 400):
        for grams in range(100, 3000, 100):
            exact = (Decimal(cents) * grams / 1000).quantize(Decimal(1), ROUND_HALF_UP)
            if Money(cents) * (grams / 1000) != Money(int(exact)):
                wrong.append((cents, grams))
    assert wrong == []
"""

SWEEP = '''\
"""Every price of the table at every 100 g, against exact arithmetic."""

import csv
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

from parcels.model import Parcel
from parcels.pricing import quote
from parcels.tariffs import DEFAULT, Tariffs
from parcels.zones import ZONES

CENT = Decimal("0.01")
PLACES = {zone: place for place, zone in reversed(ZONES.items())}


def exact(record, grams):
    freight = Decimal(record["base"]) + (Decimal(record["per_kg"]) * grams / 1000).quantize(CENT, ROUND_HALF_UP)
    return freight + (freight * Decimal("0.065")).quantize(CENT, ROUND_HALF_UP)


table, wrong, seen = Tariffs.load(), [], 0
for record in csv.DictReader(Path(DEFAULT).open(encoding="utf-8")):
    place = PLACES.get(int(record["zone"]))
    if place is None:
        continue
    for grams in range(int(record["from_grams"]) + 100, int(record["to_grams"]) + 1, 100):
        seen += 1
        should, says = exact(record, grams), quote(Parcel(place, grams, record["service"]), table).total
        if int(should * 100) != says.cents:
            wrong.append((place, record["service"], grams, should, says))
for place, service, grams, should, says in wrong[:60]:
    print(f"{place} {service:<9}{grams:>6} g  should {should:>6}  says {says!s:>10}")
worst = max((int(should * 100) - says.cents for *_, should, says in wrong), default=0)
print(f"{len(wrong)} of {seen} prices differ, at most by {worst} cents")
'''

ROUNDING = Turn(
    "A customer in Sweden complained, and I think they are right to be puzzled, though in their favour: a standard "
    "parcel of 2.3 kg was quoted at 11.73 EUR, and by our price list it has to be 11.76. Please find out why, mend it "
    "where it is broken and not just for this one price, and tell me how many prices are affected and by how much. "
    "The accountant needs that number.",
    (
        say("A wrong number: I load the skill for that before I touch anything.", skill("find-the-cause")),
        say(
            "First the lay of the land.",
            run("git log --oneline; git status --short; ls; ls parcels tests tools data"),
            read("README.md"),
        ),
        say("Now the failure, on this machine.", run("python -m parcels quote --to SE --weight 2.3")),
        say(
            "11.73, as reported. Freight and fuel are separate lines; I read how they come about.",
            read("parcels/pricing.py"),
            read("parcels/money.py"),
        ),
        say(
            "`Money.euros` cuts off with `int`. Before I believe that it is the cause I want to see the value on its "
            "way, from the table on.",
            read("parcels/tariffs.py"),
        ),
        say("The table itself, to rule out that the row is wrong.", read("data/tariffs.csv")),
        say(
            "Row zone 3, standard, 2000 to 2500 g: base 8.53, per kg 1.09. By hand: 1.09 × 2.3 = 2.507, so 2.51; "
            "freight 11.04; fuel 0.7176, so 0.72; total 11.76. The list is right and the program is wrong. The skill "
            "asks for a sweep rather than one nice number.",
            write("tools/sweep.py", SWEEP),
        ),
        say("", run("PYTHONPATH=. python tools/sweep.py")),
        say(
            "Thousands, not one. Now the values in full precision, to separate what is cut off from what is inexact.",
            run(
                'python -c "print([(x, x * 100, int(x * 100)) for x in (8.53, 1.09, 4.02, 0.57, 14.89)]); '
                'print(1.09 * 2.3 * 100, 11.04 * 0.065 * 100)"'
            ),
        ),
        say(
            "Two things: `int` truncates products (250.7 becomes 250), and even amounts that are exact in the table lose a "
            "cent when they are read, because 4.02 * 100 is 401.99999. Where else are floats turned into cents?",
            search("100", path="parcels"),
        ),
        say(
            "Only `Money` makes cents. The cause in one sentence: amounts pass through binary floats and are truncated, both "
            "when read and when multiplied. A test for the cause, to be seen red first.",
            write("tests/test_rounding.py", ROUNDING_TEST),
        ),
        say("", run(TESTS)),
        say(
            "Red for the reason I expect. The least change: round instead of cutting off.",
            patch("parcels/money.py", "return cls(int(value * 100))", "return cls(round(value * 100))"),
        ),
        say("", run(TESTS)),
        say(
            "Better but not right: `round` takes halves to the even neighbour, and 1.005 is not 1.005 in binary. So exact "
            "arithmetic: decimal text in, one rounding, half up.",
            patch(
                "parcels/money.py",
                "from dataclasses import dataclass\n",
                "from dataclasses import dataclass\nfrom decimal import ROUND_HALF_UP, Decimal\n",
            ),
            patch(
                "parcels/money.py",
                '''    @classmethod
    def euros(cls, value: float) -> Money:
        """An amount given in euros."""
        return cls(round(value * 100))

    @classmethod
    def parse(cls, text: str) -> Money:
        """An amount written like 12.30 or 12,30."""
        return cls.euros(float(text.strip().replace(",", ".")))
''',
                '''    @classmethod
    def euros(cls, value: Decimal) -> Money:
        """An amount given in euros, rounded half up to whole cents."""
        return cls(int((value * 100).quantize(Decimal(1), ROUND_HALF_UP)))

    @classmethod
    def parse(cls, text: str) -> Money:
        """An amount written like 12.30 or 12,30."""
        return cls.euros(Decimal(text.strip().replace(",", ".")))
''',
            ),
            patch(
                "parcels/money.py",
                "return Money.euros(self.cents / 100 * factor)",
                "return Money.euros(Decimal(self.cents) / 100 * Decimal(str(factor)))",
            ),
        ),
        say("", run(TESTS)),
        say(
            "Green. The sweep again, and the command the report came with.",
            run("PYTHONPATH=. python tools/sweep.py; python -m parcels quote --to SE --weight 2.3"),
        ),
        say(
            "",
            run(
                "git add -A && git commit -q -m 'Money is exact: decimals, rounded half up once' "
                "-m 'Amounts went through floats and were cut off, when read and when multiplied.' "
                "&& git show --stat HEAD"
            ),
        ),
        say(
            "Mended. The cause: amounts went through binary floats and were cut off instead of rounded, both when the table "
            "was read and when a price was multiplied, so heavy parcels lost most. For the accountant: of all prices at 100 g "
            "steps (zones 1 to 8, all services) 5660 of 7512 were too low, by 35 cents at most; tools/sweep.py stays, so that "
            "it can be run again. Now 0 differ, and 2.3 kg to SE is 11.76 EUR. tests/test_rounding.py guards it."
        ),
    ),
)

VOLUME_TEST = """\
import pytest

from parcels.model import Parcel
from parcels.money import Money
from parcels.pricing import quote
from parcels.tariffs import Row, Tariffs

TABLE = Tariffs(
    [
        Row(1, "standard", 0, 5000, Money(500), Money(50)),
        Row(1, "standard", 5000, 31500, Money(900), Money(40)),
    ]
)


def charged(grams, size):
    return Parcel("DE", grams, size=size).charged_grams


def test_without_a_size_the_weight_counts():
    assert charged(1200, None) == 1200


def test_the_larger_of_weight_and_volume_counts():
    assert charged(2000, (60, 40, 30)) == 14400  # 72,000 cm3 / 5,000 = 14.4 kg
    assert charged(20000, (60, 40, 30)) == 20000
    assert charged(14400, (60, 40, 30)) == 14400


def test_the_order_of_the_sides_does_not_matter():
    assert charged(1, (10, 20, 30)) == charged(1, (30, 10, 20)) == 1200


@pytest.mark.parametrize(("size", "grams"), [((1, 1, 1), 1), ((25, 200, 1), 1000), ((25, 200, 2), 2000), ((1, 1, 7), 2)])
def test_a_started_gram_is_a_gram(size, grams):
    assert charged(1, size) == grams


def test_a_bulky_parcel_says_how_much_its_size_costs():
    small, bulky = quote(Parcel("DE", 2000), TABLE), quote(Parcel("DE", 2000, size=(60, 40, 30)), TABLE)
    assert [line.text for line in bulky.lines] == ["freight zone 1 standard", "bulky 14.4 kg", "fuel"]
    assert bulky.lines[0] == small.lines[0]
    assert bulky.lines[1].amount == Money(876)  # 9.00 + 14.4 × 0.40 = 14.76, less 5.00 + 2 × 0.50 = 6.00


def test_a_heavy_parcel_has_no_line_for_its_size():
    assert "bulky" not in str(quote(Parcel("DE", 2000, size=(10, 10, 10)), TABLE).lines)
"""

VOLUME = Turn(
    "Good. Next: bulky goods. From the first of next month a parcel pays for its weight or its volumetric weight, whichever is "
    "more. Volumetric weight in kg is length × width × height in cm divided by 5000, a started gram counts as a gram. The customer "
    "should see it: freight by weight as today, then a line of its own, `bulky 14.4 kg`, with what the size adds, then fuel on "
    "both. Parcels without a size stay as they are. Tests first, please; border cases too.",
    (
        say("The skill for that first.", skill("test-first")),
        say(
            "What there is to build on.",
            read("parcels/model.py"),
            read("tests/test_pricing.py"),
            read("parcels/orders.py"),
        ),
        say(
            "The sentences of the request as tests; expected values by hand.",
            write("tests/test_volume.py", VOLUME_TEST),
        ),
        say("", run(TESTS)),
        say(
            "Red: the property is missing. Now the least code.",
            patch(
                "parcels/model.py",
                "\n\n@dataclass(frozen=True)\nclass Line:",
                '''
    @property
    def charged_grams(self) -> int:
        """The weight that is paid for: its own, or what it is worth by volume."""
        if self.size is None:
            return self.grams
        length, width, height = self.size
        return max(self.grams, length * width * height // 5)


@dataclass(frozen=True)
class Line:''',
            ),
            patch(
                "parcels/pricing.py",
                """    zone = zone_of(parcel.destination)
    row = tariffs.find(zone, parcel.service, parcel.grams)
    freight = row.base + row.per_kg * (parcel.grams / 1000)
    lines = [Line(f"freight zone {zone} {parcel.service}", freight), Line("fuel", freight * FUEL)]
""",
                """    zone = zone_of(parcel.destination)
    freight = freight_of(zone, parcel.service, parcel.grams, tariffs)
    lines = [Line(f"freight zone {zone} {parcel.service}", freight)]
    if parcel.charged_grams > parcel.grams:
        bulky = freight_of(zone, parcel.service, parcel.charged_grams, tariffs)
        lines.append(Line(f"bulky {parcel.charged_grams / 1000:g} kg", Money(bulky.cents - freight.cents)))
        freight = bulky
    lines.append(Line("fuel", freight * FUEL))
""",
            ),
            patch(
                "parcels/pricing.py",
                "def quote(parcel: Parcel",
                '''def freight_of(zone: int, service: str, grams: int, tariffs: Tariffs) -> Money:
    """What the table asks for a weight."""
    row = tariffs.find(zone, service, grams)
    return row.base + row.per_kg * (grams / 1000)


def quote(parcel: Parcel''',
            ),
        ),
        say("", run(TESTS)),
        say(
            "One border is wrong: a started gram has to count, and `//` drops it. 7 cm3 are 1.4 g, so 2.",
            patch("parcels/model.py", "length * width * height // 5)", "-(-length * width * height // 5))"),
        ),
        say("", run("python -m pytest -v --no-header")),
        say(
            "Green. The example of the README, and the sample day: both have sizes.",
            run("python -m parcels quote --to NO --weight 2.0 --service express --size 60x40x30"),
            run("python -m parcels batch data/orders.csv"),
        ),
        say(
            "The quote is right. The batch stops at order A00143 with an error that was there before: the region GB-NIR is not known. "
            "That is not part of this request, so I leave it and say it. One more thing to look at: parcels whose volumetric weight "
            "is above the heaviest band.",
            run("python -m parcels quote --to DE --weight 5 --size 120x80x80 2>&1 | tail -n 3"),
            read("parcels/cli.py"),
        ),
        say(
            "That is refused by the table (153.6 kg), with a traceback for a message. I note it as open. README and commit.",
            patch(
                "README.md",
                "Weights are kilograms on the command line",
                "A parcel that is larger than it is heavy pays for its size: length × width × height in cm divided by 5000 is its\n"
                "weight in kg. Weights are kilograms on the command line",
            ),
        ),
        say(
            "",
            run(
                "git add -A && git commit -q -m 'Bulky parcels pay for their volume' && git show HEAD -- parcels README.md"
            ),
        ),
        say(
            "Done, tests first: `Parcel.charged_grams`, a line `bulky 14.4 kg` in the quote, fuel on both, started grams round up; "
            "quotes without a size are unchanged. Two things I saw and left alone: `batch` dies at order A00143 (`unknown zone "
            "'GB-NIR'`), and a parcel above 31.5 kg by volume ends in a traceback instead of a message."
        ),
    ),
)

ORDERS_TEST = """\
import pytest

from parcels.cli import main
from parcels.orders import read_orders
from parcels.zones import zone_of

HEADER = "number,weight,destination,service,size\\n"
GOOD = "A1,1.00,DE,standard,\\n"


def file_with(tmp_path, text):
    path = tmp_path / "orders.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_northern_ireland_is_a_zone_of_its_own():
    assert zone_of("GB-NIR") == zone_of("gb-nir") == 4


def test_other_regions_go_by_their_country():
    assert zone_of("GB-SCT") == zone_of("GB") == 3
    assert zone_of("US-AK") == zone_of("US") == 7
    assert zone_of("BR-SP") == zone_of("BR") == 9


def test_a_region_of_a_forbidden_country_is_forbidden():
    with pytest.raises(ValueError, match="no parcels to KP-01"):
        zone_of("KP-01")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("A2,heavy,DE,standard,", "weight"),
        ("A2,0,DE,standard,", "weighs something"),
        ("A2,1.0,DE,pigeon,", "unknown service"),
        ("A2,1.0,DE,standard,60x40", "size"),
        ("A2,1.0,DE", "5 columns"),
        ("A2,1.0,KP,standard,", "no parcels to KP"),
        ("A2,99,DE,standard,", "no tariff"),
    ],
)
def test_a_bad_order_is_reported_with_its_line_and_the_others_are_priced(tmp_path, capsys, line, message):
    path = file_with(tmp_path, HEADER + GOOD + line + "\\n" + GOOD.replace("A1", "A3"))
    assert main(["batch", str(path)]) == 1
    out, err = capsys.readouterr()
    assert [row.split()[0] for row in out.splitlines()] == ["A1", "A3", "total"]
    assert err.startswith(f"{path}:3: ")
    assert message in err


def test_an_empty_line_is_no_order(tmp_path):
    orders = list(read_orders(file_with(tmp_path, HEADER + "\\n" + GOOD + "\\n")))
    assert [(order.line, order.number) for order in orders] == [(3, "A1")]


def test_a_file_without_a_header_is_read_as_well(tmp_path):
    assert [order.line for order in read_orders(file_with(tmp_path, GOOD))] == [1]
"""

ORDERS_CODE = '''\
"""A day's orders: a CSV file with number, weight in kilograms, destination, service, size."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from parcels.model import Parcel

COLUMNS = ("number", "weight", "destination", "service", "size")


@dataclass(frozen=True)
class Order:
    """An order as it stands in a file; whether it makes a parcel is another question."""

    line: int
    fields: tuple[str, ...]

    @property
    def number(self) -> str:
        return self.fields[0]

    def parcel(self) -> Parcel:
        """The parcel ordered; ValueError says what is wrong."""
        if len(self.fields) != len(COLUMNS):
            raise ValueError(f"an order has {len(COLUMNS)} columns ({', '.join(COLUMNS)}), this one has {len(self.fields)}")
        _, weight, destination, service, size = self.fields
        try:
            grams = round(float(weight) * 1000)
        except ValueError:
            raise ValueError(f"the weight {weight!r} is not a number of kilograms") from None
        return Parcel(destination, grams, service, parse_size(size))


def parse_size(text: str) -> tuple[int, int, int] | None:
    """A size written like 60x40x30, in centimetres; nothing for nothing."""
    if not text:
        return None
    try:
        length, width, height = (int(part) for part in text.lower().split("x"))
    except ValueError:
        raise ValueError(f"the size {text!r} is not written like 60x40x30") from None
    return length, width, height


def read_orders(path: Path) -> Iterator[Order]:
    """The orders of a file, good and bad; the header and empty lines are none."""
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        for fields in reader:
            if fields and fields[0] != COLUMNS[0]:
                yield Order(reader.line_num, tuple(fields))
'''

NIGHTLY = Turn(
    "You were right about GB-NIR, the nightly job died on it and the warehouse got half a list. Northern Ireland is zone 4 since January "
    "because of customs; all other regions go by their country. And one bad order must never again kill the whole list: price the "
    "others, report each bad one on stderr with file and line, and exit with 1 so that the job turns red.",
    (
        say(
            "Something crashes, so the skill again, and the failure itself.",
            skill("find-the-cause"),
            run("python -m parcels batch data/orders.csv > /dev/null"),
        ),
        say(
            "Where regions are decided, and what the file holds around that line.",
            read("parcels/zones.py"),
            read("data/orders.csv"),
            search("GB-", path="data"),
            search("GB", path="parcels"),
        ),
        say(
            "`zone_of` knows no regions at all: the branch with '-' only raises, though its docstring promises GB-SCT. That is the cause "
            "of the crash. That one bad order kills the list is another: `run_batch` has no place where an order can fail. Tests.",
            write("tests/test_orders.py", ORDERS_TEST),
        ),
        say("", run(TESTS)),
        say(
            "Red as expected. Zones first.",
            patch(
                "parcels/zones.py",
                """    code = destination.strip().upper()
    if code in FORBIDDEN:
        raise ValueError(f"no parcels to {code}")
    if code in ZONES:
        return ZONES[code]
    if "-" in code:
        raise ValueError(f"unknown zone {code!r}")
    return REST_OF_WORLD
""",
                """    code = destination.strip().upper()
    country = code.split("-")[0]
    if country in FORBIDDEN:
        raise ValueError(f"no parcels to {code}")
    if code in REGIONS:
        return REGIONS[code]
    return ZONES.get(country, REST_OF_WORLD)
""",
            ),
            patch(
                "parcels/zones.py",
                "REST_OF_WORLD = 9\n",
                "# Regions that are not where their country is; all others go by it.\n"
                'REGIONS: dict[str, int] = {"GB-NIR": 4}\nREST_OF_WORLD = 9\n',
            ),
            write("parcels/orders.py", ORDERS_CODE),
        ),
        say(
            "Now the batch: an order that fails is kept for the end.",
            patch(
                "parcels/cli.py",
                """    total = ZERO
    for number, parcel in read_orders(options.orders):
        quoted = quote(parcel, tariffs)
        total = total + quoted.total
        print(f"{number}  {parcel.destination:<7}{parcel.grams:>7} g  {parcel.service:<9}{quoted.total!s:>12}")
    print(f"{'total':<34}{total!s:>16}")
    return 0
""",
                """    total, bad = ZERO, []
    for order in read_orders(options.orders):
        try:
            parcel = order.parcel()
            quoted = quote(parcel, tariffs)
        except ValueError as error:
            bad.append(f"{options.orders}:{order.line}: order {order.number}: {error}")
            continue
        total = total + quoted.total
        print(f"{order.number}  {parcel.destination:<7}{parcel.grams:>7} g  {parcel.service:<9}{quoted.total!s:>12}")
    print(f"{'total':<34}{total!s:>16}")
    for message in bad:
        print(message, file=sys.stderr)
    return 1 if bad else 0
""",
            ),
        ),
        say("", run(TESTS)),
        say("Green. The real thing, whole: 160 orders.", run("python -m parcels batch data/orders.csv; echo exit $?")),
        say(
            "A00143 is priced in zone 4. Another one is reported now, by file and line: A00151 is 57.6 kg by volume, for which there is "
            "no tariff. That one is real, somebody has to look at it. I try the ways a file can be bad by hand as well.",
            run(
                "printf 'number,weight,destination,service,size\\nB1,1.0,GB-NIR,express,\\nB2,,DE,standard,\\n"
                "B3,1.0,SY,standard,\\nB4,40,DE,economy,\\nB5,1.0,DE,standard,0x1x1\\n' > bad-orders.csv; "
                "python -m parcels batch bad-orders.csv; echo exit $?; rm bad-orders.csv"
            ),
        ),
        say(
            "The single quote still ends in a traceback for the same errors; it is one line to treat it alike, and it was on my list.",
            patch(
                "parcels/cli.py",
                """    parcel = Parcel(options.to, round(options.weight * 1000), options.service, parse_size(options.size))
    quoted = quote(parcel, tariffs)
""",
                """    try:
        parcel = Parcel(options.to, round(options.weight * 1000), options.service, parse_size(options.size))
        quoted = quote(parcel, tariffs)
    except ValueError as error:
        print(f"parcels: {error}", file=sys.stderr)
        return 2
""",
            ),
        ),
        say("", run("python -m parcels quote --to DE --weight 5 --size 120x80x80; echo exit $?; " + TESTS)),
        say(
            "",
            run(
                "git add -A && git commit -q -m 'A bad order is reported, not the end of the list; regions have zones' "
                "&& git show --stat HEAD"
            ),
        ),
        say(
            "The nightly job: cause one, `zone_of` refused every region; now GB-NIR is zone 4 and all others go by their country, forbidden "
            "ones included. Cause two, nothing in `batch` could fail alone; now each bad order is one line on stderr with file, line and "
            "order number, the others are priced, the exit code is 1. `quote` says such errors in one line too, exit code 2."
        ),
    ),
)

COUNT = '''\
"""How many rows of the table a day of orders looks at."""

from pathlib import Path

from parcels.orders import read_orders
from parcels.pricing import quote
from parcels.tariffs import Tariffs

table, priced = Tariffs.load(), 0
for _ in range(10):
    for order in read_orders(Path("data/orders.csv")):
        try:
            quote(order.parcel(), table)
        except ValueError:
            continue
        priced += 1
print(f"{priced} orders, {table.looked_at} rows looked at, {table.looked_at / priced:.1f} an order")
'''

LOOKUP_TEST = """\
import pytest

from parcels.money import Money
from parcels.tariffs import Row, Tariffs


def row(zone, low, high, service="standard"):
    return Row(zone, service, low, high, Money(high), Money(1))


def test_finds_what_a_scan_finds():
    table = Tariffs.load()
    for each in table.rows:
        assert table.find(each.zone, each.service, each.from_grams + 1) == each
        assert table.find(each.zone, each.service, each.to_grams) == each


def test_looks_at_few_rows():
    table = Tariffs.load()
    for grams in range(100, 31500, 100):
        table.find(9, "express", grams)
    assert table.looked_at <= 314 * 2


def test_the_order_of_rows_does_not_matter():
    rows = [row(1, 1000, 2000), row(2, 0, 500), row(1, 0, 1000)]
    assert Tariffs(rows).find(1, "standard", 1000) == rows[2]
    assert Tariffs(rows).find(1, "standard", 1001) == rows[0]


@pytest.mark.parametrize(("zone", "grams"), [(1, 0), (1, 501), (1, 750), (1, 2001), (3, 100)])
def test_what_no_row_holds_for_is_refused(zone, grams):
    table = Tariffs([row(1, 0, 500), row(1, 1000, 2000)])
    with pytest.raises(ValueError, match=f"no tariff for zone {zone}, standard, {grams} g"):
        table.find(zone, "standard", grams)


def test_rows_that_overlap_are_refused():
    with pytest.raises(ValueError, match="zone 1, standard: 0 to 600 g and 500 to 900 g overlap"):
        Tariffs([row(1, 500, 900), row(1, 0, 600)])
"""

LOOKUP = Turn(
    "The large shop wants to send us 20,000 orders a night, and on their trial run pricing took minutes. I suspect the table. Please measure "
    "before you change anything, then make the lookup cheap. `Tariffs(rows)`, `Tariffs.load` and `find` have to stay as they are for "
    "callers, but I would like overlapping rows to be refused, we had that once.",
    (
        say("Measured in rows looked at, which is the same on every machine.", write("tools/count_lookups.py", COUNT)),
        say("", run("PYTHONPATH=. python tools/count_lookups.py"), read("parcels/tariffs.py")),
        say(
            "Every lookup walks the table from its first row: half of it on average. The rest of the table, to see whether "
            "bands are the same for all services and whether they have gaps.",
            read("data/tariffs.csv", offset=500, limit=200),
        ),
        say(
            "Bands are sorted and without gaps here, but nothing promises that. Tests for what must stay and for what is new.",
            write("tests/test_lookup.py", LOOKUP_TEST),
        ),
        say("", run(TESTS)),
        say(
            "Two red: the number of rows, and overlaps. Everything else is how it was, which is the point. Now bands by zone and "
            "service, found by bisection of their upper ends.",
            patch(
                "parcels/tariffs.py",
                """    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.looked_at = 0
""",
                """    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.looked_at = 0
        self._bands: dict[tuple[int, str], list[Row]] = {}
        for row in sorted(rows, key=lambda row: row.to_grams):
            self._bands.setdefault((row.zone, row.service), []).append(row)
        for (zone, service), bands in self._bands.items():
            for lower, upper in pairwise(bands):
                if upper.from_grams < lower.to_grams:
                    raise ValueError(
                        f"zone {zone}, {service}: {lower.from_grams} to {lower.to_grams} g and "
                        f"{upper.from_grams} to {upper.to_grams} g overlap"
                    )
""",
            ),
            patch(
                "parcels/tariffs.py",
                """        for row in self.rows:
            self.looked_at += 1
            if row.zone == zone and row.service == service and row.from_grams < grams <= row.to_grams:
                return row
        raise ValueError""",
                """        bands = self._bands.get((zone, service), [])
        place = bisect_left(bands, grams, key=lambda row: row.to_grams)
        if place < len(bands):
            self.looked_at += 1
            if bands[place].from_grams < grams:
                return bands[place]
        raise ValueError""",
            ),
            patch(
                "parcels/tariffs.py",
                "import csv\nfrom dataclasses import dataclass\n",
                "import csv\nfrom bisect import bisect_left\nfrom dataclasses import dataclass\nfrom itertools import pairwise\n",
            ),
        ),
        say("", run(TESTS)),
        say(
            "Green. The count again, and the sweep over all prices, which must still find no difference.",
            run("PYTHONPATH=. python tools/count_lookups.py; PYTHONPATH=. python tools/sweep.py"),
        ),
        say(
            "And the day's list as a whole: it may not change by a cent.",
            run(
                "python -m parcels batch data/orders.csv > after.txt 2>&1; git stash -q; "
                "python -m parcels batch data/orders.csv > before.txt 2>&1; git stash pop -q; "
                "cmp before.txt after.txt && echo same; wc -l after.txt; rm before.txt after.txt"
            ),
        ),
        say(
            "",
            run(
                "git add -A && git commit -q -m 'Tariffs are found by bisection; overlapping rows are refused' && git show HEAD -- parcels"
            ),
        ),
        say(
            "The table was it: each lookup walked it from the top, several hundred rows an order. Now it is one row an order, found by "
            "bisection within zone and service. Prices are the same everywhere (sweep: 0 differ; the day's list is identical). Overlapping "
            "rows are refused with both bands named. tools/count_lookups.py stays, for the next time."
        ),
    ),
)

RENAME = Turn(
    "Small thing: `size` is a poor name, everybody reads it as S/M/L. In the code it should be `dimensions`, everywhere. Not in what others "
    "see: the shop's JSON key stays `size`, the column of the orders file and the command line option too.",
    (
        say("All places first.", search("size", path="parcels")),
        say(
            'The fields and parameters change; `"size"` in export, the column name, `--size` and messages to users stay.',
            patch(
                "parcels/model.py",
                "    size: tuple[int, int, int] | None = None  # centimetres",
                "    dimensions: tuple[int, int, int] | None = None  # centimetres",
            ),
            patch(
                "parcels/model.py",
                """        if self.size is not None and min(self.size) <= 0:
            raise ValueError(f"a parcel has a size, not {self.size}")""",
                """        if self.dimensions is not None and min(self.dimensions) <= 0:
            raise ValueError(f"a parcel has a size, not {self.dimensions}")""",
            ),
            patch(
                "parcels/model.py",
                """        if self.size is None:
            return self.grams
        length, width, height = self.size""",
                """        if self.dimensions is None:
            return self.grams
        length, width, height = self.dimensions""",
            ),
            patch(
                "parcels/export.py",
                '"size": list(parcel.size) if parcel.size else None,',
                '"size": list(parcel.dimensions) if parcel.dimensions else None,',
            ),
        ),
        say("Callers that use the name, in tests.", run("grep -rn 'size=' tests parcels | cut -c1-150; " + TESTS)),
        say(
            "Three places in one test file, nothing else; positional use is untouched. `parse_size` becomes `parse_dimensions` for "
            "consistency, its message stays.",
            run(
                "sed -i 's/size=(/dimensions=(/; s/size=size/dimensions=size/' tests/test_volume.py && "
                "sed -i 's/parse_size/parse_dimensions/g' parcels/orders.py parcels/cli.py && git diff --stat"
            ),
        ),
        say("", run(TESTS + "; python -m parcels quote --to NO --weight 2.0 --size 60x40x30 --json")),
        say("", search("size", path="parcels")),
        say(
            "What is left is what others see. The diff once more, then the commit.",
            run("git diff"),
            run("git commit -q -a -m 'A parcel has dimensions; what others see stays size' && git log --oneline"),
        ),
        say(
            "Renamed: `Parcel.dimensions`, `parse_dimensions`. Unchanged for others: the JSON key `size`, the column, `--size`, the messages."
        ),
    ),
)

CARRIER_TEST = """\
import pytest

from parcels.money import Money
from parcels.tariffs import Tariffs

OURS = "zone,service,from_grams,to_grams,base,per_kg\\n1,standard,0,1000,4.45,0.57\\n"
THEIRS = "Zone;Service;From (g);To (g);Base EUR;Per kg EUR\\r\\n1;standard;0;1000;4,45;0,57\\r\\n"


def load(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode(encoding))
    return Tariffs.load(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("text", [OURS, THEIRS])
def test_both_forms_give_the_same_table(tmp_path, text, encoding):
    (row,) = load(tmp_path, text, encoding).rows
    assert (row.zone, row.to_grams, row.base, row.per_kg) == (1, 1000, Money(445), Money(57))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "table.csv:1: no header"),
        (OURS.replace("per_kg", "kilo"), "table.csv:1: no column per_kg; there are: zone, service, from_grams, to_grams, base, kilo"),
        (OURS + "1,standard,1000,2000,cheap,0.5\\n", "table.csv:3: base: 'cheap' is not an amount"),
        (OURS + "one,standard,1000,2000,5,0.5\\n", "table.csv:3: zone: 'one' is not a whole number"),
        (OURS + "1,standard,1000,2000\\n", "table.csv:3: 4 columns instead of 6"),
        (OURS + "1,standard,2000,1000,5,0.5\\n", "table.csv:3: from_grams 2000 is not below to_grams 1000"),
    ],
)
def test_what_is_wrong_is_said_with_file_line_and_column(tmp_path, text, message):
    with pytest.raises(ValueError) as caught:
        load(tmp_path, text)
    assert str(caught.value).endswith(message)


def test_an_empty_line_is_no_row(tmp_path):
    assert len(load(tmp_path, OURS + "\\n").rows) == 1
"""

TABLE_FILE = '''\
"""Tariff tables as files: ours, and as the carrier sends them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from decimal import InvalidOperation
from pathlib import Path

from parcels.money import Money

COLUMNS = ("zone", "service", "from_grams", "to_grams", "base", "per_kg")
# What the carrier calls our columns, in lower case.
ALIASES = {"from (g)": "from_grams", "to (g)": "to_grams", "base eur": "base", "per kg eur": "per_kg"}


def read_table(path: Path) -> Iterator[dict[str, object]]:
    """The rows of a file, by our names; ValueError names file, line and column.

    Comma or semicolon, decimal point or comma, with or without a byte order mark.
    """
    with open(path, encoding="utf-8-sig", newline="") as file:
        first = file.readline()
        if not first.strip():
            raise ValueError(f"{path}:1: no header")
        delimiter = ";" if ";" in first else ","
        names = [_ours(name) for name in first.strip().split(delimiter)]
        for column in COLUMNS:
            if column not in names:
                raise ValueError(f"{path}:1: no column {column}; there are: {', '.join(names)}")
        reader = csv.reader(file, delimiter=delimiter)
        for fields in reader:
            if fields:
                yield _row(dict(zip(names, fields, strict=False)), len(names), f"{path}:{reader.line_num + 1}")


def _ours(name: str) -> str:
    name = name.strip().lower()
    return ALIASES.get(name, name)


def _row(fields: dict[str, str], expected: int, place: str) -> dict[str, object]:
    if len(fields) != expected:
        raise ValueError(f"{place}: {len(fields)} columns instead of {expected}")
    row: dict[str, object] = {"service": fields["service"]}
    for column in ("zone", "from_grams", "to_grams"):
        try:
            row[column] = int(fields[column])
        except ValueError:
            raise ValueError(f"{place}: {column}: {fields[column]!r} is not a whole number") from None
    for column in ("base", "per_kg"):
        try:
            row[column] = Money.parse(fields[column])
        except InvalidOperation:
            raise ValueError(f"{place}: {column}: {fields[column]!r} is not an amount") from None
    if not row["from_grams"] < row["to_grams"]:
        raise ValueError(f"{place}: from_grams {row['from_grams']} is not below to_grams {row['to_grams']}")
    return row
'''

CARRIER = Turn(
    "The carrier sends the new tariffs in their own form, and `--tariffs` crashes on it. The first lines look like this:\n\n"
    "Zone;Service;From (g);To (g);Base EUR;Per kg EUR\n1;economy;0;250;3,35;0,44\n1;economy;250;500;3,58;0,43\n"
    "1;economy;500;750;3,81;0,42\n\n"
    "There is a byte order mark in front and they use Windows line ends. Both forms should load with the same option, without anybody "
    "having to say which one it is. When a file is bad I want file, line and column in the message; last year somebody spent a day on "
    "a table with a word in a price column.",
    (
        say(
            "I make such a file out of the given lines and look at the crash.",
            run(
                "printf '\\357\\273\\277Zone;Service;From (g);To (g);Base EUR;Per kg EUR\\r\\n1;economy;0;250;3,35;0,44\\r\\n"
                "1;economy;250;500;3,58;0,43\\r\\n1;economy;500;750;3,81;0,42\\r\\n' > carrier.csv; "
                "python -m parcels --tariffs carrier.csv quote --to DE --weight 0.4 --service economy"
            ),
        ),
        say(
            "A `KeyError: 'zone'` from deep inside. The table in its present form, and who else calls `load`.",
            read("parcels/tariffs.py"),
            search("Tariffs.load", path="parcels"),
            search("Tariffs.load", path="tests"),
        ),
        say(
            "Reading files is a job of its own by now; I put it into a module `table_file`, and `Tariffs.load` only builds rows. The way "
            "of the skill loaded earlier: tests first, messages word by word.",
            write("tests/test_table_file.py", CARRIER_TEST),
        ),
        say("", run(TESTS)),
        say(
            "Red throughout, apart from our own form. The module:",
            write("parcels/table_file.py", TABLE_FILE),
            patch(
                "parcels/tariffs.py",
                '''        """Read a table from a CSV file with the columns of COLUMNS."""
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
''',
                '''        """Read a table from a CSV file, ours or the carrier's; ValueError says what is wrong and where."""
        return cls([Row(**record) for record in read_table(path)])
''',
            ),
            patch("parcels/tariffs.py", "import csv\nfrom bisect", "from bisect"),
            patch(
                "parcels/tariffs.py",
                "from parcels.money import Money\n",
                "from parcels.money import Money\nfrom parcels.table_file import read_table\n",
            ),
            patch(
                "parcels/tariffs.py", 'COLUMNS = ("zone", "service", "from_grams", "to_grams", "base", "per_kg")\n', ""
            ),
        ),
        say("", run(TESTS)),
        say(
            "Green. The carrier's file, one with a word in a price column, and the message on the command line.",
            run(
                "python -m parcels --tariffs carrier.csv quote --to DE --weight 0.4 --service economy; "
                "sed 's/3,58/cheap/' carrier.csv > broken.csv; "
                "python -m parcels --tariffs broken.csv quote --to DE --weight 0.4 --service economy; echo exit $?"
            ),
        ),
        say(
            "The message is right, but it arrives at the end of a traceback, since the table is loaded outside of what catches errors.",
            patch(
                "parcels/cli.py",
                "    return options.run(options, Tariffs.load(options.tariffs))\n",
                """    try:
        tariffs = Tariffs.load(options.tariffs)
    except (OSError, ValueError) as error:
        print(f"parcels: {error}", file=sys.stderr)
        return 2
    return options.run(options, tariffs)
""",
            ),
        ),
        say(
            "",
            run(
                "python -m parcels --tariffs broken.csv quote --to DE --weight 0.4; echo exit $?; "
                "python -m parcels --tariffs nowhere.csv quote --to DE --weight 0.4; echo exit $?; "
                "rm broken.csv carrier.csv; " + TESTS + "; PYTHONPATH=. python tools/sweep.py"
            ),
        ),
        say(
            "",
            run(
                "git add -A && git commit -q -m 'Tariff tables: the carrier form loads too, errors name file, line and column' "
                "&& git show HEAD -- parcels"
            ),
        ),
        say(
            "`--tariffs` takes both forms: comma or semicolon, decimal point or comma, with or without byte order mark, the carrier's column "
            "names included. A bad file is one line such as `broken.csv:3: base: 'cheap' is not an amount`, exit code 2; missing columns are "
            "named along with those that are there."
        ),
    ),
)

NOTES = """\
# Changelog

## 0.4.0

Changed

- A parcel that is larger than it is heavy pays for its size (length × width × height in cm / 5000 = kg). Quotes have a line
  `bulky N kg` then, and fuel is reckoned on both. Quotes without `--size` are as before.
- `GB-NIR` is zone 4; other regions, like `GB-SCT`, go by their country. Both were refused before.
- `batch` prices what it can, reports every bad order on stderr with file and line, and exits with 1 if there was one.
- `Parcel.size` is `Parcel.dimensions`, `parse_size` is `parse_dimensions`. The JSON key, the column and `--size` stay.
- Tables with overlapping bands are refused.

Fixed

- Prices were up to 35 cents too low, because amounts were cut off instead of rounded; since 0.3.0. `tools/sweep.py` shows that
  none is now; at 0.3.2 it lists which were.
- `quote` and `--tariffs` say in one line what is wrong instead of showing a traceback.

Added

- `--tariffs` reads the carrier's form: semicolons, decimal commas, byte order mark, their column names.
- A lookup in the table costs one row instead of several hundred.
"""

RELEASE = Turn(
    "That is enough for a version. Please prepare it: number, notes, everything that belongs to it, and the tag. Do not push anything.",
    (
        say("There is a skill for that.", skill("release-notes")),
        say(
            "Commits, and every place where the version stands.",
            run("git log --stat --format='%h %s%n%n%b'"),
            search("0.3.2", path="parcels"),
            run("grep -n 0.3.2 *.toml *.md"),
        ),
        say(
            "There are changes in behaviour (prices, zones), so before 1.0 the middle number: 0.4.0. Notes for somebody with five minutes.",
            write(
                "CHANGELOG.md",
                NOTES + "\n## 0.3.2\n\n- `batch` reads the country from the third column.\n\n## 0.3.1\n\n"
                "- Express is offered to all zones.\n\n## 0.3.0\n\n- First version with a tariff table.\n",
            ),
            patch("pyproject.toml", 'version = "0.3.2"', 'version = "0.4.0"'),
            patch("parcels/__init__.py", '__version__ = "0.3.2"', '__version__ = "0.4.0"'),
        ),
        say(
            "The list before the tag: tests on a clean checkout, examples of the README as they stand there.",
            run(
                "git commit -q -a -m 'Version 0.4.0' && git clone -q . ../clean && cd ../clean && python -m pytest -v --no-header; cd - > /dev/null"
            ),
            run(
                "python -m parcels quote --to NO --weight 2.0; "
                "python -m parcels quote --to NO --weight 2.0 --service express --size 60x40x30; "
                "python -m parcels batch data/orders.csv"
            ),
        ),
        say(
            "All hold. The tag, and what a user would get.",
            run("git tag v0.4.0 && git describe --tags && git status --short && git diff --stat HEAD~6"),
        ),
        say(
            "Version 0.4.0 is tagged here and not pushed. The notes say loudly that prices were too low since 0.3.0 and how to list them. "
            "Tests pass on a clean clone, the three examples of the README run as they stand."
        ),
    ),
)

HANDOVER = Turn(
    "Last one. I am away for two weeks and Mira takes over; she does not know the code. Look once more at what is there now and write a "
    "hand-over for her into HANDOVER.md: what was wrong and why, how the pieces hang together, which commands she needs, what is open. "
    "One page.",
    (
        say(
            "I read what is there now rather than what I remember.",
            read("parcels/pricing.py"),
            read("parcels/cli.py"),
            read("parcels/zones.py"),
            read("parcels/money.py"),
        ),
        say(
            "",
            run(
                "git log --oneline; wc -l parcels/*.py tests/*.py tools/*.py; grep -rnE 'TO.?DO|FIX.?ME|XXX' parcels tests tools; "
                + TESTS
            ),
            run("PYTHONPATH=. python tools/sweep.py; PYTHONPATH=. python tools/count_lookups.py"),
        ),
        say(
            "Open ends I know of: orders above 31.5 kg by volume have no price; the surcharge for remote places goes by exact code, so "
            "`IS-1` would not pay it. I check that last one before I write it down.",
            run(
                "python -m parcels quote --to IS --weight 1; python -m parcels quote --to IS-1 --weight 1; "
                "python -m parcels quote --to is --weight 1"
            ),
        ),
        say(
            "So it is: a region of Iceland, or the code in small letters, does not pay the fee. It is a fault, found now, not asked for; it "
            "goes into the hand-over as the first open point.",
            write(
                "HANDOVER.md",
                "# Hand-over\n\n"
                "## How it hangs together\n\n"
                "`cli` reads arguments and prints. `orders` and `table_file` read files and say what is wrong with file and line. `model` holds\n"
                "parcels and quotes, `zones` says where a place lies, `tariffs` finds the row, `pricing` adds it up, `money` is exact cents,\n"
                "`export` is what the shop reads: its keys are a promise.\n\n"
                "## What was wrong\n\n"
                "- Amounts went through floats and were cut off: 5660 of 7512 prices too low, by up to 35 cents, since 0.3.0. Exact decimals now,\n"
                "  rounded half up, once a line. `tests/test_rounding.py`, `tools/sweep.py`.\n"
                "- `zone_of` refused every region, and one bad order ended the list. `tests/test_orders.py`.\n"
                "- Each lookup walked the whole table. Bisection now. `tests/test_lookup.py`, `tools/count_lookups.py`.\n\n"
                "## Commands\n\n"
                "    python -m pytest -q\n"
                "    python -m parcels batch data/orders.csv            # exit 1: see stderr\n"
                "    python -m parcels --tariffs FILE quote --to NO --weight 2\n"
                "    PYTHONPATH=. python tools/sweep.py                 # must say: 0 differ\n\n"
                "## Open\n\n"
                "1. The remote fee goes by the exact code: `IS-1` and `is` do not pay it (`pricing.quote`, `REMOTE`).\n"
                "2. Above 31.5 kg, by weight or by volume, there is no price; such orders are reported as bad.\n"
                "3. The carrier's new table is not in `data/` yet; it loads, see `tests/test_table_file.py`.\n"
                "4. v0.4.0 is tagged locally and not pushed.\n",
            ),
        ),
        say(
            "",
            run(
                "git add -A && git commit -q -m 'A hand-over for Mira' && git log --oneline | head -n 3 && git status --short"
            ),
        ),
        say(
            "HANDOVER.md is committed: how the pieces hang together, the three faults and the tests that guard them, four commands, four open "
            "points. The first of these I found while checking: the remote fee goes by the exact code, so `IS-1` or `is` does not pay it. "
            "I left it for you or Mira to decide. Have a good time away."
        ),
    ),
)

SESSION = (ROUNDING, VOLUME, NIGHTLY, LOOKUP, RENAME, CARRIER, RELEASE, HANDOVER)

SHORT = (
    Turn(
        "Which version is this, and do the tests pass?",
        (
            say("I look.", read("pyproject.toml"), run(TESTS)),
            say("Version 0.3.2, and the tests pass."),
        ),
    ),
    Turn("Is there a skill for releases?", (say("", skill("release-notes")), say("There is: release-notes."))),
)
