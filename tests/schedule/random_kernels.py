"""Kernels of random schedules for GPUs, compared with their nests: blocks and threads in random order, races checked, limits small.

`python tests/schedule/random_kernels.py --programs 1000` is the long run; it prints the seed of every counter-example.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parent.parent))
from programs import PROGRAMS
from random_schedules import random_arguments, random_state

from raido.algo.errors import RaidoError
from raido.schedule.kernels.limits import Limits
from raido.schedule.kernels.outlining import outline_kernels
from raido.schedule.lower import lower
from raido.schedule.machine import Gpu, Machine
from raido.schedule.nest.nodes import Nest
from raido.schedule.oracles.interpret import interpret_nest, sizes_of
from raido.schedule.oracles.interpret_kernels import interpret_program
from raido.schedule.replay import variant_of
from raido.schedule.stages.form_stages import form_stages

GPU = Gpu(threads=16, along=(16, 8, 4), subgroup=4, exchange=4)


def outcome(run: Any) -> Any:
    """Results, or the kind of fault."""
    try:
        return [np.asarray(each) for each in run()]
    except RaidoError as error:
        return type(error)


def random_limits(chance: random.Random) -> Limits:
    """Limits so small that grids have several parts, and memory has to be elsewhere."""
    private, shared = chance.choice((16, 1024)), chance.choice((64, 4096))
    blocks, resident = chance.choice(((2, 2, 2), (3, 1, 65_535), (65_535,) * 3)), chance.choice((32, 1 << 14))
    return Limits(
        threads=4, most_threads=16, private=private, shared=shared, blocks=blocks, resident=resident, exchange=4
    )


def check_kernels(nest: Nest, arrays: Any, sizes: Any, limits: Limits, seed: int) -> None:
    """The kernels of a nest give what it gives, bit for bit."""
    want = outcome(lambda: interpret_nest(nest, arrays, sizes))
    program, known = outline_kernels(nest, limits), sizes_of(nest, arrays, sizes)
    got = outcome(lambda: interpret_program(program, arrays, known, nest.shapes, seed))
    if isinstance(want, type) or isinstance(got, type):
        assert got is want, (got, want)
        return
    for result, wanted in zip(got, want, strict=True):
        np.testing.assert_array_equal(result, wanted)


def check_random_kernels(name: str, seed: int) -> None:
    """One program under one random schedule for a GPU, on one random size."""
    chance = random.Random(f"{name} {seed}")
    program = PROGRAMS[name]()
    state, _ = random_state(form_stages(program), chance, GPU)
    nest = lower(state.graph, (variant_of(state),), Machine(gpu=GPU))
    check_kernels(nest, *random_arguments(program, chance), random_limits(chance), seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    names, begun, failed = list(PROGRAMS), time.monotonic(), 0
    for number in range(given.first, given.first + given.programs):
        name, seed = names[number % len(names)], number // len(names)
        try:
            check_random_kernels(name, seed)
        except Exception as error:
            failed += 1
            print(f"check_random_kernels({name!r}, {seed}): {type(error).__name__}: {str(error)[:300]}", flush=True)
    minutes = (time.monotonic() - begun) / 60
    print(f"{given.programs} programs, {failed} counter-examples, {given.programs / minutes:.0f} a minute")


if __name__ == "__main__":
    main()
