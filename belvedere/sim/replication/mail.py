"""Messages between simulated nodes: lost, doubled, delayed, overtaken. Cheaper than streams, and worse.

The fate of each message is drawn by its link and number. A message is handed to the life of the receiver
that lived when it was sent, or to none, as a connection would have it; a paused receiver gets it later.
"""

import contextvars
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import xxhash

from belvedere.cluster.messages import AnyMessage
from belvedere.sim.incarnation import Incarnation
from belvedere.sim.randomness import between, stream
from belvedere.sim.world import World

Receive = Callable[[str, AnyMessage], None]
_NOBODY = contextvars.Context()


@dataclass
class MailFaults:
    """Shares of messages."""

    lost: float = 0.0
    doubled: float = 0.0
    spikes: float = 0.0
    #: Seconds that a delayed message, or the second copy, may take.
    spike: tuple[float, float] = (0.01, 2.0)


class Mail:
    def __init__(self, world: World) -> None:
        self._world = world
        self._loop = world.loop
        self._low = between(stream(world.seed, "mail").random(), 50e-6, 1e-3)
        self._seed = world.seed & 0xFFFF_FFFF_FFFF_FFFF
        self._boxes: dict[str, tuple[Incarnation, Receive]] = {}
        self._links: dict[tuple[str, str], list[Any]] = {}
        self.faults = MailFaults()

    def open(self, incarnation: Incarnation, receive: Receive) -> "Port":
        self._boxes[incarnation.machine] = (incarnation, receive)
        return Port(self, incarnation.machine)

    def send(self, source: str, target: str, message: AnyMessage) -> None:
        box = self._boxes.get(target)
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = [f"{source}>{target}", 0]
        link[1] += 1
        if box is None or not box[0].alive or self._world.network.is_blocked(source, target):
            return
        # Four independent shares out of one draw.
        drawn: int = xxhash.xxh3_128_intdigest(f"{link[0]}/{link[1]}".encode(), self._seed)
        loss, double = (drawn & 0xFFFF_FFFF) / 2**32, (drawn >> 32 & 0xFFFF_FFFF) / 2**32
        share, spike = (drawn >> 64 & 0xFFFF_FFFF) / 2**32, (drawn >> 96) / 2**32
        faults = self.faults
        if loss < faults.lost:
            return
        delay = between(share, self._low, self._low * 20)
        if spike < faults.spikes:
            delay += between(share, *faults.spike)
        self._post(delay, link[0], box, source, message)
        if double < faults.doubled:
            self._post(between(spike, *faults.spike), link[0], box, source, message)

    def _post(
        self, delay: float, link: str, box: tuple[Incarnation, Receive], source: str, message: AnyMessage
    ) -> None:
        self._loop.call_later(delay, self._arrive, link, box, source, message, context=_NOBODY)

    def _arrive(self, link: str, box: tuple[Incarnation, Receive], source: str, message: AnyMessage) -> None:
        receiver, receive = box
        loop = self._loop
        if not receiver.alive:
            return
        if receiver.resume_at_ns > loop.now_ns:
            later = (receiver.resume_at_ns - loop.now_ns) / 1e9
            self._post(later, link, box, source, message)
            return
        if self._world.network.is_blocked(source, receiver.machine):
            return
        self._world.record(type(message).__name__, link)
        receiver.context.run(receive, source, message)


class Port:
    """One node's `Peers`."""

    def __init__(self, mail: Mail, machine: str) -> None:
        self._mail = mail
        self._machine = machine

    def send(self, node: str, message: AnyMessage) -> None:
        self._mail.send(self._machine, node, message)
