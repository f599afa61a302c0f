"""Lifetimes: R17, and what holds of actors and `during` because of it."""

from __future__ import annotations

from typing import Any

import pytest

from dataspace import Dataspace, Facet, Handle, Observe, Stopped, where
from dataspace.errors import NameTaken
from tests.space_talk import Fact, Holder, failing_turn, listen, make


def within(worker: Facet, me: Facet, x: object = "on") -> tuple[Facet, Handle]:
    """A lifetime of `worker` within `worker`, and the handle of `me` that it hangs on."""
    inner: list[Facet] = []
    worker.during(where(Fact, x=x), lambda facet, fact: inner.append(facet))
    handle = me.publish(Fact(x))
    return inner[0], handle


# -- R17: the order of an end ----------------------------------------------------------------------------------------------


def test_r17_children_first_then_stop_actions_then_retractions_newest_first() -> None:
    """An end goes from the inside out; in each lifetime stop actions come first, then what it holds goes, newest first."""
    ds, _ = make()
    me, worker, log = ds.actor("me"), ds.actor("worker"), []
    worker.publish(Holder("outer", 1))
    inner, _handle = within(worker, me)
    worker.publish(Holder("outer", 2))
    inner.publish(Holder("inner", 1))
    inner.publish(Holder("inner", 2))
    listen(ds.actor("ear"), Holder, log)
    log.clear()
    worker.on_stop(lambda parent: parent.send(Holder("outer stops")))
    inner.on_stop(lambda parent: parent.send(Holder("inner stops")))
    inner.on_stop(lambda parent: parent.send(Holder("inner stops", 2)))
    worker.stop()
    assert log == [
        *(("!", Holder("inner stops")), ("!", Holder("inner stops", 2))),
        *(("-", Holder("inner", 2)), ("-", Holder("inner", 1))),
        ("!", Holder("outer stops")),
        *(("-", Holder("outer", 2)), ("-", Holder("outer", 1))),
    ]


def test_r17_younger_children_end_before_older_ones() -> None:
    """Of several children the youngest ends first, whether their actor stops or only the `during` they come from goes."""
    for end in ("actor", "during"):
        ds, _ = make()
        me, worker, log = ds.actor("me"), ds.actor("worker"), []

        def body(facet: Facet, fact: Fact, log: list[Any] = log) -> None:
            facet.on_stop(lambda parent: log.append(fact.x))
            facet.publish(Holder(fact.x))

        handle = worker.during(Fact, body)
        for x in (1, 2, 3):
            me.publish(Fact(x))
        listen(ds.actor("ear"), Holder, log)
        log.clear()
        if end == "actor":
            worker.stop()
        else:
            worker.retract(handle)
        assert log == [3, 2, 1, ("-", Holder(3)), ("-", Holder(2)), ("-", Holder(1))]


def test_r17_an_end_is_one_turn() -> None:
    """Nobody sees half of an ended lifetime: when the first thing goes, all has gone."""
    ds, _ = make()
    me, worker, seen = ds.actor("me"), ds.actor("worker"), []
    inner, handle = within(worker, me)
    inner.publish(Holder(1))
    inner.publish(Holder(2))
    ds.actor("ear").observe(Holder, vanished=lambda fact: seen.append((fact, ds.facts(Holder))))
    me.retract(handle)
    assert seen == [(Holder(2), ()), (Holder(1), ())]


def test_r17_what_a_stop_action_begins_in_the_parent_lives_there() -> None:
    """A stop action acts in the lifetime around its own: what it publishes and observes there stays when its own is over."""
    ds, _ = make()
    me, worker, log = ds.actor("me"), ds.actor("worker"), []
    inner, handle = within(worker, me)

    def go_on(parent: Facet) -> None:
        assert parent is worker
        parent.publish(Holder("left behind"))
        parent.during(where(Fact, x="again"), lambda facet, fact: facet.publish(Holder("again")))
        log.append("acted")

    inner.on_stop(go_on)
    me.retract(handle)
    assert log == ["acted"]
    assert ds.facts(Holder) == (Holder("left behind"),)
    me.publish(Fact("again"))
    assert ds.facts(Holder) == (Holder("left behind"), Holder("again"))
    worker.stop()
    assert ds.facts(Holder) == ()


