"""The snapshotter in a dataspace: when it writes, what it says, and that nobody waits for a disk."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, field

from dataspace import open_dataspace, where
from dataspace._runtime import AsyncDataspace
from engines import Loop, Messages, Policy, serve
from engines import facts as f
from engines.compressor import compressor
from engines.loop.events import (
    CompactionRequested,
    MessagesAppended,
    SessionEnded,
    SessionRotated,
    SessionStarted,
    UsageRead,
)
from engines.snapshotter import Snapshot, SnapshotError, SnapshotStore, actor, snapshotter
from engines.snapshotter.memory import Memory


@define
class Place:
    """A dataspace with a loop and a snapshotter; `wait(fn)` waits until something is so."""

    ds: AsyncDataspace
    loop: Loop
    me: Any
    folder: Path
    closed: list[str] = field(factory=list)

    def begin(self, sid: str = "s1", **more: Any) -> None:
        """A conversation, known to the host by another id."""
        self.loop.feed(
            SessionStarted(sid, threshold=8_000, context_length=10_000, **{"host_session": f"host-{sid}", **more})
        )

    def work(self, sid: str = "s1", text: str = "Count the parcels.", calls: int = 2) -> None:
        """A turn that goes on: the request, tool calls, what the model says beside them."""
        self.me.send(f.TurnStarted(sid, "t1", text=text))
        for n in range(calls):
            arguments = json.dumps({"path": f"p{n}.txt"})
            self.me.send(f.ToolCalled(sid, f"c{n}", "read_file", args=arguments, result=f"parcel {n}", status="ok"))
            call = {"id": f"c{n}", "type": "function", "function": {"name": "read_file", "arguments": arguments}}
            said = {"role": "assistant", "content": f"I found that p{n} holds {n * 37} parcels.", "tool_calls": [call]}
            result = {"role": "tool", "tool_call_id": f"c{n}", "content": "parcel " * 400}
            self.loop.feed(MessagesAppended(sid, Messages.of([said, result])))

    def snapshots(self, profile: str = "default") -> list[Snapshot]:
        """What is on disk, the newest first."""
        store = SnapshotStore(self.folder, profile)
        return [store.load(entry.id) for entry in store.list()]

    @property
    def written(self) -> bool:
        """Whether anything was."""
        return self.folder.exists()

    def block(self) -> None:
        """Put a file where the folder should be."""
        self.folder.parent.mkdir(parents=True)
        self.folder.touch()

    def unblock(self) -> None:
        """Take it away."""
        self.folder.unlink()

    async def until(self, so: Callable[[], Any]) -> None:
        """Wait until it is so; real threads take real time."""
        for _ in range(4_000):
            if so():
                return
            await trio.to_thread.run_sync(threading.Event().wait, 0.005)
        raise AssertionError("it does not become so")

    async def saved(self, reason: str, sid: str = "s1") -> None:
        """Wait until a snapshot was written for that reason."""
        await self.until(lambda: self.ds.facts(where(f.SnapshotSaved, sid=sid, reason=reason)))


@asynccontextmanager
async def placed(folder: Path, *, store_for: Any = None, **more: Any) -> AsyncIterator[Place]:
    """A place to work in."""
    closed: list[str] = []
    find = store_for or (lambda session: SnapshotStore(folder, session.profile or "default"))
    policy = more.pop("policy", Policy())
    async with open_dataspace() as ds:
        await ds.spawn(snapshotter(find, closed=closed.append, **more), name="snapshotter")
        yield Place(ds, Loop(ds.actor("loop"), policy), ds.actor("host"), folder, closed)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where snapshots go."""
    return tmp_path / "context-bridge" / "snapshots"


async def test_it_serves_as_a_reviser(folder: Path) -> None:
    """It says that it is there, for every conversation, and as what: it has a look at what is about to be lost."""
    async with placed(folder) as place:
        assert (f.Serving("snapshotter", "reviser"),) == place.ds.facts(f.Serving)


