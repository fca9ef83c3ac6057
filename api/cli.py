"""The command line: `raido run | build | show | tune | targets | cache | db`.

Every failure is one line on standard error and exit status 1 (`--traceback` shows the rest); wrong usage is status 2, an interruption 130.
Arrays are read from `.npy` files, or from images where Pillow is installed (see `raido.files`).
"""

from __future__ import annotations

import os
import re
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import raido as rd
from raido.database_commands import db_app
from raido.failures import one_line
from raido.files import check_output, read_array, write_array
from raido.locate import find_algorithm, find_schedule
from raido.options import DatabaseName, Program, ScheduleName, Statics, TargetName, Traceback
from raido.printing import complain, say, take_any_text
from raido.progress import progress
from raido.targets.export import header_of
from raido.tune_command import tune

_HELP = """Array programs from the command line: run them on files, build C libraries of them, look at their loops.

An algorithm is named by FILE.py:ALG, a Python file and the name that stands before its `@rd.algorithm`."""
app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=_HELP, rich_markup_mode=None
)
cache_app = typer.Typer(no_args_is_help=True, help="List the compiled programs kept on disk, or delete them.")
app.add_typer(cache_app, name="cache")
app.add_typer(db_app, name="db")
app.command()(tune)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"raido {rd.__version__}")
        raise typer.Exit


@app.callback()
def main_options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="the version")] = False,
) -> None:
    """See above."""


@app.command()
def run(
    program: Program,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "-i", "--input", metavar="FILE", help=".npy file, image or number, one for each parameter, in their order"
        ),
    ] = None,
    outputs: Annotated[
        list[Path] | None,
        typer.Option("-o", "--output", metavar="FILE", help=".npy file or image, one for each result, in their order"),
    ] = None,
    target: TargetName = "llvm",
    schedule: ScheduleName = None,
    db: DatabaseName = None,
    set_: Statics = None,
    repeat: Annotated[int, typer.Option(min=0, metavar="N", help="also time N runs")] = 0,
    traceback: Traceback = False,
) -> None:
    """Compile an algorithm, run it on files and write what it returns.

    An image becomes what its parameter is: f32 and f64 parameters get values in 0 … 1, integers the stored ones; a parameter of
    rank 2 gets the brightness, [3, h, w] colour planes, [h, w, 3] pixels. Without -o the results are printed.

    Example: raido run examples/unsharp_mask.py:unsharp -i photo.png -o sharp.png
    """
    algorithm = find_algorithm(program, set_)
    arrays = [read_array(text, name, kind) for text, (name, kind) in _paired(algorithm, inputs or [])]
    chosen = find_schedule(schedule, program, algorithm)
    with progress("tracing"):
        traced = algorithm.trace(*arrays)
    for path in outputs or []:
        check_output(path)
    if outputs and len(outputs) != len(traced.results):
        raise rd.ArgumentError(f"{len(outputs)} outputs named with -o, but the algorithm returns {len(traced.results)}")
    with progress("compiling"):
        exe = algorithm.compile(rd.Target.parse(target), chosen, like=arrays, db=db)
    _say_record(exe, db)
    with progress("running"):
        flat = _flatten(exe(*arrays))
    for path, array in zip(outputs or [], flat, strict=False):
        write_array(path, array)
        say(f"wrote {path}  {array.dtype}{list(array.shape)}")
    if not outputs:
        for array in flat:
            say(array)
    if repeat:
        with progress(f"timing {repeat} runs"):
            timing = exe.time(*arrays, repeat=repeat)
        speed = timing.bytes / timing.median / 1e9
        say(f"median {timing.median * 1e3:.3f} ms, min {timing.min * 1e3:.3f} ms, {speed:.1f} GB/s")


@app.command()
def build(
    program: Program,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="libNAME.so", help="the shared library; its header stands beside it"),
    ],
    target: TargetName = "llvm",
    schedule: ScheduleName = None,
    db: DatabaseName = None,
    set_: Statics = None,
    architectures: Annotated[
        str | None,
        typer.Option(
            metavar="sm_80,sm_90,…",
            help="for CUDA, the architectures that the library has code for; compute_75 is PTX",
        ),
    ] = None,
    traceback: Traceback = False,
) -> None:
    """Compile an algorithm into a shared library with a C header.

    The library needs neither Python nor TVM; the header says what it takes and returns. Needs a C compiler: cc, gcc, clang, CC in
    the environment, or `pip install raido[export]`.

    Example: raido build examples/unsharp_mask.py:unsharp -o build/libunsharp.so
    """
    algorithm, parsed = find_algorithm(program, set_), rd.Target.parse(target)
    if architectures is not None and parsed.kind != "cuda":
        raise rd.ExportError(
            f'--architectures is for programs for CUDA, and this one is for "{target}": give --target cuda:sm_90'
        )
    with progress("compiling"):
        exe = algorithm.compile(parsed, find_schedule(schedule, program, algorithm), db=db)
    _say_record(exe, db)
    with progress("linking"):
        named = {} if architectures is None else {"architectures": [name.strip() for name in architectures.split(",")]}
        library = exe.export(output, **named)
    say(f"wrote {library} and {header_of(library)}")


