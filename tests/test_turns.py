"""Turns: R1 to R5."""

from __future__ import annotations

from typing import Any

import pytest

from dataspace import Crashed, Dataspace, Facet, Observe, Stopped, where
from dataspace.errors import NameTaken, NotAFact, RunawayError, TurnError
from tests.space_talk import Boom, Fact, Holder, failing_turn, listen, make

# -- R1: released at commit, in order -------------------------------------------------------------------------------------


def test_r01_a_turn_is_released_at_commit_in_order() -> None:
    """What a turn publishes, retracts, sends and spawns is unseen until it commits, then comes in the order of the calls."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    old = me.publish(Fact("old"))
    listen(ds.actor("ear"), Fact, log)
    log.clear()
    with me.turn():
        me.publish(Fact(1))
        me.retract(old)
        me.send(Fact("message"))
        me.spawn(lambda boot: log.append("boot"), name="child")
        me.publish(Fact(2))
        assert log == []
        assert ds.facts(Fact) == (Fact("old"),)
    assert log == [("+", Fact(1)), ("-", Fact("old")), ("!", Fact("message")), "boot", ("+", Fact(2))]


def test_r01_one_callback_is_one_turn() -> None:
    """What a callback does is released when it returns, before the next callback runs, and heard after it."""
    ds, _ = make()
    log: list[Any] = []
    worker = ds.actor("worker")

    def twice(fact: Fact) -> None:
        worker.publish(Holder(fact.x, 1))
        assert ds.facts(Holder) == ()
        worker.publish(Holder(fact.x, 2))
        log.append("done")

    worker.observe(Fact, appeared=twice)
    worker.observe(Fact, appeared=lambda fact: log.append(len(ds.facts(Holder))))
    listen(ds.actor("ear"), Holder, log)
    ds.actor("me").publish(Fact(7))
    assert log == ["done", 2, ("+", Holder(7, 1)), ("+", Holder(7, 2))]


def test_r01_outside_of_a_turn_each_action_is_one() -> None:
    """Outside of a turn each action is a turn, and all that it causes has happened when it returns."""
    ds, _ = make()
    me, worker, log = ds.actor("me"), ds.actor("worker"), []
    worker.during(Fact, lambda facet, fact: facet.publish(Holder(fact.x)))
    listen(ds.actor("ear"), Holder, log)
    handle = me.publish(Fact(1))
    assert log == [("+", Holder(1))]
    me.retract(handle)
    assert log == [("+", Holder(1)), ("-", Holder(1))]


def test_r01_a_burst_of_one_turn_arrives_whole() -> None:
    """A thousand facts of one turn are all heard, in order."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    listen(ds.actor("ear"), Fact, log)
    with me.turn():
        for n in range(1000):
            me.publish(Fact(n))
    assert log == [("+", Fact(n)) for n in range(1000)]


def test_r01_a_coroutine_is_no_turn() -> None:
    """A callback that turns out to be asynchronous crashes its actor and says what to use; a declared one is refused."""
    ds, crashes = make()
    me = ds.actor("me")

    async def waits(fact: Fact) -> None: ...

    with pytest.raises(TypeError, match="synchronous"):
        me.observe(Fact, appeared=waits)
    with pytest.raises(TurnError, match="event loop"):
        me.during(Fact, waits)
    me.observe(Fact, appeared=lambda fact: waits(fact))  # noqa: PLW0108 - hides that it is asynchronous
    ds.actor("other").publish(Fact(1))
    worker = ds.actor("worker")
    worker.during(Fact, lambda facet, fact: waits(fact))
    assert crashes.actors == ["me", "worker"]
    assert all(isinstance(error, TurnError) for _, error in crashes)
    assert "me.task" in str(crashes[0][1])
    assert "give the async function itself" in str(crashes[1][1])


