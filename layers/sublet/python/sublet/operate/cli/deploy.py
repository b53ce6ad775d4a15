"""`sublet deploy` and `sublet synth`: a consumer on Lambda without any CDK code. The CDK app is sublet_cdk's."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec

from sublet.command_line.command import Command
from sublet.errors import AwsNotConfigured, CheckRefused, SettingsError, SubletError
from sublet.operate.rules.local_aws import EMULATED, LocalDeployment, by_address, local_deployment, local_endpoint

DESCRIPTION = """\
{does} a lease manager and lease workers on Lambda, in a stack named sublet-<application>. Paths are relative to this
folder.

It runs the CDK's command line, which npx fetches from npm: it needs Node.js, and sublet's extra cdk. An account and
region without the CDK need `npx cdk bootstrap` once. Arguments after -- go to cdk unchanged.

--set takes every setting of `sublet run --help`, and what sublet_cdk/consumer_stack.py lists besides, such as
tick="rate(5 minutes)", worker_memory=1024, architecture=x86_64, monitoring=lean. With --set stack=pipeline the stack is
a pipeline on EMR Serverless: sublet_cdk/spark_stack.py."""

LOOKS = """

`sublet deploy` first looks which of the application's tables exist. The stack continues with those that belong to no
stack: a process, or an earlier stack, has left them. It says so, and --set existing_lease_table=true (or false) and
existing_sightings_table decide otherwise. A new stack has monitoring=lean, and one that exists keeps what it has,
unless you --set monitoring=lean, full or none. Without permission to look it says what it cannot know, and goes on,
with monitoring=full.

To the AWS of this machine (AWS_ENDPOINT_URL on loopback, as `make local` prints it), it also bootstraps, deploys as the
caller and for this machine's architecture, asks nothing, and leaves out what emulators refuse. It says so."""

EXAMPLES = """\
example:
  sublet {name} --application orders-audit --stream-arn arn:aws:kinesis:eu-west-1:123456789012:stream/orders \\
      --handler-code handlers --handler orders:handle --alarm-email orders-team@example.com \\
      --set mode=continuous --set window=5m"""

OPTIONS = {
    "application": "the consumer group: it names the lease table and the stack",
    "stream_arn": "an existing stream; without it the stack makes one, unless --set streams=... names several",
    "handler_code": "the folder of the handler's module; its requirements.txt is installed for Lambda",
    "handler": "module:function",
    "alarm_email": "who is notified of alarms: an address, which gets a mail to confirm (--set alarm_topic_arn=... for "
    "your own topic)",
}

ARN_PARTS = 6
ANY_APP = "import aws_cdk; app = aws_cdk.App(); aws_cdk.Stack(app, 'any'); app.synth()"
"""For `cdk bootstrap`, which runs an app with a stack, and otherwise that of a cdk.json in this folder."""
DEFAULT_REGION = "us-east-1"
"""The CDK's, where nothing names another."""
CONSUMER = "consumer"
"""The default of the context key `stack`."""

COMMAND_LINE = "sublet"
"""The context key that sublet_cdk reads instead of all others."""

CDK_VERSION = "2.1148.1"
"""The version of aws-cdk on npm, the CDK's command line, as in the repository's package.json. It is pinned, because it
runs with your credentials and should not change by itself. It reads the output of aws-cdk-lib up to 2.275 (cloud
assembly schema 55).
"""


class CannotDeploy(SubletError):
    """Something that the CDK's command line needs is not installed. The text says how to install it."""


