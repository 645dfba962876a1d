"""LZ4, as the native protocol uses it: whole bodies before v5, segments since."""

import lz4.block

from belvedere.query.errors import ProtocolError

#: What STARTUP may ask for.
ALGORITHMS = ("lz4",)

#: Bodies smaller than this are sent as they are: too little to gain.
WORTHWHILE = 512


def compress_block(data: bytes) -> bytes:
    compressed: bytes = lz4.block.compress(data, store_size=False)
    return compressed


def decompress_block(data: bytes, size: int) -> bytes:
    """The `size` bytes that a block holds; ProtocolError when it holds anything else."""
    try:
        plain: bytes = lz4.block.decompress(data, uncompressed_size=size)
    except lz4.block.LZ4BlockError as error:
        raise ProtocolError("Cannot decompress: not a valid LZ4 block") from error
    if len(plain) != size:
        raise ProtocolError(f"Cannot decompress: {size} bytes announced, {len(plain)} found")
    return plain


def compress_body(body: bytes) -> bytes:
    """A body of protocol v3 and v4: the plain length in front of the block."""
    return len(body).to_bytes(4, "big") + compress_block(body)


def decompress_body(body: bytes, limit: int) -> bytes:
    if len(body) < 4:
        raise ProtocolError("Cannot decompress: the body is too short")
    size = int.from_bytes(body[:4], "big")
    if size > limit:
        raise ProtocolError(
            f"Request is too big: length {size} exceeds maximum allowed length {limit} when decompressed"
        )
    return decompress_block(body[4:], size) if size else b""
