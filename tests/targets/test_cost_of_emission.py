"""What emission looks up is looked up once: calls of Python functions hold it to that."""

from counted_calls import calls_of

import raido as rd
from raido.targets.compile import Compilation


@rd.algorithm
def product(a: rd.f32["n", "k"], b: rd.f32["k", "m"]):
    return a @ b


def test_a_product_is_emitted_in_few_calls():
    works = [Compilation(product.trace(), rd.Target("llvm", cpu="x86-64-v4"), None, {}) for _ in range(2)]
    assert all(work.gang for work in works)
    assert works[0].functions  # what modules and tables are made of is there from here on
    assert calls_of(lambda: works[1].functions) < 85_000
