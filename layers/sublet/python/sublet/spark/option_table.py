"""Every option of the source, in one table. Unknown, malformed or contradictory options are refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from sublet.errors import SettingsError
from sublet.settings import HashRangeFilter, StartKind, unknown
from sublet.spark import option_values as values
from sublet.spark.options import Leases, Options, UseOfLeases
from sublet.spark.other_connectors import instead_of
from sublet.spark.stream_option import one_stream


class Option(NamedTuple):
    """`default` as the user would write it; None: no default."""

    name: str
    parse: Callable[[str, str], object]
    default: str | None
    uses: tuple[UseOfLeases, ...]
    meaning: str


_BOTH = (UseOfLeases.STREAM, UseOfLeases.BATCH)
_ALL = (*_BOTH, UseOfLeases.WRITE)

OPTIONS = (
    Option(
        "stream",
        values.not_empty,
        None,
        _ALL,
        "The stream's name or ARN. Or [several](#several-streams): names, ARNs, name patterns and tags, separated by "
        "commas. Required.",
    ),
    Option(
        "streamArn", values.not_empty, None, _ALL, "Its ARN, sent with every call: for policies scoped to one stream."
    ),
    Option(
        "region",
        values.not_empty,
        None,
        _ALL,
        "Its region; by default boto3's own (`AWS_DEFAULT_REGION`, profile) on driver and executors.",
    ),
    Option("endpointUrl", values.url, None, _ALL, "Another Kinesis endpoint: a VPC endpoint, or an emulator."),
    Option(
        "profile",
        values.not_empty,
        None,
        _ALL,
        "A named profile of `~/.aws`, on driver and executors. By default boto3's own credentials: the machine's role, "
        "`AWS_PROFILE`, ...",
    ),
    Option(
        "roleArn",
        values.role_arn,
        None,
        _ALL,
        "A role to assume for the stream, with those credentials; renewed before it expires, also within a long task.",
    ),
    Option(
        "roleExternalId", values.external_id, None, _ALL, "With a role: the external id that its trust policy requires."
    ),
    Option(
        "roleSessionName",
        values.session_name,
        None,
        _ALL,
        "With a role: the session's name in CloudTrail. `sublet-spark` by default.",
    ),
    Option("stsEndpointUrl", values.url, None, _ALL, "With a role: another endpoint of STS."),
    Option(
        "leaseRegion",
        values.not_empty,
        None,
        (UseOfLeases.STREAM,),
        "The lease table's region, if it is not the stream's.",
    ),
    Option("leaseEndpointUrl", values.url, None, (UseOfLeases.STREAM,), "Another endpoint of DynamoDB."),
    Option(
        "leaseProfile",
        values.not_empty,
        None,
        (UseOfLeases.STREAM,),
        "A profile for the lease table, if it is not the stream's.",
    ),
    Option(
        "leaseRoleArn",
        values.role_arn,
        None,
        (UseOfLeases.STREAM,),
        "A role to assume for the lease table. By default the process' own credentials, even if the stream has a role.",
    ),
    Option(
        "startPosition",
        values.position,
        "TRIM_HORIZON",
        _BOTH,
        "Where to start: `TRIM_HORIZON`, `LATEST` (streaming: the time of the first plan), `AT_TIMESTAMP:<ISO 8601>`, "
        "which is in the past.",
    ),
    Option(
        "endPosition",
        values.moment,
        None,
        (UseOfLeases.BATCH,),
        "`AT_TIMESTAMP:<ISO 8601>`: only records that arrived before it. By default: to the tip.",
    ),
    Option(
        "startCheckpoints",
        values.checkpoints,
        None,
        (UseOfLeases.BATCH,),
        'JSON of shard ids and checkpoints (`"4968…:3"`): rows after them. Other shards start at the trim horizon.',
    ),
    Option(
        "endCheckpoints",
        values.checkpoints,
        None,
        (UseOfLeases.BATCH,),
        "The same: rows up to and including them, of the named shards only. By default: all shards, to the tip.",
    ),
    Option(
        "hashRangeFilter",
        values.one_of(HashRangeFilter),
        "kcl",
        _BOTH,
        "`kcl` drops a KPL aggregate with a record outside the shard's hash range, as KCL does, but only if Kinesis "
        "cannot have placed it there itself; `off` keeps it.",
    ),
    Option(
        "failOnDataLoss",
        values.flag,
        "true",
        _BOTH,
        "Whether unread records that are past retention fail the query; otherwise a warning says what is lost.",
    ),
    Option(
        "maxSpanPerTrigger",
        values.duration,
        None,
        (UseOfLeases.STREAM,),
        "The most arrival time in one batch of each shard (`5m`). The cheap limit: one more call per shard.",
    ),
    Option(
        "maxRecordsPerTrigger",
        values.count,
        None,
        (UseOfLeases.STREAM,),
        "The most rows in one batch. Each shard has an even part, and what idle ones leave goes to those that have "
        "more, by what waits there. An aggregate is never split, and each shard may contribute one. The driver counts "
        "the rows, so all data is read twice.",
    ),
    Option(
        "maxBytesPerTrigger",
        values.count,
        None,
        (UseOfLeases.STREAM,),
        "The same in bytes of the stream records' data.",
    ),
    Option(
        "maxPartitions",
        values.count,
        None,
        _BOTH,
        "The most tasks that read a batch, each of them several shards side by side: as many as the cluster has slots "
        "for tasks ([how many](#sizing)). By default each shard is a task, and a slot sleeps while its shard's read "
        "limit does not allow a read.",
    ),
    Option(
        "application",
        values.not_empty,
        None,
        (UseOfLeases.STREAM,),
        "The application whose lease table `leases` uses; the table has its name.",
    ),
    Option(
        "leases",
        values.one_of(Leases),
        "none",
        (UseOfLeases.STREAM,),
        "`follow`: start at that application's checkpoints, and write nothing there. `hold`: share its leases, as "
        "`<application>-spark`. `none`: only Spark's checkpoint.",
    ),
    Option(
        "failoverTime",
        values.duration,
        "30s",
        (UseOfLeases.STREAM,),
        "With `hold`: a lease whose owner is silent for this long is taken over. With a KCL fleet: its "
        "failoverTimeMillis.",
    ),
    Option(
        "checkpointLocation",
        values.not_empty,
        None,
        (UseOfLeases.STREAM,),
        "With `hold`: the same as for `writeStream`. Spark's last commit is read there when the query is over.",
    ),
    Option(
        "aggregate",
        values.flag,
        "false",
        (UseOfLeases.WRITE,),
        "Whether rows are put into KPL aggregates, by the shard that they hash to. No effect on a stream that "
        "distributes records itself (AUTO).",
    ),
    Option(
        "availableNow",
        values.flag,
        "false",
        (UseOfLeases.STREAM,),
        "Plan nothing beyond what is available at the first plan, in as many batches as the limits need. For "
        "`drain(query)`, without a trigger: like `trigger(availableNow=True)`, also on Spark 4.0 and 4.1, where that "
        "is one batch.",
    ),
    Option(
        "listInterval",
        values.duration,
        "10s",
        (UseOfLeases.STREAM,),
        "How often the shards are listed while none is seen to end.",
    ),
    Option(
        "streamDiscoveryInterval",
        values.duration,
        "1m",
        (UseOfLeases.STREAM,),
        "With several streams: how often the query looks which streams there are.",
    ),
    Option(
        "patience",
        values.duration,
        "60s",
        _ALL,
        "How long driver and tasks wait for a record that exists, or while Kinesis throttles or refuses, before they "
        "fail.",
    ),
)

_BY_KEY = {option.name.lower(): option for option in OPTIONS}
_LIMITS = ("maxSpanPerTrigger", "maxRecordsPerTrigger", "maxBytesPerTrigger")
_OF_ROLES = ("roleExternalId", "roleSessionName", "stsEndpointUrl")
_OF_LEASES = ("leaseRegion", "leaseEndpointUrl", "leaseProfile", "leaseRoleArn")
_EXCLUSIVE = (
    ("startPosition", "startCheckpoints"),
    ("endPosition", "endCheckpoints"),
    *((one, other) for index, one in enumerate(_LIMITS) for other in _LIMITS[index + 1 :]),
)


_OF_SECRETS = ("key", "secret", "token", "password")
"""Parts of an unknown option's name for which its value is not shown."""

