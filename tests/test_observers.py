"""Observers: R12 to R16."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataspace import CAPTURE, Facet, Handle, Observe, Stopped, literal, where
from dataspace.errors import PatternError
from tests.space_talk import Fact, Holder, listen, make

# -- R12: what stands comes first ------------------------------------------------------------------------------------------


def test_r12_a_newcomer_hears_what_stands_oldest_first() -> None:
    """A new observer hears what stands, in the order in which it appeared, and nothing that is gone."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    first, second = me.publish(Fact(1)), me.publish(Fact(2))
    me.publish(Fact(3))
    me.publish(Fact(2))
    me.retract(first)
    me.publish(Fact(1))
    me.retract(second)
    listen(ds.actor("ear"), Fact, log)
    assert log == [("+", Fact(2)), ("+", Fact(3)), ("+", Fact(1))]


@pytest.mark.parametrize(
    "pattern",
    [where(Holder, y=1), where(Holder, y=1, inner=Fact), where(Holder, inner=where(Fact, r=0), y=1)],
    ids=["constant", "class", "reading"],
)
@pytest.mark.parametrize("warm", [True, False])
def test_r12_through_an_index_it_is_the_same(pattern: Any, warm: bool) -> None:
    """A newcomer with constants hears what matches, oldest first, whether the index knew such patterns before or not."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    if warm:
        ds.actor("early").observe(pattern)
    handles = [me.publish(Holder(Fact(n), n % 2)) for n in range(6)]
    me.retract(handles[1])
    me.publish(Holder(Fact(1), 1))
    listen(ds.actor("ear"), pattern, log)
    assert [fact.inner.x for _, fact in log] == [3, 5, 1]
    assert [fact.inner.x for fact in ds.facts(pattern)] == [3, 5, 1]


def test_r12_what_stands_comes_before_anything_newer() -> None:
    """What is committed after the observation is heard after all that stood, even from within the first callback."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    me.publish(Fact(1))
    me.publish(Fact(2))
    worker = ds.actor("worker")

    def answer(fact: Fact) -> None:
        log.append(fact.x)
        if fact.x < 10:
            worker.publish(Fact(fact.x + 10))

    worker.observe(Fact, appeared=answer)
    assert log == [1, 2, 11, 12]


def test_r12_within_a_turn_it_is_what_stands_there() -> None:
    """In a turn, facts published before the observation are among what stands, those after it are news; each comes once."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    with me.turn():
        me.publish(Fact(1))
        handle = me.publish(Fact(2))
        me.retract(handle)
        listen(me, Fact, log)
        me.publish(Fact(3))
    assert log == [("+", Fact(1)), ("+", Fact(3))]


def test_r12_an_observer_made_in_a_callback_hears_the_fact_that_made_it() -> None:
    """An observation begun in a callback hears the very fact that was its cause, for it stands."""
    ds, _ = make()
    worker, log = ds.actor("worker"), []
    worker.during(Fact, lambda facet, fact: listen(facet, where(Fact, x=fact.x), log))
    me = ds.actor("me")
    me.retract(me.publish(Fact(1)))
    assert log == [("+", Fact(1))]


def test_r12_who_comes_late_hears_the_end_and_who_leaves_does_not() -> None:
    """A late observer hears a fact and its end; one that leaves before hears no end."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    handle = me.publish(Fact(1))
    ear = ds.actor("ear")
    leaving = listen(ear, Fact, log, who="leaves")
    listen(ear, Fact, log, who="stays")
    ear.retract(leaving)
    me.retract(handle)
    assert log == [("leaves", "+", Fact(1)), ("stays", "+", Fact(1)), ("stays", "-", Fact(1))]


