"""What `sublet run` logs as text, beside what a handler logs by its own means."""

from __future__ import annotations

import subprocess
import sys

import pytest
from sublet.command_line.run import log_level
from sublet.errors import SettingsError

OURS = """
import sys
from sublet.aws.standard_output import STANDARD_OUTPUT
from sublet.command_line.run import log_as_text
from sublet.system.python_log import PythonLog
log_as_text(STANDARD_OUTPUT, "INFO")
PythonLog("sublet").info("lease acquired", why="free")
"""


def said(code: str) -> tuple[list[str], list[str]]:
    """The lines on standard output, without their times, and those on standard error."""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return [line[9:] for line in done.stdout.splitlines()], done.stderr.splitlines()


def test_run_log_shows_our_lines_and_the_handlers_warnings_once() -> None:
    code = OURS + 'import logging\nlogging.getLogger("orders").info("a")\nlogging.getLogger("orders").warning("b")'
    assert said(code) == (["INFO    sublet: lease acquired why=free", "WARNING b"], [])


def test_a_handler_that_configures_logging_keeps_its_level_and_its_lines() -> None:
    own = "import logging\nlogging.basicConfig(level=logging.INFO, format='own %(message)s')\n"
    last = 'logging.getLogger("orders").info("a")\nlogging.getLogger("orders").warning("b")\n'
    assert said(own + OURS + last) == (["INFO    sublet: lease acquired why=free"], ["own a", "own b"])
    assert said(OURS + own + last) == (["INFO    sublet: lease acquired why=free"], ["own a", "own b"])


def test_a_line_of_powertools_logger_is_written_once() -> None:
    code = f"from aws_lambda_powertools import Logger\nlogger = Logger(service='orders')\n{OURS}\nlogger.warning('b')"
    ours, theirs = said(code)[0]
    assert ours == "INFO    sublet: lease acquired why=free"
    assert '"message":"b"' in theirs


def test_an_output_that_nobody_reads_is_one_sentence_and_no_traceback() -> None:
    code = "import os\nread, write = os.pipe()\nos.close(read)\nos.dup2(write, 1)\n" + OURS * 2
    _, complaints = said(code + "\nos.close(1)\nos._exit(0)")
    assert len(complaints) == 1
    assert complaints[0].startswith("sublet: stdout cannot be written")


def test_lines_below_the_level_are_left_out() -> None:
    assert said(OURS.replace('"INFO"', '"WARNING"')) == ([], [])


def test_the_level_is_that_of_powertools_and_a_wrong_one_is_refused() -> None:
    assert log_level({}) == "INFO"
    assert log_level({"POWERTOOLS_LOG_LEVEL": "warning"}) == "WARNING"
    with pytest.raises(SettingsError, match="POWERTOOLS_LOG_LEVEL = 'loud': DEBUG, INFO"):
        log_level({"POWERTOOLS_LOG_LEVEL": "loud"})


def test_control_characters_move_no_cursor() -> None:
    code = OURS + 'PythonLog("sublet").error("handler failed", error="no \\x1b[2J such \\t row\\nat all")\n'
    assert said(code)[0][1:] == [r"ERROR   sublet: handler failed error=no \x1b[2J such \t row", ""]
