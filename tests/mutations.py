"""Mutations of a valid file for fuzzing: first of its structure, then of its text, then of its bytes."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

_DEEP: Any = []
for _ in range(300):
    _DEEP = [_DEEP]
JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 7, 1 << 31, (1 << 63) - 1, 1 << 63, -(1 << 63), 1 << 64, 10**400, 0.5, -1e308),
    *(
        float("nan"),
        float("inf"),
        "",
        "x",
        "y",
        "r",
        "rows",
        "::",
        "a::b",
        "\x00",
        "\x1b[2J",
        "\ud800",
        "\u202e",
        "é" * 300,
    ),
    *([], {}, [[]], [1, "x"], ["x", "x"], {"": 1}, {"x": {}}, _DEEP, "x" * 100_000, "1" * 5000, "NaN"),
    *({"choose": "c", "options": [1, 2]}, {"choose": "c", "options": []}, {"choose": 1, "options": ["x", 8]}),
    *("w % 16 == 0", "w // 0 > 1", "(" * 300 + "w" + ")" * 300 + " > 1", "w > 9" + "9" * 5000, f"w * {1 << 62} > 1"),
)
_TEXTS = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "9" * 5000,
    "[" * 100_000,
    '{"a":' * 100_000,
    '"\\ud800"',
    "\ufeff",
    "//",
    "''",
)


def mutated_value(value: Any, rng: random.Random) -> Any:
    """A document with one to three changes: a part replaced, taken away, doubled, moved elsewhere, or wrapped."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(_places(value))
        if not places:
            return _junk(rng)
        holder, key = rng.choice(places)
        change = rng.randrange(6)
        if change <= 1:
            holder[key] = _junk(rng)
        elif change == 2:
            del holder[key]
        elif change == 3 and isinstance(holder, dict):
            holder[rng.choice((f"{key} ", key.upper(), "more", "", "\x1b"))] = holder[key]
        elif change == 3:
            holder.insert(key, copy.deepcopy(holder[key]))
        elif change == 4:
            other, place = rng.choice(places)
            holder[key] = copy.deepcopy(other[place]) if _holds(other, place) else None
        else:
            holder[key] = [holder[key]] if rng.random() < 0.5 else {"x": holder[key]}
    return value


def _junk(rng: random.Random) -> Any:
    """A value that is none of a document, of its own: the next change may change what is in it."""
    junk = rng.choice(JUNK)
    return junk if junk is _DEEP else copy.deepcopy(junk)


def _holds(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else isinstance(key, int) and key < len(holder)


def _places(value: Any) -> Any:
    """Every part of a document: what holds it, and where."""
    for key, part in list(
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield value, key
        if not (isinstance(part, list) and part and part[0] is _DEEP[0]):
            yield from _places(part)


def json_text(value: Any) -> str:
    """JSON of anything, of what JSON does not have too."""
    return json.dumps(value)


def mutated_text(text: str, rng: random.Random) -> str:
    """A text with pieces of it cut, doubled, exchanged, or replaced by what readers stumble over."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, end = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
        end = min(end, at + rng.choice((1, 3, 30, 3000)))
        change = rng.randrange(5)
        if change == 0:
            text = text[:at] + text[end:]
        elif change == 1:
            text = text[:end] + text[at:]
        elif change == 2:
            text = text[:at] + rng.choice(_TEXTS) + text[end:]
        elif change == 3:
            text = text[:at]
        else:
            text = text[:at] + rng.choice("\"'[]{}()=,:#\\\n\t\x00\x1b0123456789-+.eE") + text[end:]
    return text


def mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes with some flipped, cut off, exchanged, or in another encoding."""
    change = rng.randrange(6)
    if change == 0:
        return data[: rng.randrange(len(data) + 1)]
    if change == 1:
        return data + rng.randbytes(rng.choice((1, 100, 5000)))
    if change == 2:
        return data.decode("latin-1").encode(rng.choice(("utf-16", "utf-32", "utf-7", "utf-8-sig")))
    if change == 3:
        at = rng.randrange(len(data) + 1)
        return data[:at] + rng.choice((b"\xff\xfe", b"\x00" * 100, b"\xed\xa0\x80", b"\xff" * 8)) + data[at:]
    changed = bytearray(data)
    for _ in range(rng.choice((1, 2, 10, 100))):
        if changed:
            changed[rng.randrange(len(changed))] = rng.choice((0, 255, 127, 128, rng.randrange(256)))
    return bytes(changed)


def mutated(value: Any, rng: random.Random, text_of: Any = json_text) -> bytes:
    """The bytes of a document, changed at one level or at several."""
    level = rng.randrange(8)
    text = text_of(mutated_value(value, rng) if level < 6 else value)
    if level >= 5:
        text = mutated_text(text, rng)
    data = text.encode("utf-8", "surrogatepass")
    return mutated_bytes(data, rng) if level in (4, 7) else data
