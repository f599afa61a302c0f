"""`dataspace.testing.play`: a page of turns gives back the events that really came of them."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import field, frozen
from hypothesis import given

from dataspace import Facet
from dataspace.testing import PageError, play
from dataspace.testing.strategies import facts


@frozen
class Ping:
    n: Any


@frozen
class Pong:
    n: int = 0
    note: Any = field(default="", eq=False)


@frozen
class Around:
    inner: Ping


WORDS = (Ping, Pong, Around)


def test_counted_inside_a_set_outside() -> None:
    """R6, R12: equal facts of two owners are one appearance; who comes later hears what stands."""
    page = """
        b: observe (ping)
        a: publish (ping 1) as p
            b appeared (ping 1)
        # the same again, from somebody else
        c: publish (ping 1)
        d: observe (ping ?n)
            d appeared 1
        a: retract p

        c: stop
            b vanished (ping 1)
            d vanished 1
    """
    assert page == play(page, WORDS)


def test_a_turn_is_released_as_one() -> None:
    """R1, R7: several actions are one turn, in order; replacing leaves no instant without the fact."""
    page = """
b: observe (ping)
b: observe (pong)
a: publish (ping 1) as p; send (pong 2); publish (ping "a;b")
    b appeared (ping 1)
    b heard (pong 2)
    b appeared (ping "a;b")
a: replace p (ping 2)
    b appeared (ping 2)
    b vanished (ping 1)
a: replace p (ping 3) as q; retract q
    b appeared (ping 3)
    b vanished (ping 2)
    b vanished (ping 3)
"""
    assert page == play(page, WORDS)


def test_actors_written_in_python_take_part() -> None:
    """A boot function and other Python things are named on the page; a fact without text goes by its name."""

    def echo(me: Facet) -> None:
        me.observe(Ping, heard=lambda ping: me.send(Pong(1, note=ping)))
        me.observe(Around, heard=lambda _around: me.stop())

    def twice(me: Facet) -> None:
        me.send(Ping(1))
        me.send(big)

    big = Ping(2.0 + 1j)
    page = """
        w: observe (pong) as o
        a: spawn echo as e#1
        a: do twice
            w heard (pong 1 (ping 1))
            w heard (pong 1 "Ping(n=(2+1j))")
        a: send big
            w heard (pong 1 "Ping(n=(2+1j))")
        w: observe (ping)
        a: send big
            w heard big
            w heard (pong 1 "Ping(n=(2+1j))")
        a: send (around (ping 1))
        w: retract o
        a: send (ping #t)
            w heard (ping #t)
    """
    assert page == play(page, {cls.__name__: cls for cls in WORDS}, echo=echo, twice=twice, big=big)


def test_crashes_and_errors_are_events() -> None:
    """R2, R3: a crash is told with what it takes along; an action that raises undoes its turn, and the page goes on."""

    def fail(_me: Facet) -> None:
        raise ZeroDivisionError("by nothing")

    page = """
        b: observe (ping)
        a: publish (ping 1)
            b appeared (ping 1)
        a: crash all is lost
            a crashed RuntimeError: all is lost
            b vanished (ping 1)
        a: publish (ping 2)
            ! Stopped: <stopped actor a> acts no more
        c: publish (ping 3); do fail
            ! ZeroDivisionError: by nothing
        c: do fail
            ! ZeroDivisionError: by nothing
        c: publish (ping 4)
            b appeared (ping 4)
    """
    assert page == play(page, WORDS, fail=fail)


def test_a_page_that_is_wrong_shows_what_really_came() -> None:
    """Events on the page are what is expected, not what is played: the page that comes back has the real ones."""
    page = "b: observe (ping)\n    b appeared (ping 7)\na: send (ping 1)"
    assert "b: observe (ping)\na: send (ping 1)\n    b heard (ping 1)" == play(page, WORDS)


def test_fields_as_by_default_are_left_out() -> None:
    """What is written is what is particular; captured values without text are shown as Python does."""
    page = """
        b: observe (pong)
        b: observe (pong #:note ?note)
        b: observe (around ?inner)
        a: send (pong)
            b heard (pong)
            b heard ""
        a: send (pong #:note 2)
            b heard (pong #:note 2)
            b heard 2
        a: send (pong 1 #nil)
            b heard (pong 1 #nil)
            b heard #nil
        a: send odd
            b heard odd
            b heard 1j
        a: send (around (ping 1))
            b heard (ping 1)
    """
    assert page == play(page, WORDS, odd=Pong(note=1j))


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("a publish (ping 1)", r"line 1: a turn is written `actor: action; action`"),
        (
            "a: publish (ping 1)\n\na: shout (ping 1)",
            r"line 3: there is no action 'shout'; there is: crash, do, observe,",
        ),
        ("a: publish (pung 1)", r"line 1: \(pung 1\): there is no fact 'pung'; .*\(column 2\)"),
        ("a: publish (ping ?n)", r"line 1: \(ping \?n\) is no fact: a fact holds values"),
        ("a: publish (ping)", r"line 1: \(ping\) is no fact: .*missing"),
        ("a: retract p", r"line 1: nothing was called 'p'; there is: nothing"),
        ("a: publish (ping 1) as p\na: replace q (ping 2)", r"line 2: nothing was called 'q'; there is: p"),
        ("a: spawn echo", r"line 1: there is no function 'echo': give it to play\(...\) as echo=..."),
    ],
)
def test_a_page_that_cannot_be_carried_out_is_refused(page: str, message: str) -> None:
    """The error names the line and what would be right."""
    with pytest.raises(PageError, match=message):
        play(page, WORDS)


@given(facts(Ping, Pong, Around))
def test_every_fact_can_stand_on_a_page(fact: Any) -> None:
    """A fact that was written by `play` reads back as the same, and is written alike."""
    (told,) = play(
        "b: observe (ping)\nb: observe (pong)\nb: observe (around)\na: send fact", WORDS, fact=fact
    ).splitlines()[3:][1:]
    assert "    b heard fact" == told

    def send(me: Facet) -> None:
        me.send(fact)

    page = "b: observe (ping)\nb: observe (pong)\nb: observe (around)\na: do send"
    *_, told = play(page, WORDS, send=send).splitlines()
    again = told.removeprefix("    b heard ")
    if "Ping(" not in again:
        assert told == play(page.replace("do send", f"send {again}"), WORDS).splitlines()[-1]
