"""`sublet exporter`'s options: which applications are meant, and what is refused."""

from __future__ import annotations

import pytest
from sublet.errors import SubletError
from sublet.operate.cli.monitor.exporter import Named, with_stream

ORDERS = Named("orders-audit", "orders")


def test_stream_belongs_to_the_one_application_without_it() -> None:
    assert with_stream([Named("orders-audit", None)], "orders") == [ORDERS]


def test_applications_without_a_stream_read_several() -> None:
    both = [ORDERS, Named("billing", None)]
    assert with_stream(both, None) == both


@pytest.mark.parametrize("applications", [[ORDERS], [Named("orders-audit", None), Named("billing", None)]])
def test_stream_that_belongs_to_no_one_application_is_refused(applications: list[Named]) -> None:
    with pytest.raises(SubletError, match="APPLICATION=STREAM"):
        with_stream(applications, "orders")


def test_exporter_without_an_application_is_refused() -> None:
    with pytest.raises(SubletError, match="name an application"):
        with_stream([], "orders")
