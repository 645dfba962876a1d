"""Clients with conditions on the same keys, through crashes: one order must explain what they were told.

Each key is a register that clients create (IF NOT EXISTS), count up (IF value = what they read) and remove
(IF value = …). Values are never used twice, so every applied step says which one it followed: the steps of
a key must form one chain, and what is there in the end must be its end.
"""

import asyncio
import random
from dataclasses import dataclass, field

from belvedere.query.results import Rows
from belvedere.sim.incarnation import MachineCrashed
from belvedere.sim.model.node import Node, Request
from belvedere.sim.model.run import CREATE_KEYSPACE, Mismatch
from belvedere.sim.world import World
from belvedere.storage.engine import EngineOptions

CREATE_TABLE = "CREATE TABLE ks.registers (k int PRIMARY KEY, v int)"
CREATE = "INSERT INTO ks.registers (k, v) VALUES (?, ?) IF NOT EXISTS"
CHANGE = "UPDATE ks.registers SET v = ? WHERE k = ? IF v = ?"
REMOVE = "DELETE FROM ks.registers WHERE k = ? IF v = ?"
READ = "SELECT v FROM ks.registers WHERE k = ?"
_ABSENT = 0


def _int(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


@dataclass
class Step:
    """From one value of a register (0: absent) to another. Removals are told apart by who made them."""

    before: int
    after: int
    certain: bool


@dataclass
class Register:
    steps: list[Step] = field(default_factory=list)

    def check(self, last: int) -> None:
        """Every value that was created was consumed at most once, and all that is certain is linked."""
        consumed: dict[int, int] = {}
        made = {step.after for step in self.steps}
        for step in self.steps:
            if not step.certain or step.before == _ABSENT:
                continue
            if step.before not in made:
                raise Mismatch(f"{step} follows a value that nobody wrote")
            consumed[step.before] = consumed.get(step.before, 0) + 1
            if consumed[step.before] > 1:
                raise Mismatch(f"two steps were applied to the value {step.before}: {self.steps}")
        if last != _ABSENT and last not in made:
            raise Mismatch(f"the value {last} was never written")
        if last in consumed:
            raise Mismatch(f"the value {last} is there, and was replaced: {self.steps}")
        # A value that was certainly written is still there or was followed by a step, certain or not.
        followed = {step.before for step in self.steps}
        for step in self.steps:
            if step.certain and step.after != _ABSENT and step.after != last and step.after not in followed:
                raise Mismatch(
                    f"the value {step.after} was applied and is lost; {last} is there: {self.steps}"
                )
        self._check_creations(last)

    def _check_creations(self, last: int) -> None:
        """Between two creations lies a removal."""
        creations = [step for step in self.steps if step.before == _ABSENT]
        removals = [step for step in self.steps if step.after == _ABSENT]
        least = sum(step.certain for step in creations) - (last != _ABSENT)
        if least > len(removals):
            raise Mismatch(f"{least} creations were followed by {len(removals)} removals: {self.steps}")
        least = sum(step.certain for step in removals) + (last != _ABSENT)
        if least > len(creations):
            raise Mismatch(f"{least} values came of {len(creations)} creations: {self.steps}")


class Contention:
    def __init__(self, world: World) -> None:
        self.world = world
        self.random = random.Random(f"contention {world.seed}")
        options = EngineOptions(memtable_bytes=self.random.choice((1500, 1 << 20)), segment_bytes=1 << 16)
        self.node = Node(world, options)
        self.registers = {key: Register() for key in range(self.random.choice((1, 1, 3)))}
        self._values = 0
        self.applied = 0

    async def run(self) -> None:
        await self.node.boot()
        await self.node.execute(Request(CREATE_KEYSPACE))
        await self.node.execute(Request(CREATE_TABLE))
        for _ in range(self.random.choice((1, 2, 3))):
            await self._round(crash=self.random.random() < 0.6)
            for key, register in self.registers.items():
                last = await self._read(key)
                register.check(last)
                # From here on, what was unknown is settled.
                register.steps = [] if last == _ABSENT else [Step(_ABSENT, last, True)]
        await self.node.stop()
        self.world.check_no_failures()

    async def _round(self, *, crash: bool) -> None:
        clients = [asyncio.create_task(self._client()) for _ in range(self.random.randint(2, 5))]
        if crash:
            await self.world.sleep(10 ** self.random.uniform(-3, -1))
            self.node.crash(lose_unsynced=self.random.random() < 0.7)
        await asyncio.gather(*clients)
        if crash:
            await self.world.sleep(0.2)
            await self.node.boot()

    async def _client(self) -> None:
        generator = random.Random(self.random.getrandbits(64))
        try:
            for _ in range(generator.randint(5, 15)):
                await self._attempt(generator, generator.choice(list(self.registers)))
        except MachineCrashed:
            pass

    async def _attempt(self, generator: random.Random, key: int) -> None:
        self._values += 1
        new = self._values
        seen = _ABSENT if generator.random() < 0.3 else await self._read(key)
        if seen == _ABSENT:
            step, request = Step(_ABSENT, new, False), Request(CREATE, [_int(key), _int(new)])
        elif generator.random() < 0.6:
            step = Step(seen, new, False)
            request = Request(CHANGE, [_int(new), _int(key), _int(seen)])
        else:
            step, request = Step(seen, _ABSENT, False), Request(REMOVE, [_int(key), _int(seen)])
        steps = self.registers[key].steps
        steps.append(step)
        result = await self.node.execute(request)
        assert isinstance(result, Rows)
        if result.rows[0][0] == b"\1":
            step.certain = True
            self.applied += 1
        else:
            steps[:] = [one for one in steps if one is not step]

    async def _read(self, key: int) -> int:
        result = await self.node.execute(Request(READ, [_int(key)], prepared=True))
        assert isinstance(result, Rows)
        return int.from_bytes(result.rows[0][0] or b"", "big", signed=True) if result.rows else _ABSENT


def contend(seed: int) -> int:
    """One seed; returns how many conditional statements were applied, raises Mismatch."""
    world = World(seed)
    contention = Contention(world)

    async def main(_: World) -> None:
        await contention.run()

    world.run(main, limit_steps=2_000_000)
    return contention.applied
