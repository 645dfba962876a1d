"""A thin client of etcd's v3 API: several endpoints, failover, and failures named for what is known.

It never sends a transaction twice. Whoever gets `EtcdSilent` must find out whether it had landed.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

try:
    import grpc
    import grpc.aio

    from belvedere.runtime.etcd_messages import decoder, message
except ImportError as error:
    raise ImportError("metadata in etcd needs more packages: pip install 'belvedere[etcd]'") from error


class EtcdError(Exception):
    """What etcd or the way to it made of a call."""


class EtcdAway(EtcdError):
    """No endpoint could be reached: the call did not happen, or was one that changes nothing."""


class EtcdSilent(EtcdError):
    """The call was sent and no answer came: it may have happened."""


class EtcdRejected(EtcdError):
    """etcd answered with an error of its own: the call did not happen."""


class EtcdNotFound(EtcdRejected):
    """The lease does not exist."""


@dataclass(frozen=True, slots=True)
class EtcdTls:
    """Paths of PEM files: who signed the servers' certificates, and what we show them."""

    authority: str
    certificate: str | None = None
    key: str | None = None


_OPTIONS = [
    # A server that is stopped or cut off keeps its sockets open: ask it, no more often than etcd allows.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    # Two stores in one process do not wait for each other's reconnections.
    ("grpc.use_local_subchannel_pool", 1),
]
#: Ends streams of a member that has lost the others.
_NEEDS_LEADER = (("hasleader", "true"),)


