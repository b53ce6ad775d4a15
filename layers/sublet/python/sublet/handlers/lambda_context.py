"""The context argument of a Lambda handler, with the batch's own remaining time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from sublet.protocol.stream_identity import StreamArn
from sublet.settings import Settings


class FunctionIdentity(Struct, frozen=True):
    """The Lambda function that the handler runs in: the lease worker. In a process, a made-up function with the
    application's name stands in for it.
    """

    function_name: str
    invoked_function_arn: str
    function_version: str = "$LATEST"
    memory_limit_in_mb: str = "0"
    log_group_name: str = ""
    log_stream_name: str = ""

    @classmethod
    def of_process(cls, settings: Settings) -> FunctionIdentity:
        """A made-up function in the stream's region and account, where a function of an event source mapping usually
        is.
        """
        place = StreamArn.parse(settings.stream_arn or "arn:aws:kinesis")
        return cls(settings.application, _function_arn(place, settings.application))

    @classmethod
    def of_function(cls, environment: Mapping[str, str], settings: Settings) -> FunctionIdentity:
        """Reads the variables that Lambda sets. The account is the role's, since the stream may be in another
        account.
        """
        name = environment.get("AWS_LAMBDA_FUNCTION_NAME", settings.application)
        role = StreamArn.parse(settings.invoke_identity_arn or settings.stream_arn or "arn:aws:kinesis")
        place = StreamArn(role.partition, environment.get("AWS_REGION", role.region), role.account, "")
        return cls(
            name,
            _function_arn(place, name),
            environment.get("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
            environment.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "0"),
            environment.get("AWS_LAMBDA_LOG_GROUP_NAME", ""),
            environment.get("AWS_LAMBDA_LOG_STREAM_NAME", ""),
        )


class LambdaContext(Struct, frozen=True):
    """Lambda's attributes, and one of ours. Other names must raise: Powertools takes a context with any name for a
    durable function's.
    """

    aws_request_id: str
    """A new one for each call, as for each invocation."""
    function_name: str
    function_version: str
    invoked_function_arn: str
    memory_limit_in_mb: str
    log_group_name: str
    log_stream_name: str
    get_remaining_time_in_millis: Callable[[], int]
    identity: None = None
    client_context: None = None
    tenant_id: None = None
    is_redrive: bool = False
    """True as in the batch, if `sublet redrive` hands these records over. An event source mapping has no such
    attribute: use `getattr(context, "is_redrive", False)`.
    """


def context_of(
    function: FunctionIdentity,
    request_id: str,
    remaining_time_in_millis: Callable[[], int],
    *,
    is_redrive: bool = False,
) -> LambdaContext:
    return LambdaContext(
        request_id,
        function.function_name,
        function.function_version,
        function.invoked_function_arn,
        function.memory_limit_in_mb,
        function.log_group_name,
        function.log_stream_name,
        remaining_time_in_millis,
        is_redrive=is_redrive,
    )


def _function_arn(place: StreamArn, name: str) -> str:
    return f"arn:{place.partition}:lambda:{place.region}:{place.account}:function:{name}"
