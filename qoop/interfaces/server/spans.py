"""Spans of OpenTelemetry: one for each query, with one for each of its stages below it (the extra ``otel``).

They are made once a query has ended, from its history, so a query that runs pays nothing for them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from qoop.catalog.errors import ConfigError
from qoop.engine.history import Switched
from qoop.engine.replay import JobReplay

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Tracer

    from qoop.interfaces.server.queries import UserQuery

_SECOND = 1_000_000_000
"""Nanoseconds."""


class Spans:
    """Tells a tracer of queries."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def tell(self, query: UserQuery, outcome: str, error: Exception | None) -> None:
        """Tell of a query that has ended."""
        from opentelemetry.trace import Status, StatusCode, set_span_in_context

        end = time.time()
        begun, history = end - query.seconds, query.job.history() if query.job is not None else ()
        facts = {"db.system.name": "qoop", "db.query.text": query.text, "user.name": query.user.name}
        facts |= {"qoop.tenant": query.user.tenant, "qoop.outcome": outcome, "qoop.query": query.id}
        span = self._tracer.start_span("query", attributes=facts, start_time=_at(begun))
        span.set_attribute("qoop.rows", query.rows)
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
        job_begun = end - query.job.status().elapsed if query.job is not None else begun
        for record in history:
            if isinstance(record, Switched):
                span.add_event(str(record), timestamp=_at(job_begun + record.at))
        inside = set_span_in_context(span)
        for stage in JobReplay.of(history).stages:
            below = self._tracer.start_span(f"stage {stage.stage}", inside, start_time=_at(job_begun + stage.begin))
            below.set_attribute("qoop.rows", stage.rows)
            below.end(_at(job_begun + stage.end))
        span.end(_at(end))


@contextmanager
def exported(exporter: SpanExporter | None = None) -> Iterator[Spans]:
    """Spans that go to an exporter; by default by OTLP over HTTP to where the variables OTEL_EXPORTER_OTLP_… say.

    Raises ConfigError if OpenTelemetry is not installed.
    """
    try:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        if exporter is None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            exporter = OTLPSpanExporter()
    except ModuleNotFoundError as error:
        raise ConfigError(f"there is no {error.name}, which spans need: pip install 'qoop[otel]'") from error
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: "qoop"}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    try:
        yield Spans(provider.get_tracer("qoop"))
    finally:
        provider.shutdown()


def _at(seconds: float) -> int:
    return int(seconds * _SECOND)
