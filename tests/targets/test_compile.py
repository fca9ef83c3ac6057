"""`compile_program` from graph to running code: the interpreter's results, the cache, sources, sizes, faults, targets."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent.parent / "schedule"))

import programs
from emission import every_cpu

import raido as rd
from raido.algo.errors import IndexOutOfRange, ShapeError, SizeMismatch, TargetError
from raido.algo.graph.bind_sizes import evaluate_size
from raido.algo.graph.dtypes import i64
from raido.algo.interpreter.interpret import interpret
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.targets import targets
from raido.targets.cache import Cache
from raido.targets.compile import Compilation, compile_program
from raido.targets.target import CPUS, Target, host_cpu, host_features

EXACT = [
    *(
        "blur",
        "harris",
        "gauss",
        "stencil3d",
        "two_consumers",
        "argmin",
        "mandelbrot",
        "scalar_loop",
        "checked_gather",
        "jacobi",
    ),
    *("matmul", "column_sums"),
]
REDUCTIONS = ["row_sums", "two_reductions"]


def sample(name):
    program = getattr(programs, name)()
    outputs = list(range(len(program.results)))
    tree = {"tuple": outputs} if len(outputs) > 1 else 0
    return replace(program, input_tree={"tuple": list(range(len(program.parameters)))}, output_tree=tree)


def arguments(program, base, seed=0):
    random = np.random.default_rng(seed)
    sizes = {size.name: base + k for k, size in enumerate(program.sizes)}
    made = []
    for p in program.parameters:
        shape = tuple(evaluate_size(size, sizes) for size in p.shape)
        values = random.standard_normal(shape) if p.dtype.is_float else random.integers(0, max(base, 1), shape)
        made.append(values.astype(p.dtype.numpy))
    return made


def flat(result):
    return [np.asarray(r) for r in (result if isinstance(result, (tuple, list)) else (result,))]


@pytest.mark.parametrize("name", EXACT)
@every_cpu
def test_compiled_programs_give_the_interpreters_bits(name, cpu):
    program = sample(name)
    executable = compile_program(program, Target("llvm", cpu), use_cache=False)
    for base in (1, 2, 7, 33):
        given = arguments(program, base)
        for got, right in zip(flat(executable(*given)), flat(interpret(program, given)), strict=True):
            np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_float_reductions_are_close_and_the_same_on_any_number_of_threads(name):
    program = sample(name)
    executable = compile_program(program, use_cache=False)
    given = arguments(program, 300)
    first = flat(executable(*given))
    for got, right in zip(first, flat(interpret(program, given)), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-3)
    for threads in (1, 2, 3):
        for got, right in zip(flat(executable.with_threads(threads)(*given)), first, strict=True):
            assert got.tobytes() == right.tobytes()


def test_a_checked_index_raises_in_compiled_code_too():
    program = sample("checked_gather")
    given = arguments(program, 5)
    place = next(k for k, p in enumerate(program.parameters) if p.dtype is i64 or p.dtype.is_integer)
    given[place].flat[3] = 77
    with pytest.raises(IndexOutOfRange, match="77"):
        compile_program(program, use_cache=False)(*given)


def test_known_sizes_are_compiled_in_and_others_refused():
    program = sample("blur")
    executable = compile_program(
        program, sizes={size.name: 40 + k for k, size in enumerate(program.sizes)}, use_cache=False
    )
    given = arguments(program, 40)
    np.testing.assert_array_equal(executable(*given), flat(interpret(program, given))[0])
    with pytest.raises(SizeMismatch):
        executable(*arguments(program, 41))
    with pytest.raises(ShapeError, match="no size"):
        compile_program(program, sizes={"nonsense": 3})


def test_a_schedule_for_the_general_program_serves_known_sizes():
    program = sample("blur")
    schedule = Schedule(form_stages(program))
    stage = schedule.stages[-1]
    schedule[stage].tile(y=8, x=32).parallel("yo")
    executable = compile_program(program, schedule=schedule, sizes={"h": 21}, use_cache=False)
    given = arguments(program, 21)
    np.testing.assert_array_equal(executable(*given), flat(interpret(program, given))[0])
    assert 'split("y", 8' in executable.source("schedule") or "tile(" in executable.source("schedule")


def test_every_step_of_the_way_can_be_read():
    executable = compile_program(sample("blur"), use_cache=False)
    assert "parallel" in executable.source("nest")
    assert "by vector" not in executable.source("gang")
    assert "def " in executable.source("tir")
    assert "define" in executable.source("llvm")
    assert "ret" in executable.source("asm")
    with pytest.raises(TargetError, match="cuda"):
        executable.source("cuda")


SECOND_RUN = """
import sys
sys.path[:0] = [{tests!r}, {tests!r} + "/.."]
import numpy as np
from test_compile import sample, arguments
from raido.targets.cache import Cache
from raido.targets.compile import compile_program
for name in [m for m in sys.modules if m.split(".")[0] in ("tvm", "tvm_ffi")]:
    del sys.modules[name]
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tvm", "tvm_ffi"):
            raise AssertionError("imported " + name)
