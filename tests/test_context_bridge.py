"""`/context-bridge`, the tool that goes with it, and the ends of sessions, without a host."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve

from bridges.hermes import ends, snapshots, snapshots_command, snapshots_end, snapshots_restore
from bridges.hermes.aides import Standing, TurnBegun
from bridges.hermes.settings import Settings
from bridges.hermes.snapshots import Options, SnapshotAide
from engines import facts as f
from engines.snapshotter import FOLDER, Snapshot, SnapshotError, SnapshotStore
from engines.transcript import estimate_text

TURN = TurnBegun("t1", "Go on.")


class Seat:
    """An agent, as far as it matters here."""

    def __init__(self, sid: str = "hermes-1", platform: str = "cli", **more: Any) -> None:
        self.made, self.alone = True, False
        self.cell: Any = SimpleNamespace(sid=sid)
        self.session = {"platform": platform, **more}
        self.left = 0

    def leave(self) -> None:
        self.left += 1


class Place:
    """A home with snapshots, and agents in front of a user or not."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.seats: list[Seat] = []
        self.terminal: Any = None
        self.said: list[Any] = []
        self.store = SnapshotStore(home / FOLDER)

    def save(self, session: str, at: int = 0, **more: Any) -> str:
        """A snapshot of a session; its id."""
        state = {"request": f"The request of {session}."}
        snapshot = Snapshot(session, timestamp=1_700_000_000 + at, task_state=state, **more)
        return self.store.save(snapshot).stem

    def command(self, text: str = "", *, acts: bool = True) -> str:
        """What is typed."""
        return snapshots_command.answer(text, acts=acts)

    def aide(
        self,
        sid: str = "hermes-1",
        session: str = "now",
        platform: str = "cli",
        home: Path | None = None,
        **options: Any,
    ) -> SnapshotAide:
        """The aide of a conversation."""
        settings = Settings(options=(Options(**options),))
        where = (str(home or self.home), "default", "model", platform, settings)
        return SnapshotAide(Standing(sid, session, *where, self.said.append, lambda *_args: None))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A place of its own; what waits anywhere is gone before and after."""
    made = Place(tmp_path)
    monkeypatch.delenv("AGENT_PROFILE", raising=False)
    monkeypatch.setattr(snapshots_command, "home", lambda: made.home)
    monkeypatch.setattr(snapshots_command, "host_config", dict)
    for module in (snapshots_restore, ends):
        monkeypatch.setattr(module, "seats", lambda: list(made.seats))
    monkeypatch.setattr(snapshots_restore, "host_context", [SimpleNamespace(_manager=SimpleNamespace(_cli_ref=None))])
    monkeypatch.setattr(snapshots_restore, "_waiting", [])
    monkeypatch.setattr(snapshots_restore, "unkept", {})
    monkeypatch.setattr(snapshots_end, "_successors", type(snapshots_end._successors)())
    monkeypatch.setattr(snapshots_end, "_closing", {})
    return made


# -- the command ------------------------------------------------------------------------------------------------------


def test_list_is_what_it_does_by_itself(place: Place) -> None:
    """Without a word it lists, the newest first, and says whose and where; an empty folder is no error."""
    assert "There are no snapshots (profile default," in place.command()
    first, second = place.save("first"), place.save("second", 5)
    for text in ("", "list", " LIST "):
        said = place.command(text)
        assert said.index(second) < said.index(first)
        assert f"profile default, {place.store.directory}" in said
        assert "1. " in said


@pytest.mark.parametrize("text", ["frobnicate", "restore 1 2", "\x1b[31mx", "help", "--help"])
def test_wrong_input_gets_help(place: Place, text: str) -> None:
    """What is none of its words gets the words that there are; nothing that acts on a terminal comes back."""
    said = place.command(text)
    assert "/context-bridge restore [id]" in said
    assert "\x1b" not in said


@pytest.mark.parametrize(
    "text", ["restore zzz", "show 7", "clear nobody", "show", "clear", "clear 0", "clear 2", "clear 99999"]
)
def test_what_is_not_there(place: Place, text: str) -> None:
    """An id that is none, and none where one is needed: said, and nothing is changed."""
    place.save("first")
    said = place.command(text)
    assert "a number" in said
    assert 1 == len(place.store.list())


@pytest.mark.parametrize(
    ("hooks", "most"),
    [
        ({}, 9_000),
        (None, 9_000),
        ({"output_spill": {"max_chars": 3_000}}, 2_000),
        ({"output_spill": {"max_chars": "many", "enabled": True}}, 9_000),
        ({"output_spill": {"max_chars": 1}}, 800),
        ({"output_spill": {"enabled": False}}, 20_000),
    ],
)
def test_what_goes_with_a_message_is_not_put_into_a_file(
    place: Place, monkeypatch: pytest.MonkeyPatch, hooks: Any, most: int
) -> None:
    """The host shows 1,000 characters of a text that it finds too long: what is restored stays below that, whatever is set."""
    config = {"context": {"dataspace": {"snapshots": {"restore_tokens": 5_000}}}, "hooks": hooks}
    monkeypatch.setattr(snapshots_command, "host_config", lambda: config)
    finding = "the frost makes this scale of the depot show too many grams, " * 6
    place.save("long", key_findings=[f"Finding {n}: {finding}" for n in range(50)])
    place.seats.append(Seat())
    place.command("restore")
    text = place.aide().context(TURN)
    assert text is not None
    assert min(most // 2, 9_000) < len(text) <= min(most, 10_000)


@pytest.mark.hermes
def test_the_host_agrees_on_what_is_too_long(place: Place) -> None:
    """Its own function lets through what is restored with the default of either side, and not much more."""
    spill = pytest.importorskip("tools.hook_output_spill")
    for length in (4 * snapshots_restore.room_in({}), spill.DEFAULT_MAX_CHARS):
        assert "x" * length == spill.spill_if_oversized(
            "x" * length, session_id="s", config={**spill.get_spill_config(), "enabled": True}
        )
    assert snapshots_restore._SPILLED == spill.DEFAULT_MAX_CHARS


def test_show_and_clear(place: Place) -> None:
    """One is shown whole by its number, one is removed by the beginning of its id, all by `all`."""
    ids = [place.save(f"s{n}", n) for n in range(4)]
    assert "The request of s2." in place.command("show 2")
    said = place.command(f"clear {ids[0][:9]}")
    assert said.startswith("Removed: 1 ")
    assert said.splitlines()[1].startswith(f"  {ids[0]} (session s0, ")
    assert place.command("clear all").startswith("Removed: 3 ")
    assert "There is nothing to restore" in place.command("restore")
    assert [] == place.store.list()


def test_corrupt_ones_are_marked(place: Place) -> None:
    """A file that cannot be read is listed as such, and restoring it says why it cannot be."""
    id_ = place.save("first")
    place.store.directory.joinpath(f"{id_}.json").write_text("{", encoding="utf-8")
    assert "[CORRUPT]" in place.command("list")
    assert "is corrupt and cannot be restored" in place.command("restore 1")
    assert "There is nothing to restore" in place.command("restore")


def test_no_error_reaches_the_host(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A home that is not known, a disk that fails, a fault of ours: an answer."""
    monkeypatch.setattr(snapshots_command, "home", lambda: "")
    assert "the home of this session is not known" in place.command()
    monkeypatch.setattr(SnapshotStore, "list", lambda _self: 1 / 0)
    monkeypatch.setattr(snapshots_command, "home", lambda: place.home)
    assert "has failed" in place.command()
    assert "ZeroDivisionError" in caplog.text


