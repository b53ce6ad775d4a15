"""The built layer is complete: it needs no other package, and its binaries are for Lambda."""

from __future__ import annotations

import json
import platform
import re
import struct
import subprocess
import sys

import pytest
from sublet_cdk.bytecode import running
from sublet_cdk.dependencies import LAYER, built, built_with_bytecode

ELF_MACHINE = {"x86_64": 62, "arm64": 183}
"""`e_machine` of ELF's header: EM_X86_64, EM_AARCH64."""

PYTHONS = ("311", "312", "313", "314")
"""Lambda's default is 3.13; the embedded AWS runs functions on the machine's own Python."""

PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
import msgspec
from aws_lambda_powertools import Logger, Metrics
from google.protobuf import descriptor_pb2
from google.protobuf.internal import api_implementation

file = descriptor_pb2.FileDescriptorProto(name="kpl.proto", package="sublet")
assert descriptor_pb2.FileDescriptorProto.FromString(file.SerializeToString()) == file
assert msgspec.json.decode(b"[7]", type=list[int]) == [7]
Logger(service="layer").info("a line of JSON")
metrics = Metrics(namespace="sublet", service="layer")
metrics.add_metric(name="records", unit="Count", value=3)
print(json.dumps(metrics.serialize_metric_set()))
print(json.dumps({
    "protobuf": api_implementation.Type(),
    "from": sorted({str(m.__file__) for n, m in sys.modules.items()
                    if n in ("aws_lambda_powertools", "jmespath", "google.protobuf", "msgspec._core",
                    "typing_extensions")}),
    "boto3": "boto3" in sys.modules,
}))
"""


def test_dependencies_work_with_nothing_but_the_layer() -> None:
    if sys.platform != "linux":
        pytest.skip("the layer's binaries are Linux's")
    own = {"aarch64": "arm64", "x86_64": "x86_64"}[platform.machine()]
    layer = built(LAYER, own) / "python"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", PROGRAM, str(layer)],
        env={},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    line, metrics, facts = (json.loads(text) for text in done.stdout.splitlines())
    assert line["message"] == "a line of JSON"
    assert metrics["records"] == [3.0]
    assert facts["protobuf"] == "upb", "the pure Python protobuf is 20 times slower"
    assert facts["from"]
    assert all(path.startswith(str(layer)) for path in facts["from"])
    assert not facts["boto3"]


@pytest.mark.parametrize("architecture", ["arm64", "x86_64"])
def test_binaries_are_of_the_architecture_that_the_layer_is_for(architecture: str) -> None:
    binaries = list(built(LAYER, architecture).rglob("*.so"))
    assert binaries, "no binary"
    for binary in binaries:
        header = binary.read_bytes()[:20]
        assert header[:4] == b"\x7fELF", binary
        assert struct.unpack_from("<H", header, 18)[0] == ELF_MACHINE[architecture], binary
        for version in PYTHONS:
            same = binary.with_name(re.sub(r"cpython-\d+", f"cpython-{version}", binary.name))
            assert same.exists(), f"{binary} is for one Python alone: not for {version}"


def test_a_layer_for_this_python_has_its_bytecode_beside_the_one_for_all() -> None:
    compiled = built_with_bytecode(LAYER, "arm64", running())
    assert (compiled / "python" / "msgspec" / "__pycache__" / f"__init__.{sys.implementation.cache_tag}.pyc").is_file()
    assert built_with_bytecode(LAYER, "arm64", running()) == compiled
    assert not list(built(LAYER, "arm64").rglob("*.pyc"))
    assert built_with_bytecode(LAYER, "arm64", "3.99") == built(LAYER, "arm64")


def test_both_architectures_have_the_same_packages_and_no_leftovers() -> None:
    def names(architecture: str) -> set[str]:
        folder = built(LAYER, architecture)
        return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.suffix != ".so"}

    assert names("arm64") == names("x86_64")
    assert not [name for name in names("arm64") if "__pycache__" in name or name.endswith(("RECORD", ".lock"))]