def test_r12_once_ends_with_the_first_call() -> None:
    """With `once` an observation hears one thing of many that stand, then is gone, interest and all."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    me.publish(Fact(1))
    me.publish(Fact(2))
    handle = listen(ds.actor("ear"), Fact, log, once=True)
    me.publish(Fact(3))
    assert log == [("+", Fact(1))]
    assert not handle.standing
    assert ds.facts(Observe) == ()
    waiting = ds.actor("waiting").observe(Holder, heard=log.append, once=True)
    me.publish(Holder(1))
    assert waiting.standing
    me.send(Holder(2))
    me.send(Holder(3))
    assert log[1:] == [Holder(2)]


# -- R13: captures ---------------------------------------------------------------------------------------------------------


def test_r13_captures_come_unpacked_in_field_order() -> None:
    """With captures a callback gets the captured values, in the order of the fields and not of the writing, at any depth."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    ear = ds.actor("ear")
    listen(ear, where(Holder, y=CAPTURE, inner=CAPTURE), log)
    listen(ear, where(Holder, y=CAPTURE, inner=where(Fact, r=CAPTURE, x=CAPTURE)), log)
    listen(ear, where(Holder, inner=where(Fact, x=5)), log)
    handle = me.publish(Holder(Fact(5, r=6), 7))
    me.send(Holder(Fact(5, r=8), 9))
    me.retract(handle)
    fact, message = Holder(Fact(5, r=6), 7), Holder(Fact(5, r=8), 9)
    assert log == [
        *(("+", Fact(5), 7), ("+", 5, 6, 7), ("+", fact)),
        *(("!", Fact(5), 9), ("!", 5, 8, 9), ("!", message)),
        *(("-", Fact(5), 7), ("-", 5, 6, 7), ("-", fact)),
    ]


def test_r13_facts_that_look_the_same_are_one_appearance() -> None:
    """Facts that differ only in what is not captured appear with the first and vanish with the last."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    listen(ds.actor("ear"), where(Holder, inner=CAPTURE), log)
    a, b = me.publish(Holder("s1", 1)), me.publish(Holder("s1", 2))
    c = me.publish(Holder("s2", 3))
    me.retract(a)
    assert log == [("+", "s1"), ("+", "s2")]
    me.retract(b)
    me.retract(c)
    assert log[2:] == [("-", "s1"), ("-", "s2")]


def test_r13_a_newcomer_hears_each_look_once_in_the_order_of_its_oldest_fact() -> None:
    """Of facts that look the same a newcomer hears one appearance, where the oldest of them stands."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    oldest = me.publish(Holder("a", 1))
    for inner, y in (("b", 1), ("a", 2), ("c", 1), ("b", 2)):
        me.publish(Holder(inner, y))
    ear = ds.actor("ear")
    listen(ear, where(Holder, inner=CAPTURE), log, who="1")
    me.retract(oldest)
    listen(ear, where(Holder, inner=CAPTURE), log, who="2")
    assert log == [("1", "+", "a"), ("1", "+", "b"), ("1", "+", "c"), ("2", "+", "b"), ("2", "+", "a"), ("2", "+", "c")]


def test_r13_captures_tell_types_apart() -> None:
    """`True`, `1` and `1.0` are three looks."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    ds.actor("ear").observe(where(Holder, inner=CAPTURE), appeared=lambda v: log.append(repr(v)))
    for y, value in enumerate((1, True, 1.0, 1, (1,), (True,))):
        me.publish(Holder(value, y))
    assert log == ["1", "True", "1.0", "(1,)", "(True,)"]


def test_r13_constants_and_captures_work_together() -> None:
    """Only matching facts make up an appearance; two observers with other constants see other counts."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    ear = ds.actor("ear")
    for x in (1, 2):
        listen(ear, where(Holder, y=x, inner=where(Fact, x=CAPTURE)), log, who=str(x))
    handles = [me.publish(Holder(Fact("a", r=n), 1 + n % 2)) for n in range(4)]
    other = me.publish(Holder("a", 1))
    assert log == [("1", "+", "a"), ("2", "+", "a")]
    for handle in (*handles, other):
        me.retract(handle)
    assert log[2:] == [("1", "-", "a"), ("2", "-", "a")]


def test_r13_captured_readings_are_those_of_the_first_publication() -> None:
    """An equal fact with other readings is no news, to captures either: they show those it appeared with."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    listen(ds.actor("ear"), where(Fact, r=CAPTURE), log)
    old = me.publish(Fact(1, r=10))
    new = me.replace(old, Fact(1, r=20))
    assert [fact.r for fact in ds.facts(Fact)] == [20]
    assert log == [("+", 10)]
    listen(ds.actor("late"), where(Fact, r=CAPTURE), log, who="late")
    me.retract(new)
    me.publish(Fact(1, r=30))
    assert log[1:] == [("late", "+", 10), ("-", 10), ("late", "-", 10), ("+", 30), ("late", "+", 30)]


def test_r13_readings_as_constants_are_those_of_the_first_publication() -> None:
    """A pattern may ask for a reading; it is matched when the fact appears and stays matched until it goes."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    for r in (10, 20):
        listen(ds.actor(f"ear {r}"), where(Fact, r=r), log, who=str(r))
    old = me.publish(Fact(1, r=10))
    new = me.replace(old, Fact(1, r=20))
    assert ds.facts(where(Fact, r=20)) == ()
    assert [fact.r for fact in ds.facts(where(Fact, r=10))] == [20]
    me.retract(new)
    assert log == [("10", "+", Fact(1)), ("10", "-", Fact(1))]