def test_r01_nobody_acts_in_the_turn_of_another() -> None:
    """Acting through another actor within a turn is refused with the advice to ask for a turn of its own."""
    ds, _ = make()
    a, b = ds.actor("a"), ds.actor("b")
    held = b.publish(Fact("held"))
    acts = [
        lambda: b.publish(Fact(1)),
        lambda: b.send(Fact(1)),
        lambda: b.retract(held),
        lambda: b.observe(Fact),
        lambda: b.during(Fact, lambda me, fact: None),
        lambda: b.replace(held, Fact(2)),
        lambda: b.spawn(lambda me: None),
        lambda: b.on_stop(lambda parent: None),
        lambda: b.turn().__enter__(),
        lambda: ds.spawn(lambda me: None),
    ]
    with a.turn():
        for act in acts:
            with pytest.raises(TurnError, match=r"me\.(later|spawn)"):
                act()
    assert ds.facts(Fact) == (Fact("held"),)
    assert ds.statistics().observers == 0


# -- R2: all or nothing ---------------------------------------------------------------------------------------------------


def test_r02_a_failed_turn_never_was() -> None:
    """Nothing of a turn that raises is ever seen: no fact, no message, no interest, no actor; the actor lives."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    ear = ds.actor("ear")
    listen(ear, Fact, log)
    listen(ear, where(Observe, by="me"), log)
    before = ds.statistics()
    with failing_turn(me):
        handle = me.publish(Fact(1))
        me.send(Fact(2))
        observation = me.observe(Fact, appeared=log.append)
        child = me.spawn(lambda boot: log.append("boot"), name="child")
        me.later(lambda: log.append("later"))
    assert log == []
    assert ds.statistics() == before
    assert not handle.standing
    assert not observation.standing
    assert not child.alive
    me.retract(handle)
    me.retract(observation)
    me.publish(Fact(3))
    assert log == [("+", Fact(3))]


def test_r02_handles_retracted_in_a_failed_turn_stand_again() -> None:
    """A retraction in a failed turn is undone, so the fact goes exactly once, when it is retracted for good."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    handle, kept = me.publish(Fact(1)), me.publish(Fact(2))
    observation = listen(me, Fact, log, who="own")
    listen(ds.actor("ear"), Fact, log)
    log.clear()
    with failing_turn(me):
        me.retract(handle)
        me.replace(kept, Fact(3))
        me.retract(observation)
    assert log == []
    assert handle.standing
    assert kept.standing
    assert observation.standing
    me.retract(handle)
    assert log == [("own", "-", Fact(1)), ("-", Fact(1))]


def test_r02_a_crash_after_a_retraction_retracts_exactly_once() -> None:
    """An actor that retracts and then fails in one turn loses that fact once, by the crash, and sends nothing."""
    ds, crashes = make()
    log: list[Any] = []

    def boot(me: Facet) -> None:
        handle = me.publish(Fact("held"))

        def fail(_: Fact) -> None:
            me.retract(handle)
            me.publish(Fact("never"))
            me.send(Fact("never"))
            me.spawn(lambda child: log.append("never"))
            raise Boom

        me.observe(where(Fact, x="go"), heard=fail)

    ds.spawn(boot, name="worker")
    listen(ds.actor("ear"), Fact, log)
    ds.actor("me").send(Fact("go"))
    assert log == [("+", Fact("held")), ("!", Fact("go")), ("-", Fact("held"))]
    assert crashes.actors == ["worker"]


def test_r02_savepoints_go_back_to_where_they_began() -> None:
    """A failed savepoint takes back what was done in it, at any depth, and nothing else."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    old = me.publish(Fact("old"))
    listen(ds.actor("ear"), Fact, log)
    log.clear()
    with me.turn():
        one = me.publish(Fact(1))
        with failing_turn(me):
            me.publish(Fact(2))
            me.retract(old)
            with me.turn():
                me.publish(Fact(3))
                me.retract(one)
                with failing_turn(me):
                    me.publish(Fact(4))
                me.publish(Fact(5))
        assert one.standing
        assert old.standing
        me.retract(old)
        with me.turn():
            me.publish(Fact(6))
    assert log == [("+", Fact(1)), ("-", Fact("old")), ("+", Fact(6))]


def test_r02_a_committed_savepoint_goes_back_with_the_turn_around_it() -> None:
    """What a savepoint did is undone when a turn around it fails, three deep, with the handles in their old state."""
    ds, _ = make()
    me = ds.actor("me")
    old = me.publish(Fact("old"))
    with failing_turn(me), me.turn(), me.turn():
        new = me.publish(Fact("new"))
        me.retract(old)
        me.retract(new)
    assert ds.facts(Fact) == (Fact("old"),)
    assert old.standing
    assert not new.standing
    me.retract(old)
    assert ds.facts(Fact) == ()


def test_r02_refused_actions_leave_the_turn_as_it_was() -> None:
    """An action that is refused does nothing, so a turn that catches the error may go on."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    old = me.publish(Fact("old"))
    listen(ds.actor("ear"), Fact, log)
    log.clear()
    with me.turn():
        with pytest.raises(NotAFact):
            me.publish(Fact([]))
        with pytest.raises(NotAFact):
            me.replace(old, Fact([]))
        with pytest.raises(TypeError):
            me.replace("no handle", Fact(2))  # type: ignore[arg-type]
        with pytest.raises(NameTaken):
            me.spawn(lambda boot: None, name="ear")
        me.publish(Fact(1))
    assert log == [("+", Fact(1))]
    assert old.standing


