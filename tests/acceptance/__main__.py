"""`make aws-acceptance`: runs sublet once on a real AWS account, and leaves nothing there."""

from __future__ import annotations

import argparse
import re
import secrets
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from infra.local.deploy import AwsToDeployTo
from infra.local.embedded import ACCOUNT, REGION, embedded_aws
from tests.acceptance.account import Account, NotReady, answered, check_bootstrapped, real_account
from tests.acceptance.belongings import TAG, Belongings
from tests.acceptance.credentials import CredentialsTooShort, check_they_last, lifetime
from tests.acceptance.leftovers import NamesTaken, check_names_are_free, remove_tagged, tagged
from tests.acceptance.price import BESIDE_IDLE
from tests.acceptance.run import Outcome, Verdict, run
from tests.acceptance.stage import Plan, Stage
from tests.acceptance.step_table import STEPS, price

ABOUT = f"""\
Deploys sublet to the account of your AWS credentials and tries what no emulator shows: records through a split and a
merge, a worker killed, a redeployment under load, keys, fan-out, figures and alarms, every way to deploy, and how many
calls an idle shard takes to its tip. It prints what each step costs and proves, and asks first.

Everything carries the tag {TAG}=<prefix>, and is removed at the end, also after a failure or Ctrl-C: only what this
run's calls created, or what carries the tag. A prefix that names anything in the account already is refused. --remove
PREFIX removes by the tag what a killed run left. The report, for you and for a bug's page, names neither the account
nor credentials.

The exit code is 0 if all went well, 1 if something did not, 2 if the account cannot be used, 130 after Ctrl-C.
"""


SECOND_REGION = "eu-west-1"
"""Of a dry run."""


class Accounts(NamedTuple):
    """What a run uses. `number`, `region`: of `aws`."""

    aws: AwsToDeployTo
    number: str
    region: str
    elsewhere: AwsToDeployTo | None = None
    foreign: Account | None = None

    @property
    def numbers(self) -> dict[str, str]:
        """What the report calls each account."""
        others = {} if self.foreign is None else {self.foreign.number: "<other account>"}
        return {**others, self.number: "<account>"}

    @property
    def all(self) -> list[AwsToDeployTo]:
        return [aws for aws in (self.aws, self.elsewhere, self.foreign) if aws is not None]


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _arguments(arguments)
    with ExitStack() as stack:
        try:
            accounts = _accounts(asked, stack)
            if asked.remove:
                return _remove(accounts, asked, _say)
            for aws in accounts.all:
                with answered():
                    check_names_are_free(aws, asked.prefix)
        except (NotReady, CredentialsTooShort, NamesTaken) as problem:
            print(f"aws-acceptance: {problem}", file=sys.stderr)
            return 2
        plan = Plan(asked.prefix, asked.records, timedelta(minutes=asked.idle_minutes), asked.dry_run)
        print(_price(plan))
        if not (plan.is_dry or asked.yes or _agreed(f"makes {plan.prefix}-*", accounts)):
            return 2
        belongings = Belongings(plan.prefix, _say)
        verdict = run(Stage(accounts.aws, plan, belongings, _say, accounts.elsewhere, accounts.foreign))
        written = _written(plan, accounts.region, verdict)
        for number, called in accounts.numbers.items():
            written = written.replace(number, called)
        asked.report.parent.mkdir(parents=True, exist_ok=True)
        asked.report.write_text(written)
        print(f"\n{written}\nThe report is in {asked.report}.")
    if any(result.outcome is Outcome.INTERRUPTED for result in verdict.results):
        return 130
    return 0 if verdict.is_good else 1


def _say(line: str) -> None:
    print(line, flush=True)


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
    parser.add_argument("--second-region", metavar="REGION", help="deploy there too")
    parser.add_argument("--other-profile", metavar="PROFILE", help="of another account, whose stream is read too")
    parser.add_argument(
        "--credentials-last",
        type=_minutes,
        metavar="MINUTES",
        help="from now on, if they have a session token that cannot be renewed",
    )
    parser.add_argument("--remove", type=_prefix, metavar="PREFIX", help="only remove what a run of this prefix left")
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