def test_r13_an_appearance_ends_as_it_began_for_whoever_came_when() -> None:
    """A captured fact is handed over with the same readings at its end as at its beginning, to newcomers too."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    pattern = where(Holder, inner=CAPTURE)

    def note(who: str) -> None:
        ds.actor(who).observe(
            pattern, appeared=lambda f: log.append((who, f.r)), vanished=lambda f: log.append((who, f.r))
        )

    note("first")
    old, new = me.publish(Holder(Fact(1, r=10), 1)), me.publish(Holder(Fact(1, r=20), 2))
    me.retract(old)
    note("second")
    me.retract(new)
    assert log == [("first", 10), ("second", 10), ("first", 10), ("second", 10)]


def test_r13_during_gets_captures_and_lives_as_long_as_the_look() -> None:
    """The body of a `during` gets the captures unpacked, once a look, and its lifetime ends with the last such fact."""
    ds, _ = make()
    me = ds.actor("me")
    ds.actor("worker").during(where(Holder, inner=CAPTURE, y=CAPTURE), lambda facet, a, b: facet.publish(Fact((a, b))))
    ds.actor("other").during(where(Holder, inner=CAPTURE), lambda facet, a: facet.publish(Fact(a)))
    one, two = me.publish(Holder(1, 2)), me.publish(Holder(1, 3))
    assert {fact.x for fact in ds.facts(Fact)} == {(1, 2), (1, 3), 1}
    me.retract(one)
    assert {fact.x for fact in ds.facts(Fact)} == {(1, 3), 1}
    me.retract(two)
    assert ds.facts(Fact) == ()


# -- R14: every observer; removal ------------------------------------------------------------------------------------------


def test_r14_every_observer_acts_and_equal_ones_share_their_interest() -> None:
    """Equal observers of one actor each act, on one `Observe` fact; another actor's interest is a fact of its own."""
    ds, _ = make()
    a, b, log = ds.actor("a"), ds.actor("b"), []
    one = listen(a, where(Fact, x=1), log, who="one")
    two = listen(a, where(Fact, x=1), log, who="two")
    listen(b, where(Fact, x=1), log, who="three")
    assert ds.facts(Observe) == (Observe(where(Fact, x=1), "a"), Observe(where(Fact, x=1), "b"))
    ds.actor("me").publish(Fact(1))
    assert log == [(who, "+", Fact(1)) for who in ("one", "two", "three")]
    a.retract(one)
    assert len(ds.facts(Observe)) == 2
    a.retract(two)
    assert ds.facts(Observe) == (Observe(where(Fact, x=1), "b"),)


def test_r14_one_can_observe_who_observes() -> None:
    """Interest comes and goes like any fact: supply can wait for demand, and patterns find who wants what."""
    ds, _ = make()
    log: list[Any] = []
    supplier = ds.actor("supplier")
    supplier.during(where(Observe, pattern=literal(where(Fact))), lambda facet, demand: facet.publish(Fact(1)))
    assert ds.facts(Fact) == ()
    ear = ds.actor("ear")
    one = listen(ear, Fact, log)
    two = ds.actor("ear 2").observe(Fact)
    assert log == [("+", Fact(1))]
    two.facet.retract(two)
    assert ds.facts(Fact) == (Fact(1),)
    ear.retract(one)
    assert ds.facts(Fact) == ()
    assert log == [("+", Fact(1))]


def test_r14_who_observes_observers_hears_of_itself() -> None:
    """An observer of `Observe` is among what it hears; it does not hear of its own end."""
    ds, _ = make()
    ear, log = ds.actor("ear"), []
    handle = listen(ear, Observe, log)
    assert log == [("+", Observe(where(Observe), "ear"))]
    ear.retract(handle)
    assert len(log) == 1


