"""The arguments with which a server joins a cluster."""

import argparse
import math
import re

from belvedere.cli.arguments import port_number
from belvedere.server.settings import LEASE_SECONDS, ClusterSettings, EtcdMetadata, SqliteMetadata


class WrongClusterArguments(Exception):
    """They do not fit together."""


def add_cluster(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "as a node of a cluster", "without --node the server is alone and keeps its metadata with its data"
    )
    group.add_argument(
        "--node", type=_name, metavar="NAME", help="the node's name, other than that of any other"
    )
    group.add_argument(
        "--cluster",
        type=_name,
        default="belvedere",
        metavar="NAME",
        help="the cluster's name (default: %(default)s)",
    )
    group.add_argument(
        "--metadata",
        type=_metadata,
        metavar="STORE",
        help="what the nodes share: sqlite:PATH on one machine, etcd:HOST:PORT[,HOST:PORT] on many",
    )
    group.add_argument(
        "--rpc-port",
        type=port_number,
        default=7000,
        metavar="PORT",
        help="where other nodes reach this one, at the address that it listens on (default: %(default)s)",
    )
    group.add_argument(
        "--lease-seconds",
        type=_lease_seconds,
        default=LEASE_SECONDS,
        metavar="S",
        help="for so long at most a dead node counts as alive, and is not replaced; as long a live one "
        "serves without the metadata store (default: %(default)g)",
    )


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", text):
        raise argparse.ArgumentTypeError(f"letters, digits, '_', '.' and '-', not {text!r}")
    return text


def _lease_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    # etcd knows whole seconds only, and none below one.
    if not 1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"a number of seconds from 1 to 3600, not {text!r}")
    return seconds


def _metadata(text: str) -> SqliteMetadata | EtcdMetadata:
    kind, _, where = text.partition(":")
    if kind == "sqlite" and where:
        return SqliteMetadata(where)
    endpoints = tuple(where.split(","))
    if kind == "etcd" and all(re.fullmatch(r"\S+:\d+", endpoint) for endpoint in endpoints):
        return EtcdMetadata(endpoints)
    raise argparse.ArgumentTypeError(f"sqlite:PATH or etcd:HOST:PORT[,HOST:PORT], not {text!r}")


def cluster_settings(arguments: argparse.Namespace) -> ClusterSettings | None:
    """None for a server that is alone. Raises WrongClusterArguments."""
    if arguments.node is None:
        if arguments.metadata is not None:
            raise WrongClusterArguments("--metadata is for a node: give it a --node")
        return None
    if arguments.metadata is None:
        raise WrongClusterArguments("a node needs --metadata: where the cluster keeps what all must agree on")
    if arguments.host in ("0.0.0.0", "::"):
        raise WrongClusterArguments(
            f"{arguments.host} is no address at which others could reach the node: listen on a real one"
        )
    return ClusterSettings(
        arguments.node,
        arguments.metadata,
        arguments.cluster,
        arguments.host,
        arguments.rpc_port,
        lease_seconds=arguments.lease_seconds,
    )