def add_arguments(name: str, does: str) -> Callable[[ArgumentParser], None]:
    def add(parser: ArgumentParser) -> None:
        looks = LOOKS if name == "deploy" else ""
        parser.description, parser.epilog = DESCRIPTION.format(does=does) + looks, EXAMPLES.format(name=name)
        parser.formatter_class = RawDescriptionHelpFormatter
        for option, meaning in OPTIONS.items():
            parser.add_argument("--" + option.replace("_", "-"), metavar="TEXT", help=meaning)
        parser.add_argument(
            "--set",
            metavar="NAME=VALUE",
            action="append",
            default=[],
            help="any other setting or option, by name",
        )
        parser.add_argument(
            "--cdk-version",
            metavar="VERSION",
            default=CDK_VERSION,
            help=f"version of aws-cdk on npm; a newer aws-cdk-lib may need a newer one than {CDK_VERSION}",
        )
        if name == "synth":
            parser.add_argument(
                "--plain",
                metavar="FOLDER",
                help="write the template and its zip files there, for SAM, Terraform and others; without the CDK's "
                "command line",
            )
        parser.add_argument("cdk", nargs="*", metavar="-- CDK", help="options for cdk itself")
        parser.set_defaults(verb=name)

    return add


def run_cdk(options: Namespace) -> int:
    """The exit code of the CDK's command line, or of the app itself."""
    folder = getattr(options, "plain", None)
    if folder is not None:
        _require_cdk()
        command = [sys.executable, "-m", "sublet_cdk.plain", folder]
        return subprocess.run(command, check=False, env=plain_environment(options, os.environ)).returncode  # noqa: S603 -- as below
    if options.verb != "deploy":
        return subprocess.run(cdk_command(options), check=False).returncode  # noqa: S603 -- the user's own arguments, without a shell
    local = _local(options)
    adopted = {**_adopted(options), **(local.context if local else {})}
    command = [*cdk_command(options, adopted), *(local.options if local else ())]
    environment = {**os.environ, **(by_address(os.environ) if local else {})}
    if local and (refused := _bootstrapped(options, environment)):
        return refused
    return subprocess.run(command, check=False, env=environment).returncode  # noqa: S603 -- as above


