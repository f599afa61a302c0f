"""What the tests of a dataspace under trio share: two facts, a dataspace with an actor, and what was told of errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio.testing
from attrs import frozen

from dataspace import Crashed, open_dataspace

__all__ = ["Crashes", "Job", "Note", "errors_in", "opened", "settle"]


@frozen
class Note:
    text: str


@frozen
class Job:
    n: int


class Crashes:
    """What `on_crash` was told."""

    def __init__(self) -> None:
        self.facts: list[Crashed] = []
        self.errors: list[BaseException] = []

    def __call__(self, crash: Crashed, error: BaseException) -> None:
        self.facts.append(crash)
        self.errors.append(error)

    def names(self) -> list[str]:
        return [crash.actor for crash in self.facts]


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[Any]:
    """A dataspace with one actor driven from outside, whose name is `me`."""
    async with open_dataspace(**options) as ds:
        yield ds, ds.actor("me")


async def settle() -> None:
    """Let everything run that can."""
    await trio.testing.wait_all_tasks_blocked()


def errors_in(caplog: pytest.LogCaptureFixture) -> list[BaseException | None]:
    """The exceptions that were logged."""
    return [record.exc_info[1] for record in caplog.records if record.exc_info]
