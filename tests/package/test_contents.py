"""The sdist and the wheel contain what they should, and nothing else."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

from tests.package.distributions import ROOT, Distributions

PACKAGES = ("layers/sublet/python/sublet", "layers/sublet/python/pyspark_sublet", "infra/sublet_cdk")
DATA = {
    *(f"functions/{name}/app.py" for name in ("deployment_check", "lease_manager", "lease_worker", "spark_pipeline")),
    *(f"requirements/{name}.txt" for name in ("emr", "layer", "process")),
}
PAPERS = {"CHANGELOG.md", "DESIGN.md", "LICENSE", "README.md", "pyproject.toml"}
MADE_FOR_SDIST = {".gitignore", "PKG-INFO"}
MADE_FOR_WHEEL = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}


def sources() -> set[str]:
    """Every file of the packages, by its path in the repository."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()]
    return {str(path.relative_to(ROOT)) for path in files if "__pycache__" not in path.parts}


def test_sdist_holds_packages_data_and_papers(distributions: Distributions) -> None:
    with tarfile.open(distributions.sdist) as sdist:
        found = {name.partition("/")[2] for name in sdist.getnames()}
    assert found == sources() | DATA | PAPERS | MADE_FOR_SDIST


def test_wheel_holds_packages_and_data(distributions: Distributions) -> None:
    with zipfile.ZipFile(distributions.wheel) as wheel:
        found = set(wheel.namelist())
    (info,) = {name.partition("/")[0] for name in found if ".dist-info/" in name}
    modules = {
        str(Path(path).relative_to(Path(package).parent))
        for package in PACKAGES
        for path in sources()
        if path.startswith(f"{package}/")
    }
    assert found == modules | {f"sublet_cdk/data/{path}" for path in DATA} | {
        f"{info}/{name}" for name in MADE_FOR_WHEEL
    }


def test_every_package_says_that_it_has_types(distributions: Distributions) -> None:
    with zipfile.ZipFile(distributions.wheel) as wheel:
        assert {"sublet/py.typed", "pyspark_sublet/py.typed", "sublet_cdk/py.typed"} <= set(wheel.namelist())
