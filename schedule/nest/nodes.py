"""The statements of the nest: explicit loops over buffers, at two levels that share these statements and the values of `values.py`.

*Scalar nest*: the result of applying a schedule, one index at a time; a `For` of kind "vector" still holds per-lane code. It is the level
that `show` prints, the tuner measures, and GPUs take. *Gang nest*: no "vector" loops are left; values have lanes.

Statements run in order. Loops have global coordinates: `for var in low, low + step, … < high`. Ranges may be empty. A `Let` may name a mask
(the emitter packs it). A `Buffer` lives from its `Alloc` to the end of the enclosing block. Writes are always in bounds: accesses that may
not be are behind a `Check` (which only records; with lanes, the values of the first that fails) and a predicate. Lane-private buffers are
written by `Store` (a predicate with lanes keeps the other lanes) and, at an index of each lane's own, by `Scatter`; `VectorStore` advances
in memory from the element at `indices`. `checker.check_nest` checks the grammar, `interpret` the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from raido.algo.graph.expr import Expr, SizeVar, Var
from raido.algo.graph.program import Site
from raido.schedule.nest.values import Buffer, NestExpr, VectorVar
from raido.schedule.stages.updates.repeated_copies import RepeatedCopy


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """Statements in order; a scope for `Let` and `Alloc`."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Let:
    """Binds a variable to an immutable value for the rest of the block; the host binds data-dependent sizes.

    `below`: an exclusive upper bound of a non-negative value that its expression does not show (kernels only).
    """

    var: Var | VectorVar | SizeVar
    value: NestExpr
    below: NestExpr | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Alloc:
    """Allocates memory for the rest of the block, with undefined contents. `site`: the number of the source line that a failure to allocate
    reports.

    `buffers`: the number of iterations of the loop around whose copies exist at a time, once asynchronous copies run ahead
    (`lower/threads/pipelines.py`).
    """

    buffer: Buffer
    site: int = -1
    buffers: int = 1


@dataclass(frozen=True, eq=False, slots=True)
class Store:
    """buffer[indices] = value (scalar). Skipped where `predicate` is false. `stream`: non-temporal if the buffer has more bytes than this.

    `asynchronous`: an element of another buffer is copied to shared memory while the thread goes on. It has arrived after an `AwaitCopies`
    that awaits its group; until then it must not be read or written, nor its source written.
    """

    buffer: Buffer
    indices: tuple[NestExpr, ...]
    value: NestExpr
    predicate: NestExpr | None = None
    stream: int | None = None
    asynchronous: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class VectorStore:
    """Lane k stores at the scalar `indices`, the last one advanced by k·stride; `across`: lanes may continue in the next row, in memory.

    `asynchronous`: as of a `Store` (kernels only).
    """

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
    """One step of a reduction or scan: `buffers[k][indices] = step[k]`, all k at once, where `left` stands for the buffers' contents.

    A reduction's `step` already contains the value that is folded in (fused where a product is added). `combine`, over `left` and `right`,
    merges two partial results, and `neutral` starts one: where an enclosing loop that the buffers do not depend on is of kind "vector", the
    gang pass keeps a partial result for each lane and gang, started from `neutral`, and combines them in a fixed tree after the loop, the
    earlier lanes as `left`. Lowering puts only commutative folds into vector loops over their own reduction. `combine` and `neutral` are
    uniform: apart from `left` and `right` they mention nothing that changes inside that loop.

    A scan binds the buffers' contents `before` the step or `after` it, for the rest of the block. Its `step` is `combine`, which is
    associative, with `values` for `right`; the buffers' first contents take part. In such a vector loop the gang pass scans lanes by shifts
    of 1, 2, 4, … (Hillis & Steele 1986), in order, instead of keeping partial results; `neutral` is empty where no neutral element is
    known.
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
    """buffer[indices] = `combine`, over `left` (the element) and `right` (`value`), as one atomic read-modify-write.

    Iterations of parallel loops may meet in one element, in any order. `combine` mentions nothing else that changes.
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
    """Combines partial results of a block's threads: in each group of `width` neighbours all into the first, by a tree, or (`prefix`) into
    each those before it, by trees with shared branches.

    Part `var` is buffers[k][indices], all k at once, for `var` = 0 … count - 1 (count ≥ 1), and belongs to thread `var` along the axis
    `level` of threads, which no enclosing loop is bound to. `combine` is the operator over `left` and `right`, the earlier part on the
    left. `halves`: the first half of the parts takes in the second, and so on (the operator is commutative, and count ≤ width, which is any
    number); else neighbours are combined, then neighbours of these (width is a power of two), and only first parts change. With `prefix`
    every part takes in the one before it, then that two before it, then four, within its group (Hillis & Steele 1986).
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
    """If `predicate` holds, stores `values` into `buffers` at the index held by `position` (a scalar), and increments it.

    `spare`: interleaved lanes may overwrite as many elements after the new position as there are lanes: these are inside the buffers, and
    are written before they are read.
    """

    buffers: tuple[Buffer, ...]
    position: Buffer
    values: tuple[NestExpr, ...]
    predicate: NestExpr
    spare: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Ordered:
    """Runs `body` in the order of the iterations of the parallel loop around it: each iteration waits until the one before it has left.

    Such a loop distributes its iterations one by one, in order, so that it terminates on any number of threads. An iteration that does not
    execute the section passes its turn on at its end.
    """

    body: Block


@dataclass(frozen=True, eq=False, slots=True)
class Carry:
    """Passes values between blocks of a GPU, in the order of the iterations of the loop over blocks around it (decoupled look-back, Merrill
    & Garland 2016).

    `taken` binds buffers[k][index], and buffers[k][index + 1] = `combine` over `left` (the taken values) and `right` (`values`), all k at
    once. Iterations have places 0, 1, … in order, and element 0 exists before the loop. `totals`, as long as `buffers`, and `state`, all
    zeros before the loop, are memory of the look-back (`kernels/look_back.py`), and not read otherwise. There are no `totals` where
    `carry.in_one_word`. `counts`: the values are numbers of elements.

    `inside`: each iteration passes on `stride` numbers of elements, one for each thread, in a loop over threads; this thread passes on
    number `inside`. Those of place p are the elements from p · stride on, and are not read after the loop.
    """

    taken: tuple[Var, ...]
    buffers: tuple[Buffer, ...]
    index: NestExpr
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
    """Binds the next of the numbers 0, 1, …, less than `count`, that the first element of `state` hands out in the order of arrival; the
    threads of a block get one number (kernels only). Blocks with smaller numbers have begun.
    """

    var: Var
    state: Buffer
    count: NestExpr


@dataclass(frozen=True, eq=False, slots=True)
class Publish:
    """state[place] = value, which is not 0, for threads of other blocks that await it: they also see all that this thread wrote or had seen
    before (release; kernels only). `alone`: they need to see the value only (relaxed).
    """

    state: Buffer
    index: NestExpr
    value: NestExpr
    alone: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Await:
    """Binds state[place] once it is not 0 (acquire; kernels only). `alone`: writes before its publication need not be seen (relaxed)."""

    var: Var
    state: Buffer
    index: NestExpr
    alone: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Barrier:
    """A barrier of the threads of a block; afterwards all see each other's earlier writes (kernels only)."""


