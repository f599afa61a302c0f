"""What all tests share: hypothesis profiles, and the markers that skip what cannot run here."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

CHECKOUT = Path(__file__).resolve().parent.parent
collect_ignore = ["hermes/project"]  # the code base that a recorded session works on, with tests of its own

# No deadlines: a slow machine is no counterexample.  `dev` draws the same examples every time, so that a red test stays
# red while one looks at it; `deep` looks for new ones.  State machines that are quick take the profile `machines`: what
# they draw is a whole program, which can go wrong in more ways than one value can.
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "dev")
settings.register_profile("dev", max_examples=100, deadline=None, derandomize=True, database=None)
settings.register_profile(
    "deep", max_examples=500, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(PROFILE)
settings.register_profile("machines", max_examples=3000 if PROFILE == "deep" else settings().max_examples)


def shared_directory() -> Path:
    """Where the reference material lies: beside the checkout, unless HERMES_DATASPACE_SHARED names another place."""
    return Path(os.environ.get("HERMES_DATASPACE_SHARED") or CHECKOUT.parent / "shared")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need what is not here are skipped, with the reason."""
    shared = shared_directory()
    unmet = {}
    if not shared.is_dir():
        unmet["shared"] = f"no reference material at {shared}; HERMES_DATASPACE_SHARED can name another place"
    if find_spec("run_agent") is None:
        unmet["hermes"] = "hermes-agent is not installed; `make setup` installs it"
    for item in items:
        for marker, reason in unmet.items():
            if item.get_closest_marker(marker) is not None:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> Iterator[None]:
    """Signals end what they should, also where the tests run in the background, whose shell or nohup has them ignored."""
    usual = {signal.SIGINT: signal.default_int_handler}
    if hasattr(signal, "SIGHUP"):
        usual[signal.SIGHUP] = signal.SIG_DFL
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True, scope="session")
def nobodys_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whatever a test has written below a home is not written below that of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HERMES_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture
def shared() -> Path:
    """The directory of the reference material; a test that asks for it carries the marker `shared`."""
    return shared_directory()
