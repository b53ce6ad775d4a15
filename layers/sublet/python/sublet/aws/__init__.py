"""The ports over boto3. No other package imports boto3."""
