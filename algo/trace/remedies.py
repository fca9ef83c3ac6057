"""Remedies for error messages: the `rd` form of a function of NumPy or of `math`, or `rd` names of similar spelling."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from raido.algo.trace.dtype_reading import find_dtype

# names in NumPy and Python that differ in raido
_OTHER_NAMES = {
    "dist": "hypot",
    "fsum": "sum",
}


_WITHOUT_FUNCTION = {
    "argpartition": "rd.argsort",
    "copyto": "rd.where(mask, values, a)",
    "isqrt": "rd.i64(rd.sqrt(n))",
    "ndim": "a.ndim",
    "partition": "rd.sort",
    "place": "a.at[mask].set(values)",
    "put": "a.at[index].set(values)",
    "putmask": "rd.where(mask, values, a)",
    "shape": "a.shape",
}
_WINDOWS = (
    'rd.stencil(lambda p: p[0] + p[1] + p[2], a, boundary="valid") for a function of the windows, or the windows themselves, '
    "rd.tabulate((a.shape[0] - k + 1, k), lambda i, j: a[i + j])"
)
_OUTSIDE = "rd.linalg.svd, qr, and eigh of symmetric matrices; outside of algorithms, of NumPy arrays, np.linalg.{}"
ROUNDED_SIZE = "n // k rounded down, -(-n // k) rounded up: integers, which serve as sizes"
_CONVOLUTION = (
    "rd.stencil(lambda p: …, a), or over channels rd.tabulate(shape, lambda o, y, x: rd.sum(w[o] * a[:, y : y + 3, x : x + 3])) "
    "of an array that rd.pad has widened"
)
_SEGMENTS = "rd.reduce_by_index(rd.full(count, neutral), rd.{}, neutral, segment_ids, data)"
_POOLING = "a.reshape(h // 2, 2, w // 2, 2).{}(axis=(1, 3))"
_DERIVATIVES = "no derivatives: they are written out, or approximated by (f(x + h) - f(x - h)) / (2 * h)"
_VALUES = "what an algorithm returns, (result, value) say: values are known when it runs"
_ROUNDING = frozenset(("ceil", "floor", "trunc", "fix", "rint", "round", "around", "int"))
_ELSEWHERE = {  # names of NumPy, JAX and Halide without a counterpart in raido
    "Func": "rd.algorithm",
    "Tensor": "rd.Array",
    "cat": "rd.concatenate",
    "clamp": "rd.clip",
    "compile": "f.compile() of an algorithm f",
    "cumulative_max": "rd.scan(rd.maximum, -np.inf, a)",
    **dict.fromkeys(("field", "struct", "Record"), "rd.record"),
    "float": "rd.f64",
    **dict.fromkeys(("groupby", "group_by"), "rd.reduce_by_key"),
    **dict.fromkeys(("if_else", "ifelse"), "rd.cond, rd.where"),
    "index_add": "a.at[i].add(v)",
    "int": "rd.i64",
    "len": "a.shape[0]",
    "masked_fill": "rd.where(mask, v, a)",
    **dict.fromkeys(("max_pool", "max_pool2d", "maxpool"), _POOLING.format("max")),
    **dict.fromkeys(("avg_pool", "avg_pool2d", "mean_pool"), _POOLING.format("mean")),
    **dict.fromkeys(
        ("grad", "jacobian", "hessian", "value_and_grad", "jacfwd", "jacrev", "vjp", "jvp", "backward"), _DERIVATIVES
    ),
    "polyfit": "rd.linalg.lstsq(rd.vander(x, degree + 1), y)[0]",
    "prefix_sum": "rd.cumsum",
    **dict.fromkeys(("debug", "debugging", "printf", "breakpoint"), _VALUES),
    "print": _VALUES,
    "range": "rd.iota",
    "save": "exe.export(path) for a program, np.save outside for arrays",
    "set_num_threads": 'rd.Target("llvm", threads=n), or RAIDO_NUM_THREADS in the environment',
    "static": "keyword-only parameters, def f(x, *, k=2)",
    "tensor": "rd.array",
    "topk": "rd.sort(x, descending=True)[:k]",
    "vectorize": 'rd.elementwise, or a schedule\'s s["stage"].vectorize("x")',
    "while": "rd.while_loop",
    "PRNGKey": "rd.random.key",
    "RDom": "rd.reduce",
    "as_strided": _WINDOWS,
    "associative_scan": "rd.scan",
    "bernoulli": "rd.random.uniform(key, shape) < p",
    "categorical": "rd.random.choice(key, n, shape, p=p)",
    "cond": "s[0] / s[-1] of s = rd.linalg.svdvals(a)",
    "cummax": "rd.scan(rd.maximum, -np.inf, a)",
    "cummin": "rd.scan(rd.minimum, np.inf, a)",
    "default_rng": "rd.random.key",
    **{name: _OUTSIDE.format(name) for name in ("eig", "eigvals")},
    **{
        name: f"rd.linalg.{name}"
        for name in ("eigh", "eigvalsh", "lstsq", "matrix_rank", "pinv", "qr", "svd", "svdvals")
    },
    "argtopk": "rd.argsort(x, descending=True)[:k]",
    **dict.fromkeys(("conv", "conv2d", "conv_general_dilated"), _CONVOLUTION),
    "conv1d": "rd.convolve",
    "convolve2d": _CONVOLUTION,
    "expit": "1 / (1 + rd.exp(-x))",
    **dict.fromkeys(("function", "func", "kernel", "njit"), "rd.algorithm"),
    "gelu": "x * rd.erfc(-x / math.sqrt(2)) / 2",
    "leaky_relu": "rd.where(x > 0, x, slope * x)",
    "log_softmax": "x - rd.logsumexp(x, axis=-1, keepdims=True)",
    "logit": "rd.log(x / (1 - x))",
    "ndtr": "rd.erfc(-x / math.sqrt(2)) / 2",
    **dict.fromkeys(("parallel", "prange"), 's["stage"].parallel("y") of a schedule, s = f.schedule()'),
    **{name: _SEGMENTS.format(op) for name, op in (("segment_max", "maximum"), ("segment_min", "minimum"))},
    "segment_prod": _SEGMENTS.format("multiply"),
    "scatter_add": "a.at[i].add(v)",
    "silu": "x / (1 + rd.exp(-x))",
    "softplus": "rd.logaddexp(x, 0)",
    "exponential": "-rd.log1p(-rd.random.uniform(key, shape))",
    "jit": "rd.algorithm",
    "lax": "rd.loop, rd.scan, rd.cond",
    "lu": "rd.linalg.solve, rd.linalg.det",
    "ndarray": "rd.Array",
    "newaxis": "None, as in a[:, None]",
    "nn": "rd.softmax, rd.logsumexp, rd.one_hot, rd.maximum(x, 0)",
    "rand": "rd.random.uniform",
    "randint": "rd.random.integers",
    "randn": "rd.random.normal",
    "relu": "rd.maximum(x, 0)",
    "rolling": _WINDOWS,
    "shuffle": "rd.random.permutation",
    "special": "rd.erf, rd.erfc, rd.i0, rd.sinc, rd.softmax, rd.logsumexp",
    "seed": "rd.random.key",
    "sigmoid": "1 / (1 + rd.exp(-x))",
    "sliding_window_view": _WINDOWS,
    "standard_normal": "rd.random.normal",
    "switch": "rd.select(conditions, values), which evaluates all, or rd.cond in rd.cond",
    "top_k": "rd.sort(x, descending=True)[:k]",
    "tensorinv": "rd.linalg.inv of a matrix, a.reshape(n, n)",
    "tensorsolve": "rd.linalg.solve of a matrix, a.reshape(n, n)",
    "vmap": "rd.map",
    "windows": _WINDOWS,
}
_OF_METHOD = {  # of a universal function
    "reduce": "rd.reduce({op}, neutral, a)",
    "accumulate": "rd.scan({op}, neutral, a)",
    "at": "rd.reduce_by_index(a, {op}, neutral, index, values)",
    "outer": "{op}(a[:, None], b[None, :])",
    "reduceat": "rd.segmented_reduce({op}, neutral, a, offsets)",
}
_CHANGES = {"add": "add", "multiply": "multiply", "minimum": "min", "maximum": "max"}  # of a.at[index]
_OTHER_MEANING = frozenset(("choose", "partition", "load", "record", "filter"))


def rd_form(dotted: str) -> str | None:
    """Returns the `rd` function of that name and of NumPy's meaning, or raido's other name for it; None where there is none."""
    if dotted in _OTHER_MEANING or dotted in _WITHOUT_FUNCTION:
        return _WITHOUT_FUNCTION.get(dotted)
    for name in (dotted, _OTHER_NAMES.get(dotted, dotted)):
        if rd_function(name) is not None:
            return f"rd.{name}"
    return None


def rd_function(dotted: str) -> Any:
    """Returns the `rd` function of that name; None where there is none, or it differs from NumPy's in meaning."""
    found: Any = None if dotted in _OTHER_MEANING else sys.modules.get("raido")  # the layer above, which has all names
    for part in dotted.split("."):
        found = getattr(found, part, None)
    return found