async def test_turns_write_nothing(folder: Path) -> None:
    """N01: not at the end of a turn, however many there are."""
    async with placed(folder) as place:
        place.begin()
        for n in range(25):
            place.me.send(f.TurnStarted("s1", f"t{n}", text="What is next?"))
            place.me.send(f.TurnEnded("s1", f"t{n}", text="The finding is 7."))
        await trio.testing.wait_all_tasks_blocked()
        assert [] == place.snapshots()
        assert not place.written


async def test_a_reset_and_an_end(folder: Path) -> None:
    """The reason is the host's, the id is the host's, what goes on is marked; N02: filled from facts, not from a hook."""
    async with placed(folder) as place:
        for sid, why in (("s1", "session_reset"), ("s2", "session_end"), ("s3", "")):
            place.begin(sid)
            place.work(sid, f"Request of {sid}.")
            place.loop.feed(SessionEnded(sid, why))
        await place.until(lambda: len(place.closed) == 3)
        found = {snapshot.session_id: snapshot for snapshot in place.snapshots()}
        assert {"host-s1": "session_reset", "host-s2": "session_end", "host-s3": "session_end"} == {
            name: one.reason for name, one in found.items()
        }
        one = found["host-s1"]
        assert ("Request of s1.", True, "session_reset") == tuple(
            one.task_state[name] for name in ("request", "in_flight", "reset_reason")
        )
        assert ["p0.txt", "p1.txt"] == [call["target"] for call in one.tool_calls]
        assert {"s1", "s2", "s3"} == {fact.sid for fact in place.ds.facts(f.SnapshotSaved)}


async def test_nothing_known_nothing_written(folder: Path) -> None:
    """An empty session leaves no snapshot, and its end is done at once."""
    async with placed(folder) as place:
        place.begin()
        place.loop.feed(SessionEnded("s1"))
        await place.until(lambda: place.closed)
        assert not place.written


async def test_before_a_compaction(folder: Path) -> None:
    """It is written when a compressor is asked, once for a question, and later compactions take its place."""
    async with placed(folder) as place:
        asked: list[int] = []

        def declines(me: Any, question: f.Asked) -> None:
            asked.append(question.n)

        await place.ds.spawn(lambda me: serve(me, declines), name="other")
        await place.ds.spawn(compressor(), name="compressor")
        place.begin()
        place.work(calls=12)
        place.loop.feed(UsageRead("s1", {"prompt_tokens": 9_000}))
        await place.saved("compaction")
        assert len(asked) <= 1
        (first,) = place.snapshots()
        assert ("compaction", 1, 12) == (first.reason, first.sequence, len(first.tool_calls))
        assert "I found that p3 holds 111 parcels." in first.key_findings
        place.work(text="And now the letters.", calls=3)
        place.loop.feed(CompactionRequested("s1"))
        await place.until(lambda: [one.sequence for one in place.snapshots()] == [2])
        (second,) = place.snapshots()
        assert "I found that p3 holds 111 parcels." in second.key_findings
        assert "And now the letters." == second.task_state["request"]


def lose(me: Any, question: f.Asked) -> Messages:
    """The work of a compressor that keeps what users said, and a word between."""
    rows = [row for row in question.messages.thaw() if row["role"] == "user"]
    return Messages.of([*rows[:1], {"role": "assistant", "content": "More was said."}, *rows[1:]])


def again(me: Any, question: f.Asked) -> Messages:
    """The work of a compressor that gives back what it got."""
    return Messages(question.messages)


def fail(me: Any, question: f.Asked) -> Messages:
    """The work of a compressor that fails."""
    raise RuntimeError("no model")


