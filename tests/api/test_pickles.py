"""Objects sent to another process arrive there equal: by pickle, by cloudpickle, and by libraries built on them."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

import raido as rd
from raido.schedule.fingerprint import fingerprint

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import pickled_programs as programs  # noqa: E402
from corpus import CASES  # noqa: E402

PICTURE = programs.picture()
EXPECTED = programs.blur.interpret(PICTURE)


def there_and_back(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def scheduled() -> rd.Schedule:
    s = programs.blur.schedule()
    s["cols"].tile(y=4, x=8).parallel("yo").vectorize("xi")
    s["rows"].compute_at("cols", "yo")
    return s


def elsewhere(code: str, value: Any, folder: Path, pickler: Any = pickle) -> str:
    """What a new interpreter prints, run by `code` on the pickled value, which it finds as `it`."""
    (folder / "it.pickle").write_bytes(pickler.dumps(value))
    script = (
        f"import sys, pickle, numpy as np; sys.path.insert(0, {str(HERE)!r})\n"
        f"img = np.arange(77, dtype=np.float32).reshape(7, 11) % 13\n"
        f"it = pickle.load(open('it.pickle', 'rb'))\n{code}"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("algorithm", [programs.blur, programs.Family.sums])
def test_an_algorithm_of_a_module_is_itself_again(algorithm: rd.Algorithm) -> None:
    assert there_and_back(algorithm) is algorithm
    assert there_and_back([algorithm, algorithm.function])[1] is algorithm.function
    assert copy.deepcopy(algorithm) is algorithm and copy.copy(algorithm) is algorithm
    assert cloudpickle.loads(cloudpickle.dumps(algorithm)) is algorithm


def test_an_algorithm_beside_its_function_and_one_with_fixed_parameters() -> None:
    again = there_and_back(programs.twice)
    assert again.function is programs.plain and again.interpret(np.float32([1, 2])).tolist() == [2, 4]
    np.testing.assert_array_equal(there_and_back(programs.wide).interpret(PICTURE), programs.wide.interpret(PICTURE))


def test_a_local_algorithm_is_refused_by_pickle_and_taken_by_cloudpickle(tmp_path: Path) -> None:
    by = 5.0

    @rd.algorithm(a="f32[n]")
    def scaled(a: rd.Array) -> rd.Array:
        return a * by

    with pytest.raises(pickle.PicklingError, match=r"cannot pickle the algorithm scaled(.|\n)*cloudpickle"):
        pickle.dumps(scaled)
    again = cloudpickle.loads(cloudpickle.dumps(scaled))
    assert again is not scaled and again.interpret(np.float32([1, 2])).tolist() == [5, 10]
    anonymous = rd.algorithm(lambda a: a + by)
    with pytest.raises(pickle.PicklingError, match=r"the algorithm of the lambda at .*test_pickles.py:\d+\n"):
        pickle.dumps(anonymous)
    code = "print(it[0].interpret(np.float32([1, 2])).tolist(), it[1](img[0]).tolist()[:2])"
    assert elsewhere(code, [scaled, anonymous], tmp_path, cloudpickle) == "[5.0, 10.0] [5.0, 6.0]"


@pytest.mark.parametrize("case", CASES[::7], ids=lambda case: case.name)
def test_programs_are_the_same_afterwards(case: Any) -> None:
    program = case.algorithm.program_for(case.arguments, {}, call=True)
    again = there_and_back(program)
    assert fingerprint(again) == fingerprint(program) and again is not program
    assert len(again.sites) == len(program.sites) and set(again.sites.values()) == set(program.sites.values())
    assert [again.names[form] for form in again.order if form in again.names] == [
        program.names[form] for form in program.order if form in program.names
    ]


def test_variables_of_a_pickled_program_are_nobody_elses() -> None:
    from raido.algo.graph.expr import Var
    from raido.algo.graph.rewrite import topological

    program = programs.blur.trace()
    again = there_and_back(program)
    mine, others = ({n for n in topological(*p.results) if isinstance(n, Var)} for p in (program, again))
    assert mine and len(mine) == len(others) and not mine & others


def test_deep_graphs_need_no_deep_recursion() -> None:
    @rd.algorithm(a="f64[n]")
    def deep(a: rd.Array) -> rd.Array:
        def chain(x: rd.Array) -> rd.Array:
            for k in range(3000):
                x = x + k if k % 2 else x * 1.5
            return x

        return rd.map(chain, a)

    program = deep.trace()
    assert fingerprint(there_and_back(program)) == fingerprint(program)


def test_schedules_arrive_with_their_steps_and_holes(tmp_path: Path) -> None:
    s = scheduled()
    again = there_and_back(s)
    assert again == s and str(again) == str(s) and again.target == s.target
    assert [directive.site for directive in again.directives] == [directive.site for directive in s.directives]
    open_one = programs.blur.schedule()
    open_one["cols"].tile(y=rd.choose("ty", [4, 8]), x=8)
    open_one.when("w % 8 == 0")["rows"].vectorize("x")
    assert there_and_back(open_one) == open_one and there_and_back(open_one).holes == open_one.holes
    code = "import pickled_programs as p; print((p.run_schedule(it, img) == p.blur.interpret(img)).all(), it.complete().stages)"
    assert elsewhere(code, s, tmp_path) == f"True {s.complete().stages}"


def test_executables_arrive_with_their_code_and_sources(tmp_path: Path) -> None:
    exe = programs.blur.compile(schedule=scheduled()).with_threads(2)
    again = there_and_back(exe)
    np.testing.assert_array_equal(again(PICTURE), EXPECTED)
    assert again.threads == 2 and again.signature == exe.signature and again.source("nest") == exe.source("nest")
    code = "import pickled_programs as p; print((it(img) == p.blur.interpret(img)).all(), 'tvm' in sys.modules, it.source('schedule'))"
    assert elsewhere(code, exe, tmp_path) == f"True False {exe.source('schedule')}"
    exe.export(tmp_path / "libblur.so")
    with pytest.raises(pickle.PicklingError, match=r"cannot pickle the executable blur(.|\n)*rd.load"):
        pickle.dumps(rd.load(tmp_path / "libblur.so"))


def test_an_executable_for_another_processor_is_refused_where_it_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = pickle.dumps(programs.blur.compile())
    monkeypatch.setattr("raido.targets.target.host_features", lambda hidden=None: frozenset())
    with pytest.raises(rd.TargetError, match="compiled for a CPU with"):
        pickle.loads(sent)


def test_timings_and_tunings_arrive_whole(tmp_path: Path) -> None:
    timing = programs.blur.compile().time(PICTURE, repeat=3)
    assert there_and_back(timing) == timing
    tuning = rd.autotune(programs.blur, {"h": 16, "w": 32}, trials=0, db=tmp_path / "tuning.db")
    again = there_and_back(tuning)
    assert again.best == tuning.best and str(again) == str(tuning)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_every_kind_run_what_they_are_sent(method: str) -> None:
    exe = programs.blur.compile(schedule=scheduled())
    np.testing.assert_array_equal(exe(PICTURE), EXPECTED)  # with threads of its own, which a fork has not
    with multiprocessing.get_context(method).Pool(1) as pool:
        for result in pool.map(programs.blur, [PICTURE]) + pool.map(exe, [PICTURE]):
            np.testing.assert_array_equal(result, EXPECTED)
        np.testing.assert_array_equal(pool.apply(programs.run_schedule, (scheduled(), PICTURE)), EXPECTED)


def test_dask_runs_algorithms_in_processes() -> None:
    dask = pytest.importorskip("dask")
    by = 2.0
    local = rd.algorithm(lambda a: a * by)
    work = [dask.delayed(programs.blur)(PICTURE), dask.delayed(local)(PICTURE)]
    first, second = dask.compute(*work, scheduler="processes", num_workers=1)
    np.testing.assert_array_equal(first, EXPECTED)
    np.testing.assert_array_equal(second, 2 * PICTURE)
