"""What a keeper reads in Spark's checkpoint folder, on disk and in S3."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sublet.aws.s3_folder import ObjectFolder
from sublet.protocol.stream_identity import StreamIdentity
from sublet.spark.keeper.checkpoint_folder import FolderCommits, LocalFolder, UnknownCommits, commits_in
from sublet.spark.plan.offsets import Offset, ReadTo, ShardOffset, StreamOffset, offset_to_json

from infra.local import EmbeddedAws

IDENTITY = StreamIdentity("arn:aws:kinesis:us-east-1:000000000000:stream/orders", datetime(2026, 1, 31, 8, tzinfo=UTC))


def offset(batch: int) -> Offset:
    return Offset({None: StreamOffset("orders", IDENTITY, {"shardId-0": ShardOffset(ReadTo(str(4968 + batch)))})})


def files(
    *committed: int, planned: int, other_sources: int = 0, version: str = "v1", names: tuple[str, ...] = ("", "")
) -> dict[str, str]:
    """As Spark writes them: two lines of its own, then one for each source. `names`: what stands before other sources'
    offsets, and before ours."""
    first = [names[0] + '{"another": "source"}'] * other_sources
    offsets = {
        f"offsets/{n}": "\n".join(
            [version, '{"batchWatermarkMs":0}', *first, names[1] + json.dumps(offset_to_json(offset(n)))]
        )
        for n in range(planned)
    }
    return {"commits/.0.crc": "x"} | offsets | {f"commits/{n}": 'v1\n{"nextBatchWatermarkMs":0}' for n in committed}


def in_folder(path: Path, texts: dict[str, str]) -> FolderCommits:
    for name, text in texts.items():
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text(text)
    return FolderCommits(LocalFolder(path))


def test_a_batch_is_committed_when_its_offset_is_that_of_a_commit(tmp_path: Path) -> None:
    commits = in_folder(tmp_path, files(*range(12), planned=13, other_sources=1))
    assert commits.has(offset(11)) is True
    assert commits.has(offset(12)) is False, "planned, not committed"
    assert commits.has(offset(10)) is True
    assert commits.has(offset(99)) is False


@pytest.mark.parametrize("names", [("0:", "1:"), ("audit:", "orders:")])
def test_commit_is_found_in_the_second_format_by_number_or_name(tmp_path: Path, names: tuple[str, str]) -> None:
    commits = in_folder(tmp_path, files(0, 1, planned=3, other_sources=1, version="v2", names=names))
    assert commits.has(offset(1)) is True
    assert commits.has(offset(2)) is False, "planned, not committed"


@pytest.mark.parametrize("version", ["v3", "", "offsets of another kind"])
def test_commit_in_an_unknown_format_is_not_known(tmp_path: Path, version: str) -> None:
    commits = in_folder(tmp_path, files(0, 1, planned=2, version=version))
    assert commits.has(offset(1)) is None


def test_commits_of_two_formats_are_all_looked_at(tmp_path: Path) -> None:
    """Spark keeps to a checkpoint's format; another one may be of a release that this version does not know."""
    texts = files(0, 1, planned=2) | {"commits/2": "v9", "offsets/2": "v9"}
    commits = in_folder(tmp_path, texts)
    assert commits.has(offset(1)) is True
    assert commits.has(offset(2)) is None


def test_commit_whose_offset_spark_has_removed_is_not_known(tmp_path: Path) -> None:
    texts = files(0, 1, planned=2)
    del texts["offsets/0"]
    commits = in_folder(tmp_path, texts)
    assert commits.has(offset(1)) is True
    assert commits.has(offset(0)) is None


def test_folder_has_no_commit_before_the_first(tmp_path: Path) -> None:
    assert FolderCommits(LocalFolder(tmp_path / "nothing")).has(offset(0)) is False
    assert in_folder(tmp_path, files(planned=1)).has(offset(0)) is False


def test_folder_without_a_scheme_that_spark_has_not_made_here_says_nothing(tmp_path: Path) -> None:
    """Spark's default file system is another one, such as HDFS. A `file:` location is on this machine for Spark too."""
    elsewhere = tmp_path / "elsewhere"
    assert commits_in(str(elsewhere)).has(offset(0)) is None
    assert commits_in(elsewhere.as_uri()).has(offset(0)) is False
    in_folder(tmp_path, files(planned=1))
    (tmp_path / "commits" / ".0.crc").unlink()
    (tmp_path / "commits").rmdir()
    assert commits_in(str(tmp_path)).has(offset(0)) is False


def test_a_folder_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "commits").write_text("not a folder")
    assert FolderCommits(LocalFolder(tmp_path)).has(offset(0)) is None


@pytest.mark.parametrize(
    ("location", "kind"),
    [
        (None, UnknownCommits),
        ("hdfs://namenode/checkpoint", UnknownCommits),
        ("/tmp/checkpoint", FolderCommits),
        ("file:///tmp/a%20b", FolderCommits),
    ],
)
def test_checkpoint_location_decides_the_kind_of_folder(location: str | None, kind: type[object]) -> None:
    assert isinstance(commits_in(location), kind)


def test_commits_are_read_from_s3(embedded_aws: EmbeddedAws) -> None:
    s3, bucket = embedded_aws.client("s3"), f"checkpoints-{os.getpid()}"
    s3.create_bucket(Bucket=bucket)
    commits = FolderCommits(ObjectFolder(s3, bucket, "/queries/orders/"))
    assert commits.has(offset(0)) is False
    for name, text in files(0, 1, planned=3).items():
        s3.put_object(Bucket=bucket, Key=f"queries/orders/{name}", Body=text.encode())
    assert commits.has(offset(1)) is True
    assert commits.has(offset(2)) is False
    assert FolderCommits(ObjectFolder(s3, f"{bucket}-other", "x")).has(offset(0)) is False
