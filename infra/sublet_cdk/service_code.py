"""Assembles the code of a service's containers without a Dockerfile: a public Python image, and an S3 asset with the
rest.

The task's first container copies the asset to the task's disk and ends; the second unpacks it and becomes `sublet
run`. The asset contains the library, its dependencies from locked wheels, and the handler with the packages of its
requirements.txt.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct
from sublet.errors import SettingsError
from sublet.settings import HandlerContract
from sublet_cdk.dependencies import PROCESS, built
from sublet_cdk.handler_asset import stage_handler, warn_of_unread_requirements
from sublet_cdk.library import stage_folder, stage_library
from sublet_cdk.wheels import Platform

PYTHON = "3.13"
PYTHON_IMAGE = f"public.ecr.aws/docker/library/python:{PYTHON}-slim"
FETCHING_IMAGE = "public.ecr.aws/aws-cli/aws-cli:2.17.0"

CODE = "/code"
"""Where both containers mount the task's disk."""
PARTS = ("handler", "library", "dependencies")
"""The asset's folders, in the order of Python's path."""
PYTHONPATH = ":".join(f"{CODE}/app/{part}" for part in PARTS)

RUN = ("python", "-m", "sublet", "run", "--no-create")
UNPACK_AND_RUN = f"python -m zipfile -e {CODE}/app.zip {CODE}/app && cd {CODE}/app/handler && exec {' '.join(RUN)}"
"""The command of the second container. It uses `exec`, so that SIGTERM reaches Python and not a shell."""


@dataclass(frozen=True, slots=True)
class ServiceCode:
    """The code of a container. `asset` is fetched first; None for an image that contains everything."""

    image: ecs.ContainerImage
    command: tuple[str, ...]
    asset: s3_assets.Asset | None = None


def code_of_image(image: ecs.ContainerImage, command: tuple[str, ...] | None) -> ServiceCode:
    return ServiceCode(image, command or RUN)


def code_of_folder(
    scope: Construct,
    handler_code: Path,
    handler: str,
    contract: HandlerContract,
    architecture: str,
    dependencies: Path | None,
) -> ServiceCode:
    """Assembles the code of a handler folder. Raises SettingsError for missing code or folders, and
    PackagesNotInstalled.
    """
    target = stage_folder(scope) / f"service-{scope.node.addr}"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    platform = Platform(architecture, PYTHON, PROCESS.glibc)
    warn_of_unread_requirements(scope, handler_code)
    stage_handler(handler_code, handler, None, target / "handler", platform, contract=contract)
    shutil.copytree(stage_library(scope) / "python", target / "library")
    if dependencies is None:
        dependencies = built(PROCESS, architecture)
    elif not dependencies.is_dir():
        raise SettingsError("dependencies", str(dependencies), "a folder of packages")
    shutil.copytree(dependencies, target / "dependencies")
    asset = s3_assets.Asset(scope, "Code", path=str(target))
    return ServiceCode(ecs.ContainerImage.from_registry(PYTHON_IMAGE), ("sh", "-c", UNPACK_AND_RUN), asset)


def add_fetching(task: ecs.TaskDefinition, asset: s3_assets.Asset, logging: ecs.LogDriver) -> ecs.ContainerDefinition:
    """Adds the container that must succeed before the consumer starts."""
    fetching = task.add_container(
        "fetch",
        image=ecs.ContainerImage.from_registry(FETCHING_IMAGE),
        command=["s3", "cp", "--only-show-errors", asset.s3_object_url, f"{CODE}/app.zip"],
        essential=False,
        logging=logging,
    )
    fetching.add_mount_points(ecs.MountPoint(container_path=CODE, source_volume="code", read_only=False))
    return fetching
