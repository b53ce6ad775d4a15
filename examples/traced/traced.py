"""A producer and a consumer with OpenTelemetry's spans, all in memory: `python examples/traced/traced.py` prints them.

Each record carries the context of the span in which it was put, in its JSON. On AWS nothing else changes: the program
sets a tracer provider with its own exporter, and the consumer is told where the context is.
"""

import json

import sublet
from opentelemetry import propagate, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from sublet.testing.memory import MemoryAccount

tracer = trace.get_tracer("traced")


def put_order(producer: sublet.Producer, number: int) -> None:
    with tracer.start_as_current_span("order received"):
        order: dict[str, object] = {"id": number}
        propagate.inject(order)  # adds `traceparent`, and `tracestate` if there is one
        producer.put(f"customer-{number}", json.dumps(order).encode())


def handle(batch: sublet.Batch) -> None:
    for record in batch.records:
        with tracer.start_as_current_span("order checked"):  # a child of the batch's span
            json.loads(record.data)


def main() -> None:
    account = MemoryAccount()
    account.create("orders", 1)
    with sublet.Producer("orders", account=account) as producer:
        for number in range(3):
            put_order(producer, number)

    def handle_and_stop(batch: sublet.Batch) -> None:
        handle(batch)
        consumer.stop()

    consumer = sublet.Consumer(
        "orders-audit", "orders", handle_and_stop, account=account, trace_context="json:traceparent"
    )
    consumer.run()


if __name__ == "__main__":
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    trace.set_tracer_provider(provider)
    main()