def near_names(name: str, among: Iterable[str] | None = None) -> list[str]:
    """Returns at most three names of similar spelling, the best first; by default from raido's public names."""
    import difflib  # imported for errors only

    names = getattr(sys.modules.get("raido"), "__all__", []) if among is None else list(among)
    return difflib.get_close_matches(name, names, n=3, cutoff=0.7)


def meant_by(name: str) -> str | None:
    """Returns raido's form of a name from another language, or of NumPy's name of a number or dtype; None where it is unknown."""
    if name in _ELSEWHERE or name in _WITHOUT_FUNCTION:
        return _ELSEWHERE.get(name) or _WITHOUT_FUNCTION[name]
    for home in ("fft", "linalg", "random"):
        if name in getattr(rd_function(home), "__all__", ()):
            return f"rd.{home}.{name}"
    if isinstance(getattr(np, name, None), float):
        return f"np.{name}"
    kind = getattr(np, name, None)
    dtype = find_dtype(kind) if isinstance(kind, type) and kind.__name__ == name else None
    return None if dtype is None else f"rd.{dtype}"


def rd_remedy(dotted: str) -> str | None:
    """Returns the replacement of a NumPy function: its `rd` form, else names of similar spelling, else None."""
    form = rd_form(dotted) or _ELSEWHERE.get(dotted.split(".")[-1])
    if form is not None or dotted in _OTHER_MEANING:
        return form
    home, _, name = dotted.rpartition(".")
    prefix = f"{home}." if home in ("fft", "linalg", "random") else ""
    among = getattr(rd_function(home), "__all__", []) if prefix else None
    near = (f"{prefix}{word}" for word in near_names(name, among))
    return ", ".join(f"rd.{word}" for word in near if word not in _OTHER_MEANING) or None


