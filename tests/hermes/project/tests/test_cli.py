import json

from parcels.cli import main


def test_quote_prints_a_total(capsys):
    assert main(["quote", "--to", "DE", "--weight", "1"]) == 0
    assert "total" in capsys.readouterr().out


def test_json_has_the_keys_the_shop_knows(capsys):
    assert main(["quote", "--to", "FR", "--weight", "0.4", "--size", "30x20x10", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert sorted(record) == ["grams", "lines", "service", "size", "to", "total_cents", "zone"]
    assert record["size"] == [30, 20, 10]
