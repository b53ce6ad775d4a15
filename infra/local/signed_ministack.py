"""ministack with checked signatures: `python signed_ministack.py`, a single file that runs in ministack's own
environment.

With AUTH=true ministack enforces IAM, but accepts as root any request with the root's key id or without a key,
because it only checks the signatures of roles and users. It also lets every web page in. Here every request must be
signed with a secret that this ministack knows, and none may come from a web page. Two paths are open to clients that
cannot sign: its health, and the response of a custom resource, which contains a token from CloudFormation.

Its CloudFormation registers and deregisters consumers of streams, which are kinesis-local's, and refuses to create a
resource whose name exists, as the service does: ministack's would replace a table, with its items. A dashboard's name
exists once in an account. Its SQS refuses to change the time of a message that is no longer hidden, as AWS does.

It also decides for kinesis-local, whose own front door (signed_kinesis.cjs) asks what a role's session may do there.
It records which calls were allowed and denied, for tests.
"""

# ruff: noqa: SLF001 - ministack offers no other way

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

import boto3
from ministack import app as ministack
from ministack.core import iam_evaluator, lambda_runtime
from ministack.core.iam_evaluator import (
    AuthError,
    EvalContext,
    ResolvedCredential,
    evaluate,
    resolve_caller_identity,
    resolve_credential,
    resolve_principal,
)
from ministack.core.responses import AccountScopedDict
from ministack.core.router import extract_access_key_id
from ministack.core.sigv4 import (
    decode_header_value,
    header_signature_failure,
    parse_header_signature,
    request_time_failure,
)
from ministack.services import (
    cloudformation,
    cloudwatch,
    cloudwatch_logs,
    dynamodb,
    iam,
    lambda_svc,
    sqs,
    stepfunctions,
    sts,
)
from ministack.services.cloudformation import handlers, provisioners

ACCOUNT = os.environ["MINISTACK_ACCOUNT_ID"]
REGION = os.environ["MINISTACK_REGION"]
SECRET = os.environ["AWS_SECRET_ACCESS_KEY"]
LOOKS_EVERY = 0.05

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Handler = Callable[[dict[str, Any], str], dict[str, Any]]
Describe = Callable[[dict[str, Any]], Any]
Create = Callable[[str, dict[str, Any], str], tuple[str, dict[str, Any]]]
Update = Callable[[str, dict[str, Any], dict[str, Any], str], tuple[str, dict[str, Any]]]

inner = ministack.app
execution_credentials = lambda_runtime.execution_credentials
enforce = iam_evaluator.enforce

judged: set[tuple[str, str, str, bool]] = set()
"""Caller, action, resource, and whether it was allowed; without the root's calls."""