def test_r14_one_removed_within_the_event_does_not_hear_it() -> None:
    """An observer that removes itself or another in its callback: the removed hear nothing more, all others hear once."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    handles: dict[str, Handle] = {}

    def remove(who: str, *whom: str) -> Any:
        def callback(fact: Fact) -> None:
            log.append((who, fact.x))
            for name in whom:
                me.retract(handles[name])

        return callback

    for who, whom in {"a": (), "b": ("b", "d"), "c": (), "d": (), "e": ("a",), "f": ()}.items():
        handles[who] = me.observe(Fact, heard=remove(who, *whom))
    sender = ds.actor("sender")
    with sender.turn():
        sender.send(Fact(1))
        sender.send(Fact(2))
    assert log == [("a", 1), ("b", 1), ("c", 1), ("e", 1), ("f", 1), ("c", 2), ("e", 2), ("f", 2)]


def test_r14_the_same_among_observers_filed_in_different_places() -> None:
    """Removal within the event holds across patterns of different shapes, with captures or without."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    patterns = [Fact, where(Fact, x=1), where(Fact, x=CAPTURE), where(Fact, r=0), where(Fact, r=CAPTURE, x=1)]
    handles: list[Handle] = []

    def first(*args: Any) -> None:
        log.append("first")
        for handle in handles[1::2]:
            me.retract(handle)

    handles.append(me.observe(where(Fact, x=1), appeared=first))
    for n, pattern in enumerate(patterns, start=1):
        handles.append(me.observe(pattern, appeared=lambda *args, n=n: log.append(n)))
    ds.actor("sender").publish(Fact(1))
    assert log == ["first", 2, 4]


def test_r14_a_removal_that_failed_removes_nobody() -> None:
    """If the callback that removed another crashes, the removal is undone with its turn; another actor's stays served."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    worker = ds.actor("worker")
    handles: list[Handle] = []

    def fail(fact: Fact) -> None:
        worker.retract(handles[0])
        raise ZeroDivisionError

    worker.observe(Fact, heard=fail)
    handles.append(listen(worker, Fact, log, who="dead with its actor"))
    listen(ds.actor("ear"), Fact, log, who="ear")
    me.send(Fact(1))
    assert log == [("ear", "!", Fact(1))]


def test_r14_one_added_within_the_event_does_not_hear_it_twice() -> None:
    """An observer added while an event is delivered hears a fact once, as one that stands, and a message not at all."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    worker = ds.actor("worker")
    worker.observe(Fact, appeared=lambda fact: listen(worker, Fact, log), heard=lambda fact: listen(worker, Fact, log))
    me.send(Fact(0))
    assert log == []
    me.publish(Fact(1))
    assert log == [("+", Fact(1)), ("+", Fact(1))]


def test_r14_a_during_can_be_removed_in_its_own_body() -> None:
    """Removed in its body, a `during` ends with what that and all other bodies hold, and is not entered again."""
    ds, crashes = make()
    me, log = ds.actor("me"), []
    worker = ds.actor("worker")
    handles: list[Handle] = []

    def body(facet: Facet, fact: Fact) -> None:
        log.append(fact.x)
        facet.publish(Holder(fact.x))
        if fact.x == 2:
            worker.retract(handles[0])
            with pytest.raises(Stopped):
                facet.publish(Holder("never"))

    handles.append(worker.during(Fact, body))
    listen(ds.actor("ear"), Holder, log)
    with me.turn():
        for x in (1, 2, 3):
            me.publish(Fact(x))
    assert log == [1, 2, ("+", Holder(1)), ("+", Holder(2)), ("-", Holder(2)), ("-", Holder(1))]
    assert ds.facts(Holder) == ()
    assert crashes == []
    assert worker.alive


