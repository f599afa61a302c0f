"""The loop's state machine against the naive model, and every interleaving against what must always hold."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engines.facts import Answered, Asked, Blocked, CompactionFailed, Compressed, ShouldCompress
from engines.loop import Engines, Verdict, begin, step, view, wake
from engines.loop import events as e
from engines.messages import Messages
from tests.bisim.loop_model import Model
from tests.loop_driver import SID, policy, rows

COMPRESSORS = ("a", "b", "c")
REVISERS = ("r1", "r2")
SHADOWS = ("x",)
PROMPTS = st.sampled_from([0, 50, 79, 80, 99, 100, 120, 200])
REPLIES = st.sampled_from(["good", "same", "bad", "declined", "error"])
SECONDS = st.sampled_from([0.5, 1.9, 2.0, 29.0, 30.0, 31.0, 299.0, 300.0, 900.0])
WORDS = {
    "left the prompt": "futile",
    "There were": "often",
    "Nothing that could": "grown",
}


def refuse_bad(answer: Messages, _before: Messages) -> Verdict:
    """A judge that refuses one answer and takes all others."""
    return Verdict(None, "bad") if answer == rows("bad") else Verdict(answer)


class LoopAgainstModel(RuleBasedStateMachine):
    """The loop keeps the context; one conversation, engines that come, go and answer as they like."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(["u1", "u2"])
        self.policy = policy(accept=refuse_bad)
        self.state = begin(e.SessionStarted(SID, threshold=100, messages=rows("u1", "u2")))
        self.refused: list[tuple[int, str]] = []
        self.accepted: list[tuple[int, str]] = []
        self.answers = 0

    def do(self, event: e.Event) -> None:
        engines = Engines(tuple(self.model.compressors), tuple(self.model.revisers))
        before = self.state.compressed
        self.state, said = step(self.state, event, engines, self.policy)
        self.refused += [(refused.ask, refused.by) for refused in said]
        after = self.state.compressed
        if after is not None and after is not before:
            self.accepted.append((after.ask, after.by))

    @rule(prompt=PROMPTS)
    def reading(self, prompt: int) -> None:
        self.model.reading(prompt)
        self.do(e.UsageRead(SID, {"prompt_tokens": prompt}, at=self.model.now))

    @rule()
    def append(self) -> None:
        self.answers += 1
        text = f"m{self.answers}"
        self.model.append(text)
        self.do(e.MessagesAppended(SID, rows(text), at=self.model.now))

    @rule()
    def request(self) -> None:
        self.model.request()
        self.do(e.CompactionRequested(SID, at=self.model.now))

    @rule(name=st.sampled_from(COMPRESSORS + REVISERS))
    def come_or_go(self, name: str) -> None:
        reviser = name in REVISERS
        role: Any = "reviser" if reviser else "compressor"
        if name in self.model.compressors + self.model.revisers:
            self.model.cease(name, reviser=reviser)
            self.do(e.EngineCeased(SID, name, role, at=self.model.now))
        else:
            self.model.begin(name, reviser=reviser)
            self.do(e.EngineBegan(SID, name, role, at=self.model.now))

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        self.model.wait(seconds)
        self.do(e.TimePassed(SID, at=self.model.now))

    @precondition(lambda self: self.model.n)
    @rule(reply=REPLIES, back=st.sampled_from([0, 0, 0, 0, 1, 2]), twice=st.booleans())
    def answer(self, reply: str, back: int, twice: bool) -> None:
        """The latest asking is answered, or an earlier one, perhaps twice."""
        n = self.model.n - back
        by = self.model.asked[1] if self.model.asked and not back else "a"
        self.answers += 1
        texts = {"good": [f"short{self.answers}"], "same": list(self.model.before), "bad": ["bad"]}.get(reply)
        for _ in range(1 + twice):
            ask = self.model.ask_of(n)
            self.model.answer(n, by, texts, error=reply == "error")
            error = "boom" if reply == "error" else None
            messages = None if texts is None else rows(*texts)
            self.do(e.AnswerHeard(SID, Answered(SID, ask, n, by, messages=messages, error=error), at=self.model.now))

    @invariant()
    def they_agree(self) -> None:
        """Numbers, who is asked, what failed, what is held back, what was accepted and refused, and the context."""
        facts = {type(fact): fact for fact in view(self.state)}
        model = self.model
        asked, failed, blocked = facts.get(Asked), facts.get(CompactionFailed), facts.get(Blocked)
        assert model.texts == [row["content"] for row in self.state.messages]
        assert (model.ask, model.n) == (self.state.asks, self.state.n)
        assert model.stands == (ShouldCompress in facts)
        assert model.asked == (asked and (asked.n, asked.to))
        assert model.failed == (failed and (failed.ask, failed.retry_at))
        assert model.blocked == (blocked and next(word for start, word in WORDS.items() if start in blocked.reason))
        assert model.accepted == self.accepted
        assert model.refused == self.refused