async def door(scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
    """Checks each request before ministack sees it; its server calls this. Refuses websockets, which nothing here
    uses.
    """
    if scope["type"] == "lifespan":
        await inner(scope, receive, send)
    elif scope["type"] == "http":
        body = await whole(receive)
        if scope["path"] == "/_sublet/judge":
            await send_json(send, 200, judgement(headers_of(scope), body))
        elif reason := refusal(scope, body):
            await refuse(send, *reason)
        elif scope["path"] == "/_sublet/judged":
            await send_json(send, 200, sorted(judged))
        else:
            await inner(scope, once(body, receive), without_cors(send))


def refusal(scope: Mapping[str, Any], body: bytes) -> tuple[str, str] | None:
    """Returns why the request is refused, as a code and a message, or None if it may pass."""
    headers = headers_of(scope)
    if "origin" in headers:
        return "AccessDenied", "No web page may use this endpoint"
    return None if is_open(scope["method"], scope["path"]) else signature_failure(scope, headers, body)


def signature_failure(scope: Mapping[str, Any], headers: Mapping[str, str], body: bytes) -> tuple[str, str] | None:
    if not headers.get("authorization", "").startswith("AWS4-HMAC-SHA256 "):
        return "MissingAuthenticationToken", "Only signed requests"
    signature = parse_header_signature(headers)
    if isinstance(signature, tuple):
        return signature[0], signature[1]
    if signature.access_key_id != extract_access_key_id(headers):
        return "IncompleteSignature", "More than one credential"
    credential = resolve_credential(signature.access_key_id, ACCOUNT)
    if not isinstance(credential, ResolvedCredential):
        return credential.code, credential.message
    query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    failure: tuple[str, str] | None = request_time_failure(signature) or header_signature_failure(
        signature, credential.secret_access_key, scope["method"], path, query, headers, body
    )
    return failure


def judgement(headers: Mapping[str, str], body: bytes) -> Message:
    """Answers kinesis-local's door, which signs its question with our secret. The answer has a key's secret and, if its
    role may not make the call, why."""
    signed = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(signed, headers.get("x-sublet-door", "")):
        return {"refusal": ["AccessDeniedException", "Only for the embedded Kinesis"]}
    asked = json.loads(body)
    key, action, resource = asked["key"], asked["action"], asked["resource"]
    credential = resolve_credential(key, ACCOUNT)
    if not isinstance(credential, ResolvedCredential):
        return {"refusal": [credential.code, credential.message]}
    allowed = is_allowed(credential, key, action, resource)
    judged.add((credential.principal_arn, action, resource, allowed))
    said = f"User: {credential.principal_arn} is not authorized to perform: {action} on resource: {resource}"
    answer: Message = {"secret": credential.secret_access_key}
    return answer if allowed else {**answer, "refusal": ["AccessDeniedException", said]}


def is_allowed(credential: ResolvedCredential, key: str, action: str, resource: str) -> bool:
    principal = resolve_principal(key, ACCOUNT, credential)
    if isinstance(principal, AuthError):
        return False
    if principal.policies is None:
        return True
    context = EvalContext(
        principal_arn=principal.arn,
        principal_type=principal.type,
        principal_account=principal.account,
        action=action,
        resource_arn=resource,
        region=REGION,
        principal_keys=principal.keys,
    )
    return bool(evaluate(context, principal.policies, *principal.limits).decision == "Allow")


def enforce_and_remember(
    access_key_id: str, iam_action: str, service: str, region: str, resource_arn: str = "*", **more: Any
) -> Any:
    """Records ministack's own decision about a call."""
    denied = enforce(access_key_id, iam_action, service, region, resource_arn, **more)
    caller = resolve_caller_identity(access_key_id)
    if caller is not None and not caller["userArn"].endswith(":root"):
        judged.add((caller["userArn"], iam_action, resource_arn, denied is None))
    return denied


def headers_of(scope: Mapping[str, Any]) -> dict[str, str]:
    """Returns the headers as SigV4 signs them: the values of a repeated header are joined by a bare comma."""
    headers: dict[str, str] = {}
    for raw_name, value in scope["headers"]:
        name, text = raw_name.decode("latin-1").lower(), decode_header_value(value)
        headers[name] = f"{headers[name]},{text}" if name in headers else text
    return headers


def is_open(method: str, path: str) -> bool:
    return (method == "GET" and path == "/_ministack/health") or (
        method == "PUT" and path.startswith("/_ministack/cfn-response/")
    )


def credentials_of_a_function(config: dict[str, Any]) -> dict[str, str]:
    """Makes a session of the function's role, with a secret that cannot be derived from the function's name, as
    ministack's can. It is derived from our secret and the key's id, so that kinesis-local's door (signed_kinesis.cjs)
    knows it too.
    """
    made: dict[str, str] = execution_credentials(config)
    key = made["AWS_ACCESS_KEY_ID"]
    secret = hmac.new(SECRET.encode(), key.encode(), hashlib.sha256).hexdigest()
    sts._sessions[key]["SecretAccessKey"] = secret
    return {**made, "AWS_SECRET_ACCESS_KEY": secret}


def register_consumer(_logical_id: str, properties: Mapping[str, str], _stack: str) -> tuple[str, Message]:
    """CloudFormation's AWS::Kinesis::StreamConsumer, once it is active: its ARN, and its attributes."""
    kinesis: Any = boto3.client("kinesis")
    named = {"StreamARN": properties["StreamARN"], "ConsumerName": properties["ConsumerName"]}
    made = kinesis.register_stream_consumer(**named)["Consumer"]
    while (state := kinesis.describe_stream_consumer(**named)["ConsumerDescription"]["ConsumerStatus"]) != "ACTIVE":
        time.sleep(LOOKS_EVERY)
    attributes = {
        **named,
        "ConsumerARN": made["ConsumerARN"],
        "ConsumerStatus": state,
        "ConsumerCreationTimestamp": str(made["ConsumerCreationTimestamp"].timestamp()),
    }
    return made["ConsumerARN"], attributes


def deregister_consumer(physical_id: str, _properties: Mapping[str, str]) -> None:
    kinesis: Any = boto3.client("kinesis")
    with suppress(kinesis.exceptions.ResourceNotFoundException):
        kinesis.deregister_stream_consumer(ConsumerARN=physical_id)


ROLE = "AWS::IAM::Role"
NAMES: Mapping[str, tuple[str, Callable[[], Collection[str]]]] = {
    "AWS::DynamoDB::Table": ("TableName", lambda: dynamodb._tables),
    "AWS::CloudWatch::Dashboard": ("DashboardName", lambda: cloudwatch._dashboards),
    "AWS::Logs::LogGroup": ("LogGroupName", lambda: cloudwatch_logs._log_groups),
    "AWS::StepFunctions::StateMachine": (
        "StateMachineName",
        lambda: [machine["name"] for machine in stepfunctions._state_machines.values()],
    ),
    ROLE: ("RoleName", lambda: iam._roles),
    "AWS::Lambda::Function": ("FunctionName", lambda: lambda_svc._functions),
}
"""By type: the property that names a resource, and the names that exist, in the region of the request."""


def refuse_existing_names() -> None:
    """Lets CloudFormation create no resource whose name is taken, by a stack or by anybody else. A name that
    CloudFormation chooses is never taken."""
    cloudwatch._dashboards = AccountScopedDict()
    for kind, (named_by, existing) in NAMES.items():
        handler = provisioners._RESOURCE_HANDLERS[kind]
        create = handler["create"]
        handler["create"] = creating(create, kind, named_by, existing)
        setattr(provisioners, create.__name__, handler["create"])  # what replaces a resource calls it by this name
    dashboard = provisioners._RESOURCE_HANDLERS["AWS::CloudWatch::Dashboard"]
    dashboard["update"] = renaming(dashboard["update"])


def creating(create: Create, kind: str, named_by: str, existing: Callable[[], Collection[str]]) -> Create:
    def created(logical_id: str, properties: dict[str, Any], stack: str) -> tuple[str, dict[str, Any]]:
        name = properties.get(named_by)
        refuse_existing(kind, name, existing())
        if name is None and kind == ROLE and provisioners._physical_name(stack, logical_id, max_len=64) in existing():
            # A role's name exists once in an account. ministack would give it to the stack of another region too.
            provisioners._NAME_SEED.set(secrets.token_hex(4))
        return create(logical_id, properties, stack)

    return created


def renaming(update: Update) -> Update:
    """A dashboard's update, which is also its replacement under another name."""
    kind = "AWS::CloudWatch::Dashboard"
    named_by, existing = NAMES[kind]

    def updated(
        name: str, before: dict[str, Any], properties: dict[str, Any], stack: str
    ) -> tuple[str, dict[str, Any]]:
        if properties.get(named_by) != name:
            refuse_existing(kind, properties.get(named_by), existing())
        return update(name, before, properties, stack)

    return updated


def of_a_resource(describe: Describe) -> Describe:
    """DescribeStackResources by a resource's PhysicalResourceId alone, which ministack lacks."""

    def described(parameters: dict[str, Any]) -> Any:
        found = parameters.get("PhysicalResourceId")
        physical_id = found[0] if isinstance(found, list) else found
        if physical_id and not parameters.get("StackName"):
            for stack in cloudformation._stacks.values():
                owned = [each["PhysicalResourceId"] for each in stack.get("_resources", {}).values()]
                if physical_id in owned and stack["StackStatus"] != "DELETE_COMPLETE":
                    return describe({**parameters, "StackName": [stack["StackName"]]})
            return handlers._error("ValidationError", f"Stack for {physical_id} does not exist")
        return describe(parameters)

    return described


def refuse_existing(kind: str, name: str | None, existing: Collection[str]) -> None:
    """Raises ValueError with the text of CloudFormation's own handlers."""
    if name is not None and name in existing:
        raise ValueError(
            f"Resource handler returned message: \"Resource of type '{kind}' with identifier '{name}' already "
            'exists." (HandlerErrorCode: AlreadyExists)'
        )


async def whole(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            return b"".join(parts)


def expiring(change: Handler) -> Handler:
    """ChangeMessageVisibility, or its batch, as SQS documents it: the time of a message must not have passed."""

    def changed(data: dict[str, Any], url: str) -> dict[str, Any]:
        entries = data.get("Entries")
        queue = sqs._get_q(data.get("QueueUrl", url))
        visible = {each["receipt_handle"] for each in queue["messages"] if each["visible_at"] <= time.time()}
        if entries is None:
            if data.get("ReceiptHandle") in visible:
                raise sqs._Err("MessageNotInflight", "The specified message isn't in flight.")
            return change(data, url)
        late = [each for each in entries if each.get("ReceiptHandle") in visible]
        failed = [{"Id": each["Id"], "Code": "MessageNotInflight", "Message": "", "SenderFault": True} for each in late]
        rest = [each for each in entries if each not in late]
        reply = change({**data, "Entries": rest}, url) if rest else {"Successful": [], "Failed": []}
        return {**reply, "Failed": [*reply["Failed"], *failed]}

    return changed


def once(body: bytes, receive: Receive) -> Receive:
    """Returns a `receive` that gives the body in one piece, then whatever follows, such as the client's disconnect."""
    first = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive_again() -> Message:
        return next(first, None) or await receive()

    return receive_again


def without_cors(send: Send) -> Send:
    async def send_on(message: Message) -> None:
        kept = [pair for pair in message.get("headers", ()) if not pair[0].lower().startswith(b"access-control-")]
        await send({**message, "headers": kept} if message["type"] == "http.response.start" else message)

    return send_on


async def refuse(send: Send, code: str, message: str) -> None:
    await send_json(send, 403, {"__type": code, "message": message}, (b"x-amzn-errortype", code.encode()))


async def send_json(send: Send, status: int, content: object, *more: tuple[bytes, bytes]) -> None:
    headers = [(b"content-type", b"application/json"), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(content).encode()})


if __name__ == "__main__":
    provisioners._RESOURCE_HANDLERS["AWS::Kinesis::StreamConsumer"] = {
        "create": register_consumer,
        "delete": deregister_consumer,
    }
    refuse_existing_names()
    described = handlers._ACTION_HANDLERS["DescribeStackResources"]
    handlers._ACTION_HANDLERS["DescribeStackResources"] = of_a_resource(described)
    lambda_runtime.execution_credentials = credentials_of_a_function
    iam_evaluator.enforce = enforce_and_remember
    for action in ("ChangeMessageVisibility", "ChangeMessageVisibilityBatch"):
        sqs._HANDLERS[action] = expiring(sqs._HANDLERS[action])
    ministack.app = door
    ministack.main()
