"""The repository's own deployment: its CDK app, and an AWS on this machine to deploy it to."""
