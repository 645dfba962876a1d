"""How a cluster's metadata lies in etcd, and transactions as etcd's requests.

    <cluster>/state/entries/<key>    an entry
    <cluster>/state/head             written by every transaction: its revision is the newest one's
    <cluster>/ids/<id>               a transaction that is decided; under a lease, so that it goes in time

One watch on `state/` sees each transaction exactly once, an empty one too, and no ids.
"""

from collections.abc import Mapping
from typing import Any

from belvedere.meta.store import Absent, Assertion, Delete, Put, Transaction, Update
from belvedere.runtime.etcd_messages import CREATED, DELETED, MODIFIED, message

#: What an id says: its transaction landed, or was refused for good.
LANDED, REFUSED = b"landed", b"refused"

#: How long etcd's lists may be (its option max-txn-ops, as it comes): of comparisons, and of operations
#: either way. An operation may be a transaction with lists of its own; those have what the longest outer one
#: left.
_ROOM = 128
#: A transaction with more assertions is checked first and then rests on the head not having moved.
FEW_ASSERTIONS = 50
_READS = 100


class TransactionTooLarge(ValueError):
    """etcd would not take it, however often it is tried."""


class Layout:
    def __init__(self, cluster: str) -> None:
        self.state = f"{cluster}/state/".encode()
        #: What follows everything under `state` in the order of keys.
        self.state_end = f"{cluster}/state0".encode()
        self.head = self.state + b"head"
        self._entries = self.state + b"entries/"
        self._ids = f"{cluster}/ids/".encode()

    def key_of(self, name: bytes) -> str | None:
        """The entry's key; None for what is no entry."""
        return name[len(self._entries) :].decode() if name.startswith(self._entries) else None

    def update_of(self, event: Any) -> Update | None:
        key = self.key_of(event.kv.key)
        if key is None:
            return None
        return Delete(key) if event.type == DELETED else Put(key, event.kv.value, event.kv.lease or None)

    def write(self, transaction: Transaction, id_lease: int, settle: bool) -> Any:
        """A transaction with few assertions. With `settle`, a refusal is written down under the id: an
        earlier try that is still on its way finds it and cannot land."""
        comparisons = [self._holds(assertion) for assertion in transaction.asserts]
        reads = [_read(self._entry(assertion.key)) for assertion in transaction.asserts]
        tombstones = [_nested(self._only_settle(transaction, id_lease))] if settle else []
        return self._write(transaction, id_lease, comparisons, [*reads, *tombstones])

    def write_at(self, transaction: Transaction, id_lease: int, head: int, leased: list[Assertion]) -> Any:
        """A transaction whose assertions held when the head was at this revision. Keys under leases may go
        without the head's moving, so they are compared."""
        comparisons = [_compare(self.head, head), *map(self._holds, leased)]
        return self._write(transaction, id_lease, comparisons, [])

    def checks(self, transaction: Transaction) -> list[Any]:
        """Requests that read the head and what a transaction rests on, in pieces that etcd takes."""
        keys = sorted({assertion.key for assertion in transaction.asserts})
        return [
            message("TxnRequest", success=[_read(self.head), *(_read(self._entry(key)) for key in piece)])
            for piece in (keys[start : start + _READS] for start in range(0, len(keys), _READS))
        ]

    def settlement(self, transaction: Transaction, id_lease: int) -> Any:
        """Changes nothing but the id: from now on the transaction has landed, or never will."""
        request = self._only_settle(transaction, id_lease)
        request.failure.extend([_read(self.head), _read(self.id(transaction), keys_only=False)])
        return request

    def _only_settle(self, transaction: Transaction, id_lease: int) -> Any:
        own = self.id(transaction)
        return message("TxnRequest", compare=[_compare(own, 0)], success=[_put(own, REFUSED, id_lease)])

    def _write(
        self, transaction: Transaction, id_lease: int, comparisons: list[Any], otherwise: list[Any]
    ) -> Any:
        own = self.id(transaction)
        compare = [_compare(own, 0), *comparisons]
        failure = [_read(self.head), _read(own, keys_only=False), *otherwise]
        # etcd refuses two updates of one key; the last one is what counts.
        updates = {update.key: self._change(update) for update in transaction.updates}
        changes = _in_lists(list(updates.values()), max(len(compare), len(failure)))
        success = [_put(self.head, b""), _put(own, LANDED, id_lease), *changes]
        return message("TxnRequest", compare=compare, success=success, failure=failure)

    def _entry(self, key: str) -> bytes:
        return self._entries + key.encode()

    def id(self, transaction: Transaction) -> bytes:
        return self._ids + transaction.id.hex().encode()

    def _holds(self, assertion: Assertion) -> Any:
        return _compare(
            self._entry(assertion.key), 0 if isinstance(assertion, Absent) else assertion.revision
        )

    def _change(self, update: Update) -> Any:
        if isinstance(update, Put):
            return _put(self._entry(update.key), update.value, update.lease or 0)
        return message("RequestOp", delete=message("DeleteRequest", key=self._entry(update.key)))

    def found(self, answer: Any) -> dict[str, Any]:
        """What an answer says about entries, by key."""
        kvs = (kv for response in answer.responses for kv in response.range.kvs)
        return {key: kv for kv in kvs if (key := self.key_of(kv.key)) is not None}


def head_and_id(answer: Any) -> tuple[int, Any]:
    """Of an answer that changed nothing: the head's revision, and the id's key or None."""
    head, own = (answer.responses[index].range.kvs for index in (0, 1))
    return head[0].mod_revision if head else 0, own[0] if own else None


def head_of(answer: Any) -> int:
    head = answer.responses[0].range.kvs
    return head[0].mod_revision if head else 0


def first_broken(asserts: tuple[Assertion, ...], found: Mapping[str, Any]) -> Assertion | None:
    for assertion in asserts:
        kv = found.get(assertion.key)
        wanted = 0 if isinstance(assertion, Absent) else assertion.revision
        if (0 if kv is None else kv.mod_revision) != wanted:
            return assertion
    return None


def _in_lists(operations: list[Any], longest_other: int) -> list[Any]:
    """At most as many as fit beside the head and the id."""
    if len(operations) <= _ROOM - 3:
        return operations
    for count in range(2, _ROOM - 2):
        size = _ROOM - max(longest_other, count + 2)
        if count * size >= len(operations):
            return [
                _nested(message("TxnRequest", success=operations[start : start + size]))
                for start in range(0, len(operations), size)
            ]
    raise TransactionTooLarge(f"{len(operations)} updates are more than etcd takes in a transaction")


def _compare(key: bytes, revision: int) -> Any:
    """The key was last written at this revision; 0 means that it does not exist."""
    if revision == 0:
        return message("Compare", target=CREATED, key=key, create_revision=0)
    return message("Compare", target=MODIFIED, key=key, mod_revision=revision)


def _read(key: bytes, keys_only: bool = True) -> Any:
    return message("RequestOp", range=message("RangeRequest", key=key, keys_only=keys_only))


def _put(key: bytes, value: bytes, lease: int = 0) -> Any:
    return message("RequestOp", put=message("PutRequest", key=key, value=value, lease=lease))


def _nested(request: Any) -> Any:
    return message("RequestOp", txn=request)