def plain_environment(options: Namespace, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment with the context in it, as the CDK's command line passes it to an app, beside context
    that is there, such as CDK's feature flags.
    """
    if options.cdk:
        raise SettingsError(
            "--plain", " ".join(options.cdk), "not allowed with options for cdk, which --plain does not run"
        )
    there = json.loads(environment.get("CDK_CONTEXT_JSON") or "{}")
    return {**environment, "CDK_CONTEXT_JSON": json.dumps({**there, COMMAND_LINE: json.dumps(_context(options))})}


def cdk_command(options: Namespace, adopted: Mapping[str, str] | None = None) -> list[str]:
    """Raises SettingsError for malformed arguments, and CannotDeploy if something is not installed. `adopted`: more
    context.
    """
    given = {**_context(options), **(adopted or {})}
    _check_context(options.cdk)
    app = shlex.join([sys.executable, "-m", "sublet_cdk.app"])
    # All in one key: a cdk.json in this folder may have other keys, for another app.
    context = ("--context", f"{COMMAND_LINE}={json.dumps(given)}")
    return [
        *_cdk(options),
        options.verb,
        "--app",
        app,
        *context,
        *options.cdk,
    ]


def _cdk(options: Namespace) -> list[str]:
    """The CDK's command line, without its arguments."""
    return [_npx(), "--yes", "--package", f"aws-cdk@{options.cdk_version}", "cdk"]


def _context(options: Namespace) -> dict[str, str]:
    given = {name: text for name in OPTIONS if (text := getattr(options, name)) is not None}
    for pair in options.set:
        name, equals, value = pair.partition("=")
        if not equals:
            raise SettingsError("--set", pair, "NAME=VALUE")
        given[name] = value
    return given


def _adopted(options: Namespace) -> Mapping[str, str]:
    """More context, by what the account has: says why. Raises SettingsError for a table of another stack."""
    given = _context(options)
    application = given.get("application")
    if application is None or given.get("stack", CONSUMER) != CONSUMER:
        return {}
    _npx()  # before any call
    from sublet.operate.aws.deployed import find
    from sublet.operate.rules.deploying import adopt

    try:
        found = find(application, region_of(given, os.environ), profile_of(options.cdk))
    except (CheckRefused, AwsNotConfigured) as refused:
        print(f"sublet: whether tables of {application} exist is not known: {refused}", file=sys.stderr)
        if "monitoring" not in given:
            print("sublet: monitoring=full, since what the stack has is not known (monitoring)", file=sys.stderr)
        return {}
    adopted = adopt(application, given, found)
    for line in adopted.why:
        print(f"sublet: {line}", file=sys.stderr)
    return adopted.context


def _local(options: Namespace) -> LocalDeployment | None:
    """How to deploy to an AWS on this machine: says it. None for any other AWS."""
    endpoint, given = local_endpoint(os.environ), _context(options)
    if endpoint is None:
        return None
    _npx()  # before any call
    from sublet.operate.aws.deployed import account_of

    try:
        account = account_of(region_of(given, os.environ), profile_of(options.cdk))
    except (CheckRefused, AwsNotConfigured) as refused:
        raise CannotDeploy(f"AWS is to be on this machine, at {endpoint}, and does not answer: {refused}") from refused
    if account not in EMULATED:
        said = f"the account {account} at {endpoint} may be a real one: deployed as any other"
        print(f"sublet: {said}", file=sys.stderr)
        return None
    local = local_deployment(given, options.cdk, platform.machine())
    print(f"sublet: AWS is on this machine, at {endpoint}. It deploys", file=sys.stderr)
    for line in local.why:
        print(f"sublet:   {line}", file=sys.stderr)
    return local


def _bootstrapped(options: Namespace, environment: Mapping[str, str]) -> int:
    """Bootstraps the AWS on this machine if nobody has: 0, or the exit code of the CDK's command line."""
    from sublet.operate.aws.deployed import account_of, is_bootstrapped

    region, profile = region_of(_context(options), environment), profile_of(options.cdk)
    if is_bootstrapped(region, profile):
        return 0
    region = region or environment.get("AWS_DEFAULT_REGION", DEFAULT_REGION)
    place = f"aws://{account_of(region, profile)}/{region}"
    print(f"sublet: cdk bootstrap {place}, once", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="sublet-bootstrap-") as output:
        nothing = ("--app", shlex.join([sys.executable, "-c", ANY_APP]), "--output", output)
        named = ("--profile", profile) if profile else ()
        command = [*_cdk(options), "bootstrap", place, *nothing, *named]
        return subprocess.run(command, check=False, env=environment).returncode  # noqa: S603 -- as above


def region_of(given: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    """The stack's region, as the CDK finds it: the stream's, or AWS_REGION, which boto3 does not read. None for
    boto3's.
    """
    arn = given.get("stream_arn", "").split(":")
    return arn[3] if len(arn) == ARN_PARTS else environment.get("AWS_REGION")


def profile_of(cdk: Sequence[str]) -> str | None:
    """By CDK's own option."""
    found = re.search(r"(?:^|\0)--profile[=\0]([^\0]+)", "\0".join(cdk))
    return found[1] if found else None


def _check_context(cdk: Sequence[str]) -> None:
    """CDK's own keys contain a colon, a slash or an @. A key of ours would be ignored here."""
    options = re.finditer(r"(?:^|\0)(?:-c|--context)(?:=|\0)?([^\0=]+)=", "\0".join(cdk))
    for name in (option[1] for option in options):
        if not set(name) & set(":/@"):
            raise SettingsError("--context", name, f"not a context key of cdk; use --set {name}=VALUE")


def _require_cdk() -> None:
    if find_spec("aws_cdk") is None:
        raise CannotDeploy("the AWS CDK is not installed here: install sublet with its extra cdk")


def _npx() -> str:
    _require_cdk()
    npx = shutil.which("npx", path=os.environ.get("PATH"))
    if npx is None:
        raise CannotDeploy("there is no npx on the PATH: the CDK's command line needs Node.js 20 or newer (nodejs.org)")
    return npx


DEPLOY = Command("deploy", "deploy a consumer to Lambda", add_arguments("deploy", "Deploy a consumer:"), run_cdk)
SYNTH = Command(
    "synth",
    "write the CloudFormation template that deploy deploys",
    add_arguments("synth", "Write the template of a consumer:"),
    run_cdk,
)