def test_r14_many_equal_observers_come_and_go() -> None:
    """Past the size where the index changes how it keeps them, equal observers still act by age and leave one by one."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    ear = ds.actor("ear")
    before = ds.statistics()
    handles = [listen(ear, Fact, log, who=str(n)) for n in range(30)]
    for n in range(0, 30, 3):
        ear.retract(handles[n])
    me.send(Fact(1))
    assert [who for who, *_ in log] == [str(n) for n in range(30) if n % 3]
    for handle in handles:
        ear.retract(handle)
    log.clear()
    me.send(Fact(2))
    assert log == []
    assert ds.statistics() == before


# -- R15: order of delivery ------------------------------------------------------------------------------------------------


def test_r15_delivery_is_by_age_of_the_observer() -> None:
    """Whatever the pattern and whoever the actor: who observes longer hears first; a replaced observer is young."""
    ds, _ = make()
    a, b, log = ds.actor("a"), ds.actor("b"), []
    patterns = [where(Fact, x=1), Fact, where(Fact, r=CAPTURE), where(Fact, x=1, r=0), where(Fact, x=1), Fact]
    handles = [listen(a if n % 2 else b, pattern, log, who=str(n)) for n, pattern in enumerate(patterns)]
    me = ds.actor("me")
    handle = me.publish(Fact(1))
    assert [who for who, *_ in log] == ["0", "1", "2", "3", "4", "5"]
    log.clear()
    b.retract(handles[0])
    listen(b, where(Fact, x=1), log, who="0 again")
    log.clear()
    me.retract(handle)
    assert [who for who, *_ in log] == ["1", "2", "3", "4", "5", "0 again"]


@given(st.lists(st.sampled_from(["all", "x", "r", "capture", "both"]), max_size=14), st.randoms(use_true_random=False))
def test_r15_by_age_for_any_mixture(kinds: list[str], random: Any) -> None:
    """For any mixture of patterns that match, in any order, with some removed: each hears once, the oldest first."""
    patterns: dict[str, Any] = {
        "all": Fact,
        "x": where(Fact, x=1),
        "r": where(Fact, r=0),
        "capture": where(Fact, x=CAPTURE),
        "both": where(Fact, x=1, r=CAPTURE),
    }
    ds, _ = make()
    ears, log = [ds.actor("a"), ds.actor("b")], []
    handles = [listen(random.choice(ears), patterns[kind], log, who=str(n)) for n, kind in enumerate(kinds)]
    gone = {n for n in range(len(kinds)) if random.random() < 0.3}
    for n in gone:
        handles[n].facet.retract(handles[n])
    me = ds.actor("me")
    expected = [str(n) for n in range(len(kinds)) if n not in gone]
    for act in (lambda: me.send(Fact(1)), lambda: me.retract(me.publish(Fact(1)))):
        log.clear()
        act()
        signs = {sign for _, sign, *_ in log}
        for sign in signs:
            assert [who for who, s, *_ in log if s == sign] == expected


def test_r15_an_observer_hears_its_own_actor() -> None:
    """What an actor publishes and sends is heard by its own observers as by any other."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    listen(me, Fact, log)
    me.retract(me.publish(Fact(1)))
    me.send(Fact(2))
    assert log == [("+", Fact(1)), ("-", Fact(1)), ("!", Fact(2))]


def test_r15_a_callback_may_hear_of_something_already_undone() -> None:
    """An event is delivered although an earlier receiver has undone it; its end follows."""
    ds, _ = make()
    me, log = ds.actor("me"), []
    handles: list[Handle] = []
    me.observe(Fact, appeared=lambda fact: me.retract(handles[0]))
    ds.actor("ear").observe(
        Fact,
        appeared=lambda fact: log.append(("+", ds.facts(Fact))),
        vanished=lambda fact: log.append(("-", ds.facts(Fact))),
    )
    with me.turn():
        handles.append(me.publish(Fact(1)))
    assert log == [("+", ()), ("-", ())]


# -- R16: a stopped lifetime -----------------------------------------------------------------------------------------------


def test_r16_a_stopped_actor_hears_nothing_more_not_even_what_is_queued() -> None:
    """Stopped in the first of two events of one turn, an actor does not hear the second, nor the first elsewhere."""
    ds, _ = make()
    me, ear, log = ds.actor("me"), ds.actor("ear"), []

    def stop(fact: Fact) -> None:
        log.append(fact.x)
        ear.stop()

    ear.observe(Fact, heard=stop)
    listen(ear, Fact, log)
    ear.later(lambda: None)
    with me.turn():
        me.send(Fact(1))
        ear.later(lambda: log.append("later"))
        me.send(Fact(2))
    me.send(Fact(3))
    assert log == [1]


def test_r16_a_stopped_lifetime_hears_nothing_more_its_actor_does() -> None:
    """The end of a `during` silences the observers of its body at once; those of the actor go on."""
    ds, _ = make()
    me, worker, log = ds.actor("me"), ds.actor("worker"), []
    worker.during(Holder, lambda facet, holder: listen(facet, Fact, log, who="inner"))
    listen(worker, Fact, log, who="outer")
    handle = me.publish(Holder(1))
    with me.turn():
        me.send(Fact(1))
        me.retract(handle)
        me.send(Fact(2))
    assert log == [("outer", "!", Fact(1)), ("inner", "!", Fact(1)), ("outer", "!", Fact(2))]
    log.clear()
    me.send(Fact(3))
    assert log == [("outer", "!", Fact(3))]


