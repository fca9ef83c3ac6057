"""One test for each refusal: the whole text of the error, against `refusals.txt` (run this file to write it anew, then read it)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import golden
import pytest
import sample_graphs as graphs

from raido.algo.errors import ScheduleError
from raido.schedule.holes import choose
from raido.schedule.machine import Gpu, Machine
from raido.schedule.recorded import Directive
from raido.schedule.schedule import Schedule
from raido.schedule.stages.stage import StageGraph

GOLDEN = Path(__file__).with_name("refusals.txt")
CASES: dict[str, tuple[Callable[[], StageGraph], Callable[[Schedule], object]]] = {}


def case(graph: Callable[[], StageGraph], name: str, act: Callable[[Schedule], object]) -> None:
    CASES[name] = (graph, act)


# Names

case(graphs.blur, "unknown stage", lambda s: s["colls"])
case(graphs.blur, "unknown directive", lambda s: s["cols"].vectorise("x"))
case(graphs.blur, "tiles in time of a stage that is no loop", lambda s: s["cols"].time_tile(steps=8))
case(graphs.blur, "an argument that is no value", lambda s: s["cols"].split("y", 2.5))
case(graphs.blur, "unknown axis", lambda s: s["cols"].split("z", 4))
case(graphs.blur, "a misspelt axis", lambda s: s["cols"].split("y", 4).unroll("yii"))
case(graphs.blur, "an axis that was split", lambda s: s["cols"].split("y", 4).vectorize("y"))
case(graphs.blur, "an axis that was fused", lambda s: s["cols"].fuse("y", "x").vectorize("x"))
case(graphs.blur, "a step with a missing argument", lambda s: s.accept(Directive("cols", "split", (("axis", "y"),))))
case(
    graphs.blur,
    "a step with an unknown argument",
    lambda s: s.accept(Directive("cols", "split", (("axis", "y"), ("factor", 4), ("by", 3)))),
)

# Loops

case(graphs.blur, "split by zero", lambda s: s["cols"].split("y", 0))
case(graphs.blur, "split by a name", lambda s: s["cols"].split("y", "x"))
case(graphs.blur, "split with one name", lambda s: s["cols"].split("y", 4, names=("a",)))
case(graphs.blur, "split with a taken name", lambda s: s["cols"].split("y", 4, names=("x", "yi")))
case(graphs.blur, "split an inlined stage", lambda s: (s["rows"].inline(), s["rows"].split("y", 4)))
case(graphs.blur, "split a vectorized axis", lambda s: s["cols"].vectorize("x").split("x", 4))
case(
    graphs.blur,
    "split an axis at which another is placed",
    lambda s: (s["rows"].compute_at("cols", "y"), s["cols"].split("y", 4)),
)
case(graphs.blur, "fuse axes that are no neighbours", lambda s: s["cols"].fuse("x", "y"))
case(graphs.matmul, "fuse a pure and a reduction axis", lambda s: s["c"].fuse("j", "r"))
case(graphs.blur, "fuse into a taken name", lambda s: s["cols"].fuse("y", "x", name="y"))
case(graphs.blur, "reorder with a repeated axis", lambda s: s["cols"].reorder("y", "y"))
case(graphs.ordered, "reorder an ordered fold", lambda s: s["total"].reorder("rx", "ry"))
case(graphs.blur, "tile nothing", lambda s: s["cols"].tile())
case(graphs.blur, "split a prefetched axis", lambda s: s["rows"].prefetch("img", "y", 2).split("y", 4))
case(graphs.blur, "axes that are no names", lambda s: s.accept(Directive("cols", "reorder", (("axes", "yx"),))))
case(graphs.blur, "a number for a name", lambda s: s["cols"].vectorize(3))

# Kinds

case(graphs.blur, "unknown tail", lambda s: s["cols"].tail("x", "wrap"))
case(graphs.blur, "a second tail", lambda s: s["cols"].split("x", 4).tail("xi", "mask").tail("x", "shift"))
case(graphs.matmul, "shift what is summed", lambda s: s["c"].split("r", 4).tail("ri", "shift"))
case(graphs.blur, "lanes that are no power of two", lambda s: s["cols"].vectorize("x", 12))
case(graphs.blur, "too many lanes", lambda s: s["cols"].vectorize("x", 128))
case(graphs.blur, "a second vectorized axis", lambda s: s["cols"].vectorize("x").vectorize("y"))
case(graphs.blur, "two kinds for one axis", lambda s: s["cols"].vectorize("x").unroll("x"))
case(graphs.blur, "unroll an unknown extent", lambda s: s["cols"].unroll("x"))
case(graphs.blur, "unroll a large extent", lambda s: s["cols"].split("x", 512).unroll("xi"))
case(graphs.blur, "dynamic that is no bool", lambda s: s["cols"].parallel("y", dynamic=1))
case(graphs.blur, "parallel in parallel", lambda s: s["cols"].parallel("y").parallel("x"))
case(graphs.blur, "parallel in a vector", lambda s: s["cols"].vectorize("y").parallel("x"))
case(
    graphs.blur,
    "parallel in the loops of the reader",
    lambda s: (s["cols"].parallel("y"), s["rows"].compute_at("cols", "y").parallel("y")),
)
case(
    graphs.blur,
    "vectorize in the lanes of the reader",
    lambda s: (s["cols"].vectorize("x"), s["rows"].compute_at("cols", "x").vectorize("x")),
)

# Placement

case(graphs.blur, "inline an output", lambda s: s["cols"].inline())
case(graphs.folded, "inline a reduction", lambda s: s["norm"].inline())
case(graphs.blur, "inline after loops", lambda s: s["rows"].vectorize("x").inline())
case(graphs.blur, "inline what is streamed", lambda s: s["rows"].stream_stores().inline())
case(graphs.chain, "inline where another is placed", lambda s: (s["a"].compute_at("b", "x"), s["b"].inline()))
case(graphs.stepped, "inline what a loop reads", lambda s: s["start"].inline())
case(graphs.checked_gather, "inline what is read at checked positions", lambda s: s["doubled"].inline())
case(graphs.stepped, "loops of a control stage", lambda s: s["steps"].split("t", 4))
case(graphs.blur, "place twice", lambda s: s["rows"].root().compute_at("cols", "y"))
case(graphs.blur, "place at itself", lambda s: s["rows"].compute_at("rows", "y"))
case(graphs.blur, "place at a stage that does not read", lambda s: s["cols"].compute_at("rows", "y"))
case(graphs.diamond, "place inside one of two readers", lambda s: s["base"].compute_at("left", "y"))
case(graphs.diamond, "place at a stage of others", lambda s: s["base"].compute_at("out", "y"))
case(
    graphs.chain,
    "place at an inlined stage",
    lambda s: (s["b"].inline(), s["a"].compute_at("b", "x")),
)
case(graphs.gather, "place a gathered array", lambda s: s["doubled"].compute_at("out", "x"))
case(graphs.map_and_sum, "place an output", lambda s: s["y"].compute_at("sum", "r"))
case(graphs.folded, "place inside a reduction what is read after it", lambda s: s["weights"].compute_at("out", "r"))
case(graphs.blur, "store before compute", lambda s: s["rows"].store_at("cols", "y"))
case(
    graphs.blur, "store twice", lambda s: s["rows"].compute_at("cols", "x").store_at("cols", "y").store_at("cols", "y")
)
case(
    graphs.blur,
    "store inside the computation",
    lambda s: s["rows"].compute_at("cols", "y").store_at("cols", "x"),
)
case(
    graphs.blur,
    "slide over parallel iterations",
    lambda s: (s["cols"].parallel("y"), s["rows"].compute_at("cols", "y").store_at("cols")),
)
case(
    graphs.blur,
    "make sliding iterations parallel",
    lambda s: (
        s["cols"].split("y", 8),
        s["rows"].compute_at("cols", "yi").store_at("cols", "yo"),
        s["cols"].parallel("yi"),
    ),
)
case(
    graphs.blur,
    "slide along two axes",
    lambda s: (s["cols"].fuse("y", "x"), s["rows"].compute_at("cols", "yx").store_at("cols")),
)
case(
    graphs.blur,
    "slide along a strided loop",
    lambda s: (
        s["cols"].split("y", 8).reorder("yi", "yo"),
        s["rows"].compute_at("cols", "yo").store_at("cols"),
    ),
)
case(
    graphs.blur,
    "slide back",
    lambda s: (
        s["cols"].split("y", 8).tail("yi", "shift"),
        s["rows"].compute_at("cols", "yi").store_at("cols", "yo"),
    ),
)

# Lanes along folds

case(graphs.columns_from_memory, "lanes of a fold that reads", lambda s: s["total"].vectorize("r"))
case(graphs.columns_apart, "lanes of folds that differ", lambda s: s["total"].vectorize("r"))
case(
    graphs.columns,
    "a stage inside lanes with blocks",
    lambda s: (s["double"].compute_at("total", "r"), s["total"].vectorize("r")),
)
case(
    graphs.columns,
    "lanes with blocks in an unrolled loop",
    lambda s: s["total"].split("x", 4).reorder("xo", "xi", "r").unroll("xi").vectorize("r"),
)
case(
    graphs.columns,
    "lanes with blocks of a part of what is folded",
    lambda s: s["total"].split("r", 64).split("x", 4).reorder("ro", "xo", "ri", "xi").vectorize("ri"),
)

# Sharing loops

case(graphs.blur, "share with a stage that reads this one", lambda s: s["rows"].compute_with("cols", "y"))
case(graphs.blur, "share and read other iterations", lambda s: s["cols"].compute_with("rows", "y"))
case(graphs.map_and_sum, "share after loops", lambda s: s["sum"].split("r", 8).compute_with("y", "x"))
case(
    graphs.siblings,
    "share after another is placed",
    lambda s: (s["c"].compute_with("a", "x"), s["a"].compute_with("b", "x")),
)
case(
    graphs.map_and_sum,
    "loops of a guest",
    lambda s: s["sum"].compute_with("y", "x").vectorize("r"),
)
case(
    graphs.map_and_sum,
    "split after sharing",
    lambda s: (s["sum"].compute_with("y", "x"), s["y"].split("x", 8)),
)
case(graphs.folded, "share with other extents", lambda s: s["weights"].compute_with("norm", "r"))
case(graphs.diamond, "share with a stage needed through others", lambda s: s["out"].compute_with("base", "y"))
case(
    graphs.diamond,
    "place at shared loops",
    lambda s: (s["right"].compute_with("left", "y"), s["base"].compute_at("right", "y")),
)
case(
    graphs.diamond,
    "share with a stage placed inside",
    lambda s: (s["right"].compute_with("left", "y"), s["left"].compute_at("right", "x")),
)
case(
    graphs.siblings,
    "share with a guest that is ahead",
    lambda s: (s["b"].compute_with("a", "x"), s["c"].compute_with("a", "x")),
)
case(
    graphs.crossed,
    "nests that need each other",
    lambda s: (s["d"].compute_with("a", "x"), s["c"].compute_with("b", "x")),
)
case(
    graphs.fanned,
    "share with a stage that shares",
    lambda s: (s["kept"].compute_with("double", "y"), s["table"].compute_with("kept", "x")),
)
case(
    graphs.fanned,
    "share with a placed stage as an output",
    lambda s: (s["double"].compute_at("out", "y"), s["kept"].compute_with("double", "x")),
)
case(
    graphs.fanned,
    "place a stage with which an output shares",
    lambda s: (s["kept"].compute_with("double", "x"), s["double"].compute_at("out", "y")),
)
case(
    graphs.fanned,
    "place a stage with which a gathered one shares",
    lambda s: (s["table"].compute_with("double", "x"), s["double"].compute_at("out", "y")),
)
case(
    graphs.fanned,
    "place a stage over whose loops another folds",
    lambda s: (s["folds"].compute_with("double", "x"), s["double"].compute_at("out", "y")),
)
case(
    graphs.fanned,
    "an ordered fold in lanes of another",
    lambda s: (s["folds"].compute_with("double", "x"), s["double"].vectorize("x")),
)
case(
    graphs.fanned,
    "an ordered fold in the order of another",
    lambda s: (s["double"].split("x", 4).reorder("xi", "xo"), s["folds"].compute_with("double", "xo")),
)
case(
    graphs.fanned,
    "share a loop fused over a pure and a reduction axis",
    lambda s: (s["double"].fuse("y", "x"), s["folds"].compute_with("double", "yx")),
)
case(
    graphs.relay,
    "read in shared loops what they compute",
    lambda s: (s["d"].compute_with("a", "x"), s["c"].compute_at("a", "x"), s["b"].compute_with("a", "x")),
)
case(graphs.convolution, "parallel inside another loop of the reduction", lambda s: s["out"].parallel("rx"))

# Copies

case(graphs.diamond, "clone for a stage that does not read", lambda s: s["base"].clone("out"))
case(graphs.blur, "clone for the only reader", lambda s: s["rows"].clone("cols"))
case(graphs.diamond, "clone under a taken name", lambda s: s["base"].clone("left", name="right"))
case(graphs.blur, "cache what is not read", lambda s: s["cols"].cache("img", "cols", "y"))
case(graphs.blur, "cache what is inlined", lambda s: (s["rows"].inline(), s["cols"].cache("rows", "cols", "y")))
case(graphs.blur, "cache outside the reader", lambda s: s["rows"].cache("img", "cols", "y"))
case(graphs.matmul, "a layout without an axis", lambda s: s["c"].cache("b", "c", None, layout=("j",)))
case(graphs.matmul, "an unknown scope", lambda s: s["c"].cache("b", "c", None, scope="global"))

# Memory and boundaries

case(graphs.blur, "partition twice", lambda s: s["cols"].partition_boundaries("y").partition_boundaries())
case(graphs.matmul, "partition a reduction axis", lambda s: s["c"].partition_boundaries("r"))
case(graphs.blur, "stream twice", lambda s: s["cols"].stream_stores().stream_stores())
case(graphs.blur, "stream what is read at once", lambda s: s["rows"].compute_at("cols", "y").stream_stores())
case(graphs.blur, "prefetch what is not read", lambda s: s["cols"].prefetch("img", "y", 2))
case(graphs.blur, "prefetch twice", lambda s: s["rows"].prefetch("img", "y", 2).prefetch("img", "y", 4))
case(
    graphs.matmul,
    "cache what is prefetched",
    lambda s: s["c"].prefetch("b", "r", 4).cache("b", "c", None),
)
case(graphs.blur, "store an output elsewhere", lambda s: s["cols"].store(layout=("x", "y")))
case(graphs.blur, "store says nothing", lambda s: s["rows"].store())
case(graphs.blur, "store twice in one way", lambda s: s["rows"].store(pad=8).store(pad=16))
case(graphs.blur, "a negative pad", lambda s: s["rows"].store(pad=-1))

# Blocks and threads of a GPU


def on_gpu(act: Callable[[Schedule], object]) -> Callable[[Schedule], object]:
    """The same for a schedule of a GPU."""
    return lambda s: act(Schedule(s.graph, (), Machine(gpu=Gpu())))


def tiled(s: Schedule, *places: str) -> Schedule:
    """Tiles of 8 × 32, with some of their loops bound."""
    s["cols"].tile(y=8, x=32)
    for axis, place in zip(("yo", "xo", "yi", "xi"), places, strict=False):
        s["cols"].bind(axis, place)
    return s


case(graphs.blur, "bind on a CPU", lambda s: s["cols"].bind("x", "thread.x"))
case(graphs.blur, "bind to no place", on_gpu(lambda s: s["cols"].bind("x", "thread.w")))
case(graphs.blur, "bind twice", on_gpu(lambda s: s["cols"].bind("y", "block.y").bind("y", "block.x")))
case(graphs.blur, "split what is bound", on_gpu(lambda s: s["cols"].bind("y", "block.y").split("y", 4)))
case(graphs.blur, "two loops in one place", on_gpu(lambda s: s["cols"].bind("y", "block.x").bind("x", "block.x")))
case(
    graphs.blur,
    "blocks inside threads",
    on_gpu(lambda s: s["cols"].split("y", 8).bind("yi", "thread.y").bind("x", "block.x")),
)
case(
    graphs.blur,
    "a loop between blocks",
    on_gpu(lambda s: s["cols"].split("y", 8).bind("yo", "block.y").bind("x", "block.x")),
)
case(graphs.blur, "threads without a number", on_gpu(lambda s: s["cols"].bind("x", "thread.x")))
case(
    graphs.blur,
    "threads beyond a block's along an axis",
    on_gpu(lambda s: s["cols"].split("x", 2048).bind("xi", "thread.x")),
)
case(
    graphs.blur,
    "threads beyond a block's",
    on_gpu(lambda s: s["cols"].tile(y=64, x=64).bind("yi", "thread.y").bind("xi", "thread.x")),
)
case(graphs.blur, "parallel inside blocks", on_gpu(lambda s: s["cols"].bind("y", "block.y").parallel("x")))
case(
    graphs.blur,
    "threads inside lanes",
    on_gpu(lambda s: s["cols"].split("x", 32).vectorize("y").bind("xi", "thread.x")),
)
case(
    graphs.blur,
    "place between blocks",
    on_gpu(lambda s: tiled(s, "block.y", "block.x")["rows"].compute_at("cols", "yo")),
)
case(
    graphs.blur,
    "place between threads",
    on_gpu(lambda s: tiled(s, "block.y", "block.x", "thread.y", "thread.x")["rows"].compute_at("cols", "yi")),
)
case(
    graphs.blur,
    "blocks inside blocks of the reader",
    on_gpu(lambda s: tiled(s, "block.y", "block.x")["rows"].compute_at("cols", "xo").bind("y", "block.z")),
)
case(
    graphs.blur,
    "threads of a producer without a number",
    on_gpu(lambda s: tiled(s, "block.y", "block.x")["rows"].compute_at("cols", "xo").bind("x", "thread.x")),
)
case(
    graphs.matmul,
    "threads that fold inside others",
    on_gpu(
        lambda s: (
            s["c"].split("j", 8).split("r", 8).bind("ji", "thread.y").reorder("ji", "ri", "ro").bind("ri", "thread.x")
        )
    ),
)
case(
    graphs.matmul,
    "two loops over threads that fold together",
    on_gpu(
        lambda s: (
            s["c"].split("r", 8).split("ri", 4).reorder("rii", "rio").bind("rii", "thread.x").bind("rio", "thread.y")
        )
    ),
)
case(graphs.blur, "stream stores on a GPU", on_gpu(lambda s: s["cols"].stream_stores()))
case(graphs.blur, "prefetch on a GPU", on_gpu(lambda s: s["rows"].prefetch("img", "y", 2)))
case(graphs.blur, "a schedule of a GPU completed for a CPU", on_gpu(lambda s: tiled(s, "block.y").complete(Machine())))

# Strategies, branches, holes

case(graphs.blur, "a strategy for a stencil", lambda s: s["cols"].strategy("chain", block=128))
case(graphs.matmul, "a strategy for a reduction", lambda s: s["c"].strategy("private"))
case(graphs.blur, "a part", lambda s: s["cols"].part("combine"))
case(graphs.blur, "a test that is no expression", lambda s: s.when("w %"))
case(graphs.blur, "a test on an unknown size", lambda s: s.when("n > 3"))
case(graphs.blur, "a test that is a number", lambda s: s.when("w + 1"))
case(graphs.blur, "a test twice", lambda s: (s.when("w > 3"), s.when("w > 3")))
case(graphs.blur, "a branch in a branch", lambda s: s.when("w > 3").when("h > 3"))
case(graphs.blur, "a hole without options", lambda s: s["cols"].split("y", choose("ty", [])))
case(graphs.blur, "a hole of one number", lambda s: s["cols"].split("y", choose("ty", 16)))  # type: ignore[arg-type]
case(
    graphs.blur,
    "one hole, two questions",
    lambda s: s["cols"].split("y", choose("t", [1])).split("x", choose("t", [2])),
)
case(graphs.blur, "no option is legal", lambda s: s["cols"].split("y", choose("t", [0, -1])))
case(graphs.blur, "a filling that is no option", lambda s: (s["cols"].split("y", choose("t", [8])), s.with_(t=9)))
case(graphs.blur, "an unknown hole", lambda s: s.with_(t=9))
case(graphs.blur, "holes left open", lambda s: (s["cols"].split("y", choose("t", [8, 16])), s.variants()))
case(graphs.blur, "no JSON", lambda s: Schedule.from_json("[1", s))
case(graphs.blur, "JSON of another program", lambda s: Schedule.from_json(Schedule(graphs.matmul()).to_json(), s))

# Copies that run ahead


def with_copies(act: Callable[[Schedule], object]) -> Callable[[Schedule], object]:
    """The same for a schedule of a GPU whose threads go on while copies are on their way, its product in tiles."""

    def on_tiles(s: Schedule) -> object:
        made = Schedule(s.graph, (), Machine(gpu=Gpu(asynchronous=True)))
        return act(made)

    return on_tiles


def in_steps(s: Schedule, loop: str = "ro", scope: str = "shared") -> Schedule:
    """A product whose left factor is copied at a loop."""
    c = (
        s["c"]
        .split("i", 8)
        .split("r", 4)
        .reorder("io", "j", "ro", "ii", "ri")
        .bind("io", "block.y")
        .bind("j", "block.x")
    )
    c.bind("ii", "thread.x").cache("a", "c", loop, scope=scope)
    return s


case(graphs.matmul, "several buffers on a CPU", lambda s: (s["c"].cache("a", "c", "i"), s["a_copy"].store(buffers=2)))
case(graphs.matmul, "several buffers without such copies", on_gpu(lambda s: in_steps(s)["a_copy"].store(buffers=2)))
case(
    graphs.matmul,
    "several buffers of each thread",
    with_copies(lambda s: in_steps(s, scope="local")["a_copy"].store(buffers=2)),
)
case(graphs.matmul, "too many buffers", with_copies(lambda s: in_steps(s)["a_copy"].store(buffers=9)))
case(graphs.matmul, "several buffers in a block", with_copies(lambda s: in_steps(s, "j")["a_copy"].store(buffers=2)))
case(
    graphs.matmul,
    "several buffers in an unrolled loop",
    with_copies(lambda s: (in_steps(s)["a_copy"].store(buffers=2), s["c"])[1].unroll("ro", 2)),
)
case(
    graphs.blur,
    "several buffers of what is computed",
    with_copies(
        lambda s: (
            s["cols"].split("y", 8).reorder("x", "yo", "yi").bind("x", "block.x").bind("yi", "thread.x"),
            s["rows"].compute_at("cols", "yo").store(scope="shared").store(buffers=2),
        )
    ),
)

# Matrix units


def with_units(act: Callable[[Schedule], object]) -> Callable[[Schedule], object]:
    """The same for a schedule of a GPU that multiplies matrices of f16."""
    return lambda s: act(Schedule(s.graph, (), Machine(gpu=Gpu(products=("f16",)))))


def subgroup(
    s: Schedule, i: str = "thread.y", j: str = "thread.x", steps: int = 16, unrolled: str = "column"
) -> Schedule:
    """The loops of 16 × 8 sums of a subgroup."""
    c = s["c"].split("i", 16).split("ii", 8, names=("row", "g")).split("j", 8).split("ji", 2, names=("t", "column"))
    c.split("r", steps).reorder("io", "jo", "ro", "g", "t", "ri", "row", "column").bind("io", "block.y").bind(
        "jo", "block.x"
    )
    c.bind("g", i).bind("t", j).unroll("row")
    if unrolled:
        c.unroll(unrolled)
    return s


case(graphs.narrow_product, "tensorize on a CPU", lambda s: s["c"].tensorize("r"))
case(graphs.narrow_product, "tensorize without matrix units", on_gpu(lambda s: s["c"].tensorize("r")))
case(graphs.matmul, "tensorize products of f32", with_units(lambda s: s["c"].tensorize("r")))
case(graphs.narrow_product, "tensorize a pure axis", with_units(lambda s: subgroup(s)["c"].tensorize("io")))
case(graphs.narrow_product, "tensorize a whole axis", with_units(lambda s: s["c"].tensorize("r")))
case(
    graphs.narrow_product,
    "tensorize half an instruction",
    with_units(lambda s: subgroup(s, steps=8)["c"].tensorize("ri")),
)
case(
    graphs.narrow_product,
    "tensorize in other threads",
    with_units(lambda s: subgroup(s, "thread.z", "thread.x")["c"].tensorize("ri")),
)
case(
    graphs.narrow_product, "tensorize an open loop", with_units(lambda s: subgroup(s, unrolled="")["c"].tensorize("ri"))
)
case(
    graphs.narrow_product,
    "tensorize one row",
    with_units(
        lambda s: (
            s["c"]
            .split("i", 8)
            .split("j", 8)
            .split("ji", 2)
            .split("r", 16)
            .reorder("io", "jo", "ro", "ii", "jio", "ri", "jii"),
            s["c"].bind("io", "block.y").bind("jo", "block.x").bind("ii", "thread.y").bind("jio", "thread.x"),
            s["c"].unroll("jii").tensorize("ri"),
        )
    ),
)
case(
    graphs.narrow_product,
    "more threads than multiply matrices",
    with_units(
        lambda s: (
            subgroup(s)["c"].tensorize("ri").cache("a", "c", "ro", scope="shared"),
            s["a_copy"].split("r", 16).bind("ri", "thread.x"),
        )
    ),
)


# Warpgroups


def with_warpgroups(act: Callable[[Schedule], object]) -> Callable[[Schedule], object]:
    """The same for a schedule of a GPU whose warpgroups multiply matrices of f16."""
    machine = Machine(gpu=Gpu(products=("f16",), warpgroups=("f16",)))
    return lambda s: act(Schedule(s.graph, (), machine))


def warpgroup(
    s: Schedule, rows: int = 64, columns: int = 8, a: str = "io", pad: int = 0, scope: str = "shared"
) -> Schedule:
    """The loops of so many rows and columns of a warpgroup, and copies of both factors, the left one in blocks of its elements."""
    c = s["c"].split("i", rows).split("ii", 16).split("iii", 8, names=("row", "g"))
    c.split("j", columns).split("ji", 8).split("jii", 2, names=("t", "column")).split("r", 16)
    c.reorder("io", "jo", "ro", "iio", "g", "t", "ri", "row", "jio", "column").bind("io", "block.y").bind(
        "jo", "block.x"
    )
    c.bind("iio", "thread.z").bind("g", "thread.y").bind("t", "thread.x").unroll("row").unroll("jio").unroll("column")
    for array in ("a", "b"):
        c.cache(array, "c", "ro", scope=scope)
    axes = s["a_copy"].axes, s["b_copy"].axes
    s["a_copy"].split(axes[0][1], 8).store(
        layout=(axes[0][1] + "o", axes[0][0], axes[0][1] + "i") if a else None, pad=pad
    )
    s["b_copy"].split(axes[1][1], 8).store(layout=(axes[1][1] + "o", axes[1][0], axes[1][1] + "i"))
    return s


def case_of_warpgroups(what: str, **how: Any) -> None:
    case(graphs.narrow_product, what, with_warpgroups(lambda s: warpgroup(s, **how)["c"].tensorize("ri", threads=128)))


case(
    graphs.narrow_product,
    "tensorize by 64 threads",
    with_warpgroups(lambda s: warpgroup(s)["c"].tensorize("ri", threads=64)),
)
case(
    graphs.narrow_product,
    "tensorize by warpgroups without them",
    with_units(lambda s: warpgroup(s)["c"].tensorize("ri", threads=128)),
)
case_of_warpgroups("tensorize half a warpgroup", rows=32)
case_of_warpgroups("tensorize too many columns of a warpgroup", columns=264)
case_of_warpgroups("tensorize by warpgroups what is not shared", scope="local")
case_of_warpgroups("tensorize by warpgroups rows as they are", a="")
case_of_warpgroups("tensorize by warpgroups rows with room between", pad=8)


def message(name: str) -> str:
    """The text of the error that a case raises, without what changes from run to run; what was accepted before must still replay."""
    graph, act = CASES[name]
    s = Schedule(graph())
    with pytest.raises(ScheduleError) as caught:
        act(s)
    assert s.copy() == s
    text = re.sub(r"test_refusals\.py:\d+", "test_refusals.py:1", str(caught.value))
    return re.sub(r"[0-9a-f]{12}", "0123456789ab", text)


@pytest.mark.parametrize("name", CASES)
def test_refusal(name):
    assert message(name) == golden.read(GOLDEN).get(name)


def test_no_golden_text_is_left_over():
    assert set(golden.read(GOLDEN)) == set(CASES)


if __name__ == "__main__":
    golden.write(
        GOLDEN, "Every refusal of a schedule; written by test_refusals.py.", {name: message(name) for name in CASES}
    )
