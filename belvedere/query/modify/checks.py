"""What is wrong with a modification whatever its values are."""

from belvedere.model.schema import Table
from belvedere.query.errors import InvalidRequest, Unauthorized
from belvedere.query.modify.plan import Modification

SYSTEM_KEYSPACES = frozenset(
    {"system", "system_schema", "system_virtual_schema", "system_views", "system_auth", "system_traces"}
    | {"system_distributed"}
)


def check_writable(table: Table) -> None:
    if table.keyspace in SYSTEM_KEYSPACES:
        raise Unauthorized(f"{table.keyspace} keyspace is not user-modifiable.")
    if table.view is not None:
        raise InvalidRequest("Cannot directly modify a materialized view")


def check_options(plan: Modification) -> None:
    """Timestamps and TTLs that conditions and counters do not go with."""
    if plan.conditions is not None:
        if plan.is_counter:
            raise InvalidRequest("Conditional updates are not supported on counter tables")
        if plan.attributes.timestamp is not None:
            raise InvalidRequest("Cannot provide custom timestamp for conditional updates")
    if plan.is_counter:
        if plan.attributes.timestamp is not None:
            raise InvalidRequest("Cannot provide custom timestamp for counter updates")
        if plan.attributes.ttl is not None:
            raise InvalidRequest("Cannot provide custom TTL for counter updates")


def check_condition_keys(plan: Modification) -> None:
    """A condition holds for one row (or one partition's static cells)."""
    if plan.conditions is None:
        return
    what = "deletions" if plan.verb == "DELETE" else "updates"
    if plan.keys.partition_has_in:
        raise InvalidRequest(f"IN on the partition key is not supported with conditional {what}")
    if plan.keys.clustering_has_in:
        raise InvalidRequest(f"IN on the clustering key columns is not supported with conditional {what}")
