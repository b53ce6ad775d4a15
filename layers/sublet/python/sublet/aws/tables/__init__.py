"""The ports over DynamoDB: leases, sightings, sketches, reports and control."""