sys.meta_path.insert(0, Refuse())
program = sample("blur")
result = compile_program(program, cache=Cache({folder!r}))(*arguments(program, 20))
np.save({out!r}, result)
"""


def test_what_was_compiled_before_comes_from_the_cache_without_stages_and_without_tvm(tmp_path, monkeypatch):
    program = sample("blur")
    cache = Cache(tmp_path / "cache")
    first = compile_program(program, cache=cache)
    assert len(cache.entries()) == 1
    with monkeypatch.context() as patch:
        patch.setattr(Compilation, "schedule", property(lambda work: pytest.fail("it makes a schedule")))
        compile_program(sample("blur"), cache=cache)
    assert len(cache.entries()) == 1
    out = str(tmp_path / "out.npy")
    code = SECOND_RUN.format(tests=str(Path(__file__).parent), folder=str(tmp_path / "cache"), out=out)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(out), first(*arguments(program, 20)))


def test_the_key_tells_targets_schedules_and_sizes_apart():
    program = sample("blur")
    keys = [
        Compilation(program, Target("llvm", cpu), None, sizes).key
        for cpu in ("haswell", "znver4")
        for sizes in ({}, {"h": 10}, {"h": 11})
    ]
    assert len(set(keys)) == len(keys)
    assert Compilation(sample("blur"), Target("llvm", "haswell"), None, {}).key == keys[0]
    schedule = Schedule(form_stages(program))
    assert Compilation(program, Target("llvm", "haswell"), schedule, {}).key == keys[0]
    schedule[schedule.stages[-1]].parallel("y")
    branch = schedule.when("h > 9")
    named = replace(program, named_axes=frozenset(axis.var for form in program.order for axis in form.axes))
    others = [(program, schedule), (program, branch), (named, None)]
    keys += [Compilation(each, Target("llvm", "haswell"), said, {}).key for each, said in others]
    assert len(set(keys)) == len(keys)


# --- targets


def test_the_host_is_known_and_runs_its_own_code():
    host = Target()
    assert host.runs_here
    assert host.cpu == host_cpu().name
    assert host.machine.cores >= 1
    assert host == Target.parse("llvm") == Target.parse(None) == Target.parse(host)
    assert targets()[0].available


def test_named_processors_have_the_vectors_that_llvm_says():
    from raido.targets.tvm_corner import llvm_cpus, llvm_features

    for name, cpu in CPUS.items():
        assert name in llvm_cpus()
        features = llvm_features(name)
        assert ("avx512f" in features) == (cpu.machine.vector_bits == 512), name
        assert ("fma" in features) == ("fma" in cpu.features), name


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Target("llvm", "haswel"), "haswell"),
        (lambda: Target("cuda", arch="sm_61"), 'unknown architecture "sm_61"; there is: sm_75, sm_80'),
        (
            lambda: Target("cuda", arch="sm_80a"),
            'unknown architecture "sm_80a"; there is: sm_75, .*, sm_120, sm_90a, and compute_75',
        ),
        (lambda: Target("vulkan", arch="sm_90"), 'arch="sm_90" is of CUDA'),
        (lambda: Target("metal"), 'unknown target "metal"'),
        (lambda: Target("llvm", threads=0), "at least 1"),
        (lambda: Target.parse("llvm:pentium9"), "unknown cpu"),
    ],
)
def test_wrong_targets_are_refused(make, message):
    with pytest.raises(TargetError, match=message):
        make()


def test_code_for_another_machine_is_made_but_not_run(monkeypatch):
    monkeypatch.setenv("RAIDO_HIDE_FEATURES", "avx512f,avx512vl")
    with pytest.raises(TargetError, match=r"it lacks .*avx512f.*; `Compilation` makes the object only"):
        compile_program(sample("blur"), Target("llvm", "znver4"))
    assert Compilation(sample("blur"), Target("llvm", "znver4"), None, {}).object_bytes.startswith(b"\x7fELF")


def test_hidden_instruction_sets_are_none_of_the_hosts(monkeypatch):
    monkeypatch.delenv("RAIDO_HIDE_FEATURES", raising=False)
    assert host_features(("avx512f", "fma")) == host_features(()) - {"avx512f", "fma"}
    narrow = Target("llvm", hidden=("avx", "avx2", "avx512f"))
    assert narrow.machine.vector_bits == 128 and narrow.cpu == "x86-64-v2" and narrow.runs_here
    assert not Target("llvm", "x86-64-v3", hidden=("avx2",)).runs_here
    monkeypatch.setenv("RAIDO_HIDE_FEATURES", "avx, avx2,avx512f")
    assert Target() == narrow and not Target("llvm", "haswell").runs_here
    assert Target("llvm", hidden=()).cpu == host_cpu(()).name, "the keyword has the last word"
    if "avx" in host_features(()):
        assert "RAIDO_HIDE_FEATURES hides avx" in targets()[0].detail


def test_a_misspelt_instruction_set_is_not_hidden_in_silence(monkeypatch):
    monkeypatch.setenv("RAIDO_HIDE_FEATURES", "avx512")
    with pytest.raises(TargetError, match=r'no instruction set is called "avx512".*avx512f'):
        Target()
    assert not targets()[0].available and "avx512f" in targets()[0].detail


def test_a_result_smaller_than_its_input_compiles_for_known_sizes() -> None:
    @rd.algorithm
    def narrow(a: rd.u16["h", "w"]):
        return rd.stencil(lambda p: (p[0, 0] + p[0, 1] + p[0, 2]) // 3, a, boundary="valid", name="out")

    a = np.arange(9 * 40, dtype=np.uint16).reshape(9, 40)
    exe = compile_program(narrow.trace(a), use_cache=False, sizes={"h": 9, "w": 40})
    np.testing.assert_array_equal(exe(a), narrow.interpret(a))


def test_a_float_divided_by_its_own_difference_is_left_to_the_processor() -> None:
    """TIR's analysis takes t - t for 0, and stops at the division by it."""

    @rd.algorithm
    def steep(c: rd.f16["n"]):
        slope = lambda v: rd.trunc(v[0] + v[1]) / ((v[0] + v[1]) - (v[0] + v[1]))
        return rd.stencil(lambda v: rd.minimum(slope(v) * slope(v), 1), c, boundary="mirror", name="out")

    s = steep.schedule()
    s["out"].vectorize("x", 1)
    c = np.array([1, np.inf, 2, -3, 3], np.float16)
    np.testing.assert_array_equal(steep.compile(schedule=s)(c), steep.interpret(c))
