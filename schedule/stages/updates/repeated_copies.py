"""Arrays that are copied in every iteration of a loop because a part of them changes: the reasons, with a remedy for each.

`CopyWarning` and `show()` report them. In a remedy, `{array}` stands for the name of the array that is copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from raido.algo.graph.program import OF_RAIDO, Site

READ_LATER = "reads the old contents later"
RESULT_AS_WELL = "the old contents are a result as well"
COMBINED = "a value computed from the changed array is combined with the old contents"
BEGUN_AGAIN = "an inner loop begins with the array each time it runs"
NOT_ITS_OWN = "the array does not belong to this loop"
TAKEN = "another stage has taken over its memory"
SEVERAL_STATES = "the array becomes several states of the loop"
NOT_MADE_HERE = "the array is not made in the loop"
NOT_WHOLE = "the array is not computed as a whole, in loops and memory of its own"
SHARED_LOOPS = "other stages share its loops"
OVERLAPPING = 'tail "shift" would apply some updates twice'
CONFLICT = "its updates read elements that other updates change"

_ELEMENTS = (
    "take what is needed of {array} before the change, and of the elements alone that change: old = {array}[i], or "
    "rd.any({array}[i] != v) for whether any does; of all others, read the changed array"
)
_CHOICE = "where it is only read, rd.where(index == i, new, {array}) makes no array; to change it for good, make it a state of the loop"
_DEFAULTS = "leave the loops of that stage to the default schedule"

REMEDIES: Mapping[str, str] = {
    READ_LATER: _ELEMENTS,
    RESULT_AS_WELL: _ELEMENTS,
    COMBINED: _ELEMENTS,
    BEGUN_AGAIN: _CHOICE,
    NOT_ITS_OWN: _CHOICE,
    TAKEN: "change {array} in sequence, each time the result of the change before",
    SEVERAL_STATES: "carry the array as one state",
    NOT_MADE_HERE: "read that array where it is needed instead of carrying it as a state",
    NOT_WHOLE: _DEFAULTS,
    SHARED_LOOPS: _DEFAULTS,
    OVERLAPPING: _DEFAULTS,
    CONFLICT: _DEFAULTS,
}


@dataclass(frozen=True, slots=True)
class RepeatedCopy:
    """An array that is copied in every iteration of a loop: the stage that copies it, the reason, a remedy and source lines.

    `site`: the line of the change. `named`: for a state, the site that holds the name the loop's body gives it. `reader`: the line that
    needs the old contents.
    """

    stage: str
    array: str
    why: str
    remedy: str
    site: Site | None
    named: Site | None = None
    reader: Site | None = None

    @property
    def name(self) -> str:
        """The name of the array in the user's program, or else in the schedule."""
        return self.named.array if self.named is not None and self.named.array else self.array

    @property
    def is_of_raido(self) -> bool:
        """Whether the array belongs to a function of raido's, not to a line of the user's."""
        return self.name == OF_RAIDO

    def __str__(self) -> str:
        line = "" if self.reader is None else f", in line {self.reader.line}"
        remedy = "" if self.is_of_raido else f"; {self.remedy.format(array=self.name)}"
        return f'"{self.stage}" copies {self.name} in every iteration: {self.why}{line}{remedy}'
