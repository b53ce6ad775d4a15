"""The ports over boto3: the only place that imports it."""
