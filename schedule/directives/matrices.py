"""`tensorize`: matrix products by the matrix instructions of a GPU."""

from __future__ import annotations

from dataclasses import replace

from raido.schedule.checks.matrix_units import WARPGROUP
from raido.schedule.directives.kinds import kindless
from raido.schedule.directives.recorder import Name, Number, Recorder, Self, rule
from raido.schedule.refusal import Refusal
from raido.schedule.state import State, put, with_loop


class MatrixDirectives(Recorder):
    """Directives for matrix units."""

    __slots__ = ()

    def tensorize(self: Self, axis: Name, threads: Number = 0) -> Self:
        """Runs a loop over products, and the unrolled loops inside, by matrix instructions: the 32 threads of a subgroup add the products
        of a tile of 16 × 16 elements and one of 16 × 8 to 16 × 8 sums.

        axis: the inner half of a split of a reduction's axis by a multiple of 16. The stage sums products of f16 or of bf16 in f32, as
        `rd.matmul(a, b, dtype=rd.f32)` does, or of f32 that the program has rounded to tf32 (`rd.round_to_tf32`). A subgroup has 8 threads
        along the rows of the result ("thread.y") and 4 along its columns ("thread.x"), each with two neighbours; "thread.z" is free for
        more subgroups. Inside of `axis` stand unrolled loops over the rows of a thread, an even number in steps of 8, and over its columns,
        pairs in steps of 8. Products are exact; an instruction adds 16 of them to a sum at once, so last bits may differ from those of sums
        one by one (docs/gpu.md has the bound). A remainder of the reduction axis is padded with zeros; results smaller than a tile are
        summed one by one.

        threads: 128 makes a warpgroup, four subgroups ("thread.z") of 16 rows each, multiply tiles of 64 × 16 and 16 × N elements together
        (`wgmma`), of factors in shared memory: copies in blocks of 8 lines of 16 bytes, `split("r", 8).store(layout=("ro", "y", "ri"))`,
        which are scheduled first. Inside of `axis` stand two rows of a thread then, and pairs of at most 256 columns; a remainder of less
        than 16 steps is summed one by one. No default schedule uses it.

        before   for ri in ro..ro + 32: sum[y, x] += f32(a[y, ri]) * f32(b[ri, x])
        after    for ri in ro..ro + 32 by matrix: sum[y, x] += f32(a[y, ri]) * f32(b[ri, x])

        >>> s = product.schedule(target="cuda:sm_80")
        >>> c = s["c"].split("i", 16).split("ii", 8, names=("row", "g")).split("j", 8).split("ji", 2, names=("t", "column"))
        >>> c = c.split("r", 32).reorder("io", "jo", "ro", "g", "t", "ri", "row", "column")
        >>> c = c.bind("io", "block.y").bind("jo", "block.x").bind("g", "thread.y").bind("t", "thread.x")
        >>> c = c.unroll("row").unroll("column").tensorize("ri")
        >>> [(loop.name, loop.kind) for loop in c.plan.loops][-3:]
        [('ri', 'matrix'), ('row', 'unroll'), ('column', 'unroll')]

        Refuses targets without such an instruction (CUDA has it from sm_80 on, of 128 threads on sm_90a alone), other sums, and loops in
        which threads do not have the sums that the instruction gives them. It must come after the directives for the other loops.
        """
        return self._record("tensorize", axis=axis, threads=threads)


@rule('tensorize axis "{axis}" of stage "{stage}"')
def apply_tensorize(state: State, stage: str, axis: str, threads: int = 0) -> State:
    loop = kindless(state, stage, axis)
    if threads not in (0, WARPGROUP):
        raise Refusal(
            f"no instruction multiplies matrices with {threads} threads",
            f"threads={WARPGROUP} for a warpgroup, or leave `threads` out for a subgroup",
        )
    return put(state, with_loop(state.plan(stage), replace(loop, kind="matrix", subgroup=threads)), "loops")
