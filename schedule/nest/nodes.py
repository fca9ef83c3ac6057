"""The Nest: explicit loops over buffers, at two levels that share these statements and the values of `values.py`.

*Scalar nest*: what a schedule decided, one index at a time; a `For` of kind "vector" still holds per-lane code. It is what `show`
prints, what the tuner measures, and what GPUs take. *Gang nest*: no "vector" loops are left; values have lanes.

Statements run in order. Loops carry global coordinates: `for var in low, low + step, … < high`. Bounds may be empty, never wrong.
A `Let` may name a mask (the emitter packs it). A `Buffer` lives from its `Alloc` to the end of the enclosing block. Writes are in bounds,
always: what may fail is behind a `Check` (which only records; with lanes, the values of the first that fails) and a predicate.
Lane-private buffers are written by `Store` (a predicate with lanes keeps the other lanes) and, at an index of each lane's own, by
`Scatter`; `VectorStore` moves in memory from the place of `indices`. `checker.check_nest` holds the grammar, `interpret` the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from raido.algo.graph.expr import Expr, SizeVar, Var
from raido.algo.graph.program import Site
from raido.schedule.nest.values import Buffer, NestExpr, VectorVar
from raido.schedule.stages.repeated_copies import RepeatedCopy


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """Statements in order; a scope for `Let` and `Alloc`."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Let:
    """Names a value (immutable) for the rest of the block. The host names a size that data decides. `below`: the value is one of 0 … below − 1,
    and its expression does not show that (kernels only)."""

    var: Var | VectorVar | SizeVar
    value: NestExpr
    below: NestExpr | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Alloc:
    """Memory for the rest of the block; contents undefined. `site`: whose line is named where there is none to be had. `buffers`: memory of
    so many iterations of the loop around lies side by side once copies run ahead of them (`lower/pipelines.py`)."""

    buffer: Buffer
    site: int = -1
    buffers: int = 1


