"""Other ways to call and to compile a random program, none of which changes its result.

Arguments of other sizes than the program was drawn for, arguments that are not contiguous, results written into given arrays,
among them arguments; the program for the sizes of its arguments only, the program without checks, and the library that it is exported
to.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from random_programs import RandomProgram, make_input

from raido.algo.graph.bind_sizes import bind_sizes, evaluate_size
from raido.algo.graph.program import Program
from raido.algo.passes.unchecked import without_checks
from raido.targets.compile import Compilation, executable_of
from raido.targets.executable import Executable
from raido.targets.export import load
from raido.targets.target import Target

SIZES = (1, 4, 20, 40, 63, 64, 65, 100, 257)
MOST_ELEMENTS = 2000


def each_array(value: Any, change: Callable[[np.ndarray], Any]) -> Any:
    """The structure with something done to each of its arrays."""
    if isinstance(value, dict):
        return {name: each_array(part, change) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(each_array(part, change) for part in value)
    return change(np.asarray(value)) if isinstance(value, (np.ndarray, np.generic)) else value


def as_views(arguments: Sequence[Any], random: Random) -> list[Any]:
    """The same numbers in memory that is strided, reversed, in Fortran's order, at odd addresses, or not to be written to."""

    def view(array: np.ndarray) -> np.ndarray:
        if not array.ndim:
            return array
        form = random.randrange(5)
        if form == 0:
            return np.repeat(array, 2, axis=-1)[..., ::2]
        if form == 1:
            return array[::-1].copy()[::-1]
        if form == 2:
            return np.asfortranarray(array)
        if form == 3:
            memory = np.zeros(array.nbytes + 1, np.uint8)
            odd = memory[1:].view(array.dtype).reshape(array.shape)
            odd[...] = array
            return odd
        still = array.copy()
        still.flags.writeable = False
        return still

    return [each_array(argument, view) for argument in arguments]


def call_into(executable: Executable, program: RandomProgram, like: Any) -> Any:
    """The result of a call that is given memory for it: an argument's, where one has the shape and the type.

    like: a result of the program, or its fault. Arrays whose size data decide are left to the call.
    """
    arguments = [each_array(argument, np.array) for argument in program.arguments]
    free = [argument for argument in arguments if isinstance(argument, np.ndarray)]

    def memory(array: np.ndarray) -> np.ndarray:
        for k, argument in enumerate(free):
            if argument.shape == array.shape and argument.dtype == array.dtype:
                return free.pop(k)
        return np.full_like(array, 1)

    if executable.signature.existentials or isinstance(like, type):
        return executable(*arguments)
    return executable(*arguments, out=each_array(like, memory))


def resized(program: RandomProgram, random: Random) -> list[Any]:
    """Arguments of other sizes, most of them larger; those of programs with much in them stay below `MOST_ELEMENTS` each."""
    traced = program.algorithm.trace(*program.arguments)
    sizes = {size.name: random.choice(SIZES) for size in traced.sizes}
    while any(prod(evaluate_size(e, sizes) for e in p.shape) > MOST_ELEMENTS for p in traced.parameters):
        sizes[max(sizes, key=sizes.__getitem__)] //= 2
    return of_sizes(program, traced, sizes, random)


def of_sizes(program: RandomProgram, traced: Program, sizes: dict[str, int], random: Random) -> list[Any]:
    """Arguments of a program for these sizes."""
    parameters = iter(traced.parameters)

    def again(array: np.ndarray) -> np.ndarray:
        parameter = next(parameters)
        shape = [evaluate_size(extent, sizes) for extent in parameter.shape]
        dtype = "bool_" if parameter.dtype.numpy.kind == "b" else str(parameter.dtype)
        made = make_input(dtype, shape, random.randrange(1 << 30))
        return made.view(array.dtype)[..., 0] if array.dtype.kind == "c" else made

    names = (declaration.name for declaration in program.algorithm.signature.positional)
    return [
        sizes[name] if isinstance(argument, int) else each_array(argument, again)
        for name, argument in zip(names, program.arguments, strict=True)
    ]


def specialised(program: RandomProgram, target: Target) -> Executable:
    """The program for the sizes of its arguments, under its default schedule."""
    traced = program.algorithm.trace(*program.arguments)
    arrays, given = program.algorithm.flatten(program.arguments)
    return executable_of(Compilation(traced, target, None, bind_sizes(traced, [a.shape for a in arrays], given)))


def unchecked(program: RandomProgram, target: Target) -> Executable:
    """The program without checks, under its default schedule."""
    return executable_of(Compilation(without_checks(program.algorithm.trace(*program.arguments)), target, None, {}))


def exported(program: RandomProgram, target: Target) -> Executable:
    """The program from a library of its own, under its default schedule."""
    executable = executable_of(Compilation(program.algorithm.trace(*program.arguments), target, None, {}))
    with tempfile.TemporaryDirectory() as folder:
        return load(executable.export(Path(folder) / "libprogram.so"))
