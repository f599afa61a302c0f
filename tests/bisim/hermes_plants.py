"""Bugs to be planted on the right side of the host pair, each with the relation that has to find it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bridges.hermes import guard
from bridges.hermes.calls import Compressions
from bridges.hermes.hosted import Hosted
from bridges.hermes.lifecycle import Sessions
from bridges.hermes.place import Place
from bridges.hermes.verdicts import Verdicts
from engines.loop.policy import Verdict

__all__ = ["PLANTS"]

Plant = Callable[[pytest.MonkeyPatch], None]


def _usage_told_twice(patch: pytest.MonkeyPatch) -> None:
    tell = Hosted.tell

    def twice(self: Hosted, name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "update_from_response":
            tell(self, name, {**args[0], "prompt_tokens": 2 * args[0].get("prompt_tokens", 0)})
        return tell(self, name, *args, **kwargs)

    patch.setattr(Hosted, "tell", twice)


def _usage_forwarded_twice(patch: pytest.MonkeyPatch) -> None:
    """Twice the same report: the second finds the mark of a compaction gone, and what it counted is counted no more."""
    usage = Verdicts.usage

    def twice(self: Verdicts, report: Any) -> None:
        usage(self, {**report, "prompt_tokens": 1})
        usage(self, report)

    patch.setattr(Verdicts, "usage", twice)


def _reset_not_told(patch: pytest.MonkeyPatch) -> None:
    _untold(patch, "on_session_reset")


def _end_not_told(patch: pytest.MonkeyPatch) -> None:
    _untold(patch, "on_session_end")


def _untold(patch: pytest.MonkeyPatch, what: str) -> None:
    tell = Hosted.lifecycle
    patch.setattr(Hosted, "lifecycle", lambda self, name, *a, **k: None if name == what else tell(self, name, *a, **k))


def _strike_given_back(patch: pytest.MonkeyPatch) -> None:
    """A strike is taken back whoever has asked, and not only where it was asked for by hand."""
    compress = Compressions.compress

    def without(self: Compressions, messages: Any, told: Any) -> Any:
        before = self._strikes(self.in_charge())
        done = compress(self, messages, told)
        self.write("_ineffective_compression_count", before)
        return done

    patch.setattr(Compressions, "compress", without)


def _guard_not_run(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Place, "judge", lambda _self, _hosted: lambda answer, _before: Verdict(answer))


def _not_put_back(patch: pytest.MonkeyPatch) -> None:
    """What a refused, dropped or late call has left behind stays."""
    patch.setattr(Hosted, "put_back", lambda self: (self.take_over(), self.commit()))


def _put_back_though_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Hosted, "commit", Hosted.put_back)


def _not_taken_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Hosted, "take_over", lambda _self: None)


def _boundary_ends_it(patch: pytest.MonkeyPatch) -> None:
    started = Sessions.started

    def ends(self: Sessions, session_id: str, told: dict[str, Any]) -> None:
        started(self, session_id, {name: value for name, value in told.items() if name != "boundary_reason"})

    patch.setattr(Sessions, "started", ends)


def _sidecar_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(guard, "_sent_as_said", lambda rows, _before: rows)


def _mark_kept(patch: pytest.MonkeyPatch) -> None:
    """Rows that are given back still say that they are stored."""
    thaw = Compressions._concluded

    def marked(self: Compressions, *args: Any) -> Any:
        rows = thaw(self, *args)
        return rows if rows is None else [{**row, "_db_persisted": True} for row in rows]

    patch.setattr(Compressions, "_concluded", marked)


def _write_kept_to_itself(patch: pytest.MonkeyPatch) -> None:
    write = Place.write
    patch.setattr(
        Place,
        "write",
        lambda self, name, value: None if name == "last_compression_rough_tokens" else write(self, name, value),
    )


def _empty_report_dropped(patch: pytest.MonkeyPatch) -> None:
    usage = Verdicts.usage
    patch.setattr(Verdicts, "usage", lambda self, report: usage(self, report) if report else None)


def _row_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(guard, "_record", lambda answer, _before: Verdict(answer[:1] + answer[2:]))


def _late_pass_counted(patch: pytest.MonkeyPatch) -> None:
    """A session that is over does not end its call: what comes of it counts."""
    patch.setattr(Hosted, "forsake", lambda _self: None)
    patch.setattr(Compressions, "_too_late", lambda self, _cell: [each.take_over() for each in self.hosted.values()])


def _focus_dropped(patch: pytest.MonkeyPatch) -> None:
    compress = Compressions.compress
    patch.setattr(
        Compressions, "compress", lambda self, rows, told: compress(self, rows, {**told, "focus_topic": None})
    )


def _input_changed(patch: pytest.MonkeyPatch) -> None:
    compress = Compressions.compress

    def changes(self: Compressions, messages: Any, told: Any) -> Any:
        done = compress(self, messages, told)
        if done is not messages:
            messages[-1]["seen"] = True
        return done

    patch.setattr(Compressions, "compress", changes)


PLANTS: dict[str, tuple[str, Plant]] = {
    "usage told twice": ("recorded", _usage_told_twice),
    "usage forwarded twice": ("recorded", _usage_forwarded_twice),
    "reset not told": ("recorded", _reset_not_told),
    "end not told": ("recorded", _end_not_told),
    "boundary ends it": ("recorded", _boundary_ends_it),
    "put back though taken": ("recorded", _put_back_though_taken),
    "not taken over": ("recorded", _not_taken_over),
    "write kept to itself": ("recorded", _write_kept_to_itself),
    "empty report dropped": ("recorded", _empty_report_dropped),
    "row lost": ("recorded", _row_lost),
    "focus dropped": ("recorded", _focus_dropped),
    "input changed": ("refined", _input_changed),
    "strike given back": ("refined", _strike_given_back),
    "guard not run": ("refined", _guard_not_run),
    "not put back": ("refined", _not_put_back),
    "sidecar kept": ("refined", _sidecar_kept),
    "mark kept": ("refined", _mark_kept),
    "late pass counted": ("refined", _late_pass_counted),
}
"""By name: the relation that finds it, and how it is planted."""
