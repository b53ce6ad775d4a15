"""The Java side, built once into .local/interop: `python -m tests.interop.build`, or with --lock to rewrite the
checksums.

Maven resolves a class path for each profile of java/pom.xml, with this machine's Maven settings; only jars that match
<profile>.sha256 exactly are run. javac then compiles against them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path

from demo.spark.java import version_in
from infra.local.embedded import ROOT

SOURCES = Path(__file__).with_name("java")
BUILT = ROOT / ".local" / "interop"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
OLDEST_JDK = 17
NEEDED = f"the interop tests need Maven and a JDK of {OLDEST_JDK} or newer"


class Profile(StrEnum):
    """A class path of java/pom.xml."""

    KCL_2 = "kcl2"
    KCL_3 = "kcl3"
    KCL_3_4 = "kcl34"
    KPL = "kpl"
    FILTER = "filter"


PROGRAMS: Mapping[Profile, tuple[str, ...]] = {
    Profile.KCL_2: ("Consumer", "Deaggregator"),
    Profile.KCL_3: ("Consumer", "Deaggregator"),
    Profile.KCL_3_4: ("Consumer",),
    Profile.KPL: ("Producer",),
    Profile.FILTER: ("Filter",),
}


class WrongJars(Exception):
    """Maven returned other jars than the locked ones."""


def problem() -> str | None:
    """One sentence if this machine cannot build the Java side; otherwise None."""
    found = {name: shutil.which(name) for name in ("java", "javac", "mvn")}
    if missing := [name for name, path in found.items() if path is None]:
        return f"{NEEDED}; there is no {' and no '.join(missing)}"
    said = subprocess.run([str(found["javac"]), "-version"], capture_output=True, text=True, check=True)
    number = version_in(f'version "{(said.stdout + said.stderr).split()[-1]}"')
    return f"{NEEDED}; this one is {number}" if number is not None and number < OLDEST_JDK else None


def build(profiles: Iterable[Profile] = Profile) -> None:
    """Builds whatever is missing or has changed sources. Raises WrongJars, CalledProcessError."""
    for profile in profiles:
        stamp, wanted = BUILT / profile / "built", _fingerprint(profile)
        if stamp.exists() and stamp.read_text() == wanted:
            continue
        print(f"building {profile}, in {(BUILT / profile).relative_to(ROOT)}", flush=True)
        shutil.rmtree(BUILT / profile, ignore_errors=True)
        _resolve(profile)
        if wrong := list(differences(locked(profile), _digests(profile))):
            raise WrongJars(f"{profile}: {'; '.join(wrong)}")
        _compile(profile)
        stamp.write_text(wanted)


def lock() -> None:
    """Accept what Maven returns today."""
    for profile in Profile:
        shutil.rmtree(BUILT / profile, ignore_errors=True)
        _resolve(profile)
        lines = [f"{digest}  {name}\n" for name, digest in sorted(_digests(profile).items())]
        _lock_file(profile).write_text("".join(lines))


def command(profile: Profile, program: str, *options: str) -> list[str]:
    """Runs a program, up to its arguments: in little memory, and without the compiler that only pays off after
    minutes."""
    folder = BUILT / profile
    small = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return ["java", *small, *options, "-cp", f"{folder / 'classes'}:{folder / 'lib'}/*", program]


def _resolve(profile: Profile) -> None:
    maven = ["mvn", "-q", "-B", "--strict-checksums", "-f", str(SOURCES / "pom.xml"), f"-P{profile}"]
    where = f"-DoutputDirectory={BUILT / profile / 'lib'}"
    subprocess.run([*maven, COPY, "-DincludeScope=runtime", where], check=True)


def _compile(profile: Profile) -> None:
    classes = BUILT / profile / "classes"
    sources = [str(SOURCES / f"{name}.java") for name in PROGRAMS[profile]]
    javac = ["javac", "-nowarn", "-d", str(classes), "-cp", f"{BUILT / profile / 'lib'}/*", *sources]
    subprocess.run(javac, check=True, env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"})
    shutil.copy(SOURCES / "logback.xml", classes)


def _digests(profile: Profile) -> dict[str, str]:
    jars = (BUILT / profile / "lib").glob("*.jar")
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars}


def locked(profile: Profile) -> dict[str, str]:
    lines = (line.split() for line in _lock_file(profile).read_text().splitlines())
    return {name: digest for digest, name in lines}


def differences(locked: Mapping[str, str], found: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(locked.keys() | found.keys()):
        if name not in found:
            yield f"{name} is not there"
        elif name not in locked:
            yield f"{name} is not locked"
        elif locked[name] != found[name]:
            yield f"{name} is another file than the locked one"


def _lock_file(profile: Profile) -> Path:
    return SOURCES / f"{profile}.sha256"


def _fingerprint(profile: Profile) -> str:
    names = ["pom.xml", "logback.xml", f"{profile}.sha256", *(f"{name}.java" for name in PROGRAMS[profile])]
    digest = hashlib.sha256()
    for name in names:
        digest.update((SOURCES / name).read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    if why := problem():
        sys.exit(why)
    if "--lock" in sys.argv[1:]:
        lock()
    build()