def test_r02_hooks_of_a_failed_turn_are_forgotten_in_place() -> None:
    """A hook asked for in a failed turn is gone, and the others run in the order in which they were asked for."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    a, b = (lambda parent: log.append("a")), (lambda parent: log.append("b"))
    me.on_stop(a)
    me.on_stop(b)
    with failing_turn(me):
        me.on_stop(a)
        me.on_crash(log.append)
    me.stop()
    assert log == ["a", "b"]


def test_r02_a_failed_spawn_gives_its_name_back() -> None:
    """A name reserved in a failed turn is free again, and the actor that never was cannot act."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    with failing_turn(me):
        ghost = me.spawn(lambda boot: log.append("never"), name="child")
    assert log == []
    with pytest.raises(Stopped):
        ghost.publish(Fact(1))
    ds.spawn(lambda boot: log.append("boot"), name="child")
    assert log == ["boot"]


def test_r02_a_turn_asked_for_in_a_failed_turn_keeps_nobody_alive() -> None:
    """A `later` of a failed turn is forgotten: it does not run, and the actor it was asked of ends when it holds nothing."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    worker = ds.spawn(
        lambda worker: worker.observe(Fact, heard=lambda message: None, once=True) and None, name="worker"
    )
    with failing_turn(me):
        worker.later(lambda: log.append("never"))
    me.send(Fact(1))
    assert log == []
    assert not worker.alive


def test_r02_the_crash_of_a_child_harms_no_sibling() -> None:
    """What a turn sends arrives although an actor it spawned crashes in its first turn."""
    ds, crashes = make()
    me, log = ds.actor("me"), []
    listen(ds.actor("ear"), Fact, log)

    def fail(boot: Facet) -> None:
        boot.publish(Fact("never"))
        raise Boom

    with me.turn():
        me.send(Fact(1))
        me.spawn(fail, name="child")
        me.send(Fact(2))
    assert log == [("!", Fact(1)), ("!", Fact(2))]
    assert crashes.actors == ["child"]
    assert me.alive


def test_r02_out_of_a_callback_an_exception_crashes_whatever_turn_it_is() -> None:
    """A callback, a boot, a `during` body and a `later` that raise crash their actor; nothing reaches who caused them."""
    ds, crashes = make()
    me = ds.actor("me")

    def fail(*args: Any) -> None:
        raise Boom

    ds.actor("appeared").observe(Fact, appeared=fail)
    ds.actor("vanished").observe(Fact, vanished=fail)
    ds.actor("heard").observe(Fact, heard=fail)
    ds.actor("during").during(Fact, fail)
    ds.spawn(fail, name="boot")
    ds.actor("later").later(fail)
    me.send(Fact(0))
    me.retract(me.publish(Fact(1)))
    assert sorted(crashes.actors) == ["appeared", "boot", "during", "heard", "later", "vanished"]
    assert all(type(error) is Boom for _, error in crashes)


def test_r02_an_interrupt_discards_the_turn_and_propagates() -> None:
    """What is no `Exception` (an interrupt) is no crash: the turn is undone, the error propagates, the rest is heard later."""
    ds, crashes = make()
    me, log = ds.actor("me"), []
    worker = ds.actor("worker")

    def interrupted(fact: Fact) -> None:
        worker.publish(Holder("never"))
        raise KeyboardInterrupt

    def interrupted_turn(me: Facet) -> None:
        with me.turn():
            me.publish(Fact(3))
            raise KeyboardInterrupt

    worker.observe(where(Fact, x=1), appeared=interrupted)
    listen(ds.actor("ear"), where(Fact, x=1), log)
    with pytest.raises(KeyboardInterrupt):
        me.publish(Fact(1))
    assert crashes == []
    assert ds.facts(Holder) == ()
    me.publish(Fact(2))
    assert log == [("+", Fact(1))]
    with pytest.raises(KeyboardInterrupt):
        interrupted_turn(me)
    assert ds.facts(Fact) == (Fact(1), Fact(2))


def test_r02_a_stop_that_fails_and_is_forgiven_stopped_nothing() -> None:
    """A stop action that raises takes the whole stop back; if the turn goes on, the lifetime stands with all it holds."""
    ds, crashes = make()
    me, inner = ds.actor("me"), []
    cause = ds.actor("other").publish(Fact(1))

    def body(facet: Facet, fact: Fact) -> None:
        inner.append(facet)
        facet.publish(Holder("held"))
        facet.on_stop(fail)

    def fail(parent: Facet) -> None:
        parent.publish(Holder("never"))
        raise Boom

    me.during(Fact, body)
    with me.turn(), pytest.raises(Boom):
        inner[0].stop()
    assert inner[0].alive
    assert ds.facts(Holder) == (Holder("held"),)
    cause.facet.retract(cause)
    assert crashes.actors == ["me"]
    assert ds.facts(Holder) == ()


# -- R3: crashes ----------------------------------------------------------------------------------------------------------


def crash_of(me: Facet, go: str = "go") -> None:
    """Make `me` crash when a message says so."""

    def fail(_: Fact) -> None:
        raise Boom("as asked")

    me.observe(where(Fact, x=go), heard=fail)


def test_r03_a_crash_retracts_newest_first_across_lifetimes() -> None:
    """A crash lets go of all that the actor holds, in whatever lifetime, the newest first, then stands as a fact."""
    ds, _ = make()
    me, worker, log = ds.actor("me"), ds.actor("worker"), []
    worker.publish(Holder(1))
    inner: list[Facet] = []
    worker.during(where(Fact, x="on"), lambda facet, fact: inner.append(facet))
    me.publish(Fact("on"))
    inner[0].publish(Holder(2))
    worker.publish(Holder(3))
    inner[0].publish(Holder(4))
    crash_of(worker)
    ear = ds.actor("ear")
    listen(ear, Holder, log)
    listen(ear, Crashed, log)
    log.clear()
    me.send(Fact("go"))
    crashed = Crashed("worker", "Boom: as asked", 1)
    assert log == [("-", Holder(4)), ("-", Holder(3)), ("-", Holder(2)), ("-", Holder(1)), ("+", crashed)]
    assert not worker.alive
    assert not inner[0].alive


def test_r03_a_crash_is_one_turn() -> None:
    """Nobody sees half of what a crashed actor held: when the first goes, all have gone."""
    ds, _ = make()
    worker, seen = ds.actor("worker"), []
    worker.publish(Holder(1))
    worker.publish(Holder(2))
    crash_of(worker)
    ds.actor("ear").observe(Holder, vanished=lambda fact: seen.append((fact, ds.facts(Holder), len(ds.facts(Crashed)))))
    ds.actor("me").send(Fact("go"))
    assert seen == [(Holder(2), (), 1), (Holder(1), (), 1)]


def test_r03_stop_actions_do_not_run_and_crash_hooks_do() -> None:
    """On a crash `on_crash` hooks are called with the error, in order, and `on_stop` actions are not; on a stop the reverse."""
    ds, _ = make()
    log: list[Any] = []
    for name in ("crashes", "stops"):
        worker = ds.actor(name)
        crash_of(worker, name)
        worker.on_stop(lambda parent: log.append(f"{parent.name} stop"))
        worker.on_crash(lambda error, name=name: log.append(f"{name} crash {error}"))
        worker.on_crash(lambda error, name=name: log.append(f"{name} again"))
        if name == "stops":
            worker.stop()
    ds.actor("me").send(Fact("crashes"))
    assert log == ["stops stop", "crashes crash as asked", "crashes again"]


def test_r03_other_observers_of_the_event_are_served() -> None:
    """An observer that raises ends its own actor; older and younger observers of the same event hear it once."""
    ds, crashes = make()
    log: list[Any] = []
    listen(ds.actor("before"), Fact, log, who="before")
    worker = ds.actor("worker")
    crash_of(worker)
    listen(worker, Fact, log, who="same actor")
    listen(ds.actor("after"), Fact, log, who="after")
    ds.actor("me").send(Fact("go"))
    assert log == [("before", "!", Fact("go")), ("after", "!", Fact("go"))]
    assert crashes.actors == ["worker"]


def test_r03_the_asker_lives_and_does_not_notice() -> None:
    """An error in a callback does not come out of the call that caused it."""
    ds, crashes = make()
    crash_of(ds.actor("worker"))
    me = ds.actor("me")
    me.send(Fact("go"))
    assert me.alive
    assert len(crashes) == 1


def test_r03_crashes_are_told_apart_by_a_serial_and_the_newest_hundred_stand() -> None:
    """Each crash is a fact of its own, with a serial; of more than a hundred the oldest go, one for one."""
    ds, crashes = make()
    me, log = ds.actor("me"), []
    for n in range(1, 104):
        worker = ds.actor("worker")
        crash_of(worker)
        if n == 103:
            listen(ds.actor("ear"), Crashed, log)
            log.clear()
        me.send(Fact("go"))
    assert [crash.n for crash in ds.facts(Crashed)] == list(range(4, 104))
    assert {(crash.actor, crash.reason) for crash in ds.facts(Crashed)} == {("worker", "Boom: as asked")}
    assert [(sign, crash.n) for sign, crash in log] == [("+", 103), ("-", 3)]
    assert len(crashes) == 103


def test_r03_the_runtime_is_told_after_the_hooks_with_the_error() -> None:
    """`on_crash` gets the fact and the very exception; by then the fact stands and the name is free."""
    seen: list[Any] = []

    def on_crash(crash: Crashed, error: BaseException) -> None:
        seen.append((crash, type(error), ds.facts(Crashed) == (crash,)))
        ds.actor(crash.actor)

    ds = Dataspace(on_crash=on_crash)
    crash_of(ds.actor("worker"))
    ds.actor("me").send(Fact("go"))
    assert seen == [(Crashed("worker", "Boom: as asked", 1), Boom, True)]
    assert ds.statistics().actors == 2


def test_r03_without_a_handler_a_crash_shows_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """By default a crash prints its traceback to stderr, so no error goes unseen."""
    ds = Dataspace()
    crash_of(ds.actor("worker"))
    ds.actor("me").send(Fact("go"))
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "Boom: as asked" in shown


def test_r03_a_hook_that_fails_is_shown_and_harms_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    """A crash hook that raises is handed to `on_crash`, an `on_crash` that raises is printed; the rest goes on."""
    log: list[Any] = []

    def on_crash(crash: Crashed, error: BaseException) -> None:
        log.append(str(error))
        raise Boom("of the handler")

    ds = Dataspace(on_crash=on_crash)
    worker = ds.actor("worker")
    crash_of(worker)

    def hook(error: BaseException) -> None:
        raise Boom("of the hook")

    worker.on_crash(hook)
    worker.on_crash(lambda error: log.append("second hook"))
    listen(ds.actor("ear"), Fact, log)
    ds.actor("me").send(Fact("go"))
    assert log == ["of the hook", "second hook", "as asked", ("!", Fact("go"))]
    assert capsys.readouterr().err.count("Boom: of the handler") == 2


def test_r03_an_error_that_cannot_be_shown_is_a_crash_all_the_same() -> None:
    """The reason names the type where the error's own text fails or is empty, and of a very long text the beginning."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    ds, _ = make()

    def fail(me: Facet) -> None:
        raise Mute

    def empty(me: Facet) -> None:
        raise Boom

    ds.spawn(fail)
    ds.spawn(empty)

    def endless(me: Facet) -> None:
        raise Boom("x" * 10_000)

    ds.spawn(endless)
    *reasons, long = [crash.reason for crash in ds.facts(Crashed)]
    assert reasons == ["Mute: (an error that cannot be shown)", "Boom"]
    assert long.startswith("Boom: xxx")
    assert long.endswith("…")
    assert len(long) < 1_100