def test_r17_what_is_begun_in_a_parent_that_stops_too_dies_unseen() -> None:
    """If the parent is ending as well, what a stop action begins in it is never seen, and no handle of it stands."""
    ds, _ = make()
    me, worker, log = ds.actor("me"), ds.actor("worker"), []
    outer, _handle = within(worker, me)
    innermost: list[Facet] = []
    outer.during(where(Fact, x="deep"), lambda facet, fact: innermost.append(facet))
    me.publish(Fact("deep"))
    begun: list[Handle] = []

    def go_on(parent: Facet) -> None:
        begun.append(parent.publish(Holder("never")))
        begun.append(parent.observe(Fact, appeared=log.append))
        begun.append(parent.during(Fact, lambda facet, fact: log.append("never")))
        begun.append(parent.replace(None, Holder("never")))
        parent.later(lambda: log.append("never"))
        parent.on_stop(lambda grandparent: log.append("never"))
        parent.on_crash(lambda error: log.append("never"))

    innermost[0].on_stop(go_on)
    listen(ds.actor("ear"), Holder, log)
    listen(ds.actor("ear 2"), where(Observe, by="worker"), log)
    log.clear()
    worker.stop()
    assert "never" not in repr(log)
    assert [sign for sign, _ in log] == ["-", "-"]
    assert len(begun) == 4
    assert not any(handle.standing for handle in begun)
    assert ds.statistics().observers == 2


def test_r17_a_stop_action_of_the_actor_may_still_send_and_spawn() -> None:
    """The last words of an actor are heard, and it may start another; what it publishes is never seen."""
    ds, _ = make()
    worker, log = ds.actor("worker"), []
    listen(ds.actor("ear"), Holder, log)

    def last(me: Facet) -> None:
        me.send(Holder("goodbye"))
        me.publish(Holder("never"))
        me.spawn(lambda heir: heir.publish(Holder("heir")) and None, name="heir")

    worker.on_stop(last)
    worker.stop()
    assert log == [("!", Holder("goodbye")), ("+", Holder("heir"))]
    assert ds.facts(Holder) == (Holder("heir"),)


def test_r17_every_stop_action_runs_once_in_order() -> None:
    """All stop actions run, in the order in which they were asked for, whatever they do to the lifetime around."""
    ds, crashes = make()
    me, worker, log = ds.actor("me"), ds.actor("worker"), []
    inner, handle = within(worker, me)
    for n in range(3):
        inner.on_crash(lambda error: log.append("crash"))
        inner.on_stop(lambda parent, n=n: log.append(n))
        inner.on_stop(lambda parent: parent.on_stop(lambda root: log.append("root")))
        inner.on_stop(lambda parent: inner.stop())
    me.retract(handle)
    assert log == [0, 1, 2]
    worker.stop()
    assert log == [0, 1, 2, "root", "root", "root"]
    assert crashes == []


def test_r17_a_lifetime_is_stopped_before_its_own_stop_actions_run() -> None:
    """In a stop action the lifetime itself cannot act any more; the parent can."""
    ds, _ = make()
    me, worker, log = ds.actor("me"), ds.actor("worker"), []
    inner, handle = within(worker, me)

    def action(parent: Facet) -> None:
        with pytest.raises(Stopped):
            inner.publish(Holder(1))
        with pytest.raises(Stopped):
            inner.on_stop(lambda parent: None)
        log.append((inner.alive, parent.alive))

    inner.on_stop(action)
    me.retract(handle)
    assert log == [(False, True)]


def test_r17_siblings_survive() -> None:
    """The end of one lifetime leaves those beside it alone."""
    ds, _ = make()
    me, worker = ds.actor("me"), ds.actor("worker")
    worker.during(Fact, lambda facet, fact: facet.publish(Holder(fact.x)))
    one, _two = me.publish(Fact(1)), me.publish(Fact(2))
    me.retract(one)
    assert ds.facts(Holder) == (Holder(2),)


def test_r17_stopping_in_another_actors_turn_happens_after_it() -> None:
    """Stopping another actor in one's turn is done after that turn, in the order of the queue."""
    ds, _ = make()
    me, worker, log = ds.actor("me"), ds.actor("worker"), []
    listen(worker, Fact, log)
    with me.turn():
        me.send(Fact(1))
        worker.stop()
        assert worker.alive
        me.send(Fact(2))
    assert not worker.alive
    assert log == [("!", Fact(1))]
    with failing_turn(me):
        ds.actor("other").stop()
    assert ds.actor("worker").alive
    with pytest.raises(NameTaken):
        ds.actor("other")


