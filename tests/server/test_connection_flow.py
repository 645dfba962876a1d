"""Order of durability, limits, slow readers, and the orderly end of a connection."""

from belvedere.query.options import QueryOptions
from belvedere.server.connection_api import ServerSettings
from belvedere.server.messages_client import ErrorReply, PreparedReply, RowsReply, VoidReply
from belvedere.server.messages_requests import Execute, Prepare, Query
from tests.server.protocol_support import FakeOwner, Talk, run_async, settle


async def prepared_insert(talk: Talk, text: str = "INSERT") -> Execute:
    reply = await talk.ask(Prepare(text))
    assert isinstance(reply, PreparedReply)
    return Execute(reply.id, reply.metadata_id, True, QueryOptions())


def test_answers_wait_until_the_log_has_them() -> None:
    async def main(version: int) -> None:
        talk = Talk(version=version).start()
        insert, read = await prepared_insert(talk), await prepared_insert(talk, "READ")
        talk.send_raw(*(talk.bytes_of(stream, insert) for stream in range(5)), talk.bytes_of(9, read))
        talk.send(10, Query("X", QueryOptions()))
        await settle()
        # Only what tells of nothing that could be lost.
        assert talk.received() == [(10, VoidReply())]
        assert talk.connection.in_flight == 6
        assert len(talk.database.log_waiters) == 1, "one call for all of a group commit"
        talk.database.make_durable(3)
        assert [stream for stream, _ in talk.received()] == [0, 1, 2]
        assert len(talk.transport.sent) == 0
        talk.database.make_durable()
        replies = talk.received()
        assert [stream for stream, _ in replies] == [3, 4, 9]
        assert isinstance(replies[-1][1], RowsReply)
        assert talk.connection.in_flight == 0

    for version in (4, 5):
        run_async(main, version)


def test_answers_of_tasks_wait_for_the_log_too() -> None:
    async def main() -> None:
        talk = Talk().start()
        talk.send(1, Query("INSERT", QueryOptions()))
        await settle()
        assert talk.received() == []
        talk.database.make_durable()
        assert talk.received() == [(1, VoidReply())]

    run_async(main)


def test_a_broken_log_makes_outcomes_unknown() -> None:
    async def main() -> None:
        talk = Talk().start()
        insert = await prepared_insert(talk)
        talk.send(1, insert)
        talk.send(2, insert)
        talk.database.make_durable(error=OSError("disk gone"))
        replies = talk.received()
        assert [stream for stream, _ in replies] == [1, 2]
        for _, reply in replies:
            assert isinstance(reply, ErrorReply)
            assert reply.code == 0x1100
            assert "the outcome is unknown: disk gone" in reply.message
        assert talk.connection.in_flight == 0

    run_async(main)


def test_no_more_requests_begin_than_allowed() -> None:
    async def main(version: int) -> None:
        talk = Talk(FakeOwner(settings=ServerSettings(max_in_flight=4)), version).start()
        slow = Query("SLOW", QueryOptions())
        talk.send_raw(*(talk.bytes_of(stream, slow) for stream in range(10)))
        talk.send(20, slow)
        await settle()
        assert len(talk.database.gates) == 4
        assert not talk.transport.reading
        answered = []
        for expected in (4, 4, 3):
            assert len(talk.database.gates) == expected
            talk.database.open_gates()
            await settle()
            answered += [stream for stream, _ in talk.received()]
        assert answered == [*range(10), 20]
        assert talk.transport.reading

    for version in (4, 5):
        run_async(main, version)


def test_held_writes_count_as_in_flight() -> None:
    async def main() -> None:
        talk = Talk(FakeOwner(settings=ServerSettings(max_in_flight=4))).start()
        insert = await prepared_insert(talk)
        talk.send_raw(*(talk.bytes_of(stream, insert) for stream in range(10)))
        assert talk.database.position == 4
        assert not talk.transport.reading
        for _ in range(3):
            talk.database.make_durable()
        assert [stream for stream, _ in talk.received()] == list(range(10))
        assert talk.transport.reading

    run_async(main)


def test_bytes_of_requests_in_flight_are_bounded() -> None:
    async def main() -> None:
        talk = Talk(FakeOwner(settings=ServerSettings(max_in_flight_bytes=10_000))).start()
        for stream in range(8):
            talk.send(stream, Query("SLOW" + " " * 4000, QueryOptions()))
        await settle()
        assert len(talk.database.gates) == 3
        assert not talk.transport.reading
        for _ in range(3):
            talk.database.open_gates()
            await settle()
        assert [stream for stream, _ in talk.received()] == list(range(8))
        assert talk.transport.reading

    run_async(main)


