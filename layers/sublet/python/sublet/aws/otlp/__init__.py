"""Metrics in OpenTelemetry's protocol, to CloudWatch or to a collector (`metrics_export=otlp`)."""
