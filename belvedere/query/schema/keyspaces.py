"""CREATE, ALTER and DROP KEYSPACE."""

from collections.abc import Mapping

from belvedere.cluster.placement import ANYWHERE, factors, pool
from belvedere.cql import syntax
from belvedere.meta.state import ClusterState
from belvedere.model.schema import Keyspace
from belvedere.query.errors import AlreadyExists, ConfigurationError, InvalidRequest
from belvedere.query.schema.edits import DdlContext, Decision, KeyspaceEdit
from belvedere.query.schema.names import check_modifiable, check_name, existing_keyspace
from belvedere.query.schema.option_values import as_boolean, as_map, known_properties

_LOCATOR = "org.apache.cassandra.locator."
SIMPLE, NETWORK = "SimpleStrategy", "NetworkTopologyStrategy"
_FACTOR = ANYWHERE
_PROPERTIES = ("replication", "durable_writes")


def create_keyspace(
    statement: syntax.CreateKeyspace, state: ClusterState, context: DdlContext
) -> Decision | None:
    name = statement.keyspace
    check_modifiable(name)
    check_name("Keyspace", name)
    properties = known_properties(statement.properties, _PROPERTIES)
    if "replication" not in properties:
        raise InvalidRequest("Missing mandatory option 'replication'")
    if name in state.keyspaces:
        if statement.if_not_exists:
            return None
        raise AlreadyExists(name)
    replication = _replication(name, as_map("replication", properties["replication"]), state)
    durable = as_boolean("durable_writes", properties.get("durable_writes", "true"))
    edit = KeyspaceEdit(state, name)
    edit.put_keyspace(replication, durable)
    return edit.decide("CREATED", "KEYSPACE", warnings=factor_warnings(name, replication, state))


def alter_keyspace(
    statement: syntax.AlterKeyspace, state: ClusterState, context: DdlContext
) -> Decision | None:
    name = statement.keyspace
    check_modifiable(name)
    properties = known_properties(statement.properties, _PROPERTIES)
    if name not in state.keyspaces and statement.if_exists:
        return None
    before = existing_keyspace(state, name)
    replication, durable = before.replication, before.durable_writes
    if "replication" in properties:
        replication = _replication(name, as_map("replication", properties["replication"]), state)
    if "durable_writes" in properties:
        durable = as_boolean("durable_writes", properties["durable_writes"])
    if (replication, durable) == (dict(before.replication), before.durable_writes):
        return None
    edit = KeyspaceEdit(state, name)
    edit.put_keyspace(replication, durable)
    warnings = factor_warnings(name, replication, state)
    if context.replicated and before.tables and replication != dict(before.replication):
        warnings += (f"The tables of {name} keep the replicas that they have: only new ones follow this",)
    return edit.decide("UPDATED", "KEYSPACE", warnings=warnings)


def drop_keyspace(
    statement: syntax.DropKeyspace, state: ClusterState, context: DdlContext
) -> Decision | None:
    name = statement.keyspace
    check_modifiable(name)
    if name not in state.keyspaces and statement.if_exists:
        return None
    keyspace: Keyspace = existing_keyspace(state, name)
    edit = KeyspaceEdit(state, name)
    edit.drop_keyspace(keyspace)
    return edit.decide("DROPPED", "KEYSPACE")


# --- replication -------------------------------------------------------------------------------------


def _replication(keyspace: str, options: dict[str, str], state: ClusterState) -> dict[str, str]:
    """The checked options in the form that is kept: the class with its full name, the class first."""
    written = options.pop("class", None)
    if written is None:
        raise ConfigurationError("Missing replication strategy class")
    strategy = written.removeprefix(_LOCATOR)
    if not options:
        options = {_FACTOR: _default_factor(keyspace, state)}
    if strategy == "LocalStrategy":
        raise ConfigurationError(
            "Unable to use given strategy class: LocalStrategy is reserved for internal use."
        )
    if strategy == SIMPLE:
        factors = _simple_factors(keyspace, options)
    elif strategy == NETWORK:
        factors = _network_factors(keyspace, options, state)
    else:
        full_name = written if "." in written else _LOCATOR + written
        raise ConfigurationError(f"Unable to find replication strategy class '{full_name}'")
    return {"class": _LOCATOR + strategy, **factors}


def _simple_factors(keyspace: str, options: dict[str, str]) -> dict[str, str]:
    for name in options:
        if name != _FACTOR:
            raise _unrecognised(name, SIMPLE, keyspace)
    return {_FACTOR: _factor(options[_FACTOR])}


def _network_factors(keyspace: str, options: dict[str, str], state: ClusterState) -> dict[str, str]:
    """`replication_factor` stands for every data centre that is not named itself."""
    known = datacenters(state)
    for name in options:
        if name != _FACTOR and name not in known:
            raise _unrecognised(name, NETWORK, keyspace)
    factors = {name: _factor(text) for name, text in options.items() if name != _FACTOR}
    if _FACTOR in options:
        default = _factor(options[_FACTOR])
        factors = {**dict.fromkeys(known, default), **factors}
    return dict(sorted(factors.items()))


def _default_factor(keyspace: str, state: ClusterState) -> str:
    """What the keyspace had before, or one: Cassandra's default_keyspace_rf."""
    before = state.keyspaces.get(keyspace)
    return "1" if before is None else before.replication.get(_FACTOR, "1")


def datacenters(state: ClusterState) -> list[str]:
    return sorted({node.datacenter for node in state.nodes.values()}) or ["datacenter1"]


def _factor(text: str) -> str:
    if "/" in text:
        raise ConfigurationError("Transient replication is not supported")
    try:
        factor = int(text)
    except ValueError:
        raise ConfigurationError(f"Replication factor must be numeric; found {text}") from None
    if factor < 0:
        raise ConfigurationError(f"Replication factor must be non-negative; found {text}")
    return str(factor)


def _unrecognised(option: str, strategy: str, keyspace: str) -> ConfigurationError:
    return ConfigurationError(
        f"Unrecognized strategy option {{{option}}} passed to {strategy} for keyspace {keyspace}"
    )


def factor_warnings(keyspace: str, replication: Mapping[str, str], state: ClusterState) -> tuple[str, ...]:
    warnings = []
    for name, factor in factors(replication).items():
        where = "" if name == _FACTOR else f" in datacenter {name}"
        count = max(1, len(pool(state, name)))
        if factor > count:
            warnings.append(
                f"Your replication factor {factor} for keyspace {keyspace} is higher than "
                f"the number of nodes {count}{where}"
            )
    return tuple(warnings)