async def test_what_is_not_kept_is_not_waited_for(folder: Path) -> None:
    """A conversation without a store, or whose store cannot be told: its compaction goes on, and what is wrong is a fact."""

    def store_for(session: f.Session) -> SnapshotStore | None:
        if session.sid == "s2":
            raise SnapshotError("the home is not known")
        return None

    async with placed(folder, store_for=store_for) as place:
        await place.ds.spawn(lambda me: serve(me, lose), name="compressor")
        for sid in ("s1", "s2"):
            place.begin(sid)
            place.work(sid)
            place.loop.feed(CompactionRequested(sid))
            await place.until(lambda sid=sid: place.ds.facts(where(f.Compressed, sid=sid)))
        (failed,) = place.ds.facts(f.SnapshotFailed)
        assert ("s2", "compaction") == (failed.sid, failed.reason)
        assert not place.written


async def test_it_is_on_disk_before_the_answer_is_accepted(folder: Path) -> None:
    """When `Compressed` appears the file is there, and what stood only in what was lost is in it."""
    rows = [
        {"role": "user", "content": "Count."},
        {"role": "assistant", "content": "The scale is off by 12 grams. " + "So it was weighed again. " * 60},
        {"role": "user", "content": "Go on."},
    ]
    async with placed(folder) as place:
        await place.ds.spawn(lambda me: serve(me, lose), name="compressor")
        there: list[list[Snapshot]] = []
        place.me.observe(f.Compressed, appeared=lambda _fact: there.append(place.snapshots()))
        place.begin()
        place.loop.feed(MessagesAppended("s1", Messages.of(rows)))
        place.loop.feed(CompactionRequested("s1"))
        await place.until(lambda: there)
        ((one,),) = there
        assert ("compaction", "host-s1") == (one.reason, one.session_id)
        assert "The scale is off by 12 grams." in one.key_findings
        assert not any("off by 12" in str(row) for row in place.loop.state("s1").messages)


@pytest.mark.parametrize("work", [again, fail])
async def test_a_compaction_that_loses_nothing_writes_nothing(folder: Path, work: Any) -> None:
    """Refused or failed, nothing is lost, so nothing is written, and the older snapshots of others stay."""
    store = SnapshotStore(folder, keep=2)
    for at in range(2):
        store.save(Snapshot(f"other-{at}", timestamp=1_000_000 + at))
    async with placed(folder, store_for=lambda _session: store) as place:
        await place.ds.spawn(lambda me: serve(me, work), name="compressor")
        place.begin()
        place.work()
        place.loop.feed(CompactionRequested("s1"))
        await place.until(lambda: place.ds.facts(f.CompactionFailed))
        await trio.testing.wait_all_tasks_blocked()
        assert ["other-1", "other-0"] == [one.session_id for one in place.snapshots()]
        assert () == place.ds.facts(f.SnapshotSaved)


class Stalled(SnapshotStore):
    """A disk that does not answer until it is let go."""

    free: threading.Event
    waits: int

    @classmethod
    def made(cls, folder: Path) -> Stalled:
        """One that stalls."""
        made = cls(folder)
        made.free, made.waits = threading.Event(), 0
        return made

    def save(self, *args: Any, **more: Any) -> Path:
        """Wait, then save."""
        self.waits += 1
        assert self.free.wait(60)
        return super().save(*args, **more)


