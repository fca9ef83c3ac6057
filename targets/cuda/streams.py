"""Streams of other libraries as driver handles: integers, and objects of CuPy, PyTorch and any with `__cuda_stream__`."""

from __future__ import annotations

import sys
from typing import Any

from raido.algo.errors import ArgumentError, explain


def stream_handle(stream: Any) -> int:
    """The handle of a stream: 0 and 1 are CUDA's default stream, 2 is the calling thread's.

    Raises `ArgumentError` for other objects.

    >>> stream_handle(2)
    2
    """
    found = stream
    if hasattr(stream, "__cuda_stream__"):
        found = tuple(stream.__cuda_stream__())[-1]  # the protocol's version, and the handle
    elif not isinstance(stream, int):
        found = getattr(stream, "cuda_stream", getattr(stream, "ptr", None))
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < 1 << 64:
        takes = "a handle, or a stream of CuPy, PyTorch or cuda.core"
        raise ArgumentError(explain(f"stream= is {stream!r}, which is no stream of CUDA", takes=takes))
    return found


def stream_of(array: Any, device: int) -> int | None:
    """The stream in which an array's library works on it, on a device; None where unknown.

    `__cuda_array_interface__` names it; PyTorch's tensors have an older version of that without it, so PyTorch is asked for its current
    stream.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return int(torch.cuda.current_stream(device).cuda_stream)
    interface = getattr(array, "__cuda_array_interface__", None)
    found = interface.get("stream") if interface else None
    return None if found is None else int(found)
