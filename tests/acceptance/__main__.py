"""`make aws-acceptance`: runs sublet once on a real AWS account, and leaves nothing there."""

from __future__ import annotations

import argparse
import re
import secrets
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

from infra.local.deploy import AwsToDeployTo
from infra.local.embedded import ACCOUNT, REGION, embedded_aws
from tests.acceptance.account import NotReady, check_bootstrapped, real_account
from tests.acceptance.price import BESIDE_IDLE, estimate
from tests.acceptance.run import Verdict, run
from tests.acceptance.stage import TAG, Plan

ABOUT = f"""\
Deploys sublet to the account of your AWS credentials and tries what no emulator shows: records through a split and a
merge, a worker killed, a redeployment under load, a stream under a customer-managed key, records without a partition
key, and how many calls an idle shard takes to its tip. It prints what that costs and asks first. Everything is tagged
{TAG} and removed at the end, also after a failure or Ctrl-C. The report, for you and for a bug's page, names neither
the account nor credentials.

The exit code is 0 if all went well, 1 if something did not, 2 if the account cannot be used, 130 after Ctrl-C.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _arguments(arguments)
    plan = Plan(asked.prefix, asked.records, timedelta(minutes=asked.idle_minutes), asked.dry_run)
    with ExitStack() as stack:
        try:
            aws, where = _aws(asked.dry_run, asked.region, stack)
        except NotReady as problem:
            print(f"aws-acceptance: {problem}", file=sys.stderr)
            return 2
        print(_price(plan))
        if not (plan.is_dry or asked.yes or _agreed(plan, where)):
            return 2
        verdict = run(aws, plan, lambda line: print(line, flush=True))
        written = _written(plan, where[1], verdict).replace(where[0], "<account>")
        asked.report.parent.mkdir(parents=True, exist_ok=True)
        asked.report.write_text(written)
        print(f"\n{written}\nThe report is in {asked.report}.")
    if any(result.outcome.name == "INTERRUPTED" for result in verdict.results):
        return 130
    return 0 if verdict.is_good else 1


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make aws-acceptance, or python -m tests.acceptance",
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--region", help="AWS_DEFAULT_REGION, or the profile's, without it")
    parser.add_argument(
        "--prefix", type=_prefix, default=f"sublet-acceptance-{secrets.token_hex(3)}", help="of all names"
    )
    parser.add_argument("--records", type=_records, default=20_000, help="default 20,000")
    parser.add_argument(
        "--idle-minutes", type=_minutes, default=60, metavar="N", help="how long a shard is left idle (60)"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="against the embedded AWS: costs nothing")
    parser.add_argument("--report", type=Path, default=Path("dist/aws-acceptance.md"), metavar="FILE")
    return parser.parse_args(arguments)


def _prefix(text: str) -> str:
    if not re.fullmatch("[a-z][a-z0-9-]{2,29}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not 3 to 30 of a-z, 0-9 and -, a letter first")
    return text


def _records(text: str) -> int:
    if not text.isdecimal() or not 100 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 100 to 1000000")
    return int(text)


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = -1
    if not 0 <= minutes <= 24 * 60:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes from 0 to 1440")
    return minutes


def _aws(is_dry: bool, region: str | None, stack: ExitStack) -> tuple[AwsToDeployTo, tuple[str, str]]:
    """The AWS, its account and its region. Raises NotReady."""
    if is_dry:
        return stack.enter_context(embedded_aws()), (ACCOUNT, REGION)
    account = real_account(region)
    check_bootstrapped(account)
    return account, (account.number, account.region)


def _price(plan: Plan) -> str:
    lines = estimate(plan.records, plan.idle)
    table = "\n".join(f"  {line.what:48} ${line.dollars:6.2f}" for line in lines)
    took = plan.idle + BESIDE_IDLE
    return f"At us-east-1's list prices of 2026, for about {took.total_seconds() / 60:.0f} minutes:\n{table}"


def _agreed(plan: Plan, where: tuple[str, str]) -> bool:
    number, region = where
    print(
        f"\nIt makes {plan.prefix}-* in account {number}, {region}, and removes it again. Go on? [y/N] ",
        end="",
    )
    return input().strip().lower() in {"y", "yes"}


def _written(plan: Plan, region: str, verdict: Verdict) -> str:
    """The report, as Markdown."""
    where = "the embedded AWS (a dry run)" if plan.is_dry else region
    at = datetime.now(UTC).isoformat(timespec="minutes")
    versions = ", ".join(f"{name} {version(name)}" for name in ("sublet", "boto3", "aws-cdk-lib"))
    rows = [
        f"| {result.name} | {result.outcome.value} | {result.took.total_seconds():.0f} s "
        f"| {'; '.join(f'{name}: {_cell(value)}' for name, value in result.facts.items())} |"
        for result in verdict.results
    ]
    left = [f"* {each}" for each in verdict.left] or [
        "Nothing. (The CDK's own bucket keeps the code that was uploaded.)"
    ]
    return "\n".join(
        [
            f"# sublet on {where}, {at}",
            "",
            versions,
            "",
            "| step | outcome | took | found |",
            "|---|---|---|---|",
            *rows,
            "",
            "## Left in the account",
            "",
            *left,
            "",
        ]
    )


def _cell(value: str) -> str:
    return " ".join(value.replace("|", "/").split())[:500]


if __name__ == "__main__":
    for stopped in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(stopped, signal.default_int_handler)  # as Ctrl-C: what was made is removed
    sys.exit(main())