async def test_a_stalled_disk_is_waited_for_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past its bound a compaction goes on, the next one does not wait at all, and once the disk answers all is written."""
    monkeypatch.setattr(actor, "_PATIENCE", 0.05)
    store = Stalled.made(folder)
    async with placed(folder, store_for=lambda _session: store) as place:
        await place.ds.spawn(lambda me: serve(me, lose), name="compressor")
        place.begin()
        for ask in (1, 2):
            place.work(text=f"Request {ask}.")
            place.loop.feed(CompactionRequested("s1"))
            await place.until(lambda ask=ask: place.ds.facts(where(f.Compressed, ask=ask)))
            monkeypatch.setattr(actor, "_PATIENCE", 3_600)
            assert not place.written
            assert place.ds.facts(where(f.Working, engine="snapshotter", sid="s1"))
        assert 1 == store.waits
        store.free.set()
        await place.until(lambda: [one.sequence for one in place.snapshots()] == [2])
        assert "Request 2." == place.snapshots()[0].task_state["request"]
        await place.until(lambda: not place.ds.facts(f.Working))
        place.work(text="Request 3.")
        place.loop.feed(CompactionRequested("s1"))
        await place.until(lambda: place.ds.facts(where(f.Compressed, ask=3)))
        assert [3] == [one.sequence for one in place.snapshots()]  # it is asked, and waited for, again


async def test_a_question_that_goes_does_not_wait(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked gives up while the disk is slow: the question is over at once, and what was begun is written late."""
    monkeypatch.setattr(actor, "_PATIENCE", 0.2)
    store = Stalled.made(folder)
    async with placed(folder, store_for=lambda _session: store) as place:
        place.begin()
        place.work()
        question = place.me.publish(f.Asked("s1", 1, 1, "snapshotter", "reviser"))
        await place.until(lambda: store.waits)
        place.me.retract(question)
        await place.until(lambda: place.ds.facts(f.Working))
        store.free.set()
        await place.saved("compaction")
        await place.until(lambda: not place.ds.facts(f.Working))


async def test_what_is_asked_about_is_read_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a model takes its time the list is read, so that the answer waits for a write and no more."""
    monkeypatch.setattr(actor, "_MEANWHILE", 0.01)
    read: list[Any] = []
    real = Memory.read
    monkeypatch.setattr(Memory, "read", lambda self, *args: read.append(1) or real(self, *args))
    async with placed(folder) as place:
        place.begin()
        place.me.publish(f.Asked("s1", 1, 1, "x", messages=Messages.of([{"role": "user", "content": "Count."}])))
        await place.until(lambda: read)
        assert not place.written


async def test_the_messages_that_are_asked_about_count(folder: Path) -> None:
    """In a host lists come only with the question; what they tell is in the snapshot that is written then."""
    async with placed(folder) as place:
        place.begin()
        await trio.testing.wait_all_tasks_blocked()
        rows = [
            {"role": "user", "content": "Count."},
            {"role": "assistant", "content": "The scale is off by 12 grams."},
        ]
        place.me.publish(f.Asked("s1", 1, 1, "x", messages=Messages.of(rows)))
        place.me.publish(f.Asked("s1", 1, 2, "snapshotter", "reviser", messages=Messages.of(rows[:1])))
        await place.saved("compaction")
        assert ["The scale is off by 12 grams."] == place.snapshots()[0].key_findings


async def test_a_compaction_that_nobody_was_asked_for(folder: Path) -> None:
    """Whoever compacts unasked: what was known before is written, and the summary's findings are known afterwards."""
    async with placed(folder) as place:
        place.begin()
        place.work()
        rows = [{"role": "user", "content": "[CONTEXT COMPACTION] Root cause: the frost.\n--- END OF CONTEXT SUMMARY"}]
        await trio.testing.wait_all_tasks_blocked()
        place.me.publish(f.Compressed("s1", 1, "x", messages=Messages.of(rows)))
        await place.saved("compaction")
        place.loop.feed(SessionEnded("s1"))
        await place.saved("session_end")
        newest, oldest = place.snapshots()
        assert (2, 1) == (newest.sequence, oldest.sequence)
        assert "Root cause: the frost." in newest.key_findings
        assert "Root cause: the frost." not in oldest.key_findings


async def test_b09_another_id_is_the_same_session(folder: Path) -> None:
    """B09: the host goes on under another id: no end is written, what was known is kept, and the lineage tells."""
    async with placed(folder) as place:
        place.begin()
        place.work()
        place.loop.feed(SessionRotated("s1", "host-2"))
        await trio.testing.wait_all_tasks_blocked()
        assert [] == place.snapshots()
        place.loop.feed(SessionEnded("s1"))
        await place.saved("session_end")
        (one,) = place.snapshots()
        assert ("host-2", ["host-s1"]) == (one.session_id, one.lineage["earlier_sessions"])
        assert 2 == len(one.tool_calls)


