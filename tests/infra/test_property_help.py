"""`help` of a construct shows its properties, with their types, defaults and sentences, and nothing of jsii's."""

from __future__ import annotations

import inspect
import pydoc

import pytest
from constructs import Construct
from sublet.settings.keywords import ServiceKeywords, WorkerKeywords
from sublet_cdk import ConsumerMonitoring, KinesisConsumer, KinesisConsumerService, SparkPipeline
from sublet_cdk.property_help import NOT_PROPERTIES, with_property_help

CONSTRUCTS = (KinesisConsumer, KinesisConsumerService, ConsumerMonitoring, SparkPipeline)

of_each_construct = pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda construct: construct.__name__)


def shown(construct: type) -> str:
    return pydoc.plain(pydoc.render_doc(construct))


@of_each_construct
def test_help_shows_the_signature_and_not_the_placeholder_of_jsii(construct: type) -> None:
    text = shown(construct)
    assert "*args" not in text
    assert "kwargs" not in text
    assert f"{construct.__name__}(scope: Construct, construct_id: str, *, " in text


@of_each_construct
def test_help_has_each_property_with_its_type_and_default(construct: type) -> None:
    text = inspect.getdoc(construct) or ""
    for name, parameter in inspect.signature(construct).parameters.items():
        if name not in (*NOT_PROPERTIES, "settings"):
            assert f"\n{name}: {parameter.annotation}" in text
            has_default = f"\n{name}: {parameter.annotation} = " in text
            assert has_default is (parameter.default is not inspect.Parameter.empty)


@pytest.mark.parametrize(
    "line",
    [
        "handler_code: str | Path",
        "worker_memory: int = 512\n    the memory of one lease worker, in MiB",
        "log_retention: logs.RetentionDays = RetentionDays.ONE_MONTH",
        "runtime: lambda_.Runtime = python3.13",
        "    window: timedelta = 14m",
    ],
)
def test_help_of_a_consumer_has_the_line(line: str) -> None:
    assert f"\n{line}" in (inspect.getdoc(KinesisConsumer) or "")


@pytest.mark.parametrize(
    ("construct", "keywords"), [(KinesisConsumer, WorkerKeywords), (KinesisConsumerService, ServiceKeywords)]
)
def test_help_lists_each_setting_that_is_a_property(construct: type, keywords: type) -> None:
    text = inspect.getdoc(construct) or ""
    assert [name for name in inspect.get_annotations(keywords) if f"\n    {name}: " not in text] == []


def test_sentence_of_another_construct_is_spelt_out() -> None:
    text = inspect.getdoc(KinesisConsumerService) or ""
    assert "as for" not in text
    assert "stream_key: kms.IKey | None = None\n    the stream's KMS key, if it is neither" in text


def test_subclass_shows_its_own_signature() -> None:
    class Audit(KinesisConsumer):
        def __init__(self, scope: Construct, *, team: str) -> None: ...

    assert list(inspect.signature(Audit).parameters) == ["scope", "team"]


def test_property_without_a_sentence_is_refused() -> None:
    class Forgetful:
        """A construct.

        memory    in MiB
        """

        def __init__(self, *, memory: int, cpu: int = 1) -> None: ...

    with pytest.raises(ValueError, match="Forgetful's docstring does not say what cpu is"):
        with_property_help()(Forgetful)


def test_sentence_without_a_property_is_refused() -> None:
    class Outdated:
        """A construct.

        memory, cpu    in MiB, and in units
        """

        def __init__(self, *, memory: int) -> None: ...

    with pytest.raises(ValueError, match="no such property: cpu"):
        with_property_help()(Outdated)
