"""Fused multiply-add of f64 on targets without an instruction for it.

Where the C library has a fast one, as on newer processors that run code for old ones, a call per lane is faster than the recipe.
"""

from __future__ import annotations

from raido.algo.recipes.fused import fma_of_moderate
from raido.targets.llvm.recipes import WriteOperation, recipe_values
from raido.targets.llvm.text import TextBuilder, Value

_KNOWN = "rd.processor"


def write_fma_f64(b: TextBuilder, x: Value, y: Value, z: Value, write: WriteOperation) -> Value:
    """Writes x · y + z, rounded once: by the recipe, or by library calls lane by lane where these are fast or some lane is outside the
    recipe's range."""
    if x.lanes == 1:
        return b.intrinsic("fma", x, y, z)
    if b.call_apart:
        return b.call_apart(b, "fma", (x, y, z))
    library, emulated, done = (b.fresh_label(stem) for stem in ("library", "emulated", "fused"))
    b.line(f"br i1 {_library_is_quick(b)}, label %{library}, label %{emulated}")
    b.start_block(emulated)
    fused, moderate = fma_of_moderate(*recipe_values(b, (x, y, z), write))
    b.line(f"br {b.any((~moderate).raw).typed}, label %{library}, label %{done}")
    b.start_block(library)
    called = b.intrinsic("fma", x, y, z)
    b.line(f"br label %{done}")
    b.start_block(done)
    return b.result(x.dtype, x.lanes, f"phi {x.type} [ {fused.raw.text}, %{emulated} ], [ {called.text}, %{library} ]")


def _library_is_quick(b: TextBuilder) -> str:
    """Writes a test for the FMA instruction, which the C library then uses though this code may not: CPUID, queried once and cached."""
    b.globals[_KNOWN] = f"@{_KNOWN} = internal global i32 0"
    before, ask, answered = b.label, b.fresh_label("ask"), b.fresh_label("answered")
    known, unknown, leaf, flag, answer, found, quick = (b.name() for _ in range(7))
    b.line(f"{known} = load i32, ptr @{_KNOWN}")
    b.line(f"{unknown} = icmp eq i32 {known}, 0")
    b.line(f"br i1 {unknown}, label %{ask}, label %{answered}")
    b.start_block(ask)
    b.line(
        f'{leaf} = call {{i32, i32, i32, i32}} asm sideeffect "cpuid", "={{ax}},={{bx}},={{cx}},={{dx}},0,2"(i32 1, i32 0)'
    )
    b.line(f"{flag} = extractvalue {{i32, i32, i32, i32}} {leaf}, 2")
    b.line(f"{answer} = or i32 {flag}, 1")
    b.line(f"store i32 {answer}, ptr @{_KNOWN}")
    b.line(f"br label %{answered}")
    b.start_block(answered)
    b.line(f"{found} = phi i32 [ {known}, %{before} ], [ {answer}, %{ask} ]")
    bit = b.name()
    b.line(f"{bit} = and i32 {found}, 4096")
    b.line(f"{quick} = icmp ne i32 {bit}, 0")
    return quick