class Interleavings(RuleBasedStateMachine):
    """Everything that can happen, in any order, in a host or not: what must hold whatever the rules are."""

    @initialize(owned=st.booleans(), timed=st.booleans(), guards=st.booleans())
    def start(self, owned: bool, timed: bool, guards: bool) -> None:
        self.policy = policy(owned=owned, guards=guards, accept=refuse_bad)
        self.now: float | None = 0.0 if timed else None
        self.serving: dict[str, list[str]] = {"compressor": [], "reviser": [], "shadow": []}
        self.state = begin(e.SessionStarted(SID, threshold=100, messages=rows("u1", "u2")))
        self.expected = ["u1", "u2"]
        self.askings: list[Asked] = []
        self.questions: list[int] = []
        self.taken: list[int] = []
        self.texts = 0

    def do(self, kind: type[e.Event], *args: Any, **told: Any) -> None:
        old = self.state
        was = old.question
        event = kind(SID, *args, at=self.now, **told)
        engines = Engines(*map(tuple, self.serving.values()))
        self.state, said = step(old, event, engines, self.policy)
        standing = view(self.state)
        self._note(standing)
        if self.state.compressed is not None and self.state.compressed is not old.compressed:
            self._taken(self.state.compressed, was, old.messages)
        for refused in said:
            assert refused.reason
        again, _ = step(old, event, engines, self.policy)
        assert again == self.state  # a pure function

    def _note(self, standing: tuple[Any, ...]) -> None:
        for fact in standing:
            if isinstance(fact, ShouldCompress) and fact.ask not in self.questions:
                assert fact.ask > max(self.questions, default=0), "a question number was used again"
                self.questions.append(fact.ask)
            if isinstance(fact, Asked) and not any(fact is asked for asked in self.askings):
                assert fact.n > max((asked.n for asked in self.askings), default=0), "an asking was numbered again"
                self.askings.append(fact)

    def _taken(self, compressed: Compressed, was: Any, messages: Messages) -> None:
        """At most one answer for each question; behind it what came since the context was handed over."""
        assert compressed.ask not in self.taken, "two answers for one question"
        self.taken.append(compressed.ask)
        assert was is not None
        assert was.fact.ask == compressed.ask
        since = messages[len(was.before) :]
        self.expected = [row["content"] for row in compressed.messages + since]

    @rule(prompt=PROMPTS)
    def reading(self, prompt: int) -> None:
        self.do(e.UsageRead, {"prompt_tokens": prompt})

    @rule()
    def no_usage(self) -> None:
        self.do(e.UsageRead, {})

    @rule()
    def append(self) -> None:
        self.texts += 1
        self.expected = [*self.expected, f"m{self.texts}"]
        self.do(e.MessagesAppended, rows(f"m{self.texts}"))

    @rule(keep=st.integers(0, 3))
    def replace(self, keep: int) -> None:
        self.texts += 1
        self.expected = [*self.expected[:keep], f"r{self.texts}"]
        self.do(e.TranscriptReplaced, rows(*self.expected))

    @rule(reason=st.sampled_from(["manual", "overflow", "ahead"]))
    def request(self, reason: str) -> None:
        self.do(e.CompactionRequested, reason)

    @precondition(lambda self: not self.policy.owned)
    @rule(more=st.booleans(), reason=st.sampled_from(["threshold", "overflow", "manual"]))
    def call(self, more: bool, reason: str) -> None:
        if more:
            self.texts += 1
            self.expected = [*self.expected, f"h{self.texts}"]
        self.do(e.ContextOpened, rows(*self.expected), reason)

    @precondition(lambda self: not self.policy.owned)
    @rule(kind=st.sampled_from([e.OfferCommitted, e.OfferCommitted, e.ContextReleased]))
    def host(self, kind: type[e.Event]) -> None:
        self.do(kind)

    @rule(threshold=st.sampled_from([50, 100]), model=st.sampled_from([None, "m1", "m2"]))
    def budget(self, threshold: int, model: str | None) -> None:
        self.do(e.BudgetChanged, threshold=threshold, model=model)

    @rule(kind=st.sampled_from([e.SessionEnded, e.SessionReset, e.SessionStarted]))
    def anew(self, kind: type[e.Event]) -> None:
        self.expected = []
        self.do(kind, **({"threshold": 100} if kind is e.SessionStarted else {}))
        if kind is e.SessionEnded:
            assert 1 == len(view(self.state))
            self.do(e.SessionStarted, threshold=100)

    @rule(name=st.sampled_from(COMPRESSORS + REVISERS + SHADOWS))
    def come_or_go(self, name: str) -> None:
        role = "reviser" if name in REVISERS else "shadow" if name in SHADOWS else "compressor"
        those = self.serving[role]
        if name in those:
            those.remove(name)
            self.do(e.EngineCeased, name, role)
        else:
            those.insert(0, name)
            self.do(e.EngineBegan, name, role)

    @rule(name=st.sampled_from(COMPRESSORS + REVISERS + SHADOWS))
    def busy_or_free(self, name: str) -> None:
        self.do(e.EngineFree if name in self.state.busy else e.EngineBusy, name)

    @precondition(lambda self: self.askings)
    @rule(back=st.integers(0, 1))
    def unheard(self, back: int) -> None:
        self.do(e.AskingUnheard, self.askings[-1].n - back)

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        if self.now is not None:
            self.now += seconds
        self.do(e.TimePassed)
        at = wake(self.state)
        assert at is None or self.now is None or at > self.now, "it would be woken for ever"

    @precondition(lambda self: self.askings)
    @rule(reply=REPLIES, back=st.integers(0, 4))
    def answer(self, reply: str, back: int) -> None:
        asked = self.askings[-1 - min(back, len(self.askings) - 1)]
        self.texts += 1
        messages = {"good": rows(f"short{self.texts}"), "same": asked.messages, "bad": rows("bad")}.get(reply)
        error = "boom" if reply == "error" else None
        self.do(e.AnswerHeard, Answered(SID, asked.ask, asked.n, asked.to, messages=messages, error=error))

    @invariant()
    def nothing_is_lost(self) -> None:
        """The context is the last result and all that came after it, in order, once."""
        assert self.expected == [row["content"] for row in self.state.messages]

    @invariant()
    def one_works_on_one_question(self) -> None:
        """At most one engine that decides is asked; it serves, is asked about the question that stands, and no other."""
        facts = view(self.state)
        question = [fact for fact in facts if isinstance(fact, ShouldCompress)]
        asked = [fact for fact in facts if isinstance(fact, Asked) and fact.role != "shadow"]
        assert len(question) <= 1
        assert len(asked) <= 1
        assert all(fact.ask == question[0].ask for fact in asked)
        assert all(fact.to in self.serving[fact.role] for fact in asked)
        assert len({id(fact) for fact in facts}) == len(facts)

    @invariant()
    def nothing_is_stuck(self) -> None:
        """A question whose context can be replaced is worked on, offered, or it is said why not and what ends that."""
        q = self.state.question
        if q is None or q.work is not None or q.offered or (q.before is None and not self.policy.owned):
            return
        held = self.state.blocked or self.state.failed
        assert held is not None, "nobody is asked, and nobody knows why"
        if self.state.blocked is not None or self.state.failed is None:
            return
        able = [name for name in self.serving["compressor"] if name not in self.state.busy]
        if not able or self.state.failed.retry_at is not None:
            return
        # Nobody could be asked when it was tried, or there is no clock: then something must have to grow first.
        assert not self.state.guard.grown or all(name in q.tried for name in able)


LoopAgainstModel.TestCase.__doc__ = "The loop does what the naive model does, step by step."
Interleavings.TestCase.__doc__ = "One answer a question, numbers never used again, nothing lost, nothing stuck."
TestLoopAgainstModel = LoopAgainstModel.TestCase
TestInterleavings = Interleavings.TestCase
TestLoopAgainstModel.settings = TestInterleavings.settings = settings.get_profile("machines")