def test_r03_a_boot_that_crashes_leaves_nothing() -> None:
    """An actor that fails in its first turn was never seen, before or after its first fact; its name is free."""
    ds, crashes = make()
    log: list[Any] = []
    listen(ds.actor("ear"), Fact, log)

    def at_once(me: Facet) -> None:
        raise Boom

    def after(me: Facet) -> None:
        me.publish(Fact(1))
        me.on_crash(lambda error: log.append("hook of a turn that never was"))
        raise Boom

    for boot in (at_once, after):
        me = ds.spawn(boot, name="worker")
        assert not me.alive
        with pytest.raises(Stopped):
            me.publish(Fact(2))
    assert log == []
    assert crashes.actors == ["worker", "worker"]


def test_r03_a_stop_action_that_fails_is_a_crash() -> None:
    """An actor whose stop action raises crashes instead: all it holds goes."""
    ds, crashes = make()
    worker = ds.actor("worker")
    worker.publish(Fact(1))

    def fail(parent: Facet) -> None:
        raise Boom

    worker.on_stop(fail)
    worker.stop()
    assert crashes.actors == ["worker"]
    assert ds.facts(Fact) == ()
    assert not worker.alive


def test_r03_so_is_one_that_fails_as_its_actor_has_nothing_left() -> None:
    """The stop actions of an actor that ends for holding nothing may fail like any; an interrupt there is no crash."""
    ds, crashes = make()
    errors: list[BaseException] = [Boom(), KeyboardInterrupt()]

    def boot(me: Facet) -> None:
        def fail(parent: Facet) -> None:
            parent.send(Fact("never"))
            raise errors.pop(0)

        me.on_stop(fail)
        me.publish(Holder(1))

    log: list[Any] = []
    listen(ds.actor("ear"), Fact, log)
    first = ds.spawn(boot, name="first")
    first.retract(next(iter(first.handles)))
    assert crashes.actors == ["first"]
    assert not first.alive
    second = ds.spawn(boot, name="second")
    with pytest.raises(KeyboardInterrupt):
        second.retract(next(iter(second.handles)))
    assert crashes.actors == ["first"]
    assert second.alive
    assert log == []


