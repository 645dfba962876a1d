"""What the front end raises."""


class CQLSyntaxError(Exception):
    """Text that is not CQL. The message has Cassandra's shape: `line 1:14 no viable alternative at input
    'x' (...)`; lines count from 1 and columns from 0."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
