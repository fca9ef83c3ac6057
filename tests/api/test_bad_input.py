"""Bad input of every kind: each gives one clear error that says what was wrong, where, and what would be right; good input just works."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.targets.cache import Cache
from raido.targets.compile import compile_program


@rd.algorithm
def add(a: rd.f32["h", "w"], b: rd.f32["h", "w"], *, k=1):
    return a + 2 * b * k


@rd.algorithm
def both(x: rd.f32["n"]):
    return x * 2, rd.sum(x)


@rd.algorithm
def first(x: rd.f32["n"], k: rd.size):
    return x[:k]


@rd.algorithm
def untyped(x):
    return x * 2


A = np.arange(35, dtype="f").reshape(5, 7)
B = A[::-1].copy()
V = np.arange(7, dtype="f")


class Producer:
    """An array of another library: all it offers is DLPack."""

    def __init__(self, array: np.ndarray, device: int = 1, failure: Exception | None = None) -> None:
        self.array, self.device, self.failure = array, device, failure

    def __dlpack__(self, **options: Any) -> Any:
        if self.failure is not None:
            raise self.failure
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


class Unwilling:
    def __array__(self, *arguments: Any, **options: Any) -> Any:
        raise RuntimeError("not now")


def doors() -> dict[str, Callable[..., Any]]:
    return {"executable": add.compile(), "algorithm": add, "interpreter": add.interpret}


TAKEN: dict[str, Any] = {
    "strided": np.repeat(np.repeat(B, 2, 0), 2, 1)[::2, ::2],
    "Fortran order": np.asfortranarray(B),
    "negative strides": B[::-1, ::-1].copy()[::-1, ::-1],
    "big-endian": B.astype(">f4"),
    "read-only": np.frombuffer(B.tobytes(), "f").reshape(5, 7),
    "unaligned": np.frombuffer(b"x" + B.tobytes(), np.uint8)[1:].view("f").reshape(5, 7),
    "a subclass": B.view(np.recarray),
    "another library's": Producer(B),
}


@pytest.mark.parametrize("door", ["executable", "algorithm", "interpreter"])
def test_arrays_of_every_make_are_taken(door: str) -> None:
    call = doors()[door]
    for name, b in TAKEN.items():
        np.testing.assert_array_equal(call(A, b), A + 2 * B, err_msg=name)
    assert np.isnan(call(A * np.nan, B)).all()
    for shape in ((0, 7), (5, 0), (0, 0)):
        assert call(np.zeros(shape, "f"), np.zeros(shape, "f")).shape == shape


# What stands for the second argument, and the words that the error must have.
REFUSED: dict[str, tuple[Any, tuple[str, ...]]] = {
    "f64": (B.astype("f8"), ("f32[h, w]", "64", "astype")),
    "i32": (B.astype("i4"), ("f32[h, w]", "32", "astype")),
    "bool": (B > 0, ("f32[h, w]", "bool", "astype")),
    "complex": (B.astype("c8"), ("f32[h, w]", "complex64")),
    "objects": (B.astype(object), ("f32[h, w]", "object")),
    "strings": (B.astype("U5"), ("f32[h, w]", "U5")),
    "dates": (B.astype("M8[s]"), ("f32[h, w]", "datetime64")),
    "masked": (np.ma.masked_array(B), ("masked", "filled")),
    "too few dimensions": (B[0], ("f32[h, w]",)),
    "too many dimensions": (B[None], ("f32[h, w]",)),
    "no dimensions": (np.array(1, "f"), ("f32[h, w]",)),
    "a NumPy scalar": (np.float32(1), ("f32[h, w]",)),
    "a number": (1.5, ("f32[h, w]",)),
    "a string": ("photo.png", ("str",)),
    "bytes": (b"abc", ("bytes", "np.frombuffer")),
    "None": (None, ("None",)),
    "a ragged list": ([[1, 2], [3]], ("list",)),
    "a list of strings": ([["a"]], ("list",)),
    "a dict": ({"b": B}, ("dict",)),
    "a function": (len, ("function",)),
    "a class": (np.float32, ("type",)),
    "a type": (rd.f32["h", "w"], ("ArrayType",)),
    "a generator": ((x for x in [1]), ("generator",)),
    "on a GPU": (Producer(B, device=10), ("rocm:0", "copy it to the CPU")),
    "on an unknown device": (Producer(B, device=99), ("device type 99",)),
    "a producer that refuses": (Producer(B, failure=BufferError("requires grad")), ("requires grad",)),
    "a producer that breaks": (Producer(B, failure=KeyError("lost")), ("lost",)),
    "an object that refuses": (Unwilling(), ("not now",)),
}


@pytest.mark.parametrize("door", ["executable", "algorithm", "interpreter"])
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_such_array_is_refused(case: str, door: str) -> None:
    argument, words = REFUSED[case]
    with pytest.raises(rd.ArgumentError, match=r"argument .b. ") as caught:
        doors()[door](A, argument)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("door", ["executable", "algorithm", "interpreter"])
def test_sizes_and_counts_that_do_not_fit_are_refused(door: str) -> None:
    call = doors()[door]
    with pytest.raises(rd.SizeMismatch, match=r'"b".*6[\s\S]*w = 7'):
        call(A, B[:, :6])
    for arguments in ((), (A,), (A, B, B)):
        with pytest.raises(rd.ArgumentError, match="add takes 2 arguments"):
            call(*arguments)


def test_arrays_beyond_memory_are_one_error() -> None:
    huge = np.broadcast_to(np.float32(1), (1 << 24, 1 << 24))
    with pytest.raises(MemoryError, match=r'add: argument "a".*not contiguous.*PB|TB'):
        add(huge, huge)
    table = rd.algorithm(lambda n: rd.tabulate((n, n), lambda i, j: i + j), n="size")
    with pytest.raises(MemoryError, match=r"cannot allocate .* bytes for an array of shape"):
        table(1 << 24)
    with pytest.raises(MemoryError, match=r"cannot allocate .* bytes for an array of shape"):
        table(1 << 40)


def test_arrays_of_many_elements_by_strides_are_counted_in_64_bits() -> None:
    ends = rd.algorithm(lambda x: (x[-1], x[0], rd.i64(0) + x.shape[0]), x="u8[n]")
    many = (1 << 31) + 5
    memory = np.zeros(many, np.uint8)  # untouched pages cost nothing
    memory[-1] = 7
    assert tuple(int(v) for v in ends(memory)) == (7, 0, many)


# Calls that must fail: the error, and words of its text.
def table(*rows: tuple[str, Callable[[], Any], type[Exception], str]) -> dict[str, tuple[Any, ...]]:
    return {name: row for name, *row in rows}  # type: ignore[misc]


CALLS = table(
    ("out is read-only", lambda: add(A, B, out=TAKEN["read-only"]), rd.ArgumentError, "read-only"),
    ("out has another shape", lambda: add(A, B, out=A[:4].copy()), rd.ArgumentError, r"shape \(5, 7\), got .*\(4, 7\)"),
    ("out has another dtype", lambda: add(A, B, out=np.zeros((5, 7))), rd.ArgumentError, "float32.*got float64"),
    ("out is a list", lambda: add(A, B, out=[1]), rd.ArgumentError, "must be an array, got a list of int64"),
    ("out is on a GPU", lambda: add(A, B, out=Producer(A.copy(), 10)), rd.ArgumentError, "rocm:0"),
    (
        "out overlaps itself",
        lambda: add(A, B, out=np.lib.stride_tricks.as_strided(np.zeros(70, "f"), (5, 7), (4, 4))),
        rd.ArgumentError,
        "share memory",
    ),
    ("out has too few arrays", lambda: both(V, out=V.copy()), rd.ArgumentError, "tuple of 2 arrays"),
    ("out has nothing", lambda: both(V, out=(V.copy(), None)), rd.ArgumentError, "must be an array, got NoneType"),
    (
        "outs overlap",
        lambda: both(V, out=((v := V.copy()), v[:1].reshape(()))),
        rd.ArgumentError,
        "overlap each other",
    ),
    (
        "unknown keyword",
        lambda: add(A, B, radius=1),
        rd.ArgumentError,
        "no parameter 'radius'\n +takes +a, b\n +static +k",
    ),
    ("an array twice", lambda: add(A, a=A), rd.ArgumentError, '"a" is passed by position and by keyword'),
    ("one array by keyword", lambda: add(b=B), rd.ArgumentError, '"a" is missing'),
    ("one array by keyword, interpreted", lambda: add.interpret(b=B), rd.ArgumentError, '"a" is missing'),
    (
        "unknown keyword of an executable",
        lambda: add.compile()(A, B, radius=1),
        rd.ArgumentError,
        "'radius'[\\s\\S]*takes +a, b",
    ),
    ("unknown static", lambda: rd.capture(add, radius=1), rd.ArgumentError, "radius"),
    ("capture of a function", lambda: rd.capture(len, k=1), rd.ArgumentError, "takes an algorithm"),
    ("negative size", lambda: first(V, -1), rd.SizeMismatch, '"k".*negative'),
    ("fractional size", lambda: first(V, 2.0), rd.ArgumentError, '"k" is a size and must be an int'),
    ("size that is a bool", lambda: first(V, True), rd.ArgumentError, '"k" is a size and must be an int'),
    ("size that is a string", lambda: first(V, "3"), rd.ArgumentError, '"k" is a size and must be an int'),
    ("size beyond all memory", lambda: first(V, 1 << 70), rd.SizeMismatch, "larger than any array"),
    ("size that cannot be", lambda: compiled("f32[n + 1]")(V[:0]), rd.SizeMismatch, r"n \+ 1 cannot be"),
    ("odd size", lambda: compiled("f32[2 * n]")(V), rd.SizeMismatch, "7 along dimension 0"),
    ("size that is fixed", lambda: compiled("f32[3]")(V), rd.SizeMismatch, "must be 3"),
    (
        "size of no argument",
        lambda: compiled("f32[n * m]"),
        rd.ShapeError,
        "'m' cannot be worked out.*[\\s\\S]*rd.size",
    ),
    ("unknown dtype", lambda: compiled("f33[n]"), rd.TraceError, "no dtype 'f33'"),
    ("unreadable type", lambda: compiled("f32[n"), rd.TraceError, "cannot read the type"),
    ("type of no parameter", lambda: rd.algorithm(y="f32[n]")(lambda x: x).trace(), rd.TraceError, "no parameter 'y'"),
    ("negative dimension", lambda: rd.f32[-1], rd.ShapeError, "cannot be negative"),
    ("fractional dimension", lambda: rd.f32[1.5], rd.ShapeError, "not 1.5"),
    ("true division of sizes", lambda: rd.f32["n / 2"], rd.ShapeError, "cannot read a size"),
    ("any number of arguments", lambda: rd.algorithm(lambda *x: x).trace(), rd.TraceError, "cannot take"),
    ("positional default", lambda: rd.algorithm(lambda x=1: x).trace(), rd.TraceError, "keyword-only"),
    ("no function", lambda: rd.algorithm(3), rd.ArgumentError, "of a function, not of 3"),
    ("a class as function", lambda: rd.algorithm(int).trace(), rd.TraceError, "write a function"),
    ("no type to compile for", lambda: untyped.compile(), rd.ArgumentError, "type of 'x' is not declared"),
    ("size that does not exist", lambda: add.compile(sizes={"q": 3}), rd.ShapeError, 'no size "q"'),
    ("size specialised to less than 0", lambda: add.compile(sizes={"h": -3}), rd.ShapeError, "negative"),
    ("size specialised to a string", lambda: add.compile(sizes={"h": "3"}), rd.ShapeError, "must be an int"),
    ("another size than specialised", lambda: add.compile(sizes={"h": 480})(A, B), rd.SizeMismatch, "must be 480"),
    (
        "a tuple as a complex number",
        lambda: rd.algorithm(lambda x: rd.complex64((x, x))).trace(V),
        rd.DTypeError,
        "rd.complex64 of a tuple",
    ),
    (
        "weights that are a tuple",
        lambda: rd.algorithm(lambda i: rd.bincount(i, 3, (i, i))).trace(np.arange(3)),
        rd.TraceError,
        "a tuple as the weights",
    ),
    ("unknown target", lambda: add.compile(target="metal"), rd.TargetError, 'unknown target "metal"'),
    ("unknown processor", lambda: add.compile(target="llvm:none"), rd.TargetError, 'unknown cpu "none"'),
    ("a target that is a number", lambda: add.compile(target=3), rd.TargetError, "not 3"),
    ("no threads", lambda: rd.Target("llvm", threads=0), rd.TargetError, "at least 1"),
    ("schedule for an unknown target", lambda: add.schedule(target="metal"), rd.TargetError, "metal"),
    (
        "schedule of another algorithm",
        lambda: add.compile(schedule=both.schedule()),
        rd.ScheduleError,
        "another program",
    ),
    (
        "a directive with an array",
        lambda: blurred()["s"].parallel("y", np.arange(2)),
        rd.ScheduleError,
        "cannot parallel",
    ),
    ("a directive with a float", lambda: blurred()["s"].split("y", 2.5), rd.ScheduleError, "not 2.5"),
    ("a directive of no stage", lambda: blurred()["q"], rd.ScheduleError, '"q"'),
    ("a directive on no axis", lambda: blurred()["s"].split("z", 2), rd.ScheduleError, '"z"'),
    ("no such directive", lambda: blurred()["s"].vectorise("x"), rd.ScheduleError, "vectorize"),
    ("schedule that is a string", lambda: add.compile(schedule="fast"), rd.ArgumentError, "not str"),
    ("schedule that is no JSON", lambda: rd.Schedule.from_json("{", add), rd.ScheduleError, "not a schedule in JSON"),
    (
        "schedule of another algorithm in JSON",
        lambda: rd.Schedule.from_json(both.schedule().to_json(), add),
        rd.ScheduleError,
        "another program",
    ),
    ("unknown source", lambda: add.compile().source("ptx"), rd.TargetError, 'kind "ptx"'),
    ("no runs", lambda: add.compile().time(A, B, repeat=0), ValueError, "at least 1"),
    ("no such library", lambda: rd.load("/nowhere/lib.so"), rd.TargetError, "cannot be loaded"),
    ("a library of others", lambda: rd.load("/proc/self/exe"), rd.TargetError, "cannot be loaded|not a library"),
    ("export to another ending", lambda: add.compile().export("a.dll"), rd.ExportError, 'ends in ".so"'),
    ("export into no folder", lambda: add.compile().export("/dev/null/liba.so"), rd.ExportError, "cannot be written"),
    ("no such compiler", lambda: add.compile().export("liba.so", cc="nocc"), rd.ExportError, "'nocc' does not exist"),
)


def blurred() -> rd.Schedule:
    return rd.algorithm(lambda x: rd.stencil(lambda p: p[0, 1], x, name="s"), x="f32[h, w]").schedule()


def compiled(text: str) -> Any:
    return rd.algorithm(lambda x: x, x=text).compile()


@pytest.mark.parametrize("case", CALLS)
def test_a_wrong_call_is_one_clear_error(case: str) -> None:
    call, error, words = CALLS[case]
    with pytest.raises(error, match=words):
        call()


def test_out_may_overlap_arguments() -> None:
    memory = np.arange(70, dtype="f").reshape(10, 7)
    want = memory[:5] + 2 * B
    np.testing.assert_array_equal(add(memory[:5], B, out=memory[2:7]), want)


# Files and folders


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


def test_export_writes_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exe = add.compile()
    with pytest.raises(rd.ExportError, match="compiler failed"):
        exe.export(tmp_path / "liba.so", cc="false")
    (tmp_path / "libdir.so").mkdir()
    with pytest.raises(rd.ExportError, match="cannot be written"):
        exe.export(tmp_path / "libdir.so")
    assert leftovers(tmp_path) == ["libdir.so"]
    library = exe.export(tmp_path / "liba.so")
    (tmp_path / "a.h").unlink()
    (tmp_path / "a.h").mkdir()
    before = library.read_bytes()
    with pytest.raises(rd.ExportError, match="cannot be written"):
        both.compile().export(library)
    assert library.read_bytes() == before and leftovers(tmp_path) == ["a.h", "liba.so", "libdir.so"]
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setitem(sys.modules, "ziglang", None)
    with pytest.raises(rd.ExportError, match=r"no C compiler.*raido\[export\]"):
        exe.export(tmp_path / "libb.so")


FULL_DISK = """
import resource, sys, warnings
import raido as rd
from raido.targets.cache import Cache
exe = rd.algorithm(lambda x: x * 2, x="f32[n]").compile()
resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
with warnings.catch_warnings(record=True) as caught:
    print("stored", Cache(sys.argv[1]).put("0" * 64, bytes(9999), {}), [str(w.message) for w in caught])
