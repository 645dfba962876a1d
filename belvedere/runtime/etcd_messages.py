"""The messages of etcd's v3 API that we send and read, built for the protobuf library from a short table.

Numbers and types are etcd's; fields that we never use are left out, which protobuf allows on both sides. They
live in a pool of their own, so that another etcd client in the same process does not meet them.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "belvedere.etcd"
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"bytes": _FIELD.TYPE_BYTES, "int": _FIELD.TYPE_INT64, "bool": _FIELD.TYPE_BOOL}
_SCALARS |= {"string": _FIELD.TYPE_STRING, "enum": _FIELD.TYPE_INT32}

#: Message → "name number type"; a star marks a repeated field, "a|b" membership in a oneof.
_TABLE: dict[str, str] = {
    "Header": "cluster_id 1 int, revision 3 int",
    "KeyValue": "key 1 bytes, mod_revision 3 int, value 5 bytes, lease 6 int",
    "RangeRequest": "key 1 bytes, range_end 2 bytes, limit 3 int, keys_only 8 bool",
    "RangeResponse": "header 1 Header, kvs 2 KeyValue*, more 3 bool",
    "PutRequest": "key 1 bytes, value 2 bytes, lease 3 int",
    "DeleteRequest": "key 1 bytes, range_end 2 bytes",
    "RequestOp": "range 1 RangeRequest|, put 2 PutRequest|, delete 3 DeleteRequest|, txn 4 TxnRequest|",
    "ResponseOp": "range 1 RangeResponse|, txn 4 TxnResponse|",
    "Compare": "result 1 enum, target 2 enum, key 3 bytes, create_revision 5 int|, mod_revision 6 int|",
    "TxnRequest": "compare 1 Compare*, success 2 RequestOp*, failure 3 RequestOp*",
    "TxnResponse": "header 1 Header, succeeded 2 bool, responses 3 ResponseOp*",
    "CompactRequest": "revision 1 int, physical 2 bool",
    "CompactResponse": "header 1 Header",
    "LeaseGrantRequest": "ttl 1 int, id 2 int",
    "LeaseGrantResponse": "header 1 Header, id 2 int, ttl 3 int, error 4 string",
    "LeaseRevokeRequest": "id 1 int",
    "LeaseRevokeResponse": "header 1 Header",
    "LeaseKeepAliveRequest": "id 1 int",
    "LeaseKeepAliveResponse": "header 1 Header, id 2 int, ttl 3 int",
    "WatchCreateRequest": "key 1 bytes, range_end 2 bytes, start_revision 3 int",
    "WatchRequest": "create 1 WatchCreateRequest|",
    "Event": "type 1 enum, kv 2 KeyValue",
    "WatchResponse": "header 1 Header, watch_id 2 int, created 3 bool, canceled 4 bool, "
    "compact_revision 5 int, cancel_reason 6 string, events 11 Event*",
}

#: Compare.target and Event.type.
CREATED, MODIFIED = 1, 2
DELETED = 1


def _fields(message: Any, text: str) -> None:
    for part in text.split(", "):
        name, number, kind = part.split()
        field = message.field.add(name=name, number=int(number), label=_FIELD.LABEL_OPTIONAL)
        if kind.endswith("*"):
            field.label = _FIELD.LABEL_REPEATED
        if kind.endswith("|"):
            if not message.oneof_decl:
                message.oneof_decl.add(name="one")
            field.oneof_index = 0
        kind = kind.rstrip("*|")
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            field.type = _FIELD.TYPE_MESSAGE
            field.type_name = f".{_PACKAGE}.{kind}"


def _build() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="belvedere_etcd.proto", package=_PACKAGE, syntax="proto3")
    for name, text in _TABLE.items():
        _fields(file.message_type.add(name=name), text)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _TABLE
    }


_CLASSES = _build()


def message(name: str, **fields: Any) -> Any:
    return _CLASSES[name](**fields)


def decoder(name: str) -> Any:
    return _CLASSES[name].FromString
