"""Similarity of vectors of floats, scaled as vector indexes do: 1 is most alike."""

import math
import struct
from collections.abc import Callable, Sequence

from belvedere.model.types import FLOAT, CQLType, VectorType
from belvedere.query.errors import InvalidRequest
from belvedere.query.functions.registry import (
    AnyFunction,
    Argument,
    Function,
    Request,
    check_count,
    no_nulls,
    register_factory,
)

Vector = tuple[float, ...]


def _cosine(left: Vector, right: Vector) -> float:
    lengths = math.sqrt(math.fsum(x * x for x in left) * math.fsum(y * y for y in right))
    if lengths == 0:
        raise InvalidRequest("Function system.similarity_cosine doesn't support all-zero vectors.")
    return (1 + _dot(left, right) / lengths) / 2


def _euclidean(left: Vector, right: Vector) -> float:
    return 1 / (1 + math.fsum((x - y) ** 2 for x, y in zip(left, right, strict=True)))


def _dot(left: Vector, right: Vector) -> float:
    return math.fsum(x * y for x, y in zip(left, right, strict=True))


def _dot_product(left: Vector, right: Vector) -> float:
    return (1 + _dot(left, right)) / 2


SIMILARITIES: dict[str, Callable[[Vector, Vector], float]] = {
    "similarity_cosine": _cosine,
    "similarity_euclidean": _euclidean,
    "similarity_dot_product": _dot_product,
}


def _make(request: Request) -> Sequence[AnyFunction]:
    check_count(request, 2, takes="float_vector, float_vector")
    types = [_vector_type(request, argument) for argument in request.arguments]
    found = [type_ for type_ in types if type_ is not None]
    if not found:
        raise InvalidRequest(
            f"Cannot infer type of argument {request.arguments[0].text} in call to function "
            f"system.{request.name}: use type casts to disambiguate"
        )
    if found[0].dimension != found[-1].dimension:
        raise InvalidRequest(
            "All arguments must have the same vector dimensions, "
            f"but found {found[0].name} and {found[-1].name}"
        )
    vector = found[0]
    layout = struct.Struct(f">{vector.dimension}f")
    similarity = SIMILARITIES[request.name]

    def call(left: bytes, right: bytes) -> bytes:
        return FLOAT.encode(similarity(layout.unpack(left), layout.unpack(right)))

    return (Function(request.name, (vector, vector), FLOAT, no_nulls(call)),)


def _vector_type(request: Request, argument: Argument) -> VectorType | None:
    known: CQLType | None = argument.known_type
    if isinstance(known, VectorType) and known.element is FLOAT:
        return known
    # A literal such as [1, 2] looks like a list of ints: the other argument decides.
    if known is None or known.name.startswith("list<"):
        return None
    raise InvalidRequest(
        f"Function system.{request.name} requires a float vector argument, "
        f"but found argument {argument.text} of type {known.name}"
    )


register_factory(_make, *SIMILARITIES)