@dataclass(frozen=True, eq=False, slots=True)
class CommitCopies:
    """Ends a group of asynchronous copies, which may be empty."""


@dataclass(frozen=True, eq=False, slots=True)
class AwaitCopies:
    """Waits until the asynchronous copies of all groups but the last `left` have arrived.

    In a kernel a thread awaits its own copies, and others see them after a barrier; in a nest the copies of all threads have arrived.
    """

    left: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class Exchange:
    """Binds the `values` of the thread `distance` places later (earlier, if negative) along thread.x: a register shuffle (kernels only).

    Consecutive threads along x form subgroups of `width`, which divides their number. All threads of a subgroup execute it, or none; a
    thread whose partner is outside its subgroup gets values of any thread in it. It is no memory fence.
    """

    vars: tuple[Var, ...]
    values: tuple[NestExpr, ...]
    distance: int
    width: int


@dataclass(frozen=True, eq=False, slots=True)
class Broadcast:
    """Binds the `values` of thread number `source` of each subgroup of `width`, as `Exchange` does; `source` is uniform in a subgroup
    (kernels only).
    """

    vars: tuple[Var, ...]
    values: tuple[NestExpr, ...]
    source: NestExpr
    width: int


@dataclass(frozen=True, eq=False, slots=True)
class FirstThread:
    """Binds the number, in its subgroup of `width`, of the first thread for which `condition` holds, or `width`. All threads of the
    subgroup execute it, or none (kernels only).
    """

    var: Var
    condition: NestExpr
    width: int


@dataclass(frozen=True, eq=False, slots=True)
class Certificate:
    """A promise that no two iterations of a parallel loop write one element of these buffers, although their indices do not show it.

    `by` names the source of the promise: a strategy, or `unique_indices`, which the program states.
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
    """Runs `then` if `condition` holds, else `orelse`."""

    condition: NestExpr
    then: Block
    orelse: Block | None = None


@dataclass(frozen=True, eq=False, slots=True)
class While:
    """Runs `body` as long as `condition` holds; `setup` runs before each test and its variables are visible in `condition` and `body`.

    `site`: on a GPU, the number of the source line of a loop that may not terminate, and is stopped after some iterations; else -1. `each`:
    booleans, one for each row of the arrays that a host loop runs over, whose disjunction `condition` is. `stage`: the array loop that this
    is.
    """

    setup: Block
    condition: NestExpr
    body: Block
    site: int = -1
    each: Buffer | None = None
    stage: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class Check:
    """If `holds` is false (and `predicate`, or None, true): records fault `kind` of site number `site` with `values`, the first time;
    execution continues.
    """

    holds: NestExpr
    kind: str
    site: int
    values: tuple[NestExpr, ...]
    predicate: NestExpr | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Prefetch:
    """A hint that an element of a buffer will be read soon. The indices may be out of bounds."""

    buffer: Buffer
    indices: tuple[NestExpr, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Produce:
    """The statements that compute a stage; for printing, and the unit in which root stages become kernels. `site`: on a GPU, the number of
    its source line.
    """

    stage: str
    body: Block
    site: int = -1


@dataclass(frozen=True, eq=False, slots=True)
class Swap:
    """Exchanges the memory of two buffers of equal type (host level only). Their sizes may differ: a `View` gives memory its shape.

    `needed`: whether the left buffer's old contents are read afterwards, or only its memory is reused.
    """

    left: Buffer
    right: Buffer
    needed: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """Binds `buffer` to the memory of `source`, in a shape of sizes that are known here (host level only).

    It has at most as many rows, of the same layout, or the same elements with neighbouring dimensions merged; of an output, with dimensions
    split too. A view of the caller's memory may have the sizes, as numbers, that a test around it fixes.
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

    `counts`: data-dependent sizes, each with a parameter of rank 0 that returns its value. `shapes`: the part of each output that is in
    use, where data-dependent sizes determine it (else empty). Outputs of unbounded size have scope "result". `copies`: arrays that the host
    copies in loops because they could not be changed in place.
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