def test_r16_acting_through_a_stopped_lifetime_raises_stopped() -> None:
    """Every action through a lifetime that has ended raises `Stopped`; nothing comes of it."""
    ds, _ = make()
    me, dead = ds.actor("me"), ds.actor("dead")
    inner: list[Facet] = []
    dead_facet = ds.actor("worker")
    dead_facet.during(Holder, lambda facet, holder: inner.append(facet))
    me.retract(me.publish(Holder(1)))
    dead.stop()
    before = ds.statistics()
    for facet in (dead, inner[0]):
        assert not facet.alive
        acts = [
            lambda f=facet: f.publish(Fact(1)),
            lambda f=facet: f.send(Fact(1)),
            lambda f=facet: f.replace(None, Fact(1)),
            lambda f=facet: f.observe(Fact),
            lambda f=facet: f.during(Fact, lambda me, fact: None),
            lambda f=facet: f.spawn(lambda me: None),
            lambda f=facet: f.later(lambda: None),
            lambda f=facet: f.on_stop(lambda parent: None),
            lambda f=facet: f.on_crash(lambda error: None),
            lambda f=facet: f.turn().__enter__(),
        ]
        for act in acts:
            with pytest.raises(Stopped):
                act()
    assert ds.statistics() == before


def test_r16_retracting_and_stopping_through_a_stopped_lifetime_is_silent() -> None:
    """Letting go never fails: of what ended with the lifetime, or, through it, of what its actor still holds."""
    ds, _ = make()
    me, worker = ds.actor("me"), ds.actor("worker")
    inner: list[Facet] = []
    held: list[Handle] = []

    def body(facet: Facet, holder: Holder) -> None:
        inner.append(facet)
        held.extend([facet.publish(Fact(1)), facet.observe(Fact)])

    worker.during(where(Holder, inner=1), body)
    me.retract(me.publish(Holder(1)))
    for handle in held:
        assert not handle.standing
        inner[0].retract(handle)
    outer = [worker.publish(Fact(2)), worker.observe(Fact)]
    for handle in outer:
        inner[0].retract(handle)
    inner[0].stop()
    assert not any(handle.standing for handle in outer)
    assert ds.facts(Fact) == ()
    assert ds.facts(where(Observe, pattern=literal(where(Fact)))) == ()


def test_r16_a_stop_action_may_let_go_of_what_its_own_lifetime_holds() -> None:
    """While its stop actions run a lifetime acts no more, but what it holds can be let go of, once."""
    ds, crashes = make()
    me, worker, log = ds.actor("me"), ds.actor("worker"), []

    def body(facet: Facet, holder: Holder) -> None:
        handles = [facet.publish(Fact(1)), facet.observe(Fact), facet.during(Fact, lambda inner, fact: None)]

        def let_go(parent: Facet) -> None:
            for handle in handles:
                parent.retract(handle)
                facet.retract(handle)

        facet.on_stop(let_go)

    worker.during(Holder, body)
    handle = me.publish(Holder(1))
    listen(ds.actor("ear"), Fact, log)
    before = ds.statistics().observers
    me.retract(handle)
    assert log == [("+", Fact(1)), ("-", Fact(1))]
    assert ds.statistics().observers == before - 2
    assert crashes == []


def test_r16_a_name_is_free_once_its_actor_has_ended() -> None:
    """The name of a stopped actor can be given again; the old `me` stays stopped."""
    ds, _ = make()
    old = ds.actor("name")
    old.stop()
    new = ds.actor("name")
    new.publish(Fact(1))
    with pytest.raises(Stopped):
        old.publish(Fact(2))
    old.stop()
    assert ds.facts(Fact) == (Fact(1),)


def test_observing_takes_patterns_only() -> None:
    """What is no pattern is refused, with what to give instead."""
    ds, _ = make()
    me = ds.actor("me")
    for wrong in ("(fact 1)", 3, int, Fact(1)):
        with pytest.raises(PatternError, match=r"where\(cls"):
            me.observe(wrong)  # type: ignore[arg-type]
        with pytest.raises(PatternError, match=r"where\(cls"):
            ds.facts(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="heard takes a synchronous function"):
        me.observe(Fact, heard=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no function"):
        me.during(Fact, 3)  # type: ignore[arg-type]
    assert ds.statistics().observers == 0