class EtcdClient:
    """`patience` is how long one call may take, in seconds. Each endpoint gets its share of it: one that is
    stopped, or cut off from the others, takes requests and says nothing."""

    def __init__(self, endpoints: Sequence[str], tls: EtcdTls | None = None, patience: float = 5.0) -> None:
        if not endpoints:
            raise ValueError("etcd needs at least one endpoint, such as 10.0.0.1:2379")
        self._endpoints = tuple(endpoints)
        self._credentials = None if tls is None else _credentials(tls)
        self.patience = patience
        self._share = patience / len(self._endpoints)
        self._channels: list[Any] = []
        self._current = 0

    def open(self) -> None:
        """Inside the event loop that will use it. Connections are made when they are needed."""
        if self._credentials is None:
            self._channels = [grpc.aio.insecure_channel(one, _OPTIONS) for one in self._endpoints]
        else:
            self._channels = [
                grpc.aio.secure_channel(one, self._credentials, _OPTIONS) for one in self._endpoints
            ]

    async def close(self) -> None:
        channels, self._channels = self._channels, []
        for channel in channels:
            await channel.close()

    async def range(self, **fields: Any) -> Any:
        return await self._repeat("KV/Range", message("RangeRequest", **fields), "RangeResponse")

    async def compact(self, revision: int) -> None:
        request = message("CompactRequest", revision=revision, physical=True)
        await self._repeat("KV/Compact", request, "CompactResponse")

    async def grant(self, seconds: int) -> tuple[int, int]:
        """The lease and how long etcd lets it live; one that nobody hears of runs out by itself."""
        request = message("LeaseGrantRequest", ttl=seconds)
        answer = await self._repeat("Lease/LeaseGrant", request, "LeaseGrantResponse")
        return answer.id, answer.ttl

    async def revoke(self, lease: int) -> None:
        request = message("LeaseRevokeRequest", id=lease)
        await self._repeat("Lease/LeaseRevoke", request, "LeaseRevokeResponse")

    async def keep_alive(self, lease: int) -> int:
        """How long the lease lives from now on."""

        async def once(channel: Any, timeout: float) -> int:
            method = _stream(channel, "Lease/LeaseKeepAlive", "LeaseKeepAliveResponse")
            call = method(timeout=timeout, metadata=_NEEDS_LEADER)
            try:
                await call.write(message("LeaseKeepAliveRequest", id=lease))
                answer = await call.read()
            finally:
                call.cancel()
            if answer is grpc.aio.EOF:
                raise EtcdSilent("the stream of lease renewals ended")
            return int(answer.ttl)

        seconds: int = await self._everywhere(once)
        if seconds <= 0:
            raise EtcdNotFound(f"lease {lease} has ended")
        return seconds

    async def transact(self, request: Any) -> Any:
        """Sent once, to one endpoint. Raises EtcdAway only when it was not sent."""
        index, channel = await self._connected()
        try:
            with _named_failures():
                return await _unary(channel, "KV/Txn", "TxnResponse")(request, timeout=self._share)
        except EtcdSilent:
            self._leave(index)
            raise

    async def watch(self, key: bytes, end: bytes, start: int) -> AsyncGenerator[Any, None]:
        """Responses, the first of which says that the watch stands. Ends only by raising."""
        index, channel = await self._connected()
        create = message("WatchCreateRequest", key=key, range_end=end, start_revision=start)
        call: Any = None
        try:
            with _named_failures():
                call = _stream(channel, "Watch/Watch", "WatchResponse")(metadata=_NEEDS_LEADER)
                await call.write(message("WatchRequest", create=create))
            while True:
                with _named_failures():
                    response = await call.read()
                if response is grpc.aio.EOF:
                    raise EtcdAway("the watch ended")
                yield response
        except EtcdError:
            self._leave(index)
            raise
        finally:
            if call is not None:
                call.cancel()

    @property
    def endpoint(self) -> str:
        """Where calls go at present."""
        return self._endpoints[self._current]

    def distrust(self, endpoint: str) -> None:
        """This one behaves strangely: if calls go there, they go to another one from now on."""
        if endpoint == self.endpoint:
            self._leave(self._current)

    async def _repeat(self, path: str, request: Any, answer: str) -> Any:
        """A call that may happen twice without harm."""

        async def once(channel: Any, timeout: float) -> Any:
            return await _unary(channel, path, answer)(request, timeout=timeout)

        return await self._everywhere(once)

    async def _everywhere(self, once: Callable[[Any, float], Awaitable[Any]]) -> Any:
        """Until an endpoint answers."""
        failure: EtcdError = EtcdAway("never tried")
        for _ in self._endpoints:
            index, channel = await self._connected()
            try:
                with _named_failures():
                    return await once(channel, self._share)
            except EtcdSilent as error:
                failure = error
                self._leave(index)
        raise EtcdAway(str(failure)) from failure

    async def _connected(self) -> tuple[int, Any]:
        """A channel with a connection: the present one, else whichever gets one first."""
        count = len(self._channels)
        if count == 0:
            raise EtcdAway("the client is closed")
        order = [(self._current + step) % count for step in range(count)]
        for index in order:
            if self._channels[index].get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY:
                self._current = index
                return index, self._channels[index]
        waiting = [asyncio.ensure_future(_ready(self._channels[index])) for index in order]
        try:
            await asyncio.wait(waiting, timeout=self.patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        for index, task in zip(order, waiting, strict=True):
            if not task.cancelled() and task.exception() is None:
                self._current = index
                return index, self._channels[index]
        raise EtcdAway(f"no endpoint of etcd can be reached: {', '.join(self._endpoints)}")

    def _leave(self, index: int) -> None:
        if index == self._current:
            self._current = (index + 1) % len(self._endpoints)


async def _ready(channel: Any) -> None:
    state = channel.get_state(try_to_connect=True)
    while state is not grpc.ChannelConnectivity.READY:
        await channel.wait_for_state_change(state)
        state = channel.get_state(try_to_connect=True)


def _unary(channel: Any, path: str, answer: str) -> Any:
    return channel.unary_unary(
        f"/etcdserverpb.{path}", request_serializer=_encode, response_deserializer=decoder(answer)
    )


def _stream(channel: Any, path: str, answer: str) -> Any:
    return channel.stream_stream(
        f"/etcdserverpb.{path}", request_serializer=_encode, response_deserializer=decoder(answer)
    )


def _encode(request: Any) -> Any:
    return request.SerializeToString()


@contextmanager
def _named_failures() -> Iterator[None]:
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise _failure(error) from error
    except (asyncio.InvalidStateError, grpc.aio.UsageError) as error:
        raise EtcdSilent(f"the call broke: {error}") from error
    except asyncio.CancelledError as error:
        # gRPC cancels calls of a channel that is closed; nobody has cancelled this task then.
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise EtcdSilent("the channel was closed under the call") from error


def _failure(error: Any) -> EtcdError:
    code, details = error.code(), error.details() or ""
    text = f"etcd: {code.name.lower()}: {details}"
    # Everything with these codes was turned down before it was proposed; but gRPC itself uses some of them
    # for answers that it could not deliver, and etcd says "unavailable" for proposals that it gave up on.
    if details.startswith("etcdserver:") or code in _NOT_EVEN_TRIED:
        if code is grpc.StatusCode.NOT_FOUND:
            return EtcdNotFound(text)
        if code in _NOT_EVEN_TRIED or code in _TURNED_DOWN:
            return EtcdRejected(text)
    return EtcdSilent(text)


_NOT_EVEN_TRIED = {
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
}
_TURNED_DOWN = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.OUT_OF_RANGE,
}


def _credentials(tls: EtcdTls) -> Any:
    def content(path: str | None) -> bytes | None:
        if path is None:
            return None
        with open(path, "rb") as file:
            return file.read()

    return grpc.ssl_channel_credentials(content(tls.authority), content(tls.key), content(tls.certificate))