# -- R4: order ------------------------------------------------------------------------------------------------------------


def test_r04_receivers_handle_events_in_commit_order() -> None:
    """Every receiver, through whichever of its observers, hears events in the order in which they were committed."""
    ds, _ = make()
    a, b, log = ds.actor("a"), ds.actor("b"), []
    ear = ds.actor("ear")
    listen(ear, Fact, log)
    listen(ear, Holder, log)
    with a.turn():
        a.publish(Fact(1))
        a.send(Holder(2))
        a.publish(Fact(3))
    b.send(Holder(4))
    a.publish(Holder(5))
    assert log == [("+", Fact(1)), ("!", Holder(2)), ("+", Fact(3)), ("!", Holder(4)), ("+", Holder(5))]


def test_r04_one_queue_keeps_causes_before_effects() -> None:
    """What an event causes is heard by everybody after the event itself, whoever reacts first."""
    ds, _ = make()
    log: list[Any] = []
    quick = ds.actor("quick")
    quick.observe(Fact, heard=lambda fact: quick.send(Holder(fact.x)))
    slow = ds.actor("slow")
    listen(slow, Holder, log)
    listen(slow, Fact, log)
    me = ds.actor("me")
    with me.turn():
        me.send(Fact(1))
        me.send(Fact(2))
    assert log == [("!", Fact(1)), ("!", Fact(2)), ("!", Holder(1)), ("!", Holder(2))]


