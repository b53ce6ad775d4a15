"""Finds all applications of an account: every DynamoDB table with the key of KCL's lease table is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sublet.decisions.session.control import paused
from sublet.decisions.status.fleet_status import FleetFindings, fleet_status
from sublet.decisions.streams.stream_status import gone_streams
from sublet.errors import LeaseTableError, SettingsError
from sublet.operate.rules.application_status import ApplicationStatus, last_write, worst_applications_first
from sublet.ports import Remembered
from sublet.ports.account import ALL, Account, ApplicationRows, Tags
from sublet.settings import Settings
from sublet.settings.value import SIGHTINGS_SUFFIX

AT_ONCE = 10
"""How many tables are read at the same time."""


def applications(account: Account, settings: Settings, tags: Tags = ALL) -> Sequence[ApplicationStatus]:
    """Returns the applications, the worst first. Reads each lease table whole, and asks no stream. A table that cannot
    be read is in the result, with its problem. Raises LeaseTableAccessDenied if the tables may not be listed.

    settings  any application's: only `failover_time` and the groups of workers are used
    tags      return only applications whose lease table has these tags
    """
    slots = account.tasks.slots(AT_ONCE)

    def look(table: str) -> ApplicationStatus | None:
        with slots:
            return _look(table, account, settings)

    names = [name for name in account.tables(tags) if not name.endswith(SIGHTINGS_SUFFIX)]
    tasks = [account.tasks.spawn(partial(look, name)) for name in names]
    return worst_applications_first(found for task in tasks if (found := task.result()) is not None)


def _look(table: str, account: Account, settings: Settings) -> ApplicationStatus | None:
    """Returns None if the table is not a lease table."""
    try:
        rows = account.application_rows(table)
        return None if rows is None else _status(rows, replace(settings, application=table), account)
    except (LeaseTableError, SettingsError) as problem:
        return ApplicationStatus(table, problem=str(problem))


def _status(rows: ApplicationRows, settings: Settings, account: Account) -> ApplicationStatus:
    now, remembered = account.clock.now(), rows.remembered or Remembered({})
    stopped = {} if rows.control is None else paused(rows.control, rows.scan.leases, now)
    known = FleetFindings(
        remembered.sightings, remembered.unread, paused=stopped, gone=gone_streams(remembered.streams)
    )
    stream = remembered.stream
    return ApplicationStatus(
        settings.application,
        fleet_status(rows.scan, now, settings, known),
        None if stream is None else stream.arn,
        last_write(rows.scan.leases, remembered.sightings),
        rows.problem,
    )
