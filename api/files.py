"""Reads and writes arrays in files: `.npy`, and images where Pillow is installed.

An image is converted to its parameter's type: f32 and f64 parameters get values in 0 … 1, integer parameters the stored values; a
rank-2 parameter gets the brightness, `[3, h, w]` (or 4) colour planes, `[h, w, 3]` pixels. Results are converted back the same way.
NumPy writes bf16 into `.npy` as two untyped bytes, which are read as bf16 again for a bf16 parameter.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from raido.algo.documents import shown
from raido.algo.errors import ArgumentError
from raido.algo.graph.dtypes import bf16
from raido.algo.graph.narrow import convert, widen
from raido.targets.replacing import replaced

_TWO_BYTES = np.dtype("V2")


def read_array(text: str, name: str, kind: Any) -> Any:
    """The value of the parameter `name` of type `kind`: read from a `.npy` file or an image, or the number that `text` spells."""
    path = Path(text)
    if "\0" in text or not os.path.lexists(path):
        try:
            return int(text) if text.lstrip("+-").isdigit() else float(text)
        except ValueError:
            raise ArgumentError(f"no such file: {shown(text)}") from None
    if path.is_dir():
        raise ArgumentError(f"{path} is a folder; {name} is read from a .npy file or an image")
    if not path.is_file():
        raise ArgumentError(f"{path} is no regular file; {name} is read from a .npy file or an image")
    if path.suffix == ".npy":
        array = _foreign(path, lambda: np.load(path, allow_pickle=False))
        if not isinstance(array, np.ndarray):
            raise ArgumentError(f"cannot read {path}: it holds several arrays (.npz); save each as .npy")
        lost = array.dtype == _TWO_BYTES and getattr(kind, "dtype", None) is bf16
        return array.view(bf16.numpy) if lost else array
    return _read_image(path, name, kind)


def _foreign(path: Path, read: Callable[[], Any]) -> Any:
    """The result of another library's reader of `path`; any exception of the reader becomes an ArgumentError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy's of headers, Pillow's of sizes; only errors matter
            return read()
    except Exception as error:
        said = str(error) or type(error).__name__
        raise ArgumentError(f"cannot read {path}: {said}") from None


def check_output(path: Path) -> None:
    """Raises ArgumentError, before any work, when an array could not be written to `path`."""
    if path.suffix != ".npy":
        _format(path)
    check_path(path)


def check_path(path: Path) -> None:
    """Raises ArgumentError, before any work, when `path` has no writable folder, or is a folder."""
    if not path.parent.is_dir():
        raise ArgumentError(f"no such folder: {path.parent}")
    if path.is_dir():
        raise ArgumentError(f"{path} is a folder")
    if not os.access(path.parent, os.W_OK):
        raise ArgumentError(f"{path} cannot be written: the folder {path.parent} is not yours to write in")


def write_array(path: Path, array: np.ndarray) -> None:
    """Writes `.npy` or an image by the file's ending; an old file is replaced only when the new one is complete."""
    with replaced(path) as new, new.open("wb") as file:
        if path.suffix == ".npy":
            np.save(file, array)
        else:
            _image(array, path).save(file, format=_format(path))


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise ArgumentError('images need Pillow: pip install "raido[images]"') from None
    return Image


def _format(path: Path) -> str:
    known = _pillow().registered_extensions()
    if path.suffix.lower() not in known:
        raise ArgumentError(f"{path}: no image format has the ending {path.suffix!r}; use .png, .jpg or .npy")
    return known[path.suffix.lower()]


def _read_image(path: Path, name: str, kind: Any) -> np.ndarray:
    image_module = _pillow()

    def read() -> Any:
        image = image_module.open(path)
        image.load()
        return image

    image = _foreign(path, read)
    if not hasattr(kind, "shape"):
        raise ArgumentError(f"{path} is an image, but parameter {name!r} is not declared as an array")
    shape, dtype = kind.shape, kind.dtype
    if len(shape) not in (2, 3):
        raise ArgumentError(f"{path} is an image, but parameter {name!r} has rank {len(shape)}")
    planes = getattr(shape[0], "value", None) if len(shape) == 3 else None
    channels = "L" if len(shape) == 2 else "RGBA" if planes == 4 else "RGB"
    as_it_is = len(shape) == 2 and image.mode in ("L", "I;16", "I")
    pixels = _foreign(path, lambda: np.asarray(image if as_it_is else image.convert(channels)))
    if planes in (3, 4):
        pixels = pixels.transpose(2, 0, 1)
    if dtype.is_float:
        top = 65535 if pixels.dtype.itemsize > 1 else 255
        return np.ascontiguousarray(convert(pixels / top, dtype.numpy))
    return np.ascontiguousarray(pixels.astype(dtype.numpy))


def _image(array: np.ndarray, path: Path) -> Any:
    array = widen(array)
    if array.ndim == 3 and array.shape[0] in (3, 4) and array.shape[2] not in (3, 4):
        array = array.transpose(1, 2, 0)
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)):
        raise ArgumentError(f"{path}: an array of shape {list(array.shape)} is not an image; use .npy")
    if array.dtype.kind == "b":
        array = array.astype(np.uint8) * 255
    elif array.dtype.kind == "f":
        array = (np.clip(np.nan_to_num(array), 0, 1) * 255 + 0.5).astype(np.uint8)
    elif array.dtype != np.uint8:
        array = np.clip(array, 0, 255).astype(np.uint8)
    return _pillow().fromarray(np.ascontiguousarray(array))
