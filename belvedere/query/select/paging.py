"""Paging state: where the next page begins. Opaque to clients, checked when it comes back."""

import zlib

import msgspec

from belvedere.query.errors import ProtocolError
from belvedere.storage.reads import MAX_TOKEN, MIN_TOKEN

_VERSION = b"\x01"


class PagingState(msgspec.Struct, array_like=True, frozen=True):
    """The last row that was returned, and what the limits still allow."""

    token: int
    key: bytes
    #: None when the whole partition is done.
    clustering_key: bytes | None
    #: Rows (or groups) that LIMIT still allows; 0 means no limit.
    remaining: int
    #: The same for PER PARTITION LIMIT in the partition of `key`.
    partition_remaining: int

    def encode(self) -> bytes:
        body = _VERSION + _encoder.encode(self)
        return body + zlib.crc32(body).to_bytes(4, "big")


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(PagingState)


def decode_paging_state(data: bytes) -> PagingState:
    body, checksum = data[:-4], data[-4:]
    if body[:1] != _VERSION or zlib.crc32(body).to_bytes(4, "big") != checksum:
        raise ProtocolError("Invalid value for the paging state")
    try:
        state = _decoder.decode(body[1:])
    except msgspec.DecodeError:
        raise ProtocolError("Invalid value for the paging state") from None
    if not MIN_TOKEN <= state.token <= MAX_TOKEN or state.remaining < 0 or state.partition_remaining < 0:
        raise ProtocolError("Invalid value for the paging state")
    return state
