"""A Consumer's arguments: the same for plain Python and asyncio, and as they are typed for a context's consumers."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any

import pytest
from sublet import Consumer, aio
from sublet.errors import SettingsError
from sublet.pull.arguments import ConsumerKeywords, PulledKeywords
from sublet.settings.keywords import ProcessKeywords
from sublet.testing.memory import MemoryStream, memory_ports

NOT_FOR_A_CONTEXT = {"self", "application", "stream", "ports", "account", "settings"}
"""A context fills these in, or has no use for them."""


@pytest.mark.parametrize(("made", "keywords"), [(Consumer, ConsumerKeywords), (aio.Consumer, PulledKeywords)])
def test_a_context_s_consumer_takes_the_same_options(made: type, keywords: type) -> None:
    taken = {
        name: parameter.annotation
        for name, parameter in inspect.signature(made.__init__).parameters.items()  # type: ignore[misc]
        if name not in NOT_FOR_A_CONTEXT
    }
    own = keywords.__annotations__.keys() - ProcessKeywords.__annotations__.keys()
    typed = {name: str(keywords.__annotations__[name].__forward_arg__) for name in own}
    assert typed == taken


@pytest.mark.parametrize("made", [Consumer, aio.Consumer])
def test_a_setting_may_be_given_as_text(made: type[Consumer | aio.Consumer]) -> None:
    ports = memory_ports(MemoryStream(name="orders"))
    consumer = made("audit", "orders", ports=ports, failover_time="30s", worker_id="one")
    assert consumer.settings.failover_time == timedelta(seconds=30)


@pytest.mark.parametrize("made", [Consumer, aio.Consumer])
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("region", "give account=sublet.connect"),
        ("boto3_session", "give account=sublet.connect"),
        ("worker_count", "only for Lambda"),
    ],
)
def test_argument_that_would_do_nothing_here_is_refused(
    made: type[Consumer | aio.Consumer], name: str, says: str
) -> None:
    given: dict[str, Any] = {name: 3}
    with pytest.raises(SettingsError, match=says):
        made("audit", "orders", **given)
