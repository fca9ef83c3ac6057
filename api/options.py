"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Program = Annotated[str, typer.Argument(metavar="FILE.py:ALG", help="a Python file and the name of an algorithm in it")]
TargetName = Annotated[
    str, typer.Option("--target", metavar="NAME", help='"llvm", this machine, or "llvm:CPU" for a named CPU')
]
ScheduleName = Annotated[
    str | None,
    typer.Option(
        "--schedule",
        metavar="NAME",
        help="a schedule: FILE.json, or a function in FILE.py that takes the algorithm; without it, the default one",
    ),
]
DatabaseName = Annotated[
    Path | None,
    typer.Option("--db", metavar="FILE", help="use the best schedule of a database that `raido tune` has written"),
]
Statics = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="a keyword-only parameter of the algorithm")
]
Traceback = Annotated[bool, typer.Option("--traceback", help="show the Python traceback of an error")]
