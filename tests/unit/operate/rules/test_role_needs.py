"""Which IAM actions a consumer's settings need."""

from __future__ import annotations

import pytest
from sublet.operate.rules.role_needs import REGISTERS_FAN_OUT, Runtime, needs_of
from sublet.settings import Mode, Reading, Settings, StreamChoice

STREAM = "arn:aws:kinesis:us-east-1:123456789012:stream/orders"


@pytest.mark.parametrize("registers", [True, False])
@pytest.mark.parametrize("runtime", list(Runtime))
def test_role_of_a_process_that_registers_its_consumer_may_do_so(runtime: Runtime, registers: bool) -> None:
    settings = Settings(
        application="audit",
        streams=StreamChoice.parse("orders-*"),
        reading=Reading.FAN_OUT,
        register_fan_out=registers,
        mode=Mode.CONTINUOUS,
    )
    needed = {action for need in needs_of(runtime, settings, STREAM) for action in need.actions}
    assert (needed >= set(REGISTERS_FAN_OUT)) is (registers and runtime is Runtime.PROCESS)
