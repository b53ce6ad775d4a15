"""What an alarm's notification says to somebody who is woken by it: whose it is, what is wrong, what to type first,
what to do, and where the log is.

CloudWatch takes 1,024 characters. If names are very long, the last sentences of what to do are left out, or the links.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote

from aws_cdk import Stack, Token
from aws_cdk import aws_logs as logs
from constructs import Construct
from sublet_cdk.places import partition_of
from sublet_cdk.template_text_lengths import text_length

DESCRIPTION_MAX = 1_024
CONSOLES = {
    "aws-cn": "console.amazonaws.cn",
    "aws-us-gov": "console.amazonaws-us-gov.com",
    "aws-eusc": "console.amazonaws-eusc.eu",
}
"""AWS' web console, by partition."""

SENTENCE = re.compile(r"(?<=[.?!]) +(?=[A-Z])")


class Told(NamedTuple):
    """One alarm's own part of the text: what has happened, the command, what to do then, the log group that tells more,
    and the dashboard's address.
    """

    when: str
    first: str
    then: str
    log: logs.ILogGroup | None = None
    dashboard: str | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """What an application's alarms are about. stream: None if not known; several: it reads more than one."""

    application: str
    stream: str | None = None
    several: bool = False
    destination: str | None = None

    def __str__(self) -> str:
        of = f", stream {self.stream}" if self.stream else ", several streams" if self.several else ""
        return f"{self.application}{of}"

    def doctor(self, *, with_destination: bool = False) -> str:
        """The first command to type. Of several streams, it finds them by itself."""
        named = self.stream or (None if self.several else "STREAM")
        return " ".join(
            [
                f"sublet doctor --application {self.application}",
                *([f"--stream {named}"] if named else []),
                *([f"--on-failure {self.destination}"] if with_destination and self.destination else []),
            ]
        )


def notification(scope: Construct, of: object, told: Told) -> str:
    """The text of an alarm. `of`: the application and its stream."""
    begin = f"{of}: {told.when}. First: `{told.first}`."
    endings = [(end, DESCRIPTION_MAX - text_length(scope, begin + end)) for end in _endings(scope, told)]
    end, room = next(((end, room) for end, room in endings if room >= 0), endings[-1])
    then = ""
    for sentence in SENTENCE.split(told.then):
        room -= text_length(scope, sentence) + 1
        if room < 0:
            break
        then = f"{then} {sentence}"
    return f"{begin}{then}{end}"


def _endings(scope: Construct, told: Told) -> list[str]:
    """Where to look, the whole of it first. The name of a log group is enough to find it."""
    named = "" if told.log is None else f" Log: {stated_name(told.log)}"
    linked = "" if told.log is None else f"{named} {log_link(scope, told.log)}"
    return [*([f"{linked} Dashboard: {told.dashboard}"] if told.dashboard else []), linked, named]


def log_link(scope: Construct, group: logs.ILogGroup) -> str:
    """The console quotes a slash twice. The names that CloudFormation generates have none."""
    name = stated_name(group)
    if not Token.is_unresolved(name):
        name = quote(quote(name, safe=""), safe="").replace("%", "$")
    return f"{cloudwatch_console(scope)}#logsV2:log-groups/log-group/{name}"


def stated_name(group: logs.ILogGroup) -> str:
    """The group's name as text, if it is stated, and otherwise what CloudFormation fills in."""
    created = group.node.default_child
    stated = Stack.of(group).resolve(created.log_group_name) if isinstance(created, logs.CfnLogGroup) else None
    return stated if isinstance(stated, str) else group.log_group_name


def cloudwatch_console(scope: Construct) -> str:
    stack = Stack.of(scope)
    host = CONSOLES.get(partition_of(stack), "console.aws.amazon.com")
    return f"https://{host}/cloudwatch/home?region={stack.region}"