@app.command()
def show(
    program: Program,
    what: Annotated[
        str, typer.Option("--as", metavar="KIND", help="nest, gang, schedule, tir, llvm, asm; kernels, spirv")
    ] = "nest",
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="write an HTML page with all forms instead, for screen or print"),
    ] = None,
    target: TargetName = "llvm",
    schedule: ScheduleName = None,
    db: DatabaseName = None,
    set_: Statics = None,
    traceback: Traceback = False,
) -> None:
    """Print the loops of an algorithm, or another stage of compiling it.

    KIND is what is printed: the scalar loop nest, the nest with its vectors (gang), the schedule with every default written out,
    TVM's TIR, LLVM's IR after optimisation, or assembly; of a GPU (--target vulkan) the nest, schedule, kernels, tir and spirv.

    Example: raido show examples/unsharp_mask.py:unsharp --as asm
    """
    from raido.targets.compile import compilation_for

    algorithm = find_algorithm(program, set_)
    machine = rd.Target.parse(target)
    chosen = find_schedule(schedule, program, algorithm) or _best_known(db, algorithm, machine)
    chosen = chosen or algorithm.schedule(target=machine)
    work = compilation_for(chosen.graph.program, machine, chosen, {})
    if what not in work.sources:
        raise rd.ArgumentError(f"--as {what!r} is unknown; the forms are {', '.join(work.sources)}")
    with progress("scheduling"):
        complete = work.schedule
    if html:
        from raido.page import write_page

        with progress("compiling"):
            write_page(html, program, complete, work.source(work.sources[-1]))
        say(f"wrote {html}")
    elif what == "schedule":
        say(complete)
    elif what == "nest":
        complete.show()
    else:
        with progress("compiling"):
            text = work.source(what)
        say(text)


def _say_record(exe: rd.Executable, db: Path | None) -> None:
    """Prints on standard error which measurement of the database the schedule comes from, and why."""
    if db is not None:
        complain(exe.source("record"))


def _best_known(db: Path | None, algorithm: rd.Algorithm, target: rd.Target) -> rd.Schedule | None:
    if db is None:
        return None
    from raido.autotune.records.lookup import best_schedule

    schedule, why = best_schedule(db, algorithm.schedule().graph, target)
    complain(why)
    return schedule


@app.command()
def targets(traceback: Traceback = False) -> None:
    """List the targets that this machine can compile for, and for each of the others the reason and what to install."""
    table = Table("target", "here", "what")
    for entry in rd.targets():
        table.add_row(entry.name, "yes" if entry.available else "no", entry.detail)
    Console(soft_wrap=True).print(table)


@cache_app.command("show")
def cache_show(
    full: Annotated[bool, typer.Option("--full", help="print whole keys and paths")] = False,
    traceback: Traceback = False,
) -> None:
    """List the compiled programs on disk, the most recently used first."""
    from raido.targets.cache import Cache

    cache = Cache()
    entries = cache.entries()
    rows = [("PROGRAM", "TARGET", "SIZES", "SCHEDULE", "KB", "LAST USED", "KEY", "FROM")]
    with progress("reading the cache"):
        for entry in entries:
            said = cache.describe(entry.key) or {"name": "(damaged)"}
            source, of = str(said.get("source", "")), said.get("sizes")
            sizes = ",".join(f"{name}={value}" for name, value in of.items()) if isinstance(of, dict) else ""
            rows.append(
                (
                    str(said.get("name", "?")),
                    str(said.get("target", "?")),
                    sizes or "any",
                    f"{said['steps']} steps" if said.get("steps") else "default",
                    f"{entry.size / 1024:.0f}",
                    time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used)),
                    entry.key if full else entry.key[:12],
                    source if full else Path(source).name,
                )
            )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows if entries else ():
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    count = f"{len(entries)} program{'' if len(entries) == 1 else 's'}"
    megabytes = sum(entry.size for entry in entries) / 2**20
    say(f"{count}, {megabytes:.1f} MB in {cache.folder or 'no folder'}")


@cache_app.command("clear")
def cache_clear(
    older: Annotated[
        str | None, typer.Option(metavar="TIME", help="only programs not used for that long: 30m, 12h, 7d, 2w")
    ] = None,
    traceback: Traceback = False,
) -> None:
    """Remove all compiled programs on disk, or those unused for some time."""
    from raido.targets.cache import Cache

    count = Cache().clear(_seconds(older) if older else 0.0)
    say(f"removed {count} program{'' if count == 1 else 's'}")


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip())
    if match is None:
        raise rd.ArgumentError(f"--older {text!r}: write a number and a unit, such as 30m, 12h, 7d or 2w")
    return float(match[1]) * _UNITS[match[2]]


def _paired(algorithm: rd.Algorithm, texts: Sequence[str]) -> list[tuple[str, Any]]:
    parameters = [(d.name, d.type) for d in algorithm.signature.positional]
    if len(texts) != len(parameters):
        wanted = ", ".join(f"{name}: {type_}" if type_ is not None else name for name, type_ in parameters) or "none"
        raise rd.ArgumentError(
            f"{len(texts)} inputs given with -i, but {algorithm.name} takes {len(parameters)}: {wanted}"
        )
    return list(zip(texts, parameters, strict=True))


def _flatten(result: Any) -> list[Any]:
    import numpy as np

    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, tuple):
        return [leaf for part in result for leaf in _flatten(part)]
    return [np.asarray(result)]


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point of the `raido` command."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    take_any_text()
    if "--traceback" in arguments:
        os.environ["RAIDO_TRACEBACK"] = "1"
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: complain(f"raido: {message}")
        try:
            app(arguments, prog_name="raido", standalone_mode=True)
        except KeyboardInterrupt:
            complain("interrupted")
            raise SystemExit(130) from None
        except Exception as error:
            if "--traceback" in arguments:
                raise
            complain(f"raido: {one_line(error)}")
            raise SystemExit(1) from None


if __name__ == "__main__":
    main()
