"""A schedule is a value: the directives it records, the plans that follow, and text and JSON that rebuild it."""

from __future__ import annotations

import pytest
import sample_graphs as graphs

from raido.algo.errors import ScheduleError
from raido.schedule.holes import choose
from raido.schedule.plan import At, Fuse, Inline, Root, Split
from raido.schedule.schedule import Schedule


class Rebuilt:
    """Stands for the algorithm and for `rd` when printed schedules are executed."""

    choose = staticmethod(choose)

    def __init__(self, graph):
        self.graph = graph

    def schedule(self):
        return Schedule(self.graph)


def round_trip(s: Schedule) -> None:
    """Text and JSON rebuild an equal schedule."""
    scope = {s.graph.program.name: Rebuilt(s.graph), "rd": Rebuilt(s.graph)}
    exec(str(s), scope)
    assert scope["s"] == s
    again = Schedule.from_json(s.to_json(), Rebuilt(s.graph))
    assert again == s and str(again) == str(s)


def plan_of(s: Schedule, name: str):
    return s.variants()[-1].plan(name)


def loops_of(s: Schedule, name: str):
    return [(loop.name, loop.kind) for loop in plan_of(s, name).loops]


def test_blur_of_the_contract():
    s = Schedule(graphs.blur())
    s["cols"].tile(y=32, x=512).parallel("yo").vectorize("xi").partition_boundaries()
    s["rows"].compute_at("cols", "yo")
    assert loops_of(s, "cols") == [("yo", "parallel"), ("xo", "serial"), ("yi", "serial"), ("xi", "vector")]
    assert plan_of(s, "cols").relations == (Split("y", "yo", "yi", 32), Split("x", "xo", "xi", 512))
    assert plan_of(s, "cols").partition == ("y", "x")
    assert plan_of(s, "rows").compute == At("cols", "yo")
    assert str(s) == (
        "s = blur.schedule()\n"
        's["cols"].tile(y=32, x=512).parallel("yo").vectorize("xi").partition_boundaries()\n'
        's["rows"].compute_at("cols", "yo")'
    )
    round_trip(s)


def test_sgemm_with_packed_panels():
    s = Schedule(graphs.matmul())
    s["c"].tile(i=12, j=32).reorder("io", "jo", "r", "ii", "ji").unroll("ii").vectorize("ji", interleave=2).parallel(
        "io"
    )
    s["c"].cache("b", "c", None, layout=("jo", "r", "ji"))
    assert s["c"].axes == ("io", "jo", "r", "ii", "ji")
    assert s.stages == ("b_copy", "c")
    plan = plan_of(s, "b_copy")
    assert plan.layout == ("jo", "r", "ji") and plan.relations == (Split("j", "jo", "ji", 32),)
    assert [loop.name for loop in plan.loops] == ["jo", "r", "ji"] and plan.compute == Root()
    reader = s.variants()[0].graph.stages[1]
    assert {load.array.form.axes[0].name for load in s.state.uses.loads["c"]["b_copy"]} == {"r"}
    assert reader.name == "c" and set(s.state.uses.loads["c"]) == {"a", "b_copy"}
    round_trip(s)


def test_jam_and_unroll_with_a_factor():
    s = Schedule(graphs.blur())
    s["cols"].split("y", 4).reorder("yo", "x", "yi").unroll("yi").vectorize("x").parallel("yo").stream_stores()
    t = Schedule(graphs.blur())
    t["cols"].unroll("y", 4).vectorize("x").parallel("yo").stream_stores()
    assert loops_of(s, "cols") == loops_of(t, "cols") == [("yo", "parallel"), ("x", "vector"), ("yi", "unroll")]
    round_trip(s)
    round_trip(t)


def test_sliding_window():
    s = Schedule(graphs.blur())
    s["cols"].tile(y=64, x=1024).parallel("yo").vectorize("xi").partition_boundaries()
    s["rows"].compute_at("cols", "yi").store_at("cols", "xo").vectorize("x")
    plan = plan_of(s, "rows")
    assert (plan.compute, plan.store) == (At("cols", "yi"), At("cols", "xo"))
    round_trip(s)


def test_compute_with_takes_over_splits_and_kinds():
    s = Schedule(graphs.map_and_sum())
    s["y"].split("x", 1 << 16).parallel("xo")
    s["sum"].compute_with("y", "xi")
    s["y"].vectorize("xi", interleave=4)
    assert loops_of(s, "sum") == [("ro", "parallel"), ("ri", "vector")]
    assert plan_of(s, "sum").relations == (Split("r", "ro", "ri", 1 << 16),)
    assert plan_of(s, "sum").compute_with == At("y", "xi")
    round_trip(s)


def test_the_order_that_refusals_of_compute_with_name_is_accepted():
    s = Schedule(graphs.map_and_sum())
    s["y"].split("x", 64).parallel("xo")
    s["sum"].compute_with("y", "xo").split("ri", 8).unroll("rii")
    assert s["sum"].axes == ("ro", "rio", "rii")
    siblings = Schedule(graphs.siblings())
    siblings["b"].split("x", 8)
    siblings["a"].compute_with("b", "xo")
    round_trip(siblings)


