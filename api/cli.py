"""The command line: `raido run | build | show | targets | cache`.

Every failure is one line on standard error and exit status 1 (`--traceback` shows the rest); wrong usage is status 2. Arrays are read
from `.npy` files, or from images where Pillow is installed (see `raido.files`).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import raido as rd
from raido.files import read_array, write_array
from raido.locate import find_algorithm, find_schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=(__doc__ or "").split("\n")[0]
)
cache_app = typer.Typer(no_args_is_help=True, help="Compiled programs kept on disk.")
app.add_typer(cache_app, name="cache")
console = Console()
errors = Console(stderr=True, soft_wrap=True)

Program = Annotated[str, typer.Argument(metavar="FILE.py:ALG", help="a Python file and the name of an algorithm in it")]
TargetName = Annotated[str, typer.Option("--target", help='"llvm", or "llvm:CPU" for a named CPU')]
ScheduleName = Annotated[
    str | None, typer.Option("--schedule", help="a schedule: FILE.json, or a function in the program's file")
]
Statics = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="a keyword-only parameter of the algorithm")
]
Traceback = Annotated[bool, typer.Option("--traceback", help="show where an error comes from")]


@app.command()
def run(
    program: Program,
    inputs: Annotated[
        list[str] | None,
        typer.Option("-i", "--input", help=".npy file, image or number, in the order of the parameters"),
    ] = None,
    outputs: Annotated[
        list[Path] | None, typer.Option("-o", "--output", help=".npy file or image, one for each result")
    ] = None,
    target: TargetName = "llvm",
    schedule: ScheduleName = None,
    set_: Statics = None,
    repeat: Annotated[int, typer.Option(help="also time this many runs")] = 0,
    traceback: Traceback = False,
) -> None:
    """Compile an algorithm, run it on files and write what it returns."""
    algorithm = find_algorithm(program, set_)
    arrays = [read_array(text, name, kind) for text, (name, kind) in _paired(algorithm, inputs or [])]
    with _progress("compiling"):
        exe = algorithm.compile(
            target=rd.Target.parse(target), schedule=find_schedule(schedule, program, algorithm), like=arrays
        )
    with _progress("running"):
        result = exe(*arrays)
    flat = _flatten(result)
    if outputs and len(outputs) != len(flat):
        raise rd.ArgumentError(f"{len(outputs)} outputs named with -o, but the algorithm returns {len(flat)}")
    for path, array in zip(outputs or [], flat, strict=False):
        write_array(path, array)
        console.print(f"wrote {path}  {array.dtype}{list(array.shape)}")
    if not outputs:
        for array in flat:
            console.print(array)
    if repeat:
        timing = exe.time(*arrays, repeat=repeat)
        console.print(
            f"median {timing.median * 1e3:.3f} ms, min {timing.min * 1e3:.3f} ms, {timing.bytes / timing.median / 1e9:.1f} GB/s"
        )


@app.command()
def build(
    program: Program,
    output: Annotated[Path, typer.Option("-o", "--output", help="the shared library; its header stands beside it")],
    target: TargetName = "llvm",
    schedule: ScheduleName = None,
    set_: Statics = None,
    traceback: Traceback = False,
) -> None:
    """Compile an algorithm into a shared library with a C header."""
    algorithm = find_algorithm(program, set_)
    with _progress("compiling"):
        exe = algorithm.compile(target=rd.Target.parse(target), schedule=find_schedule(schedule, program, algorithm))
        library = exe.export(output)
    console.print(f"wrote {library} and {library.with_name(library.stem.removeprefix('lib') + '.h')}")


@app.command()
def show(
    program: Program,
    what: Annotated[str, typer.Option("--as", help="nest, gang, schedule, tir, llvm or asm")] = "nest",
    html: Annotated[Path | None, typer.Option(help="write the page there instead")] = None,
    target: TargetName = "llvm",
    schedule: ScheduleName = None,
    set_: Statics = None,
    traceback: Traceback = False,
) -> None:
    """Print the loop nest of an algorithm under a schedule, or another stage of its compilation."""
    algorithm = find_algorithm(program, set_)
    chosen = find_schedule(schedule, program, algorithm) or algorithm.schedule()
    complete = chosen.complete(rd.Target.parse(target).machine)
    if html:
        from raido.page import write_page

        write_page(html, program, complete)
        console.print(f"wrote {html}")
    elif what == "schedule":
        print(complete)
    elif what == "nest":
        complete.show()
    else:
        print(algorithm.compile(target=rd.Target.parse(target), schedule=chosen).source(what))


@app.command()
def targets(traceback: Traceback = False) -> None:
    """What this machine can compile for, and for what it cannot, why and what to install."""
    table = Table("target", "here", "what")
    for entry in rd.targets():
        table.add_row(entry.name, "yes" if entry.available else "no", entry.detail)
    console.print(table)


@cache_app.command("show")
def cache_show(traceback: Traceback = False) -> None:
    """List the compiled programs on disk."""
    from raido.targets.cache import Cache, default_folder

    cache = Cache()
    entries = sorted(cache.entries(), key=lambda e: -e.used)
    table = Table("KB", "last used", "key")
    for entry in entries:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used))
        table.add_row(f"{entry.size / 1024:.0f}", when, entry.key[:16])
    console.print(table)
    console.print(f"{len(entries)} programs, {sum(e.size for e in entries) / 2**20:.1f} MB in {default_folder()}")


@cache_app.command("clear")
def cache_clear(traceback: Traceback = False) -> None:
    """Forget all compiled programs."""
    from raido.targets.cache import Cache

    cache = Cache()
    count = len(list(cache.entries()))
    cache.clear()
    console.print(f"removed {count} programs")


def _paired(algorithm: rd.Algorithm, texts: Sequence[str]) -> list[tuple[str, Any]]:
    parameters = [(d.name, d.type) for d in algorithm.signature.positional]
    if len(texts) != len(parameters):
        wanted = ", ".join(f"{name}: {type_}" for name, type_ in parameters) or "none"
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


def _progress(what: str) -> Any:
    from contextlib import nullcontext

    return console.status(f"{what} …") if sys.stdout.isatty() else nullcontext()


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point of the `raido` command."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        app(arguments, standalone_mode=True)
    except KeyboardInterrupt:
        errors.print("interrupted")
        raise SystemExit(130) from None
    except Exception as error:
        if "--traceback" in arguments:
            raise
        errors.print(f"raido: {_one_line(error)}", markup=False, highlight=False)
        raise SystemExit(1) from None


def _one_line(error: Exception) -> str:
    kind = "" if isinstance(error, rd.RaidoError) else f"{type(error).__name__}: "
    return kind + "; ".join(line.strip() for line in str(error).splitlines() if line.strip())


if __name__ == "__main__":
    main()