try:
    exe.export(sys.argv[2])
except rd.ExportError as error:
    print("export", error)
"""


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / "cache"), str(tmp_path / "out" / "liba.so")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "stored False ['raido works without a compile cache" in done.stdout
    assert "cannot be written" in done.stdout and "File too large" in done.stdout
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_unwritable_cache_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "cache")
    with pytest.warns(RuntimeWarning, match="works without a compile cache") as caught:
        first_time = compile_program(add.trace(), cache=cache)
        compile_program(add.trace(), cache=cache)
    assert len(caught) == 1
    np.testing.assert_array_equal(first_time(A, B), A + 2 * B)


@pytest.mark.parametrize(
    "damage", [b"", b"garbage", lambda blob: blob[:-9], lambda blob: blob.replace(b"\x7fELF", b"\x00ELF")]
)
def test_a_damaged_cache_entry_is_compiled_anew(damage: Any, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    compile_program(add.trace(), cache=cache)
    (path,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    path.write_bytes(damage if isinstance(damage, bytes) else damage(path.read_bytes()))
    np.testing.assert_array_equal(compile_program(add.trace(), cache=cache)(A, B), A + 2 * B)
    assert len(cache.entries()) == 1


def test_a_schedule_is_completed_for_the_target_it_was_asked_for() -> None:
    product = rd.algorithm(lambda a, b: a @ b, a="f32[n, k]", b="f32[k, m]")
    schedules = [str(product.schedule(target=f"llvm:{cpu}").complete()) for cpu in ("x86-64-v2", "x86-64-v4")]
    assert schedules == [str(product.schedule().complete(f"llvm:{cpu}")) for cpu in ("x86-64-v2", "x86-64-v4")]
    assert schedules[0] != schedules[1]


PROGRAMS = {
    "import sys; sys.exit(0)": r"p0\.py cannot be run: it ends the program .*__main__.*\(line 1\)",
    "\n\nraise KeyError(3)": r"p1\.py cannot be run: KeyError: 3 \(line 3\)",
    "def (": r"p2\.py cannot be run: SyntaxError: .*\(line 1\)",
    "x = '\0'": r"p3\.py cannot be run: .*null bytes",
    "def f(): f()\nf()": r"p4\.py cannot be run: RecursionError: .*\(line 1\)",
    "raise SystemExit('\x1b[2J')": r"p5\.py cannot be run: it ends the program",
}


@pytest.mark.parametrize(("number", "text"), list(enumerate(PROGRAMS)))
def test_a_program_that_cannot_be_run_names_its_file_and_line(number: int, text: str, tmp_path: Path) -> None:
    from raido.locate import load_module

    path = tmp_path / f"p{number}.py"
    path.write_text(text)
    with pytest.raises(rd.ArgumentError, match=PROGRAMS[text]):
        load_module(path)
    assert f"p{number}" not in sys.modules


@pytest.mark.parametrize("name", ["model.json", "member_0.ubj"])
def test_a_damaged_cost_model_is_refused_before_xgboost_reads_it(name: str, tmp_path: Path) -> None:
    """xgboost's reader ends the process at one damaged file in six, and hangs at one in ten."""
    import shutil

    from raido.autotune.model.cost_model import SHIPPED, CostModel

    shutil.copytree(SHIPPED, tmp_path, dirs_exist_ok=True)
    CostModel.load(tmp_path)
    data = bytearray((tmp_path / name).read_bytes())
    data[len(data) // 2] ^= 1
    data[20] = 255
    (tmp_path / name).write_bytes(data)
    with pytest.raises(
        rd.TuningError, match=r"there is no cost model in [\s\S]*(is damaged|UTF-8)[\s\S]*CostModel\.shipped"
    ):
        CostModel.load(tmp_path)