def test_fuse_and_names():
    s = Schedule(graphs.blur())
    s["cols"].split("y", 8, names=("band", "row")).fuse("row", "x", "rx").parallel("band", grain=2, dynamic=True)
    assert s["cols"].axes == ("band", "rx")
    assert plan_of(s, "cols").relations[1] == Fuse("row", "x", "rx")
    round_trip(s)


def test_several_consumers_may_be_placed_together():
    s = Schedule(graphs.diamond())
    s["out"].split("y", 16)
    s["left"].compute_at("out", "yo")
    s["right"].compute_at("out", "yo")
    s["base"].compute_at("out", "yo")
    round_trip(s)
    t = Schedule(graphs.diamond())
    t["left"].inline()
    t["right"].inline()
    t["base"].compute_at("out", "y")
    assert plan_of(t, "left").compute == Inline()


def test_clone_makes_a_stage_of_its_own():
    s = Schedule(graphs.diamond())
    s["base"].clone("left")
    s["base_2"].inline()
    s["base"].compute_at("right", "y")
    assert s.stages == ("base", "base_2", "left", "right", "out")
    assert set(s.state.uses.loads["left"]) == {"base_2"}
    round_trip(s)


def test_cache_of_a_stencil_input_at_a_loop():
    s = Schedule(graphs.blur())
    s["cols"].split("y", 8)
    s["rows"].compute_at("cols", "yo").cache("img", "rows", "y", scope="stack", name="line")
    s["line"].vectorize("x")
    assert s["line"].axes == ("y", "x")
    round_trip(s)


def test_prefetch_reaches_through_inlined_stages():
    s = Schedule(graphs.blur())
    s["rows"].inline()
    s["cols"].prefetch("img", "y", 2)
    assert plan_of(s, "cols").prefetches[0].array == "img"


def test_a_refused_directive_changes_nothing():
    s = Schedule(graphs.blur())
    s["cols"].split("y", 8)
    before = s.directives
    with pytest.raises(ScheduleError):
        s["cols"].split("y", 8)
    assert s.directives is before and s["cols"].axes == ("yo", "yi", "x")


def test_when_branches_start_from_what_was_said():
    s = Schedule(graphs.blur())
    s["cols"].split("y", 8)
    wide = s.when("w % 16 == 0 and h > 64")
    wide["cols"].vectorize("x", 16)
    s["cols"].vectorize("x", 4)
    first, general = s.variants()
    assert first.plan("cols").loops[-1].lanes == 16 and general.plan("cols").loops[-1].lanes == 4
    assert first.test is not None and general.test is None
    assert first.plan("cols").relations == general.plan("cols").relations
    round_trip(s)


def test_holes_are_a_search_space():
    s = Schedule(graphs.blur())
    s["cols"].tile(y=choose("ty", [16, 32, 64]), x=512).vectorize(choose("axis", ["yi", "xi"]))
    s.choose("place", a=lambda s: s["rows"].compute_at("cols", "yo"), b=lambda s: s["rows"].inline())
    assert s.holes == {"ty": (16, 32, 64), "axis": ("yi", "xi"), "place": ("a", "b")}
    round_trip(s)
    filled = s.with_(ty=32, axis="xi", place="b")
    assert filled.holes == {} and loops_of(filled, "cols")[-1] == ("xi", "vector")
    assert plan_of(filled, "rows").compute == Inline()
    with pytest.raises(ScheduleError, match="cannot fill hole"):
        s.with_(ty=17)
    with pytest.raises(ScheduleError, match="has holes"):
        s.variants()


def test_infeasible_fillings_are_refused():
    s = Schedule(graphs.blur())
    s["cols"].vectorize(choose("axis", ["y", "x"])).split("y", 8)
    with pytest.raises(ScheduleError, match="already vectorized"):
        s.with_(axis="y")
    assert s.with_(axis="x").holes == {}


def test_diff_names_what_changed():
    s, t = Schedule(graphs.blur()), Schedule(graphs.blur())
    s["cols"].split("y", 8).vectorize("x")
    t["cols"].split("y", 16).vectorize("x")
    assert str(s.diff(t)) == '- s["cols"].split("y", 8)\n+ s["cols"].split("y", 16)\n  s["cols"].vectorize("x")'
    assert not s.diff(s)


def test_legal_steps_are_accepted_and_cover_the_directives():
    s = Schedule(graphs.diamond())
    s["out"].split("y", 16)
    found = {directive.name for name in s.stages for directive in s[name].legal()}
    s["left"].compute_at("out", "yo")
    found |= {directive.name for name in s.stages for directive in s[name].legal()}
    expected = (
        "split fuse reorder tile tail vectorize unroll parallel inline root compute_at store_at clone cache store"
    )
    assert set(expected.split()) <= found
    for name in s.stages:
        for directive in s[name].legal()[::7]:
            t = s.copy()
            t.accept(directive)
            round_trip(t)


def test_fingerprints_do_not_depend_on_when_a_program_was_traced():
    assert Schedule(graphs.blur()).fingerprint == Schedule(graphs.blur()).fingerprint
    assert Schedule(graphs.blur()).fingerprint != Schedule(graphs.diamond()).fingerprint
