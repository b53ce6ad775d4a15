"""Looks in an account for what carries a run's tag, and for names that a run would take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sublet_cdk.state_machine_resource import VENDED_LOGS

from infra.local.deploy import AwsToDeployTo
from tests.acceptance.belongings import TAG, Belongings, Thing
from tests.acceptance.things import Bucket, Key, Queue, StackOfRun, Stream, Table


class NamesTaken(Exception):
    """The account has things whose names begin as the run's would."""


def check_names_are_free(aws: AwsToDeployTo, prefix: str) -> None:
    """Raises NamesTaken before anything is created: what bears such a name may be somebody else's. A deployment would
    update a stack that exists, and fail over another thing's name, which then stands among the resources of a stack
    that is the run's.
    """
    begins = f"{prefix}-"
    stacks = (f"stack {name}" for name in _stacks(aws) if name.startswith((f"sublet-{begins}", begins)))
    named = {
        "stream": _streams(aws),
        "table": _tables(aws),
        "queue": _queues(aws),
        "bucket": _buckets(aws),
        "state machine": [
            each["name"] for each in _listed(aws, "stepfunctions", "list_state_machines", "stateMachines")
        ],
        "log group": [name.removeprefix(f"{VENDED_LOGS}/") for name in _logs_of_executions(aws)],
    }
    taken = [*stacks, *(f"{kind} {name}" for kind, names in named.items() for name in names if name.startswith(begins))]
    if taken:
        more = f" and {len(taken) - 5} more" if len(taken) > 5 else ""
        raise NamesTaken(
            f"the account has {', '.join(taken[:5])}{more} already: choose another --prefix, or if an earlier run left "
            f"them, --remove {prefix}"
        )


def tagged(aws: AwsToDeployTo, run: str) -> list[Thing]:
    """What carries the run's tag, stacks first: they use the others. Tables and queues of a stack that is there go with
    it. The tagging service may be some minutes behind, so streams and stacks are asked themselves.
    """
    stacks = [StackOfRun(aws, name) for name, of in _tagged_stacks(aws) if of == run]
    pages = aws.client("resourcegroupstaggingapi").get_paginator("get_resources")
    arns = [
        each["ResourceARN"]
        for page in pages.paginate(TagFilters=[{"Key": TAG, "Values": [run]}])
        for each in page["ResourceTagMappingList"]
    ]
    streams = [Stream(aws, name) for name in _streams(aws) if name.startswith(f"{run}-")]
    others = [*streams, *(thing for arn in arns if (thing := _thing(aws, arn)) is not None)]
    found = {thing.label: thing for thing in others}
    return [*stacks, *(thing for thing in found.values() if (thing.tags() or {}).get(TAG) == run)]


def remove_tagged(things: Iterable[Thing], belongings: Belongings) -> list[str]:
    """Returns what could not be removed, and why."""
    for thing in reversed([*things]):
        belongings.tagged(thing)
    return belongings.remove_all()


def _thing(aws: AwsToDeployTo, arn: str) -> Thing | None:
    """None for what a stack contains, such as a function, and goes with it."""
    service, resource = arn.split(":")[2], arn.split(":", 5)[-1]
    name = resource.rpartition("/")[2]
    match service, resource.partition("/")[0]:
        case "kinesis", "stream":
            return Stream(aws, resource.split("/")[1])
        case "dynamodb", "table":
            return Table(aws, name)
        case "kms", "key":
            return Key(aws, name)
        case "sqs", _:
            return Queue(aws, resource)
        case "s3", _:
            return Bucket(aws, resource)
    return None


def _tagged_stacks(aws: AwsToDeployTo) -> Iterator[tuple[str, str]]:
    for page in aws.client("cloudformation").get_paginator("describe_stacks").paginate():
        for stack in page["Stacks"]:
            for tag in stack.get("Tags", ()):
                if tag["Key"] == TAG:
                    yield stack["StackName"], tag["Value"]


def _stacks(aws: AwsToDeployTo) -> Iterator[str]:
    for page in aws.client("cloudformation").get_paginator("describe_stacks").paginate():
        yield from (stack["StackName"] for stack in page["Stacks"] if stack["StackStatus"] != "DELETE_COMPLETE")


def _streams(aws: AwsToDeployTo) -> list[str]:
    return _listed(aws, "kinesis", "list_streams", "StreamNames")


def _tables(aws: AwsToDeployTo) -> list[str]:
    return _listed(aws, "dynamodb", "list_tables", "TableNames")


def _queues(aws: AwsToDeployTo) -> list[str]:
    return [url.rpartition("/")[2] for url in _listed(aws, "sqs", "list_queues", "QueueUrls")]


def _buckets(aws: AwsToDeployTo) -> list[str]:
    return [each["Name"] for each in _listed(aws, "s3", "list_buckets", "Buckets")]


def _logs_of_executions(aws: AwsToDeployTo) -> list[str]:
    found = aws.client("logs").get_paginator("describe_log_groups").paginate(logGroupNamePrefix=f"{VENDED_LOGS}/")
    return [each["logGroupName"] for page in found for each in page["logGroups"]]


def _listed(aws: AwsToDeployTo, service: str, operation: str, field: str) -> list[Any]:
    pages = aws.client(service).get_paginator(operation).paginate()
    return [each for page in pages for each in page.get(field, ())]
