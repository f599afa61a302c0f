"""What belongs to one agent: its settings, the engines hosted for it, its conversation, and who is in charge of it."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import isfinite
from typing import Any

from attrs import frozen

from dataspace import Facet
from engines.loop.events import BudgetChanged, UsageRead
from engines.loop.policy import Accept, Verdict
from engines.messages import Messages
from engines.telemetry.profile import resolve_profile

from . import builtin as host_compressor
from .aides import Aides
from .cell import Cell
from .fields import WORDS, plausible
from .forward import said
from .guard import judge, strictly
from .hidden import hide, remember, without_secrets
from .hooks import known
from .host import home
from .hosted import Hosted
from .own import Own
from .runtime import Runtime, current_runtime
from .settings import Settings, host_config, read_settings
from .third import EngineNotFoundError, Native, third_party
from .way import Way
from .wording import compressor, host_wording

__all__ = ["Offer", "Place", "rules"]

OURS = "compressor"
SOME_WINDOW = 128_000  # tokens: until the host says what the model holds
BUDGET = frozenset({"context_length", "threshold_tokens", "threshold_percent"})

log = logging.getLogger(__name__)


@frozen
class Offer:
    """What a compress call has given to the host and the host has not taken over yet; `manual`: it was asked for by hand."""

    by: str
    winner: Hosted | None
    manual: bool


class Place:
    """The state of one agent's engine; everything the host can call is built on it."""

    def __init__(self, like: Place | None = None) -> None:
        self.own: Own = Own() if like is None else like.own.copy()
        self.settings = Settings()
        self.config: Mapping[str, Any] = {}  # of the host, as it was read last
        self.kinds: tuple[str, ...] = ()
        self.hosted: dict[str, Hosted] = {}
        self.native: dict[str, Native] = {}  # engines of the dataspace that somebody else has written
        self.cell: Cell | None = None
        self.aides: Aides | None = None
        self.runtime: Runtime | None = None
        self.offer: Offer | None = None
        self.told: dict[
            str, Any
        ] = {}  # what the host is to see of the latest compress call, where nobody in charge says it
        self.alone = False  # the kill switch: nothing but the hosted built-in
        self.made = False
        self.session: dict[str, Any] = {}
        self.host_id = ""
        known(self)

    # -- attributes ---------------------------------------------------------------------------------------------------

    def in_charge(self) -> Hosted | None:
        """The hosted engine whose word counts now, or None: the loop's."""
        cell = self.cell
        first = (self.kinds[0] if self.kinds else "") if cell is None else cell.first_kind
        found = self.hosted.get(first)
        return None if found is None or found.stuck else found

    def read(self, name: str) -> Any:
        """An attribute, as the host sees it."""
        if name in self.told:
            return self.told[name]
        own = self.own.values[name]
        hosted = self.in_charge()
        if hosted is None:
            return own
        value = plausible(name, hosted.get(name, own), own)
        return hide(value) if type(value) is str and name in WORDS else value

    def write(self, name: str, value: Any) -> None:
        """The host sets an attribute."""
        self.told.pop(name, None)
        if name == "api_key":
            remember(value)
        self.own.write(name, value)
        hosted = self.in_charge()
        if hosted is not None:
            hosted.set(name, value)
        if self.alone:
            return
        if name == "awaiting_real_usage_after_compression" and value is True:
            self.commit()
        elif name in BUDGET:
            self.publish_budget()
        elif name == "last_prompt_tokens" and type(value) is int and value > 0 and self.cell is not None:
            report = {"prompt_tokens": value, "estimated": True}
            self.cell.happen(UsageRead(self.cell.sid, report, at=time.monotonic()))

    def commit(self) -> None:
        """The host has taken over what it was offered."""
        raise NotImplementedError

    def publish_budget(self, model: str | None = None) -> tuple[int, int]:
        """Make window and threshold known, if they or the model are others now; returns the two."""
        length, threshold = self.budget()
        cell = self.cell
        if cell is not None:
            known = cell.settled
            same = known.budget.threshold == threshold and known.budget.context_length == length
            if not same or (model and model != known.session.model):
                cell.happen(BudgetChanged(cell.sid, context_length=length, threshold=threshold, model=model or None))
        return length, threshold

    def budget(self) -> tuple[int, int]:
        """Window and threshold in tokens, as the loop takes them."""
        length, threshold = _whole(self.read("context_length")), _whole(self.read("threshold_tokens"))
        return length, max(1, min(threshold, length) if length else threshold)

    # -- engines ------------------------------------------------------------------------------------------------------

    def make(self, told: Mapping[str, Any]) -> None:
        """Read the settings and make the engines; once, when the model is known."""
        self.made = True
        config = self.config = host_config()
        self.settings = read_settings(config)
        self.alone = not self.settings.enabled
        remember(told.get("api_key"))
        if not self.own.values["context_length"]:
            self.own = Own(*rules(config, told))
        self.own.update_model(told)
        wanted = ("builtin",) if self.alone else self.settings.engines
        kinds = [kind for kind in wanted if self._make_one(kind, config, told)]
        if wanted and not kinds:
            kinds = [kind for kind in ("builtin", OURS) if self._make_one(kind, config, told)][:1]
            log.warning("none of the engines in context.dataspace.engines can be had; %s stands in", kinds[0])
        self.kinds = tuple(kinds)
        self.hosted = {kind: hosted for kind, hosted in self.hosted.items() if kind in kinds}

    def _make_one(self, kind: str, config: Mapping[str, Any], told: Mapping[str, Any]) -> bool:
        if kind == OURS:
            return True
        try:
            if kind == host_compressor.KIND:
                window = {"context_length": self.own.values["context_length"] or SOME_WINDOW}
                self.hosted[kind] = host_compressor.builtin(config, {**window, **told})
            else:
                engine = third_party(kind, self.settings.patience)
                if isinstance(engine, Native):
                    self.native[kind] = engine
                else:
                    self.hosted[kind] = engine
                    engine.lifecycle("update_model", **told)
        except EngineNotFoundError as error:
            log.warning("%s", without_secrets(str(error), told.get("api_key")))
            return False
        except Exception as error:  # noqa: BLE001 - whatever it is, the next engine stands in
            why = without_secrets(f"{type(error).__name__}: {said(error)}", told.get("api_key"))
            log.warning("the context engine %s cannot be made: %s", kind, why)
            return False
        return True

    def configuration(self) -> Mapping[str, Any]:
        """The host's configuration, as it is now."""
        return host_config()

    # -- the conversation ---------------------------------------------------------------------------------------------

    def begun(self) -> Cell | None:
        """The conversation, begun if there is none and shown where facts are; None if all is switched off."""
        if self.alone:
            return None
        if not self.made:
            self.make({})
            return self.begun()
        cell = self.cell
        if cell is None:
            cell = self.cell = self._new_cell()
        runtime = self.runtime
        if runtime is None or not runtime.alive or runtime is not current_runtime():
            self._show(cell, current_runtime())
        return cell

    def judge(self, hosted: Hosted) -> Accept:
        """What judges the answers of a hosted engine."""
        exchange = hosted.exchange
        accept = judge(
            self.settings.guard,
            host_wording(),
            lambda: hosted.fell_back,
            exchange.bare,
            lambda: hosted.wrote,
            exchange.changed,
        )
        known: list[str] = []

        def told(answer: Messages, before: Messages) -> Verdict:
            verdict = accept(answer, before)
            cell = self.cell
            if cell is not None and verdict.messages is not None:
                cell.mended = f"{verdict.reason} (in what {hosted.kind} gave)" if verdict.reason else ""
            if verdict.messages is not None and verdict.reason and not known:
                known.append(verdict.reason)  # once a conversation: an engine that does it once does it again
                log.log(
                    logging.INFO if hosted.kind == host_compressor.KIND else logging.WARNING,
                    "what the context engine %s gave was mended and taken; wrong with it: %s",
                    hosted.kind,
                    verdict.reason,
                )
            return verdict

        return exchange.judging(told)

    def _new_cell(self) -> Cell:
        length, threshold = self.budget()
        told = {name: str(self.session.get(name) or "") for name in ("model", "platform", "provider")}
        told["model"] = told["model"] or str(self.read("model") or "")
        where = self.session["home"] = self.session.get("home") or _home()
        told["profile"] = resolve_profile(os.environ, where)
        limits = {"context_length": length, "threshold": threshold}
        place = {"home": where or None, "host_session": self.host_id or None, "parent": self.session.get("parent")}
        started = {**told, **limits, **place}
        cell = Cell(started, self.kinds, self.settings.deadline, strictly)
        cell.judges = {cell.names[kind]: self.judge(hosted) for kind, hosted in self.hosted.items()}
        self.runtime = None
        return cell

    def boots(self, cell: Cell, kinds: Iterable[str]) -> dict[str, Callable[[Facet], object]]:
        """The boot functions of these compressors for a conversation, by actor name."""
        made: dict[str, Callable[[Facet], object]] = {}
        for kind in kinds:
            hosted, native = self.hosted.get(kind), self.native.get(kind)
            if hosted is not None:
                way = Way(cell, cell.names[kind], self.runtime)
                made[cell.names[kind]] = hosted.boot(cell.sid, self.settings.deadline, way)
            elif native is not None:
                made[cell.names[kind]] = native.boot
            else:
                made[cell.names[kind]] = compressor(cell.sid, host_wording())
        return made

    def _show(self, cell: Cell, runtime: Runtime | None) -> None:
        self.runtime = runtime
        if runtime is None:
            return
        cell.begins.clear()
        cell.expect()
        boots, settings = self.boots(cell, cell.kinds), self.settings
        cell.post = None
        runtime.soon(lambda desk: desk.adopt(cell, boots, settings))
        cell.post = partial(runtime.soon, _draw, cell)
        cell.follow()


def _draw(desk: Any, cell: Cell) -> None:
    desk.draw(cell)


def _home() -> str:
    """The home that is current on this thread; empty where nobody can tell."""
    try:
        return str(home())
    except Exception as error:  # noqa: BLE001 - without a host, or with one that is broken
        log.debug("there is no home: %r", error)
        return ""


def _whole(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0


def rules(config: Mapping[str, Any], told: Mapping[str, Any]) -> tuple[Any, ...]:
    """Share, protected rows and reservation, as the host has them configured."""
    try:
        read = host_compressor.configured(config, str(told.get("model", "")), str(told.get("provider", "")))
        if not isfinite(read["threshold_percent"]):
            raise ValueError("compression.threshold is no share")
    except Exception as error:  # noqa: BLE001 - a number that is none; the host would have stopped there
        log.debug("the block compression is of no use: %r", error)
        return (0.5, 3, 20, None)
    return (read["threshold_percent"], read["protect_first_n"], read["protect_last_n"], read["max_tokens"])
