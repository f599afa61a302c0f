"""The run loop told naively: one conversation whose context the loop keeps, in sentences one can check by reading.

Names of engines stand for engines, texts for messages.  Nothing here is fast, immutable or shared; the real thing must
do the same.
"""

from __future__ import annotations

THRESHOLD, LOW = 100, 80
PATIENCE, REVISER_PATIENCE = 300.0, 2.0


class Model:
    """What stands, as plain attributes: `asked` is (n, to), `failed` (ask, retry at), `blocked` a word."""

    def __init__(self, texts: list[str]) -> None:
        self.now = 0.0
        self.texts = texts
        self.compressors: list[str] = []  # newest first
        self.revisers: list[str] = []
        self.pressure: int | None = None
        self.ask = self.n = 0  # the last numbers used
        self.asks_of_n: dict[int, int] = {}
        self.accepted: list[tuple[int, str]] = []
        self.refused: list[tuple[int, str]] = []
        self.failed: tuple[int, float | None] | None = None
        self.blocked: str | None = None
        # guards
        self.grown, self.futile, self.unjudged, self.failures = True, 0, False, 0
        self.done_at: list[float] = []
        self._no_question()

    def _no_question(self) -> None:
        self.stands = self.insists = self.manual = False
        self.tried: list[str] = []
        self.revised: list[str] = []
        self.before: list[str] = []
        self.draft: list[str] | None = None
        self.by = ""
        self.only_declined = True
        self.asked: tuple[int, str] | None = None
        self.deadline = 0.0

    # -- what happens -------------------------------------------------------------------------------------------------

    def reading(self, prompt: int) -> None:
        """The first reading after a compaction judges it; a reading below the threshold forgives all."""
        if self.unjudged and prompt >= THRESHOLD:
            self.futile += 1
        if prompt < THRESHOLD:
            self.futile = 0
        self.unjudged = False
        self.pressure = prompt
        self._weigh()

    def append(self, text: str) -> None:
        self.texts = [*self.texts, text]
        self.grown = True

    def request(self) -> None:
        """A manual request takes up what stands or raises a question; it is tried whatever stands in the way."""
        if self.asked:
            return
        if not self.stands:
            self._raise()
            self.manual = True
        self.insists = True
        self._round()

    def begin(self, name: str, *, reviser: bool = False) -> None:
        """An engine begins to serve.  A compressor has not failed or tried anything yet."""
        if reviser:
            self.revisers.insert(0, name)
            return
        self.compressors.insert(0, name)
        self.failed, self.failures = None, 0
        if self.stands:
            self.grown = True
            self.tried = [one for one in self.tried if one != name]
            if not self.asked:
                self._round_unless_held_back()

    def cease(self, name: str, *, reviser: bool = False) -> None:
        (self.revisers if reviser else self.compressors).remove(name)
        if self.asked and self.asked[1] == name:
            self._no_answer(declined=False)

    def answer(self, n: int, by: str, texts: list[str] | None, *, error: bool = False) -> None:
        """Only the asking that stands is answered; a bad answer counts as none, a bad revision is left out."""
        if self.asked != (n, by):
            if texts is not None:
                self.refused.append((self.ask_of(n), by))
            return
        if texts == ["bad"]:
            self.refused.append((self.ask, by))
            texts, error = None, True
        if self.draft is None:
            if texts is None:
                self._no_answer(declined=not error)
                return
            self.draft, self.by = texts, by
        elif texts is not None:
            self.draft = texts
        self._revise()

    def wait(self, seconds: float) -> None:
        """Time passes: first who is too late, then who waited."""
        self.now += seconds
        if self.asked and self.deadline <= self.now:
            self._no_answer(declined=False)
        if self.failed and self.failed[1] is not None and self.failed[1] <= self.now:
            self.failed = None
            if self.stands and not self.asked:
                self._round_unless_held_back()
        if self.blocked == "often" and self.done_at[-6] + 600 <= self.now:
            self.blocked = None
            self._weigh()

    # -- what follows -------------------------------------------------------------------------------------------------

    def _weigh(self) -> None:
        """Pressure raises a question and withdraws it; one that stands and nobody works on is tried again."""
        if self.pressure is None:
            return
        if self.pressure < LOW and self.stands and not self.manual and not self.insists:
            self._no_question()
        if self.stands:
            if not self.asked:
                self._round_unless_held_back()
        elif self.pressure >= THRESHOLD:
            self._raise_unless_held_back()
        else:
            self.blocked = None
            if self.pressure < LOW and self.failed and self.failed[1] is None:
                self.failed = None

    def _raise(self) -> None:
        self._no_question()
        self.ask += 1
        self.stands, self.blocked = True, None

    def _raise_unless_held_back(self) -> None:
        self.blocked = self._held_back()
        if not self.blocked:
            self._raise()
            if not self._pausing():
                self._round()

    def _round_unless_held_back(self) -> None:
        self.blocked = None if self.insists else self._held_back()
        if not self.blocked and not self._pausing():
            self._round()

    def _held_back(self) -> str | None:
        if self.futile >= 2:
            return "futile"
        if len(self.done_at) >= 6 and self.now < self.done_at[-6] + 600:
            return "often"
        return None if self.grown else "grown"

    def _pausing(self) -> bool:
        """A failure of somebody is followed by a pause; where nobody was, by waiting for somebody."""
        if not self.failed:
            return False
        retry_at = self.failed[1]
        return not (self.grown and self.compressors) if retry_at is None else self.now < retry_at

    def _round(self) -> None:
        """Everybody may be asked again, about the context as it is now."""
        self.failed = self.blocked = None
        self.before, self.tried, self.revised, self.draft, self.only_declined = self.texts, [], [], None, True
        self._ask_next()

    def _ask(self, name: str, patience: float) -> None:
        self.n += 1
        self.asks_of_n[self.n] = self.ask
        self.asked, self.deadline = (self.n, name), self.now + patience

    def ask_of(self, n: int) -> int:
        """Which question an asking was about."""
        return self.asks_of_n.get(n, 0)

    def _ask_next(self) -> None:
        self.asked = None
        for name in self.compressors:
            if name not in self.tried:
                self.tried.append(name)
                self._ask(name, PATIENCE)
                return
        retry_at = None
        if self.tried:
            self.failures += 1
            retry_at = self.now + min(30.0 * 2 ** (self.failures - 1), 900.0)
            if self.only_declined:
                self.grown = False
        self.insists = False
        self.failed = (self.ask, retry_at)

    def _no_answer(self, *, declined: bool) -> None:
        if self.draft is None:
            self.only_declined = self.only_declined and declined
            self._ask_next()
        else:
            self._revise()

    def _revise(self) -> None:
        """What was changed goes to each reviser in turn, then becomes the context; what came meanwhile follows."""
        assert self.draft is not None
        self.asked = None
        for name in self.revisers if self.draft != self.before else []:
            if name not in self.revised:
                self.revised.append(name)
                self._ask(name, REVISER_PATIENCE)
                return
        self.texts = [*self.draft, *self.texts[len(self.before) :]]
        self.accepted.append((self.ask, self.by))
        self.done_at.append(self.now)
        self.unjudged, self.grown, self.failures, self.pressure = True, False, 0, None
        if self.manual:
            self.futile = 0
        self.failed = self.blocked = None
        self._no_question()