async def test_n13_parent_and_child(folder: Path) -> None:
    """N13: a child that bears its parent's name and ends at once does not end or replace the parent."""
    async with placed(folder) as place:
        place.begin("s1", host_session="h")
        place.begin("s2", host_session="h", parent="s1")
        place.work("s1", "The parent's request.")
        place.work("s2", "The child's request.")
        place.loop.feed(SessionEnded("s2"))
        await place.until(lambda: "s2" in place.closed)
        assert [] == place.snapshots()
        place.loop.feed(SessionEnded("s1"))
        await place.saved("session_end")
        assert ["The parent's request."] == [one.task_state["request"] for one in place.snapshots()]


async def test_helpers_evict_nobody(folder: Path) -> None:
    """N01, N13: many that were delegated to and are done leave one snapshot; one that was interrupted keeps its own."""
    SnapshotStore(folder).save(Snapshot("other", timestamp=1_000_000))
    async with placed(folder) as place:
        for parent in ("s1", "s2"):
            place.begin(parent)
            place.work(parent, f"Request of {parent}.")
        for n in range(12):
            sid, parent = f"h{n}", "s2" if n == 7 else "s1"
            place.begin(sid, parent=parent)
            place.work(sid, f"Help {n}.")
            if n == 9:
                place.me.publish(f.Asked(sid, 1, 1, "snapshotter", "reviser"))
                await place.saved("compaction", sid)
            if n != 3:
                place.me.send(f.TurnEnded(sid, "t1", text=f"It is {n}."))
            place.loop.feed(SessionEnded(sid))
            await place.saved("session_end", sid)
        for parent in ("s1", "s2"):
            place.loop.feed(SessionEnded(parent))
            await place.saved("session_end", parent)
        names = ["host-s2", "host-s1", "host-h11", "host-h7", "host-h3", "other"]
        assert names == [one.session_id for one in place.snapshots()]


async def test_lineage_has_the_hosts_ids(folder: Path) -> None:
    """Who delegated to whom is told by ids that mean something when the process is gone."""
    async with placed(folder) as place:
        place.begin("s1")
        place.begin("s2", parent="s1")
        place.begin("s3", parent="nobody")
        for sid in ("s1", "s2", "s3"):
            place.work(sid)
        place.me.send(f.Delegated("s1", "s2", task="count depot 3"))
        place.me.send(f.Delegated("s1", "unknown"))
        await trio.testing.wait_all_tasks_blocked()
        for sid in ("s3", "s2", "s1"):
            place.loop.feed(SessionEnded(sid))
        await place.until(lambda: len(place.closed) == 3)
        found = {one.session_id: one.lineage for one in place.snapshots()}
        assert ["host-s1", "nobody"] == [found[name]["parent"] for name in ("host-s2", "host-s3")]
        assert [{"session": "host-s2", "task": "count depot 3"}, {"session": "unknown", "task": ""}] == found[
            "host-s1"
        ]["children"]


async def test_profiles_and_stores(folder: Path) -> None:
    """Each conversation's snapshots go where its profile says; one that is not to be kept is not."""

    def store_for(session: f.Session) -> SnapshotStore | None:
        return None if session.profile == "private" else SnapshotStore(folder, session.profile)

    async with placed(
        folder, store_for=store_for, lineage=lambda session: {"next_session": f"after {session.sid}"}
    ) as place:
        for sid, profile in (("s1", "fin"), ("s2", "law"), ("s3", "private")):
            place.begin(sid, profile=profile)
            place.work(sid)
            place.loop.feed(SessionEnded(sid))
        await place.until(lambda: len(place.closed) == 3)
        assert [["host-s1"], ["host-s2"], []] == [
            [one.session_id for one in place.snapshots(name)] for name in ("fin", "law", "private")
        ]
        assert "after s1" == place.snapshots("fin")[0].lineage["next_session"]


