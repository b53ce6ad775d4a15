"""`sublet exporter`: the metrics of applications that it does not run, for Prometheus."""
