"""Telemetry: calls and budgets as OpenTelemetry's metrics, and as a page for Prometheus."""