_OF_TABLES = frozenset({"provider", "location", "owner", "external", "is_managed_location"})
"""Properties of a table. Spark passes them beside the options when SQL creates one, and options again as `option.x`."""

_A_VIEW = "CREATE TEMPORARY VIEW <name> USING sublet OPTIONS (stream '<stream>')"


def parse_options(given: Mapping[str, str], use: UseOfLeases | None) -> Options:
    """Parses the options. Raises SettingsError for the first that is wrong. Spark gives names in any case.

    `use` None: not known yet (Spark asks for the schema first); options of any use are accepted.
    """
    texts = {key.lower(): text for key, text in given.items()}
    if any(key in _OF_TABLES or key.startswith("option.") for key in texts):
        raise SettingsError("USING sublet", "CREATE TABLE", f"{_A_VIEW}: Spark's catalog stores no stream as a table")
    for key, text in texts.items():
        _check_name(key, text, use)
    for one, other in _EXCLUSIVE:
        if one.lower() in texts and other.lower() in texts:
            raise SettingsError(other, texts[other.lower()], f"cannot go with {one}: give one of the two")
    _check_uses(texts)
    if "stream" not in texts:
        raise SettingsError("stream", None, f'required: .option("stream", "<name>"), or in SQL {_A_VIEW}')
    values = one_stream({option.name: _value(option, texts) for option in OPTIONS})
    fields = {_snake(name): value for name, value in values.items()}
    options = Options(**fields, gives_start="startposition" in texts)
    _check_streams(options, texts, use)
    _check_positions(options, use)
    _check_role(options, texts)
    _check_leases(options, texts)
    return options


