"""Messages between a job and its child processes: JSON and raw bytes, with their lengths in front. Nothing is ever unpickled.

On the wire: the number of blobs and the length of the JSON (two u32), the JSON, and for each blob its length (u64) and bytes.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

Blob: TypeAlias = "bytes | bytearray | memoryview"

_HEAD = struct.Struct("<II")
_LENGTH = struct.Struct("<Q")


def send(connection: socket.socket, message: dict[str, Any], blobs: Sequence[Blob] = ()) -> None:
    """Sends one message; raises `OSError` when the other side is gone."""
    text = json.dumps(message).encode()
    connection.sendall(_HEAD.pack(len(blobs), len(text)) + text)
    for blob in blobs:
        view = memoryview(blob).cast("B")
        connection.sendall(_LENGTH.pack(view.nbytes))
        connection.sendall(view)


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[bytearray]] | None:
    """The next message, or None when the other side has closed the connection."""
    head = _read(connection, _HEAD.size)
    if head is None:
        return None
    count, length = _HEAD.unpack(head)
    text = _read(connection, length)
    blobs: list[bytearray] = []
    while text is not None and len(blobs) < count:
        prefix = _read(connection, _LENGTH.size)
        blob = None if prefix is None else _read(connection, _LENGTH.unpack(prefix)[0])
        if blob is None:
            return None
        blobs.append(blob)
    return None if text is None else (json.loads(text), blobs)


def _read(connection: socket.socket, count: int) -> bytearray | None:
    """`count` bytes from the connection; None when it ends before."""
    data = bytearray(count)
    view = memoryview(data)
    while view.nbytes:
        try:
            received = connection.recv_into(view, min(view.nbytes, 1 << 30))
        except ConnectionResetError:
            return None
        if not received:
            return None
        view = view[received:]
    return data
