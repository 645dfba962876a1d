"""Structured log lines in logfmt: `2026-01-31T12:00:00.123Z info node.ready port=9042`."""

import datetime
import sys
from collections.abc import Callable
from typing import TextIO

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def format_value(value: object) -> str:
    if isinstance(value, BaseException):
        value = f"{type(value).__name__}: {value}"
    text = str(value)
    if text and text.isprintable() and not any(mark in text for mark in ' "='):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def format_fields(fields: dict[str, object]) -> str:
    return "".join(f" {name}={format_value(value)}" for name, value in fields.items())


class LineLog:
    """Writes to a stream (stderr by default) what is at least as severe as `threshold`."""

    def __init__(
        self,
        threshold: str = "info",
        stream: TextIO | None = None,
        wall_micros: Callable[[], int] | None = None,
    ) -> None:
        if threshold not in LEVELS:
            raise ValueError(f"unknown log level {threshold!r}; one of {', '.join(LEVELS)}")
        self._threshold = LEVELS[threshold]
        self._stream = stream
        self._wall_micros = wall_micros

    def __call__(self, level: str, event: str, **fields: object) -> None:
        if LEVELS.get(level, LEVELS["error"]) < self._threshold:
            return
        stream = self._stream if self._stream is not None else sys.stderr
        try:
            stream.write(f"{self._stamp()} {level} {event}{format_fields(fields)}\n")
            stream.flush()
        except (OSError, ValueError):
            # A closed or full stderr must not take the server down, and there is nowhere to say so.
            return

    def _stamp(self) -> str:
        if self._wall_micros is None:
            moment = datetime.datetime.now(datetime.UTC)
        else:
            moment = datetime.datetime.fromtimestamp(self._wall_micros() / 1e6, datetime.UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