def _check_streams(options: Options, texts: Mapping[str, str], use: UseOfLeases | None) -> None:
    several = options.streams
    if several is not None and use is UseOfLeases.WRITE:
        raise SettingsError("stream", options.stream, "one stream, by its name or ARN, to write to")
    if several is None and (name := "streamDiscoveryInterval").lower() in texts:
        raise SettingsError(name, texts[name.lower()], "only with several streams: leave it out")
    try:
        _ = options.settings  # checks the names
    except SettingsError as refusal:
        raise SettingsError(_camel(refusal.name), refusal.value, refusal.allowed) from None


def _check_leases(options: Options, texts: Mapping[str, str]) -> None:
    if (options.leases is Leases.NONE) != (options.application is None):
        raise SettingsError(
            "leases",
            options.leases,
            "follow or hold goes with application, and application with follow or hold",
        )
    if options.leases is Leases.HOLD:
        _check_failover_time(options)
        return
    if options.leases is Leases.NONE:
        for name in _OF_LEASES:
            if name.lower() in texts:
                raise SettingsError(name, texts[name.lower()], "only with leases=follow or hold: leave it out")
    for name in ("failoverTime", "checkpointLocation"):
        if name.lower() in texts:
            raise SettingsError(name, texts[name.lower()], "only with leases=hold: leave it out")


def _check_role(options: Options, texts: Mapping[str, str]) -> None:
    if options.role_arn is not None or options.lease_role_arn is not None:
        return
    for name in _OF_ROLES:
        if name.lower() in texts:
            raise SettingsError(name, "...", "only with roleArn or leaseRoleArn: leave it out")


def _check_failover_time(options: Options) -> None:
    try:
        _ = options.keeper_settings
    except SettingsError as refusal:
        raise SettingsError("failoverTime", refusal.value, refusal.allowed) from None


def _check_name(key: str, text: str, use: UseOfLeases | None) -> None:
    option = _BY_KEY.get(key)
    if option is None:
        if key == "path":
            raise SettingsError(
                key, text, "not for a stream, which has no path: leave it out, also of load() and save()"
            )
        if (instead := instead_of(key, text)) is not None:
            raise SettingsError(key, "...", instead)
        if (ours := _BY_KEY.get(key.rpartition(".")[2])) is not None:
            raise SettingsError(key, "...", f"options have no prefix here: {ours.name}")
        shown = "..." if any(word in key for word in _OF_SECRETS) else text
        raise unknown(key, shown, "option", [option.name for option in OPTIONS])
    if use is not None and use not in option.uses:
        raise SettingsError(option.name, text, f"not for {use}, only for {', '.join(option.uses)}")


def _check_uses(texts: Mapping[str, str]) -> None:
    """Refuses options that no single use allows, even before the use is known."""
    first, uses = next(iter(texts), ""), frozenset(UseOfLeases)
    for key in texts:
        option = _BY_KEY[key]
        if not uses & frozenset(option.uses):
            allowed = (
                f"only for {', '.join(option.uses)}, and {_BY_KEY[first].name} is for {', '.join(_BY_KEY[first].uses)}"
            )
            raise SettingsError(option.name, texts[key], allowed)
        if frozenset(option.uses) < uses:
            first, uses = key, uses & frozenset(option.uses)


def _value(option: Option, texts: Mapping[str, str]) -> object:
    text = texts.get(option.name.lower(), option.default)
    return None if text is None else option.parse(option.name, text)


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _check_positions(options: Options, use: UseOfLeases | None) -> None:
    of_each = () if options.streams is None else options.streams.selectors
    starts = [options.start_position, *(each.start for each in of_each if each.start is not None)]
    if use is UseOfLeases.BATCH and any(each.kind is StartKind.LATEST for each in starts):
        raise SettingsError(
            "startPosition",
            "LATEST",
            "nothing is after the tip: use TRIM_HORIZON or AT_TIMESTAMP for a batch",
        )
    start, end = options.start_position.at, options.end_position.at if options.end_position else None
    if start is not None and end is not None and start >= end:
        raise SettingsError("endPosition", str(options.end_position), f"later than startPosition ({start.isoformat()})")
