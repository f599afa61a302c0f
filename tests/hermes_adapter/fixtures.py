"""What the tests of the adapter share; imported by name where it is used."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bridges.hermes import blocks, place
from bridges.hermes.runtime import shut_down
from tests.hermes_adapter.desk import Engines
from tests.hermes_adapter.fakes import Fake

__all__ = ["engines"]


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engines]:
    """Makes engines with settings of the test's own; the dataspace they start ends with the test."""
    made = Engines()
    monkeypatch.delenv("HERMES_DATASPACE", raising=False)
    monkeypatch.setattr(place, "host_config", made.config)
    monkeypatch.setattr(blocks, "_said", set())
    monkeypatch.setattr(Fake, "plan", None)
    shut_down()
    yield made
    Fake.made.clear()
    shut_down()
