"""Random programs under random schedules on CUDA, over the driver without a GPU, give the interpreter's results."""

from __future__ import annotations

from cuda_law import check
from fake_driver import load_driver
from twin_compiler import twin_compiler

from raido.targets.cuda.opened import open_device

PROGRAMS = 24


def test_programs_on_cuda_give_what_the_interpreter_gives() -> None:
    with twin_compiler(load_driver()) as compiler:
        broken = [answer for answer in check(range(PROGRAMS), compiler) if answer is not None]
    open_device().close()
    assert not broken, broken[0]