def test_n15_the_profile_is_that_of_the_home(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """N15: only the resolved profile is listed, and the answer says which it is."""
    place.save("default's")
    fin = place.home / "profiles" / "fin"
    SnapshotStore(fin / FOLDER, "fin").save(Snapshot("fin's", profile="fin"))
    monkeypatch.setattr(snapshots_command, "home", lambda: fin)
    said = place.command()
    assert "profile fin" in said
    assert "fin's" in said
    assert "default's" not in said


def test_on_an_event_loop_it_only_lists(place: Place) -> None:
    """Where an event loop calls it, it may be anybody's: every word lists, and nothing waits or is removed."""
    place.save("first")
    place.seats.append(Seat())

    async def run() -> list[str]:
        return [await snapshots_command._command(text) for text in ("list", "restore", "show 1", "clear all")]  # type: ignore[misc]

    for said in asyncio.run(run()):
        assert "first" in said
        assert "The request of" not in said
    assert 1 == len(place.store.list())
    assert place.aide().context(TURN) is None
    assert "first" in str(snapshots_command._command("list"))


# -- restoring --------------------------------------------------------------------------------------------------------


def test_restored_once(place: Place) -> None:
    """It goes with the next turn of the agent, once, within its budget, and says from where it is."""
    place.save("first", key_findings=["x " * 200] * 40)
    place.seats.append(Seat())
    assert "goes to the model with your next message" in place.command("restore")
    text = place.aide().context(TURN)
    assert text is not None
    for part in ("session first", "2023-11-14 22:13:20 UTC", "The request of first."):
        assert part in text
    assert estimate_text(text) <= 2_000
    assert place.aide().context(TURN) is None


def test_the_latest_counts(place: Place) -> None:
    """Restoring again before the turn takes the place of what waited."""
    place.save("first")
    place.save("second", 1)
    place.seats.append(Seat())
    place.command("restore 2")
    place.command("restore 1")
    text = place.aide().context(TURN)
    assert text is not None
    assert "session second" in text
    assert place.aide().context(TURN) is None


def test_it_waits_for_the_agent_not_for_the_conversation(place: Place) -> None:
    """Between /new and the next message there is no conversation; it is for that agent's next one."""
    place.save("first")
    seat = Seat()
    seat.cell = None
    place.seats.append(seat)
    place.command("restore")
    place.seats.append(Seat("hermes-9"))
    assert place.aide("hermes-9").context(TURN) is None
    seat.cell = SimpleNamespace(sid="hermes-2")
    assert place.aide("hermes-2").context(TURN) is not None


def test_before_there_is_an_agent(place: Place) -> None:
    """It is for the first that begins a turn in this home, if it is in front of a user."""
    place.save("first")
    place.command("restore")
    place.seats += [
        Seat("child", "subagent"),
        Seat("bot", "telegram"),
        Seat("given", parent="hermes-1"),
        Seat("review"),
        Seat("untold", ""),
        Seat("cli"),
    ]
    snapshots_restore.keep_nothing_of("review")
    for sid, platform in (
        ("child", "subagent"),
        ("bot", "telegram"),
        ("given", "cli"),
        ("review", "cli"),
        ("nobody", "cli"),
        ("untold", ""),
    ):
        assert place.aide(sid, platform=platform).context(TURN) is None
    assert place.aide("cli", home=place.home / "other").context(TURN) is None
    assert place.aide("cli").context(TURN) is not None


@pytest.mark.parametrize(
    "spoil", [lambda seat: setattr(seat, "made", False), lambda seat: setattr(seat, "alone", True)]
)
def test_agents_that_cannot_be_meant(place: Place, spoil: Callable[[Seat], None]) -> None:
    """One that was never used, and one that is switched off, are not counted."""
    place.save("first")
    place.seats += [Seat("one"), Seat("two")]
    assert "2 sessions run here" in place.command("restore")
    spoil(place.seats[0])
    assert "goes to the model" in place.command("restore")
    assert place.aide("two").context(TURN) is not None


def test_who_is_in_front_of_the_user(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the host's terminal the agent there is meant, whoever else works in the background."""
    place.save("first")
    place.seats += [Seat("one"), Seat("two")]
    engine = SimpleNamespace(seat=place.seats[1])
    terminal = SimpleNamespace(agent=SimpleNamespace(context_compressor=engine))
    monkeypatch.setattr(
        snapshots_restore, "host_context", [SimpleNamespace(_manager=SimpleNamespace(_cli_ref=terminal))]
    )
    place.command("restore")
    assert place.aide("one").context(TURN) is None
    assert place.aide("two").context(TURN) is not None


def test_what_nobody_can_get_any_more(place: Place) -> None:
    """An agent that is gone takes with it what waited for it."""
    place.save("first")
    place.seats.append(Seat())
    place.command("restore")
    place.seats[:] = [Seat("other")]
    assert place.aide("other").context(TURN) is None
    assert [] == snapshots_restore._waiting


# -- the tool ---------------------------------------------------------------------------------------------------------


def call(aide: SnapshotAide, **args: Any) -> dict[str, Any]:
    """What the model gets."""
    said = aide.handle_tool_call("context_bridge", args, ())
    answer: dict[str, Any] = json.loads(said) if isinstance(said, str) else said
    return answer


def test_the_tool(place: Place) -> None:
    """It lists, restores by number, id or the newest, and notes; what is wrong is an answer that says what can be given."""
    place.save("first")
    place.save("second", 1)
    aide = place.aide()
    assert ["second", "first"] == [one["session"] for one in call(aide)["snapshots"]]
    assert "The request of second." in call(aide, action="restore")["restored"]
    assert "The request of first." in call(aide, action="restore", id="2")["restored"]
    assert {"noted": True} == call(aide, action="note", text=" It was the frost. ")
    assert [f.Noted("hermes-1", "It was the frost.", by="context_bridge")] == place.said
    for args in ({"action": "clear"}, {"action": "note"}, {"action": "restore", "id": "zz"}):
        assert "error" in call(aide, **args)
    for wrong in (0, 3, "9", "12345"):  # whatever the ids begin with
        assert "a number from 1 to 2" in call(aide, action="restore", id=wrong)["error"]
    (place.store.directory / "bad.json").touch()
    assert "[CORRUPT]" in call(aide)["snapshots"][-1]["problem"]
    assert "error" in call(place.aide(home=Path("/dev/null/x")), action="restore")


def test_the_tool_can_be_had_or_not() -> None:
    """Its schema is plain; a setting turns it off."""
    (schema,) = snapshots.tools(Settings())
    assert "context_bridge" == schema["name"]
    assert ["list", "restore", "note"] == schema["parameters"]["properties"]["action"]["enum"]
    assert [] == snapshots.tools(Settings(options=(Options(tool=False),)))


def test_in_a_gateway_the_tool_knows_its_own(place: Place) -> None:
    """One user's state never reaches another: only the session's own snapshots, and those it goes on from."""
    place.save("mine-1", 0, lineage={"next_session": "mine-2"})
    place.save("mine-2", 1, lineage={"earlier_sessions": ["mine-1b"]})
    place.save("mine-1b", 2)
    theirs = place.save("theirs", 3, lineage={"next_session": "other"})
    assert [] == call(place.aide(session="mine-3", platform=""))["snapshots"]  # who knows how many users it has
    aide = place.aide(session="mine-3", platform="telegram")
    assert [] == call(aide)["snapshots"]
    assert "no snapshot" in call(aide, action="restore")["error"]
    snapshots_end._reset(session_id="mine-3", old_session_id="mine-2", new_session_id="mine-3", reason="new_session")
    assert ["mine-1b", "mine-2", "mine-1"] == [one["session"] for one in call(aide)["snapshots"]]
    assert "error" in call(aide, action="restore", id=theirs)
    aide.rotated("other")
    assert ["theirs"] == [one["session"] for one in call(aide)["snapshots"]]


# -- ends -------------------------------------------------------------------------------------------------------------


def test_n02_hooks_of_ends(place: Place) -> None:
    """N02: either form of the hooks, whatever else they bring: who goes on from whom, and nothing else, is taken from them."""
    more = {"reason": "new_session", "platform": "telegram", "telemetry_schema_version": 1}
    snapshots_end._finalized(session_id="old", new_session_id="new", **more)
    snapshots_end._reset(session_id="new2", old_session_id="new", new_session_id="new2", **more)
    snapshots_end._finalized(session_id="cli", **more)
    snapshots_end._reset(session_id="cli2", **more)
    assert {"old": "new", "new": "new2"} == dict(snapshots_end._successors)
    assert {"next_session": "new"} == snapshots_end.successor_of(f.Session("s", host_session="old"))
    assert {} == snapshots_end.successor_of(f.Session("s"))


def test_an_end_is_waited_for(place: Place) -> None:
    """Whoever says that a session is over waits until it is on disk, but not for ever; without an end nobody waits."""
    assert snapshots_end.written(0)
    place.aide().ended("session_end")
    assert not snapshots_end.written(0.01)
    writer = threading.Timer(0.02, snapshots_end.closed, ["hermes-1"])
    writer.start()
    assert snapshots_end.written(30)
    writer.join()
    assert snapshots_end.written(0)
    snapshots_end.closed("hermes-1")


def test_an_end_waits_for_snapshots(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first conversation on."""
    monkeypatch.setattr(ends, "_waits", {})
    monkeypatch.setattr(ends, "_watching", [True])
    where = ("s", str(place.home), "default", "m", "cli", Settings())
    assert isinstance(
        snapshots.aide(Standing("hermes-6", *where, place.said.append, lambda *_args: None)), SnapshotAide
    )
    assert {"snapshotter": snapshots_end.written} == ends._waits


def test_it_is_bounded(place: Place) -> None:
    """Sessions that never end, and chains of them, are not remembered for ever."""
    for n in range(1_100):
        snapshots_end.closing(f"s{n}")
        snapshots_end._follows(f"s{n}", f"s{n + 1}")
        snapshots_restore.keep_nothing_of(f"s{n}")
    assert 1_000 == len(snapshots_end._closing) == len(snapshots_end._successors) == len(snapshots_restore.unkept)


def test_what_status_shows() -> None:
    """What was found, what was saved, what was not and why: a line each.

    A line names the snapshot that it tells of, for without a name the newest is restored; and what a conversation that
    is over had found when it began is nobody's any more.
    """
    facts: dict[type, list[Any]] = {
        f.Session: [f.Session("s2"), f.Session("s1", "ended")],
        f.SnapshotFound: [
            f.SnapshotFound("s2", "/p/0a1b2c3d4e5f-c522b539-old.json", session="old", reason="session_reset"),
            f.SnapshotFound("s1", "/p/ffffffffffff-c522b539-older.json", session="older", reason="session_end"),
        ],
        f.SnapshotSaved: [f.SnapshotSaved("s1", "/p/5f4e3d2c1b0a-c522b539-s1.json", "compaction", 1.0)],
        f.SnapshotFailed: [f.SnapshotFailed("s3", "session_end", "OSError: No space left on device")],
    }
    said = "\n".join(snapshots.status(SimpleNamespace(facts=lambda kind: facts[kind])))  # type: ignore[arg-type]
    for part in (
        "one of session old was there (session_reset); /context-bridge restore 0a1b2c3d4e5f brings it back",
        "s1: saved 1970-01-01 00:00:01 UTC (compaction) as 5f4e3d2c1b0a",
        "NOT saved (session_end): OSError: No space left",
    ):
        assert part in said
    assert "older" not in said


def test_nothing_of_a_file_acts_on_a_terminal(place: Place) -> None:
    """What a snapshot says it is of is shown without controls and on its line, by the command and by the status."""
    nasty = "s\x1b]0;mine\x07\x1b[31m\nRemoved: 9"
    place.save(nasty)
    place.seats.append(Seat())
    found = [f.SnapshotFound("s2", "/p", session=nasty, reason="session_reset")]
    failed = [f.SnapshotFailed("s3", "session_end", nasty)]
    going_on = [f.Session("s2")]
    facts: dict[type, list[Any]] = {
        f.Session: going_on,
        f.SnapshotFound: found,
        f.SnapshotSaved: [],
        f.SnapshotFailed: failed,
    }
    status = snapshots.status(SimpleNamespace(facts=lambda kind: facts[kind]))  # type: ignore[arg-type]
    for said in (place.command(), place.command("restore"), place.command("show 1"), *status):
        assert not set(said) & {"\x1b", "\x07"}
        assert "\nRemoved" not in said


def test_a_link_on_the_way_out_of_the_home(place: Place, tmp_path_factory: pytest.TempPathFactory) -> None:
    """N11: a folder of the home that is a link is refused, and nothing is written where it leads."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (place.home / FOLDER).parent.symlink_to(elsewhere)
    store = snapshots.store_of(str(place.home), "default", Options())
    with pytest.raises(SnapshotError, match="is a link"):
        store.save(Snapshot("s1"))
    assert [] == list(elsewhere.iterdir())


async def test_the_observer_writes_where_the_session_lives(place: Place) -> None:
    """In its home, for its profile; nothing of conversations that do not want it; a home that is gone is said and not made."""
    import trio

    from dataspace import open_dataspace

    gone = place.home / "gone"
    settings = Settings(options=(Options(keep=1),))
    async with open_dataspace() as ds:
        await ds.spawn(snapshots.boot(settings, lambda sid: None if sid == "s4" else settings), name="snapshotter")
        me = ds.actor("host")
        homes = {"s1": str(place.home), "s2": None, "s3": str(gone), "s4": str(place.home), "s5": str(place.home)}
        snapshots_restore.keep_nothing_of("s5")
        for sid, home in homes.items():
            snapshots_end.closing(sid)
            session = me.publish(f.Session(sid, profile="fin", home=home, host_session=f"host-{sid}"))
            me.send(f.TurnStarted(sid, "t", text="Go."))
            me.replace(session, f.Session(sid, "ended", profile="fin", home=home, host_session=f"host-{sid}"))
        waited_for = list(snapshots_end._closing.values())
        for event in waited_for:
            assert await trio.to_thread.run_sync(event.wait, 30)
        errors = {fact.sid: fact.error for fact in ds.facts(f.SnapshotFailed)}
    assert ["host-s1"] == [entry.session_id for entry in SnapshotStore(place.home / FOLDER, "fin").list()]
    assert {"s2", "s3"} == set(errors)
    assert "is not known" in errors["s2"]
    assert f"there is no home at {gone}" in errors["s3"]
    assert "gone" not in [path.name for path in place.home.iterdir()]


# -- the observer -----------------------------------------------------------------------------------------------------


def test_a_review_in_the_background_has_none(place: Place) -> None:
    """The host's reviews, of a session, whose name it bears, or of all skills: nothing of them is kept, they get nothing."""
    made: list[Any] = []
    standing = Standing(
        "hermes-5", "s", str(place.home), "default", "m", "cli", Settings(), place.said.append, lambda *_args: None
    )
    thread = threading.Thread(target=lambda: made.append(snapshots.aide(standing)), name="bg-review-1")
    thread.start()
    thread.join()
    assert [None] == made
    assert ["hermes-5"] == list(snapshots_restore.unkept)
    assert snapshots.aide(evolve(standing, sid="hermes-7", platform="curator")) is None
    assert ["hermes-5", "hermes-7"] == list(snapshots_restore.unkept)


def test_a_host_that_takes_nothing() -> None:
    """A host without commands, skills or hooks does without."""
    snapshots_command.register_snapshots(SimpleNamespace())
    taken: list[str] = []

    class Host:
        def register_command(self, name: str, handler: Any, description: str, args_hint: str) -> None:
            taken.append(name)

        def register_skill(self, name: str, path: Path, description: str) -> None:
            assert path.is_file()
            taken.append(name)

        def register_hook(self, name: str, hook: Any) -> None:
            taken.append(name)
            raise ValueError(name)

    snapshots_command.register_snapshots(Host())
    snapshots_end.register_descent(Host())
    assert ["context-bridge", "skill-radar", "on_session_finalize", "on_session_reset"] == taken