def size_remedy(name: str) -> str | None:
    """Returns the replacement of a function applied to sizes; None where it is the same as for other values."""
    if name in _ROUNDING:
        return ROUNDED_SIZE
    return "a.size, or math.prod(a.shape)" if name == "prod" else None


def method_remedies(operator: str) -> dict[str, str]:
    """Returns the replacement of each method of a universal function, such as `np.add.accumulate`, for the operator of that name."""
    op = rd_form(operator) or "op"
    remedies = {method: form.format(op=op) for method, form in _OF_METHOD.items()}
    if operator in _CHANGES:
        remedies["at"] = f"a.at[index].{_CHANGES[operator]}(values), or {remedies['at']}"
    return remedies


def numpy_name(function: Any) -> str:
    """Returns the name of a function under `np`, such as "linalg.norm"."""
    home = str(getattr(function, "__module__", "")).removeprefix("numpy").removeprefix(".")
    name = str(function.__name__)
    return name if not home or home.startswith("_") or home in ("core", "lib", "ma") else f"{home}.{name}"


def _is_function(found: re.Match[str]) -> bool:
    """Whether the attribute of a module that a match found is a function."""
    home = sys.modules.get({"np": "numpy"}.get(found.group(1), found.group(1)))
    return callable(getattr(home, found.group(2), None))


def remedy_in(line: str, *modules: str) -> tuple[str, str] | None:
    """Returns the first call in a line of a function of the given modules, and its replacement; None where there is none."""
    found = re.search(rf"\b({'|'.join(modules)})\.([a-z_0-9.]+)\(", line)
    if found is None:  # a function that is passed on: `rd.map(math.sin, a)`
        found = next(
            (m for m in re.finditer(rf"\b({'|'.join(modules)})\.([a-z_0-9.]+)\b", line) if _is_function(m)), None
        )
    if found is None:
        return None
    name = found.group(2)
    dtype = find_dtype(name)
    form = f"rd.{dtype}(x)" if dtype is not None else rd_form(name) or _ELSEWHERE.get(name.split(".")[-1])
    return (f"{found.group(1)}.{name}", form) if form is not None else None
