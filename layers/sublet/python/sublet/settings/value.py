"""Every setting of a deployment: one frozen, validated value, with a reason for each default.

CDK properties become environment variables (`SUBLET_FAILOVER_TIME=30s`), and those become Settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Self, get_type_hints

from sublet.errors import SettingsError
from sublet.settings.kinds import TRIM_HORIZON, HashRangeFilter, Mode, StartPosition
from sublet.settings.limits import POLL_LIMIT_MAX, check
from sublet.settings.text import parse_setting, setting_text

PREFIX = "SUBLET_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A deployment's settings. Creating one validates it whole; SettingsError names the setting, value and what is allowed."""

    application: str
    """The consumer group. Names the lease table (KCL's own convention) and prefixes the worker ids."""

    stream: str
    """The stream's name (not its ARN)."""

    stream_arn: str | None = None
    """Passed with every Kinesis call when given, which makes policies scoped to one stream work for iterators too."""

    handler: str = ""
    """`module:function`, the user's. Only the lease worker needs it."""

    mode: Mode = Mode.CATCH_UP
    """catch_up costs nothing while nothing arrives; continuous is for low latency and beside a live KCL fleet."""

    start_position: StartPosition = TRIM_HORIZON
    """TRIM_HORIZON loses nothing by default. Only a shard without a lease or leased ancestors starts from here."""

    failover_time: timedelta = timedelta(seconds=30)
    """A lease whose counter stood still this long has lost its owner. In a mixed fleet: the KCL fleet's failoverTimeMillis."""

    heartbeat_interval: timedelta = timedelta(seconds=10)
    """At most a third of failover_time, so that two lost heartbeats do not lose the lease. The seed's 10 s: 6 writes a minute."""

    worker_count: int = 1
    """How many workers this deployment counts as in KCL's fair share: `<application>-lambda-<n>`, stable for ever."""

    worker_id: str | None = None
    """One worker id of its own instead: for a long-lived process or a Spark query beside the Lambda deployment."""

    leases_per_worker: int = 10
    """Leases one worker Lambda consumes at once. Ten in 512 MB cost a tenth of one in each (see the README's cost table)."""

    leases_to_acquire: int = 1_000
    """The most leases that one worker id is sent for in one tick (the seed's). Large: Lambda has room for all at once."""

    max_leases: int = 10_000
    """The most leases that one worker id holds (KCL's maxLeasesForWorker, the seed's max_leases)."""

    leases_to_steal: int = 1
    """Per worker id and tick, in continuous mode (KCL's maxLeasesToStealAtOneTime). 0 never steals."""

    fair_share: bool = True
    """KCL 2.x: take no more than ceil(leases / workers) while other workers live. False takes whatever is free (the seed)."""

    priority_assignment: bool = True
    """KCL 2.x's enablePriorityLeaseAssignment: a lease idle for over 3 x failover_time is taken whatever the fair share."""

    window: timedelta = timedelta(minutes=14)
    """How long one worker Lambda goes on at most. The default leaves a minute of Lambda's fifteen."""

    window_margin: timedelta = timedelta(seconds=30)
    """Kept free at a window's end for the handler's last batch, the last checkpoints and the releases."""

    windows_per_execution: int = 40
    """Continuous mode: windows before an execution ends and a tick starts afresh: its history stays under 25,000 events."""

    linger: timedelta = timedelta(seconds=2)
    """catch_up: leave after being at the tip this long, also when each poll still brings a few records."""

    poll_interval: timedelta = timedelta(milliseconds=200)
    """Between polls of one shard that brings records: Kinesis allows 5 calls a second (the seed's pace)."""

    idle_poll_interval: timedelta = timedelta(seconds=2)
    """Between polls of a shard that brought none (the seed's pace)."""

    poll_limit: int = POLL_LIMIT_MAX
    """Records asked for in one poll."""

    max_batch_records: int = 10_000
    """User records in one handler call at most (a stream record's user records stay together up to this)."""

    max_bytes_in_flight: int = 96 * 2**20
    """Fetched and not yet handled, in one worker over all its leases. A poll's reply counts as 10 MB before it is seen."""

    max_records_in_flight: int = 400_000
    """The same, in stream records."""

    checkpoint_interval: timedelta = timedelta(seconds=10)
    """Finished batches are checkpointed at most this often, and always at the end; a checkpoint is a heartbeat too."""

    handover_wait: timedelta = timedelta(seconds=10)
    """After stealing from a live owner: time for it to checkpoint late, before the row is read again (the seed's)."""

    handler_attempts: int = 5
    """Calls with the same batch before the lease is given back and the next tick decides. Nothing is ever skipped."""

    handler_backoff: timedelta = timedelta(seconds=1)
    """Before the second call; doubles up to handler_backoff_max."""

    handler_backoff_max: timedelta = timedelta(seconds=30)
    """The longest pause between two calls with the same batch."""

    handler_concurrency: int = 1
    """Handler calls at once in one process. More needs a handler that is safe to call from several threads."""

    hash_range_filter: HashRangeFilter = HashRangeFilter.KCL
    """Drop-in for KCL by default, with a metric for what it dropped."""

    metrics_by_shard: bool = True
    """Off: only the application's metrics, which the alarms watch. Spares $0.90 a shard and month; the dashboard's graphs by
    shard stay empty.
    """

    def __new__(cls, **given: object) -> Self:
        """Only to refuse what is no setting as SettingsError, and not as Python does it, with a TypeError."""
        known = cls.__dataclass_fields__
        for name in given.keys() - known.keys():
            raise SettingsError(
                name, given[name], f"no such setting; the settings are {', '.join(sorted(known))}"
            )
        return object.__new__(cls)  # super() knows the class without its slots

    def __post_init__(self) -> None:
        check(self)

    @property
    def lease_table(self) -> str:
        """KCL's convention: the application's name is the table's."""
        return self.application

    @property
    def sightings_table(self) -> str:
        """Not the lease table: one foreign row there stops every Java lease taker of KCL 2.x and 3.0-3.4."""
        return f"{self.application}-sightings"

    @property
    def own_worker_ids(self) -> tuple[str, ...]:
        if self.worker_id is not None:
            return (self.worker_id,)
        return tuple(f"{self.application}-lambda-{n}" for n in range(self.worker_count))

    @property
    def steals(self) -> bool:
        """catch_up never steals: it would give the lease back seconds later."""
        return self.mode is Mode.CONTINUOUS and self.leases_to_steal > 0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read every SUBLET_* variable; one that is no setting is refused, and so is a missing application or stream."""
        known = {PREFIX + f.name.upper(): f.name for f in fields(cls)}
        hints = get_type_hints(cls)
        given: dict[str, Any] = {}
        for variable, text in environment.items():
            if not variable.startswith(PREFIX):
                continue
            if variable not in known:
                raise SettingsError(
                    variable, text, f"no such setting; the settings are {', '.join(sorted(known.values()))}"
                )
            given[known[variable]] = parse_setting(known[variable], hints[known[variable]], text)
        for name in ("application", "stream"):
            if name not in given:
                raise SettingsError(name, None, f"required; set {PREFIX}{name.upper()}")
        return cls(**given)

    def to_environment(self) -> dict[str, str]:
        """The variables that `from_environment` reads this back from."""
        return {
            PREFIX + f.name.upper(): setting_text(v)
            for f in fields(self)
            if (v := getattr(self, f.name)) not in (None, "")
        }
