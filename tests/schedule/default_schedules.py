"""Machines for the tests of default schedules, and the default schedules for them."""

from __future__ import annotations

import raido as rd
from raido.schedule.machine import Machine
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages

AVX2 = Machine(vector_bits=256, registers=16, l2=1 << 20, l3=32 << 20)
AVX512 = Machine(vector_bits=512, registers=32, l2=2 << 20, l3=32 << 20)


def default_of(function, machine: Machine = AVX512, **sizes: int) -> str:
    """The default schedule of a function's program, without its first line."""
    return str(Schedule(form_stages(rd.algorithm(function).trace())).complete(machine, sizes)).partition("\n")[2]


def filtered(a: rd.f32["c", "h", "w"], k: rd.f32["o", "c", 3, 3]):
    height, width = a.shape[1] - 2, a.shape[2] - 2

    def point(o, y, x):
        return rd.sum(rd.tabulate((a.shape[0], 3, 3), lambda c, dy, dx: a[c, y + dy, x + dx] * k[o, c, dy, dx]))

    return rd.tabulate((k.shape[0], height, width), point).named("out")