def test_r17_stopping_within_ones_own_turn_is_part_of_it() -> None:
    """A lifetime stopped in a turn of its actor goes with the rest of that turn, or stands again if the turn fails."""
    ds, _ = make()
    me, worker, log = ds.actor("me"), ds.actor("worker"), []
    inner, _handle = within(worker, me)
    inner.publish(Holder("inner"))
    listen(ds.actor("ear"), Holder, log)
    log.clear()
    with failing_turn(worker):
        inner.stop()
        with pytest.raises(Stopped):
            inner.publish(Holder(2))
    assert log == []
    assert inner.alive
    with worker.turn():
        worker.publish(Holder("before"))
        inner.stop()
        worker.publish(Holder("after"))
    assert log == [("+", Holder("before")), ("-", Holder("inner")), ("+", Holder("after"))]


# -- actors ----------------------------------------------------------------------------------------------------------------


def test_a_spawned_actor_ends_when_it_holds_nothing() -> None:
    """An actor without facts, observers, lifetimes or turns to come ends, with its stop actions; one that holds any lives."""
    ds, _ = make()
    log: list[Any] = []
    for holds in ("nothing", "fact", "observer", "later"):

        def boot(me: Facet, holds: str = holds) -> None:
            me.on_stop(lambda parent: log.append(parent.name))
            if holds == "fact":
                me.publish(Fact(1))
            if holds == "observer":
                me.observe(Holder, heard=lambda message: None)
            if holds == "later":
                me.later(lambda: log.append(f"{holds} runs"))

        ds.spawn(boot, name=holds)
    assert log == ["nothing", "later runs", "later"]
    assert ds.statistics().actors == 2


def test_a_spawned_actor_ends_in_the_turn_that_takes_its_last_hold() -> None:
    """Letting go of the last thing ends an actor, in a callback, from the calling code, or with a lifetime within it."""
    ds, _ = make()
    log: list[Any] = []

    def boot(me: Facet) -> None:
        me.on_stop(lambda parent: log.append(me.name))
        me.observe(Holder, heard=lambda message: None, once=True)

    by_event, by_hand = ds.spawn(boot, name="event"), ds.spawn(boot, name="hand")
    by_hand.retract(next(iter(by_hand.handles)))
    assert log == ["hand"]
    assert by_event.alive
    ds.actor("me").send(Holder(1))
    assert log == ["hand", "event"]
    kept = ds.actor("kept")
    kept.retract(kept.publish(Fact(1)))
    assert kept.alive