def _accounts(asked: argparse.Namespace, stack: ExitStack) -> Accounts:
    """Raises NotReady, and CredentialsTooShort if a run with these credentials could not clean up."""
    if asked.dry_run:
        embedded = stack.enter_context(embedded_aws())
        return Accounts(embedded, ACCOUNT, REGION, embedded.in_region(SECOND_REGION))
    account = real_account(asked.region)
    elsewhere = real_account(asked.second_region) if asked.second_region else None
    foreign = real_account(account.region, asked.other_profile) if asked.other_profile else None
    if not asked.remove:
        for aws in (account, elsewhere):
            if aws is not None:
                check_bootstrapped(aws)
        for aws in (account, foreign):
            if aws is not None:
                _check_credentials(aws, asked)
    return Accounts(account, account.number, account.region, elsewhere, foreign)


def _check_credentials(account: Account, asked: argparse.Namespace) -> None:
    now = datetime.now(UTC)
    last = asked.credentials_last
    with answered():
        found = lifetime(account.session, None if last is None else now + timedelta(minutes=last))
    check_they_last(found, timedelta(minutes=asked.idle_minutes) + BESIDE_IDLE, now)
    print(f"{found}.")


def _remove(accounts: Accounts, asked: argparse.Namespace, report: Callable[[str], None]) -> int:
    with answered():
        found = [thing for aws in accounts.all for thing in tagged(aws, asked.remove)]
    if not found:
        print(f"Nothing carries the tag {TAG}={asked.remove}.")
        return 0
    for thing in found:
        print(f"  {thing.label}")
    if not (asked.yes or _agreed("removes these", accounts)):
        return 2
    left = remove_tagged(found, Belongings(asked.remove, report))
    for each in left:
        print(f"left: {each}", file=sys.stderr)
    return 1 if left else 0


def _price(plan: Plan) -> str:
    rows = "\n".join(
        f"  {step.name:36} ${step.use.dollars(plan.records, plan.idle):6.2f}   {step.promise}" for step in STEPS
    )
    took, total = (plan.idle + BESIDE_IDLE) / timedelta(minutes=1), price(STEPS, plan.records, plan.idle)
    return (
        f"At us-east-1's list prices of 2026, doubled, for about {took:.0f} minutes:\n{rows}\n"
        f"  {'in all, at most':36} ${total:6.2f}"
    )


def _agreed(what: str, accounts: Accounts) -> bool:
    print(
        f"\nIt {what} in account {accounts.number}, {accounts.region}. Everything is removed again. Go on? [y/N] ",
        end="",
    )
    return input().strip().lower() in {"y", "yes"}


def _written(plan: Plan, region: str, verdict: Verdict) -> str:
    """The report, as Markdown."""
    where = "the embedded AWS (a dry run)" if plan.is_dry else region
    at = datetime.now(UTC).isoformat(timespec="minutes")
    versions = ", ".join(f"{name} {version(name)}" for name in ("sublet", "boto3", "aws-cdk-lib"))
    rows = [
        f"| {result.step.name} | {result.step.promise} | ${result.step.use.dollars(plan.records, plan.idle):.2f} "
        f"| {result.outcome.value} | {result.took.total_seconds():.0f} s "
        f"| {'; '.join(f'{name}: {_cell(value)}' for name, value in result.facts.items())} |"
        for result in verdict.results
    ]
    left = [f"* {each}" for each in verdict.left] or [
        "Nothing. (The CDK's own bucket keeps the code that was uploaded.)"
    ]
    if verdict.left:
        left.append(
            f'\nLog in again if need be, then: make aws-acceptance ACCEPTANCE="--remove {plan.prefix}", with the '
            "--region, --second-region and --other-profile of this run: it looks in no other place."
        )
    return "\n".join(
        [
            f"# sublet on {where}, {at}",
            "",
            versions,
            "",
            "| step | what it proves | costs at most | outcome | took | found |",
            "|---|---|---|---|---|---|",
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