def test_large_answers_make_fewer_requests_run_at_once() -> None:
    async def main() -> None:
        talk = Talk(FakeOwner(settings=ServerSettings(max_in_flight_bytes=100_000))).start()
        await talk.ask(Query("BIG 60000", QueryOptions()))
        talk.send_raw(*(talk.bytes_of(stream, Query("SLOW", QueryOptions())) for stream in range(10)))
        await settle()
        assert len(talk.database.gates) == 2
        talk.database.open_gates()
        await settle()
        # They were small: the expectation fades.
        assert len(talk.database.gates) > 2

    run_async(main)


def test_who_does_not_read_gets_nothing_more_computed() -> None:
    async def main() -> None:
        talk = Talk(FakeOwner(settings=ServerSettings(max_unsent=300_000))).start()
        talk.transport.stuck = True
        big = await prepared_insert(talk, "BIG 100000")
        talk.transport.waiting = 0
        talk.send_raw(*(talk.bytes_of(stream, big) for stream in range(3)))
        assert not talk.transport.reading
        talk.send_raw(*(talk.bytes_of(stream, big) for stream in range(3, 6)))
        await settle()
        assert [stream for stream, _ in talk.received()] == [0, 1, 2]
        talk.transport.waiting = 0
        talk.transport.stuck = False
        talk.connection.on_drained()
        assert [stream for stream, _ in talk.received()] == [3, 4, 5]
        await settle()
        assert talk.transport.reading

    run_async(main)


def test_a_burst_that_the_network_takes_at_once_does_not_stall() -> None:
    """Then the transport never was above its own mark, and will not say that it has drained."""

    async def main() -> None:
        talk = Talk(FakeOwner(settings=ServerSettings(max_unsent=300_000))).start()
        big = await prepared_insert(talk, "BIG 400000")
        talk.transport.stuck = True
        talk.transport.waiting = 0
        talk.send_raw(talk.bytes_of(1, big), talk.bytes_of(2, big))
        assert not talk.transport.reading
        talk.transport.waiting = 0
        talk.transport.stuck = False
        await settle()
        talk.send(3, big)
        await settle()
        assert [stream for stream, _ in talk.received()] == [1, 2, 3]
        assert talk.transport.reading

    run_async(main)


def test_one_step_never_computes_more_than_the_limit() -> None:
    async def main() -> None:
        talk = Talk(FakeOwner(settings=ServerSettings(max_in_flight_bytes=500_000))).start()
        big = await prepared_insert(talk, "BIG 100000")
        talk.transport.stuck = True
        talk.transport.waiting = 0
        talk.send_raw(*(talk.bytes_of(stream, big) for stream in range(100)))
        assert talk.transport.pending < 2_000_000
        talk.transport.stuck = False
        while not talk.transport.reading:
            talk.transport.waiting = 0
            talk.connection.on_drained()
        assert len(talk.received()) == 100

    run_async(main)


def test_a_registered_client_that_never_reads_is_dropped() -> None:
    async def main() -> None:
        talk = Talk(FakeOwner(settings=ServerSettings(max_in_flight_bytes=10_000))).start()
        talk.owner.events.register(talk.connection, ["STATUS_CHANGE"])
        talk.transport.stuck = True
        for _ in range(2000):
            talk.owner.events.status_changed("UP", "127.0.0.1", 1)
            await settle()
            if talk.transport.aborted:
                break
        assert talk.transport.aborted

    run_async(main)


def test_finish_answers_what_is_in_flight_and_closes() -> None:
    async def main() -> None:
        talk = Talk().start()
        insert = await prepared_insert(talk)
        talk.send(1, Query("SLOW", QueryOptions()))
        talk.send(2, insert)
        await settle()
        talk.connection.finish()
        assert not talk.transport.reading
        talk.send(3, insert)
        talk.database.open_gates()
        await settle()
        assert talk.received() == [(1, VoidReply())]
        assert not talk.transport.closed
        talk.database.make_durable()
        assert talk.received() == [(2, VoidReply())]
        assert talk.transport.closed
        assert talk.database.position == 1

    run_async(main)


def test_finish_closes_an_idle_connection_at_once() -> None:
    async def main() -> None:
        talk = Talk().start()
        talk.connection.finish()
        assert talk.transport.closed

    run_async(main)


def test_results_that_come_after_the_client_has_gone_are_dropped() -> None:
    async def main() -> None:
        talk = Talk().start()
        insert = await prepared_insert(talk)
        talk.send(1, Query("SLOW", QueryOptions()))
        talk.send(2, insert)
        await settle()
        talk.connection.on_close(None)
        assert talk.owner.forgotten == 1
        talk.database.open_gates()
        talk.database.make_durable()
        await settle()
        talk.connection.on_data(talk.bytes_of(3, insert))
        assert talk.received() == []
        assert talk.connection.in_flight == 0

    run_async(main)