def test_names_are_unique_among_live_actors() -> None:
    """A given name that is taken is refused, one that is made up is numbered; a name within a turn is taken at once."""
    ds, _ = make()

    def worker(me: Facet) -> None:
        me.publish(Fact(1))

    me = ds.actor("me")
    assert [ds.spawn(worker).name for _ in range(3)] == ["worker", "worker#2", "worker#3"]
    with pytest.raises(NameTaken, match="live actor 'worker'"):
        ds.spawn(worker, name="worker")
    with pytest.raises(NameTaken):
        ds.actor("worker")
    with me.turn():
        assert me.spawn(worker, name="new").name == "new"
        with pytest.raises(NameTaken):
            me.spawn(worker, name="new")
    for wrong in ("", None, 3):
        with pytest.raises(NameTaken, match="not empty"):
            ds.actor(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no function"):
        ds.spawn(3)  # type: ignore[arg-type]


def test_boot_functions_get_their_arguments() -> None:
    """`spawn(boot, *args)` calls `boot(me, *args)`, and what the boot does is seen when it returns."""
    ds, _ = make()
    seen: list[Any] = []

    def boot(me: Facet, *args: Any) -> None:
        seen.append(args)
        me.publish(Fact(args))

    me = ds.spawn(boot, 1, "two", name="worker")
    assert seen == [(1, "two")]
    assert ds.facts(Fact) == (Fact((1, "two")),)
    assert me.name == "worker"
    assert repr(me) == "<alive actor worker>"


# -- during ----------------------------------------------------------------------------------------------------------------


def test_during_is_a_lifetime_a_fact() -> None:
    """Each appearance opens a lifetime, what is published and observed in it goes with its fact, and only that."""
    ds, _ = make()
    me, worker, log = ds.actor("me"), ds.actor("worker"), []

    def body(facet: Facet, fact: Fact) -> None:
        facet.publish(Holder(fact.x))
        listen(facet, Holder, log, who=str(fact.x))

    handle = worker.during(Fact, body)
    before = ds.statistics()
    one, two = me.publish(Fact(1)), me.publish(Fact(2))
    me.retract(one)
    assert ds.facts(Holder) == (Holder(2),)
    log.clear()
    me.send(Holder("x"))
    assert log == [("2", "!", Holder("x"))]
    me.retract(two)
    assert ds.statistics() == before
    assert not handle.lifetimes  # type: ignore[attr-defined]
    assert not worker.children


def test_during_bodies_nest() -> None:
    """A `during` within a body ends with that body's fact, with all within it."""
    ds, _ = make()
    me, worker = ds.actor("me"), ds.actor("worker")
    worker.during(
        where(Fact, x="outer"),
        lambda outer, _: outer.during(where(Fact, x="inner"), lambda inner, _: inner.publish(Holder(1)) and None),
    )
    handles = {x: me.publish(Fact(x)) for x in ("inner", "outer")}
    assert ds.facts(Holder) == (Holder(1),)
    me.retract(handles["outer"])
    assert ds.facts(Holder) == ()
    handles["outer"] = me.publish(Fact("outer"))
    assert ds.facts(Holder) == (Holder(1),)
    me.retract(handles["inner"])
    assert ds.facts(Holder) == ()


def test_supply_that_flickers_is_restarted_and_nothing_is_orphaned() -> None:
    """However demand flickers, within a turn or across, in the end there is one supply if it stands and none if not."""
    ds, _ = make()
    me, worker = ds.actor("me"), ds.actor("worker")
    started: list[int] = []

    def supply(facet: Facet, fact: Fact) -> None:
        started.append(len(started))
        facet.publish(Holder(("supply", len(started))))

    worker.during(Fact, supply)
    with me.turn():
        for _ in range(3):
            me.retract(me.publish(Fact(1)))
        handle = me.publish(Fact(1))
    assert ds.facts(Holder) == (Holder(("supply", 4)),)
    with me.turn():
        me.retract(handle)
        handle = me.publish(Fact(1))
        me.retract(handle)
    assert ds.facts(Holder) == ()
    assert worker.children == {}


def test_a_body_that_ends_itself_stays_ended() -> None:
    """A body may stop its own lifetime; the fact's end then does nothing more, and its return as an actor is anew."""
    ds, crashes = make()
    me, worker, log = ds.actor("me"), ds.actor("worker"), []

    def body(facet: Facet, fact: Fact) -> None:
        log.append("begin")
        facet.publish(Holder(fact.x))
        facet.on_stop(lambda parent: log.append("end"))
        if len(log) == 1:
            facet.stop()

    worker.during(Fact, body)
    handle = me.publish(Fact(1))
    assert ds.facts(Holder) == ()
    me.retract(handle)
    assert log == ["begin", "end"]
    me.publish(Fact(1))
    assert ds.facts(Holder) == (Holder(1),)
    assert crashes == []


def test_a_body_may_change_what_it_waits_for_and_still_ends() -> None:
    """A body that retracts the fact it runs on, or the `during` it is run by, is ended in order."""
    ds, crashes = make()
    worker, log = ds.actor("worker"), []
    handles: list[Handle] = []

    def body(facet: Facet, fact: Fact) -> None:
        facet.on_stop(lambda parent: log.append("end"))
        worker.retract(handles.pop())

    with worker.turn():
        worker.during(Fact, body)
        handles.append(worker.publish(Fact(1)))
    assert log == ["end"]
    assert ds.facts(Fact) == ()
    assert crashes == []
    assert worker.children == {}


def test_responsibility_passes_without_a_gap() -> None:
    """If another stands behind a fact before the first lets go, nobody hears anything."""
    ds, _ = make()
    log: list[Any] = []
    old = ds.actor("old")
    old.publish(Fact(1))
    listen(ds.actor("ear"), Fact, log)
    ds.spawn(lambda me: me.publish(Fact(1)) and None, name="new")
    old.stop()
    assert log == [("+", Fact(1))]
    assert ds.facts(Fact) == (Fact(1),)


def test_box_and_client_count_to_their_end() -> None:
    """A box holds a number, a client sets it to the next until the box has had enough; all end, nothing is left."""
    ds, crashes = make()

    def box(me: Facet) -> None:
        standing: list[Handle] = [me.publish(Fact(0))]

        def set_to(message: Holder) -> None:
            standing.append(me.replace(standing.pop(), Fact(message.inner)))
            if message.inner == 50:
                me.stop()

        me.observe(Holder, heard=set_to)

    def client(me: Facet) -> None:
        me.observe(Fact, appeared=lambda fact: me.send(Holder(fact.x + 1)))
        me.during(where(Observe, by="box"), lambda facet, interest: facet.on_stop(lambda parent: parent.stop()))

    ds.spawn(box)
    ds.spawn(client)
    assert crashes == []
    assert ds.statistics() == Dataspace().statistics()