def test_r04_a_send_to_oneself_is_a_later_turn() -> None:
    """What an actor sends to itself is handled after the turn that sent it, and after what was queued before."""
    ds, _ = make()
    me, log = ds.actor("me"), []

    def hear(fact: Fact) -> None:
        log.append(("begin", fact.x))
        if fact.x == 1:
            me.send(Fact(3))
        log.append(("end", fact.x))

    me.observe(Fact, heard=hear)
    with me.turn():
        me.send(Fact(1))
        me.send(Fact(2))
    assert log == [(when, n) for n in (1, 2, 3) for when in ("begin", "end")]


def test_r04_later_is_a_turn_in_the_same_queue() -> None:
    """`later` runs after what was released before it and before what comes after, as a turn of the actor it names."""
    ds, _ = make()
    a, b, log = ds.actor("a"), ds.actor("b"), []
    listen(ds.actor("ear"), Fact, log)
    with a.turn():
        a.send(Fact(1))
        b.later(lambda: b.send(Fact("from b")))
        b.later(lambda: log.append("later"))
        a.send(Fact(2))
        assert log == []
    assert log == [("!", Fact(1)), "later", ("!", Fact(2)), ("!", Fact("from b"))]


# -- R5: bounds -----------------------------------------------------------------------------------------------------------


