"""Every legal name of a stage is printed so that the schedule can be rebuilt; any other is refused when it is given."""

from __future__ import annotations

import random

import pytest

import raido as rd
from raido.algo.errors import ScheduleError, TraceError
from raido.algo.graph.stage_names import is_stage_name, is_stage_path

PIECES = [
    "a",
    "1",
    " ",
    '"',
    "'",
    "\\",
    "{x}",
    "%n%s",
    "é",
    "名",
    "class",
    "s",
    "[0]",
    "*",
    ":",
    "#",
    "$(x)",
    "\\n",
    "None",
]
REFUSED = ["::", "/", "\n", "\r", "\t", "\0", "\x7f", "\u2028", "\ud800", "\x1b[2J", "\u202e", "\ufeff"]


def program(first: str, second: str):
    @rd.algorithm
    def prog(a: rd.i32["n"]):
        b = rd.scan(rd.add, 0, rd.map(lambda x: x * 2, a, name=first), name=second)
        return rd.sum(b, name="total")

    return prog


def rebuilt(prog, schedule):
    scope = {"prog": prog, "rd": rd}
    exec(str(schedule), scope)
    return scope["s"]


@pytest.mark.parametrize("seed", range(40))
def test_a_schedule_is_rebuilt_from_its_text_whatever_its_stages_are_called(seed):
    draw = random.Random(seed)
    first, second = ("".join(draw.choices(PIECES, k=draw.randint(1, 5))) for _ in range(2))
    first, second = first.replace("::", ":"), f"{second.replace('::', ':')}."
    prog = program(first, second)
    s = prog.schedule()
    s[first].split("x", 8, names=("p", "q"))
    s[second].strategy("three_phase").part("totals").parallel("xo", dynamic=True)
    s.choose("how", a=lambda s: s["total"].vectorize("r"), b=lambda s: s["total"].root())
    assert rebuilt(prog, s) == s
    assert rd.Schedule.from_json(s.to_json(), prog) == s
    complete = s.with_(how="b").complete("llvm")
    assert rebuilt(prog, complete) == complete


@pytest.mark.parametrize("seed", range(40))
def test_other_names_are_refused_when_they_are_given(seed):
    draw = random.Random(seed)
    pieces = [*draw.choices(PIECES, k=draw.randint(0, 3)), draw.choice(REFUSED)]
    draw.shuffle(pieces)
    name = "".join(pieces)
    message = "a stage's name is printable text without '/' and '::'"
    with pytest.raises(TraceError, match=message):
        program(name, "second").trace()

    @rd.algorithm
    def twice(a: rd.i32["n"]):
        return rd.map(lambda x: x * 2, a, name="once")

    @rd.algorithm
    def caller(a: rd.i32["n"]):
        return twice(a, name=name)

    with pytest.raises(TraceError, match=message):
        caller.trace()
    if is_stage_path(name):
        return

    @rd.algorithm
    def read_twice(a: rd.i32["n"]):
        b = rd.map(lambda x: x * 2, a, name="b")
        return rd.sum(b, name="total"), rd.max(b, initial=0, name="most")

    s = read_twice.schedule()
    with pytest.raises(ScheduleError, match=message):
        s["b"].clone("total", name=name)
    s["b"].clone("total", name="other")


@pytest.mark.parametrize("label", ["a b", "class", "1", "", "a=b", "a\nb"])
def test_an_alternative_is_called_by_a_name(label):
    s = program("first", "second").schedule()
    with pytest.raises(ScheduleError, match="is no name for an alternative"):
        s.choose("how", **{label: lambda s: s["total"].root()})


@pytest.mark.parametrize(
    "test, message",
    [
        ("n < 9999999999999999999999", "the numbers in '9999999999999999999999' are beyond 64 bits"),
        ("n % 18446744073709551616 == 0", "beyond 64 bits"),
        ("n * 4611686018427387904 * 4 == 0", "beyond 64 bits"),
        ("n + 9223372036854775807 > 0", "beyond 64 bits"),
        ("n // 0 == 1", "`n // 0` divides by zero"),
        ("n % (1 - 1) == 0", "divides by zero"),
        ("n < " + "9" * 5000, "is not an expression|has more than"),
        ("n < " + "(" * 300 + "1" + ")" * 300, "is not an expression"),
        ("n" + " + 1" * 20_000 + " < 1", "has more than"),
    ],
)
def test_numbers_in_tests_are_exact_or_refused(test, message):
    with pytest.raises(ScheduleError, match=message):
        program("first", "second").schedule().when(test)


@pytest.mark.parametrize("number", [2**60 + 1, 2**63 - 1, 2**63, 2**64, 10**22, -(10**22)])
def test_numbers_beyond_any_size_are_refused(number):
    s = program("first", "second").schedule()["first"]
    for say in (
        lambda: s.split("x", number),
        lambda: s.tile(x=number),
        lambda: s.vectorize("x", number),
        lambda: s.vectorize("x", interleave=number),
        lambda: s.unroll("x", number),
        lambda: s.parallel("x", grain=number),
        lambda: s.prefetch("a", "x", number),
    ):
        with pytest.raises(ScheduleError, match="larger than any size, which is at most"):
            say()
    with pytest.raises(ScheduleError):
        program("first", "second").schedule()["second"].strategy("three_phase", block=number)


def test_names_that_are_not_text_are_refused():
    for name in (3, b"a", "", ("a",)):
        assert not is_stage_name(name)
        with pytest.raises(TraceError, match="a stage's name is printable text"):
            program(name, "second").trace()


def test_a_function_that_is_called_like_a_word_of_python_still_has_a_schedule():
    def function(a: rd.i32["n"]):
        return a + 1

    function.__name__ = "class"
    assert str(rd.algorithm(function).schedule()) == "s = algorithm.schedule()"
