"""A database that cannot be opened leaves nothing open."""

import pytest

from belvedere.meta.memory import MemoryStore
from belvedere.meta.metadata import Metadata
from belvedere.query import database as module
from belvedere.query.database import Database, DatabaseOptions
from belvedere.query.local_access import LocalAccess
from belvedere.runtime.errors import DiskFull
from belvedere.sim.world import World


@pytest.mark.parametrize("step", ["node id", "tablets"])
def test_what_fails_once_can_be_tried_again(step: str) -> None:
    async def fail(*arguments: object) -> str:
        raise DiskFull("no space left on device", "data")

    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def live() -> None:
            metadata = Metadata(runtime, MemoryStore())
            await metadata.start()
            with pytest.MonkeyPatch.context() as patch:
                if step == "tablets":
                    patch.setattr(LocalAccess, "align", fail)
                else:
                    patch.setattr(module, "_node_id", fail)
                with pytest.raises(DiskFull):
                    await Database.open(runtime, "data", metadata, DatabaseOptions())
            database = await Database.open(runtime, "data", metadata, DatabaseOptions())
            await database.close()
            await metadata.stop()

        await runtime.perform(live())
        world.check_no_failures()

    World(1).run(main)
