"""What clients are told when an operation came to nothing, or nobody knows what it came to."""

from dataclasses import dataclass

from belvedere.cluster.configuration import Level
from belvedere.cluster.messages import Failed, NotServing, Outcome, Overloaded, Unavailable, Unknown
from belvedere.cluster.rpc_frames import FrameTooLarge
from belvedere.meta.state import ClusterState, Tablet
from belvedere.model.schema import Table
from belvedere.query import errors
from belvedere.query.errors import CQLError, InvalidRequest
from belvedere.storage.errors import Dropped, MutationTooLarge


@dataclass(frozen=True, slots=True)
class Attempt:
    """What was tried. `write_type` is that of the native protocol; "" for a read."""

    state: ClusterState
    table: Table
    tablet: Tablet | None
    consistency: int
    level: Level
    write_type: str = ""


def failure_of(outcome: Outcome, attempt: Attempt) -> CQLError:
    match outcome:
        case Unavailable(needed, alive):
            return errors.Unavailable(attempt.consistency, needed, alive)
        case Overloaded():
            return errors.Overloaded(
                f"too much is under way in {attempt.table.full_name} already; nothing was done"
            )
        case Unknown(why):
            return _timeout(attempt, why)
        case NotServing(why):
            return _not_served(attempt, why)
        case Failed(kind, why):
            return _failed(attempt, kind, why)
    raise AssertionError(f"{outcome} is no failure")


def _failed(attempt: Attempt, kind: str, why: str) -> CQLError:
    if kind in (MutationTooLarge.__name__, Dropped.__name__, FrameTooLarge.__name__):
        return InvalidRequest(why)
    if attempt.write_type:
        # Nothing was done, and trying again may help.
        return errors.Overloaded(f"{kind}: {why}")
    return errors.ReadFailure(f"{kind}: {why}", attempt.consistency, 0, 1)


def _not_served(attempt: Attempt, why: str) -> CQLError:
    """Nothing was done: either too few replicas are left, or the tablet is between two primaries."""
    if attempt.table.id not in attempt.state.tables_by_id:
        return InvalidRequest(f"table {attempt.table.name} does not exist")
    tablet = attempt.tablet
    if tablet is not None:
        needed = attempt.level.needed(len(tablet.replicas))
        alive = sum(node in attempt.state.alive for node in tablet.in_sync)
        if alive < needed:
            return errors.Unavailable(attempt.consistency, needed, alive)
    return _timeout(attempt, why)


def _timeout(attempt: Attempt, why: str) -> CQLError:
    required = attempt.level.needed(1 if attempt.tablet is None else len(attempt.tablet.replicas))
    name = errors.consistency_name(attempt.consistency)
    message = f"Operation timed out - received only 0 responses from {required} at {name}: {why}"
    if attempt.write_type:
        return errors.WriteTimeout(message, attempt.consistency, 0, required, attempt.write_type)
    return errors.ReadTimeout(message, attempt.consistency, 0, required, False)