def runaway(me: Facet) -> None:
    """Answer each message with the next one."""
    me.observe(Fact, heard=lambda fact: me.send(Fact(fact.x + 1)))


def test_r05_a_chain_too_deep_crashes_who_goes_on() -> None:
    """Past `max_depth` the actor at the tip crashes, the end of the chain in its message; a mere hearer lives and heard all."""
    ds, crashes = make(max_depth=20)
    log: list[Any] = []
    listen(ds.actor("ear"), Fact, log)
    runaway(ds.actor("worker"))
    listen(ds.actor("late ear"), Fact, log, who="late")
    ds.actor("me").send(Fact(0))
    ((crash, error),) = crashes
    assert crash.actor == "worker"
    assert isinstance(error, RunawayError)
    assert "more than 20 turns in a row" in str(error)
    assert "worker heard <observer of where(Fact)> <- worker heard" in str(error)
    assert str(error).endswith("<- ...")
    assert [entry for entry in log if entry[0] == "!"] == [("!", Fact(n)) for n in range(21)]
    assert [entry for entry in log if entry[0] == "late"] == [("late", "!", Fact(n)) for n in range(21)]


def test_r05_a_chain_as_deep_as_allowed_is_none_too_deep() -> None:
    """Exactly `max_depth` turns in a row are fine, and each outside event counts anew."""
    ds, crashes = make(max_depth=20)
    worker = ds.actor("worker")
    worker.observe(Fact, heard=lambda fact: worker.send(Fact(fact.x - 1)) if fact.x > 1 else None)
    for _ in range(3):
        ds.actor("me" + str(_)).send(Fact(20))
    assert crashes == []
    ds.actor("me").send(Fact(22))
    assert crashes.actors == ["worker"]


def test_r05_the_default_depth_is_ten_thousand() -> None:
    """Without options a chain of 10,000 turns is fine and an endless one ends."""
    ds, crashes = make()
    worker = ds.actor("worker")
    worker.observe(Fact, heard=lambda fact: worker.send(Fact(fact.x - 1)) if fact.x > 1 else None)
    ds.actor("me").send(Fact(10_000))
    assert crashes == []
    worker.stop()
    runaway(ds.actor("runaway"))
    ds.actor("you").send(Fact(1))
    assert crashes.actors == ["runaway"]


def test_r05_two_that_answer_each_other_end() -> None:
    """A chain between two actors ends with the crash of one of them."""
    ds, crashes = make(max_depth=20)
    a, b = ds.actor("a"), ds.actor("b")
    a.observe(Fact, heard=lambda fact: a.send(Holder(fact.x)))
    b.observe(Holder, heard=lambda holder: b.send(Fact(holder.inner)))
    ds.actor("me").send(Fact(0))
    assert len(crashes) == 1
    assert a.alive != b.alive


def test_r05_a_chain_of_newborn_actors_ends() -> None:
    """Actors that each spawn the next end too, whether they outlive their first turn or not."""
    for stay in (True, False):
        ds, crashes = make(max_depth=20)

        def boot(me: Facet, n: int, stay: bool = stay) -> None:
            if stay:
                me.publish(Fact(n))
            me.spawn(boot, n + 1)

        ds.spawn(boot, 0)
        assert crashes
        assert all(isinstance(error, RunawayError) for _, error in crashes)
        assert len(ds.facts(Fact)) == (19 if stay else 0)