async def test_n12_a_disk_that_fails(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """N12: the failure is a fact with its reason, the loop goes on, and the next boundary tries again."""
    async with placed(folder) as place:
        place.block()
        place.begin()
        place.work(text="My key is sk-test-AAAAbbbbCCCCdddd1234.")
        await trio.testing.wait_all_tasks_blocked()
        place.me.publish(f.Asked("s1", 1, 1, "snapshotter", "reviser"))
        await place.until(lambda: place.ds.facts(f.SnapshotFailed))
        (failed,) = place.ds.facts(f.SnapshotFailed)
        assert ("compaction", True) == (failed.reason, "no folder" in failed.error)
        assert "was not written" in caplog.text
        place.unblock()
        place.loop.feed(SessionEnded("s1"))
        await place.saved("session_end")
        assert () == place.ds.facts(f.SnapshotFailed)
        assert "sk-test" not in place.snapshots()[0].task_state["request"]


async def test_a_helper_of_which_nothing_is_kept_keeps_nothing(folder: Path) -> None:
    """A session that ends while another agent goes on with it is written by that one at its end; not if that never is."""
    store = SnapshotStore(folder)

    def store_for(session: f.Session) -> SnapshotStore | None:
        if session.sid == "broken":
            raise RuntimeError("no place")
        return None if session.sid == "review" else store

    async with placed(folder, store_for=store_for) as place:
        for sid, helper in (("s1", "review"), ("s2", "broken")):
            place.begin(sid, host_session="host")
            place.begin(helper, host_session="host")
            place.work(sid, text=f"The request of {sid}.")
            place.loop.feed(SessionEnded(sid))
            await place.saved("session_end", sid)
        assert ["The request of s2.", "The request of s1."] == [one.task_state["request"] for one in place.snapshots()]


async def test_a_clock_that_was_ahead(folder: Path) -> None:
    """If all that is kept is of later by what it says, the new one is not kept, and nobody is told that it was saved."""
    store = SnapshotStore(folder, keep=2)
    for second in range(2):
        store.save(Snapshot("ahead", timestamp=4_000_000_000 + second))
    async with placed(folder, store_for=lambda _session: store) as place:
        place.begin()
        place.work()
        place.loop.feed(SessionEnded("s1"))
        await place.until(lambda: place.ds.facts(f.SnapshotFailed))
        assert "the clock" in place.ds.facts(f.SnapshotFailed)[0].error
        assert () == place.ds.facts(f.SnapshotSaved)
        assert ["ahead", "ahead"] == [one.session_id for one in place.snapshots()]
        store.clear()
        place.begin("s2")
        place.work("s2")
        place.loop.feed(SessionEnded("s2"))
        await place.saved("session_end", "s2")


@pytest.mark.parametrize("where_", ["store", "lineage", "fact"])
async def test_what_goes_wrong_costs_that_only(folder: Path, where_: str, caplog: pytest.LogCaptureFixture) -> None:
    """A place that is not known, a callback that fails, a fact that cannot be taken in: told, and the engine goes on."""

    def fail(_session: f.Session) -> Any:
        raise SnapshotError("the home is not known")

    more: dict[str, Any] = {"store": {"store_for": fail}, "lineage": {"lineage": fail}}.get(where_, {})
    async with placed(folder, **more) as place:
        place.begin()
        place.me.send(f.ToolCalled("s1", "c", "t", args=3 if where_ == "fact" else "{}"))  # type: ignore[arg-type]
        place.work()
        place.loop.feed(SessionEnded("s1"))
        await place.until(lambda: place.closed)
        if where_ in {"fact", "lineage"}:
            assert ("cannot be taken" if where_ == "fact" else "is not known") in caplog.text
            assert (2 if where_ == "fact" else 3) == len(place.snapshots()[0].tool_calls)
        else:
            (failed,) = place.ds.facts(f.SnapshotFailed)
            assert ("session_end", True) == (failed.reason, "the home is not known" in failed.error)
        assert place.ds.facts(f.Serving)


async def test_nobody_waits_for_a_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A save that takes for ever holds up neither the loop nor the saves of other folders; the event loop goes on."""
    slow = threading.Event()
    real = SnapshotStore.save

    def save(self: SnapshotStore, *args: Any, **more: Any) -> Path:
        if self.profile == "slow":
            assert slow.wait(60)
        return real(self, *args, **more)

    monkeypatch.setattr(SnapshotStore, "save", save)

    def store_for(session: f.Session) -> SnapshotStore:
        return SnapshotStore(folder.with_name(session.profile), session.profile)

    async with placed(folder, store_for=store_for) as place:
        for sid in ("slow", "quick"):
            place.begin(sid, profile=sid)
            place.work(sid)
            place.loop.feed(SessionEnded(sid))
        await place.saved("session_end", "quick")
        place.begin("s3", profile="quick")
        place.work("s3")
        place.loop.feed(SessionEnded("s3"))
        await place.saved("session_end", "s3")
        assert () == place.ds.facts(where(f.SnapshotSaved, sid="slow"))
        slow.set()
        await place.saved("session_end", "slow")
    assert {"slow"} == {
        entry.session_id.removeprefix("host-") for entry in SnapshotStore(folder.with_name("slow"), "slow").list()
    }


async def test_what_was_there_is_noticed(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """At the start of a session the newest snapshot of its profile is a fact and a line of the log, and no more."""
    caplog.set_level(logging.INFO, "engines.snapshotter")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for n in range(2):
        SnapshotStore(folder).save(Snapshot(f"old-{n}", timestamp=at + timedelta(hours=n)))
    SnapshotStore(folder, "fin").save(Snapshot("secret", profile="fin"))
    async with placed(folder) as place:
        place.begin()
        place.begin("s2", profile="nobody")
        await place.until(lambda: place.ds.facts(f.SnapshotFound))
        (found,) = place.ds.facts(f.SnapshotFound)
        assert ("s1", "old-1", "session_end", (at + timedelta(hours=1)).timestamp()) == (
            found.sid,
            found.session,
            found.reason,
            found.at,
        )
        assert "old-1" in caplog.text
        assert "secret" not in caplog.text


async def test_facts_end_with_what_is_known_of_a_session(folder: Path) -> None:
    """Where an ended session is forgotten, what became of its snapshots is, too; messages of others are nobody's."""
    async with placed(folder) as place:
        loop = Loop(place.ds.actor("other loop"), keep_ended=1)
        place.me.send(f.TurnStarted("nobody", "t", text="x"))
        for sid in ("s1", "s2", "s3"):
            loop.feed(SessionStarted(sid, threshold=10))
            place.me.send(f.TurnStarted(sid, "t", text="x"))
            loop.feed(SessionEnded(sid))
        await place.until(lambda: len(place.closed) == 3)
        assert {"s3"} == {fact.sid for fact in place.ds.facts(f.SnapshotSaved)}
        assert 3 == len(place.snapshots())


async def test_required_skills(folder: Path) -> None:
    """Those that are required then: one that is not any more is not told."""
    async with placed(folder) as place:
        place.begin()
        place.work()
        place.me.publish(f.SkillRequired("s1", "t", "weighing"))
        gone = place.me.publish(f.SkillRequired("s1", "t", "stamping"))
        place.me.retract(gone)
        await trio.testing.wait_all_tasks_blocked()
        place.loop.feed(SessionEnded("s1"))
        await place.saved("session_end")
        assert ["weighing"] == place.snapshots()[0].task_state["required_skills"]
