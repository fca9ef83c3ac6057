"""The cost of emission, as a count of calls of Python functions: each look-up is made once."""

from counted_calls import calls_of

import raido as rd
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Op, SizeVar, fresh
from raido.schedule.gang import vectorise
from raido.schedule.gang.registers import Registers
from raido.schedule.nest.alike import KeyRows
from raido.schedule.nest.nodes import Fold, For
from raido.schedule.nest.values import lanes_of
from raido.schedule.nest.walk import statements_within
from raido.targets.compile import Compilation
from raido.targets.emit import alike, values


@rd.algorithm
def product(a: rd.f32["n", "k"], b: rd.f32["k", "m"]):
    return a @ b


def test_a_product_is_emitted_in_few_calls():
    works = [Compilation(product.trace(), rd.Target("llvm", cpu="x86-64-v4"), None, {}) for _ in range(2)]
    assert all(work.gang for work in works)
    assert works[0].functions  # what modules and tables are made of is there from here on
    assert calls_of(lambda: works[1].functions) < 118_000  # of the branch for few rows about half


@rd.algorithm
def sums(a: rd.f32["n", "m", "k"]):
    total = rd.sum(a, axis=2)
    return rd.sum(rd.exp(total), axis=1), rd.sum(total, axis=0)


def test_folds_are_looked_for_once_however_deep_they_stand(monkeypatch):
    nest, walked = Compilation(sums.trace(), rd.Target("llvm", cpu="x86-64-v4"), None, {}).nest, []
    monkeypatch.setattr(vectorise, "statements_within", lambda s: walked.append(s) or statements_within(s))
    former = vectorise._Former(512, Registers(set(), set()))
    loops = [s for s in statements_within(nest.body) if isinstance(s, For) and s.kind == "vector"]
    assert former.has_vector_folds(nest.body) == any(
        isinstance(s, Fold) for loop in loops for s in statements_within(loop)
    )
    assert all(former.has_vector_folds(s) in (True, False) for s in statements_within(nest.body))
    assert len(walked) == len(set(walked)) <= len(loops)


@rd.algorithm
def alike_and_not(a: rd.f32["n", "m"], b: rd.f32["n", "m"], c: rd.f32["n"]):
    return rd.sum(a, axis=1).named("first"), rd.sum(b, axis=1).named("second"), rd.cumsum(c).named("third")


def test_rows_are_made_of_kernels_that_have_statements_of_the_same_kinds_alone(monkeypatch):
    made = []
    monkeypatch.setattr(alike, "rows_of", lambda body, rows_of=alike.rows_of: made.append(body) or rows_of(body))
    for algorithm, keys in ((product, 0), (alike_and_not, 2)):
        functions = Compilation(algorithm.trace(), rd.Target("llvm", cpu="x86-64-v4"), None, {}).functions
        assert len(made) == keys
    assert "raido_alike_and_not.first" in functions and "raido_alike_and_not.second" not in functions
    assert "raido_alike_and_not.third" in functions


def test_an_index_is_made_once_however_many_statements_have_it(monkeypatch):
    work, made = Compilation(product.trace(), rd.Target("llvm", cpu="x86-64-v4"), None, {}), []
    emit = values.emit_operation
    monkeypatch.setattr(values, "emit_operation", lambda v, e, plain: made.append((v, e)) or emit(v, e, plain))
    assert work.functions
    indices = [(v, e) for v, e in made if e.dtype is i64 and lanes_of(e) == 1]
    assert len(indices) < 1.5 * len(set(indices))  # in each function; but for what a statement has named


def test_rows_of_a_key_number_what_is_shared_once():
    x, n = fresh("x"), SizeVar("n")
    total = Op("add", i64, (x, n))
    rows = KeyRows()
    number = rows.expression(Op("mul", i64, (total, total)))
    assert rows.rows[number] == (Op, "mul", i64, (number - 1, number - 1))
    assert rows.expression(total) == number - 1
    assert len(rows.rows) == 4