def test_r05_who_is_asked_for_a_turn_is_no_culprit() -> None:
    """Where a chain too deep asks another actor to stop or for a turn, it is the asker that crashes."""
    ds, crashes = make(max_depth=20)
    worker, bystander = ds.actor("worker"), ds.actor("bystander")
    ran: list[int] = []

    def go_on(fact: Fact) -> None:
        bystander.later(lambda: ran.append(fact.x))
        worker.send(Fact(fact.x + 1))

    worker.observe(Fact, heard=go_on)
    ds.actor("me").send(Fact(0))
    assert crashes.actors == ["worker"]
    assert bystander.alive
    assert ran == list(range(20))


def test_r05_too_many_turns_end_however_they_branch() -> None:
    """Past `max_turns` whoever goes on crashes and the event ends; who only hears of other things is untouched."""
    ds, crashes = make(max_turns=100)
    bystander, log = ds.actor("bystander"), []
    listen(bystander, Holder, log)
    worker = ds.actor("worker")

    def double(fact: Fact) -> None:
        worker.send(Fact(fact.x * 2))
        worker.send(Fact(fact.x * 2 + 1))

    worker.observe(Fact, heard=double)
    ds.actor("me").send(Fact(1))
    ((crash, error),) = crashes
    assert crash.actor == "worker"
    assert "more than 100 turns" in str(error)
    ds.actor("you").send(Holder(1))
    assert log == [("!", Holder(1))]


def test_r05_only_turns_count() -> None:
    """An observer that does not listen to a kind of event, or is gone, takes no turn and cannot use up the bound."""
    ds, crashes = make(max_turns=10)
    for n in range(20):
        ds.actor(f"deaf {n}").observe(Fact)
    log: list[Any] = []
    listen(ds.actor("ear"), Fact, log)
    me = ds.actor("me")
    with me.turn():
        for n in range(5):
            me.retract(me.publish(Fact(n)))
    assert crashes == []
    assert len(log) == 10


def test_r05_the_chain_leads_through_a_crash() -> None:
    """What somebody does about a crash was caused by the turn that crashed, and the error that ends it says so."""
    ds, crashes = make(max_depth=2)

    def fail(fact: Fact) -> None:
        raise Boom

    first, second = ds.actor("first"), ds.actor("second")
    first.publish(Holder(1))
    first.observe(Fact, heard=fail)
    second.observe(Holder, vanished=second.send, heard=lambda holder: None)
    ds.actor("me").send(Fact(1))
    assert crashes.actors == ["first", "second"]
    links = "second vanished <observer of where(Holder)> <- first heard <observer of where(Fact)>"
    assert str(crashes[1][1]).endswith(f"; the last: {links}")


def test_r05_the_last_turn_is_run_whole() -> None:
    """The turn that uses up the bound may still spawn; what that causes is one too many, and tells both actors so."""
    ds, crashes = make(max_turns=2)
    me, spawned = ds.actor("me"), []
    me.observe(Fact, heard=lambda fact: me.send(Holder(fact)))
    me.observe(Holder, heard=lambda _holder: spawned.append(me.spawn(lambda new: None, name="new").name))
    ds.actor("you").send(Fact(1))
    assert spawned == ["new"]
    assert sorted(crashes.actors) == ["me", "new"]
    assert all("caused more than 2 turns" in str(error) for _, error in crashes)


def test_r05_a_crash_handler_that_restarts_for_ever_ends() -> None:
    """A handler that starts anew what crashes in its first turn is stopped by the same bound, and told so."""
    refused: list[BaseException] = []

    def restart(crash: Crashed, error: BaseException) -> None:
        try:
            ds.spawn(fail, name="worker")
        except RunawayError as refusal:
            refused.append(refusal)

    def fail(me: Facet) -> None:
        raise Boom

    ds = Dataspace(on_crash=restart, max_turns=50)
    ds.spawn(fail, name="worker")
    assert len(refused) == 1
    assert ds.statistics().actors == 0
    assert ds.spawn(lambda me: me.publish(Fact(1)) and None, name="another").alive


def test_r05_a_self_supporting_fact_stands_and_does_not_loop() -> None:
    """A `during` that publishes the fact it stands on keeps that fact; it does not run for ever."""
    ds, crashes = make()
    me, worker = ds.actor("me"), ds.actor("worker")
    worker.during(Fact, lambda facet, fact: facet.publish(fact))
    me.retract(me.publish(Fact(1)))
    assert ds.facts(Fact) == (Fact(1),)
    assert crashes == []
    worker.stop()
    assert ds.facts(Fact) == ()
