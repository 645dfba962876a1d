"""What clients are told when storage, a disk or the metadata store fails: the nearest error that CQL has."""

from belvedere.cluster.operations import Fenced
from belvedere.meta.store import MetadataError
from belvedere.query.errors import CQLError, InvalidRequest, IsBootstrapping, Overloaded, ServerError
from belvedere.runtime.errors import DiskError
from belvedere.storage.errors import Dropped, LogFull, MutationTooLarge, StorageError, WritesRefused


def as_cql_error(error: BaseException) -> CQLError | None:
    """None for what is neither a CQL error nor a failure that may happen: a bug."""
    match error:
        case CQLError():
            return error
        case MutationTooLarge() | Dropped():
            return InvalidRequest(str(error))
        case LogFull() | WritesRefused():
            # Nothing was applied, and trying again later or elsewhere may help: what Overloaded says.
            return Overloaded(str(error))
        case Fenced():
            # Drivers try the next node.
            return IsBootstrapping(str(error))
        case StorageError() | DiskError() | MetadataError():
            return ServerError(f"{type(error).__name__}: {error}")
    return None