@dataclass(frozen=True, eq=False, slots=True)
class Store:
    """buffer[indices] = value (scalar). Skipped where `predicate` is false. `stream`: non-temporal if the buffer has more bytes.

    `asynchronous`: an element of another buffer is copied to shared memory while the thread goes on. It has arrived behind an `AwaitCopies`
    that awaits its group; until then nobody reads or writes it, or writes the element that it is copied from.
    """

    buffer: Buffer
    indices: tuple[NestExpr, ...]
    value: NestExpr
    predicate: NestExpr | None = None
    stream: int | None = None
    asynchronous: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class VectorStore:
    """Lane k stores at the scalar `indices`, the last moved by k·stride; `across`: from one row into the next, in memory. `asynchronous`: as
    of a `Store` (kernels only)."""

    buffer: Buffer
    indices: tuple[NestExpr, ...]
    value: NestExpr
    stride: int = 1
    mask: NestExpr | None = None
    stream: int | None = None
    across: bool = False
    asynchronous: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Scatter:
    """Lane k stores at lane k of `indices`; of lanes with equal indices the last wins."""

    buffer: Buffer
    indices: tuple[NestExpr, ...]
    value: NestExpr
    mask: NestExpr | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Fold:
    """One step of a reduction or scan: `buffers[k][indices] = step[k]`, all k at once, where `left` stands for what the buffers hold.

    A reduction's `step` already holds the value that is folded in (fused where a product is added). `combine`, over `left` and `right`,
    merges two partial results, and `neutral` starts one: where a loop outside that the buffers do not depend on is of kind "vector",
    the gang pass keeps a partial for each lane and gang, started from `neutral`, and combines them in a fixed tree after the loop, the
    earlier lanes as `left`. Lowering puts only commutative folds into vector loops over their own reduction. `combine` and `neutral`
    are uniform: apart from `left` and `right` they mention nothing that changes inside that loop.

    A scan names what the buffers held `before` the step or hold `after` it, known in the rest of the block. Its `step` is `combine`,
    which is associative, with `values` for `right`; the buffers' first contents take part. In such a vector loop the gang pass scans
    lanes by shifts of 1, 2, 4, …, in order, instead of keeping partials; `neutral` is empty where no neutral element is known.
    """

    buffers: tuple[Buffer, ...]
    indices: tuple[NestExpr, ...]
    step: tuple[NestExpr, ...]
    left: tuple[Var, ...]
    right: tuple[Var, ...]
    combine: tuple[NestExpr, ...]
    neutral: tuple[NestExpr, ...]
    monoid: str = ""
    values: tuple[NestExpr, ...] = ()
    before: tuple[Var, ...] = ()
    after: tuple[Var, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class AtomicUpdate:
    """buffer[indices] = `combine`, over `left` (what is there) and `right` (`value`), as one indivisible step.

    Iterations of loops over threads may meet in one element; which comes first is left open. `combine` mentions nothing else that changes.
    """

    buffer: Buffer
    indices: tuple[NestExpr, ...]
    value: NestExpr
    left: Var
    right: Var
    combine: NestExpr
    monoid: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class Collect:
    """Combines parts that the threads of a block have left: of each `width` neighbours all into the first, by a tree, or (`prefix`) into each
    those before it, by trees that share their branches.

    Part `var` is buffers[k][indices], all k at once, for `var` = 0 … count - 1 (count ≥ 1), and belongs to thread `var` along the axis
    `level` of threads, which no loop around has bound. `combine` is the operator over `left` and `right`, the earlier part on the left.
    `halves`: the first half of the parts takes in the second, and so on (the operator is commutative, and count ≤ width, which is
    any number); else neighbours are combined, then neighbours of these (width is a power of two), and only first parts change, unless
    every part takes in the one before it, then that two before, then four, of its own neighbours (Hillis & Steele 1986).
    """

    var: Var
    count: NestExpr
    width: int
    buffers: tuple[Buffer, ...]
    indices: tuple[NestExpr, ...]
    left: tuple[Var, ...]
    right: tuple[Var, ...]
    combine: tuple[NestExpr, ...]
    halves: bool
    level: str = "thread.x"
    prefix: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Append:
    """If `predicate` holds, stores `values` into `buffers` at the index that `position` (a scalar) holds, and increments it.

    `spare`: lanes side by side may change what stands behind the new position, as many elements as there are lanes: it is inside the
    buffers, and is written before anybody reads it.
    """

    buffers: tuple[Buffer, ...]
    position: Buffer
    values: tuple[NestExpr, ...]
    predicate: NestExpr
    spare: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Ordered:
    """Runs `body` in the order of the iterations of the parallel loop around it: each iteration waits until the one before it has left.

    Such a loop hands its iterations out one by one, in order, so that it ends on any number of threads. An iteration that never comes here
    passes its turn on at its end.
    """

    body: Block


@dataclass(frozen=True, eq=False, slots=True)
class Carry:
    """What blocks of a GPU hand on, in the order of the iterations of the loop over blocks around it: `taken` names buffers[k][place], and
    buffers[k][place + 1] = `combine` over `left` (what was taken) and `right` (`values`), all k at once.

    Iterations have places 0, 1, … in their order, and element 0 is there before the loop. `totals`, as long as `buffers`, and `state`, all
    zeros before the loop, are memory for blocks that look back (`kernels/look_back.py`): nobody else reads them. There are no `totals` where
    `carry.in_one_word`. `counts`: the values are numbers of elements.

    `inside`: each iteration hands on `stride` numbers of elements, of which a thread of it, in a loop over threads, hands on this one:
    those of place p are the elements from p · stride on. Nobody reads them behind the loop.
    """

    taken: tuple[Var, ...]
    buffers: tuple[Buffer, ...]
    place: NestExpr
    values: tuple[NestExpr, ...]
    left: tuple[Var, ...]
    right: tuple[Var, ...]
    combine: tuple[NestExpr, ...]
    totals: tuple[Buffer, ...]
    state: Buffer
    counts: bool = False
    stride: int = 1
    inside: NestExpr | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Ticket:
    """Names the next of the numbers 0, 1, …, fewer than `count`, that the first element of `state` hands out, to whoever comes first; the
    threads of a block get one number (kernels only). Whoever has a smaller number has begun."""

    var: Var
    state: Buffer
    count: NestExpr


@dataclass(frozen=True, eq=False, slots=True)
class Publish:
    """state[place] = value, which is not 0, for whoever awaits it, in other blocks too: it sees what this thread wrote before, and what that
    thread had seen (kernels only). `alone`: it sees the value, and that need be all."""

    state: Buffer
    place: NestExpr
    value: NestExpr
    alone: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Await:
    """Names state[place] once it is not 0 (kernels only). `alone`: whatever else stood before its publication need not be seen."""

    var: Var
    state: Buffer
    place: NestExpr
    alone: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Barrier:
    """The threads of a block wait until all of them have come; all see afterwards what each wrote before (kernels only)."""


@dataclass(frozen=True, eq=False, slots=True)
class CommitCopies:
    """Ends a group: the asynchronous copies since the last one, which may be none."""


@dataclass(frozen=True, eq=False, slots=True)
class AwaitCopies:
    """Waits until the copies of all groups have arrived but those of the last `left`. In a kernel a thread awaits its own copies, and
    others see them behind a barrier; in a nest all threads' copies have arrived."""

    left: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class Exchange:
    """Names the values that the thread `distance` places later (before, where that is negative) along thread.x has for `values` (kernels only).

    Threads that follow each other along x form subgroups of `width`, which divides their number. All threads of a subgroup come to it,
    or none; one with no such thread in its own subgroup gets values of any thread there. It orders nothing in memory.
    """

    vars: tuple[Var, ...]
    values: tuple[NestExpr, ...]
    distance: int
    width: int


@dataclass(frozen=True, eq=False, slots=True)
class Broadcast:
    """Names the values that thread number `source` of each subgroup of `width` has for `values`, as `Exchange` does; all of its threads name
    the same one (kernels only)."""

    vars: tuple[Var, ...]
    values: tuple[NestExpr, ...]
    source: NestExpr
    width: int


@dataclass(frozen=True, eq=False, slots=True)
class FirstThread:
    """Names the number, in its subgroup of `width`, of the first thread for which `condition` holds, `width` where there is none. All threads
    of the subgroup come to it, or none (kernels only)."""

    var: Var
    condition: NestExpr
    width: int


@dataclass(frozen=True, eq=False, slots=True)
class Certificate:
    """That no two iterations of a parallel loop write one element of these buffers, although their indices do not show it.

    `by` names who knows: a strategy, or `unique_indices`, which the program promises.
    """

    by: str
    buffers: tuple[Buffer, ...]


@dataclass(frozen=True, eq=False, slots=True)
class For:
    """`for var in low..high step step`. kinds: serial, parallel, vector (scalar nest only: per-lane code), unroll (constant trip count),
    matrix (a serial loop over products of matrices, which threads of a GPU may run together: `matrix_loops`).

    `lanes`, `interleave`, `tail` belong to vector loops (lanes 0: the target decides), `grain` and `dynamic` to parallel ones.
    `level`: where on a GPU the iterations of a parallel loop run, "block.x" … "thread.z" ("": left to whoever makes kernels). All
    iterations end before the statement after the loop begins, on every level. `threads`: the most iterations that a loop bound to
    threads makes, as far as the schedule knows (else 0): where there are more, the threads of a block take them in turn; of a matrix loop:
    how many threads run it together, 0 for a subgroup.
    `stage` says which stage's loop this is and `loop` its name in the schedule (both for printing and features; "" otherwise).
    `certificates` are what `oracles/races` believes of a parallel loop. `alone`: a name, known inside a parallel loop, for whether one thread
    runs all of its iterations, in order; no results may depend on it. `copied`: whether a code generator may make copies of the body, or of
    those of loops inside it; a few iterations are as quick without.
    """

    var: Var
    low: NestExpr
    high: NestExpr
    step: int
    body: Block
    kind: Literal["serial", "parallel", "vector", "unroll", "matrix"] = "serial"
    lanes: int = 0
    interleave: int = 1
    tail: str = "mask"
    grain: int = 0
    dynamic: bool = False
    level: str = ""
    threads: int = 0
    stage: str = ""
    loop: str = ""
    certificates: tuple[Certificate, ...] = ()
    alone: Var | None = None
    copied: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class If:
    """Runs one side."""

    condition: NestExpr
    then: Block
    orelse: Block | None = None


@dataclass(frozen=True, eq=False, slots=True)
class While:
    """Runs `body` as long as `condition` holds; `setup` runs before each test and its names are visible in `condition` and `body`.

    `site`: on a GPU, the number of the line of a loop that may never end, which is stopped there after some iterations; else -1.
    `each`: booleans, one for each row of the arrays that a loop of the host goes over, of which `condition` says whether any is true.
    `stage`: the array loop that this is.
    """

    setup: Block
    condition: NestExpr
    body: Block
    site: int = -1
    each: Buffer | None = None
    stage: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class Check:
    """If `holds` is false (and `predicate`, or None, true): records fault `kind` of site number `site` with `values`, once; goes on."""

    holds: NestExpr
    kind: str
    site: int
    values: tuple[NestExpr, ...]
    predicate: NestExpr | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Prefetch:
    """A hint: this element will be read soon. The indices may be out of bounds."""

    buffer: Buffer
    indices: tuple[NestExpr, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Produce:
    """The statements that compute a stage; for printing, and the unit in which root stages become kernels. `site`: on a GPU, the number
    of its line."""

    stage: str
    body: Block
    site: int = -1


@dataclass(frozen=True, eq=False, slots=True)
class Swap:
    """Exchanges the memory of two buffers of equal type (host level only). Their sizes may differ: `View` says what memory holds.

    `needed`: whether anybody reads what the left one held, or its memory is only to be written anew.
    """

    left: Buffer
    right: Buffer
    needed: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """`buffer` is what the memory of `source` holds now, in a shape of sizes that are known here (host level only).

    It holds at least as many rows, which are laid out in the same way, or the same elements with neighbouring dimensions as one. A view
    of the caller's memory has the sizes that a test around it fixes as numbers.
    """

    buffer: Buffer
    source: Buffer


@dataclass(frozen=True, eq=False, slots=True)
class Copy:
    """Copies a whole buffer into another of equal type (host level only)."""

    source: Buffer
    destination: Buffer


Statement: TypeAlias = (
    Block
    | Let
    | Alloc
    | Store
    | VectorStore
    | Scatter
    | Fold
    | AtomicUpdate
    | Collect
    | Ordered
    | Carry
    | Append
    | For
    | If
    | While
    | Check
    | Prefetch
    | Barrier
    | CommitCopies
    | AwaitCopies
    | Exchange
    | Broadcast
    | FirstThread
    | Ticket
    | Publish
    | Await
    | Produce
    | Swap
    | View
    | Copy
)


@dataclass(frozen=True, eq=False, slots=True)
class Nest:
    """A whole program as loops: inputs and outputs are parameter buffers; `body` is host level: `Produce`, `Alloc`, host loops, `Swap`.

    `counts` are sizes that the host learns on its way, each with a parameter of rank 0 in which it leaves it. `shapes` are what of each
    output is in use, where these decide (else empty). Outputs of a size that nothing bounds are of scope "result". `copies` are what
    the host copies in loops, where it might have been changed in place.
    """

    name: str
    inputs: tuple[Buffer, ...]
    sizes: tuple[SizeVar, ...]
    outputs: tuple[Buffer, ...]
    body: Block
    sites: tuple[Site | None, ...] = ()
    counts: tuple[tuple[SizeVar, Buffer], ...] = ()
    shapes: tuple[tuple[Expr, ...], ...] = ()
    copies: tuple[RepeatedCopy, ...] = ()
