"""Every check of the project, one session a kind.

`uv run nox` runs them on the oldest supported Python here, without the long suites; `.ci/run` then
runs the package tests on the others, and the long suites.

Package tests run in environments that hold the built wheel of that package, its own closure and
the test tools, at the versions of the lock file, so that an import which only works because of a
sibling fails here.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv"
nox.options.download_python = "never"
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = True

# A shell that starts us in the background has its children ignore these; tests send them.
for _ignored in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_ignored) is signal.SIG_IGN:
        signal.signal(_ignored, signal.SIG_DFL)

ROOT = Path(__file__).parent
WHEELS = ROOT / "dist"
CONSTRAINTS = WHEELS / "constraints.txt"
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
TEST_TOOLS = ("pytest", "hypothesis", "pytest-timeout", "pytest-randomly", "pytest-xdist", "pyte")
# Each package with what its wheel needs of this workspace, and the extras its tests use.
CLOSURES = {
    "workspace-identity": (),
    "state-store": (),
    "run-journal": (),
    "sessions-api": ("workspace-identity", "state-store", "run-journal"),
}
EXTRAS = {"state-store": "[testing]", "sessions-api": "[openai,anthropic,prices]"}


def _works(version: str) -> bool:
    """Whether this Python is here and starts; a shim of a version manager may do only the first."""
    path = shutil.which(f"python{version}")
    if path is None:
        return False
    tried = subprocess.run([path, "-c", ""], capture_output=True, check=False)  # noqa: S603 - ours
    return tried.returncode == 0


# What is not on this machine is left out, and what is there is never skipped.
PYTHONS = [version for version in SUPPORTED if _works(version)]
nox.options.sessions = [
    "lint",
    "types",
    "layers",
    "build",
    *(f"tests-{version}" for version in PYTHONS[:1]),
    "end_to_end",
    "docs",
    "site",
]


def _sync(session: nox.Session, *arguments: str) -> None:
    """Install what the lock file says into the session's environment."""
    session.run_install(
        "uv",
        "sync",
        "--frozen",
        "--quiet",
        *arguments,
        env={"UV_PROJECT_ENVIRONMENT": session.virtualenv.location},
    )


def _wheel(package: str) -> str:
    (found,) = WHEELS.glob(f"{package.replace('-', '_')}-*.whl")
    return str(found)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, format and spelling."""
    _sync(session, "--only-group", "lint")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("codespell", "--skip", "uv.lock,./build,./dist,./.*")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of sources, tests and this file."""
    _sync(session, "--all-packages", "--all-extras", "--group", "types")
    for package in CLOSURES:
        session.run("mypy", f"packages/{package}/src", f"packages/{package}/tests")
    session.run("mypy", "noxfile.py", "tests", "benchmarks", "docs/site")


@nox.session
def layers(session: nox.Session) -> None:
    """Check who may import whom."""
    _sync(session, "--all-packages", "--group", "layers")
    session.run("lint-imports")


@nox.session(python=False)
def build(session: nox.Session) -> None:
    """Build every package, and list the locked versions that the package tests are held to."""
    shutil.rmtree(WHEELS, ignore_errors=True)
    session.run("uv", "build", "--all-packages", "--quiet", "--out-dir", str(WHEELS))
    for package in CLOSURES:
        _wheel(package)
    session.run(
        "uv",
        "export",
        "--frozen",
        "--quiet",
        "--all-packages",
        "--all-groups",
        "--all-extras",
        "--no-emit-workspace",
        "--no-hashes",
        "--output-file",
        str(CONSTRAINTS),
    )


@nox.session(python=PYTHONS, requires=["build"])
@nox.parametrize("package", list(CLOSURES))
def tests(session: nox.Session, package: str) -> None:
    """Test one package alone, from its wheel."""
    _install_alone(session, package)
    session.run("pytest", "-n", "2", f"packages/{package}/tests", *session.posargs)


@nox.session(requires=["build"])
@nox.parametrize("package", list(CLOSURES))
def crash(session: nox.Session, package: str) -> None:
    """Kill, crowd, starve and walk at length what the other sessions try with a sample.

    Seeds and counts are variables of the environment, named in each package's README, which also
    has the counts that its claims were measured with: ``STATE_STORE_SEED=7 nox -s crash``.
    """
    _install_alone(session, package)
    session.run(
        "pytest",
        "-n",
        "2",
        "--dist",
        "worksteal",
        "--timeout",
        "1800",
        "-rPfE",  # what passed says its seed and its counts; what failed is named last
        f"packages/{package}/tests",
        *session.posargs,
        env={f"{package.replace('-', '_').upper()}_LONG": "1"},
    )


@nox.session
def matrix(session: nox.Session) -> None:
    """Look for every invented secret at every entrance; `end_to_end` tries a sample."""
    _sync(session, "--all-extras", "--group", "test")
    file = "tests/test_redaction_matrix.py"
    session.run("pytest", "-n", "2", file, *session.posargs, env={"RUN_JOURNAL_LONG": "1"})


def _install_alone(session: nox.Session, package: str) -> None:
    """Install the package's wheel, what it needs of this workspace, and the test tools."""
    session.install(
        "--constraint",
        str(CONSTRAINTS),
        *TEST_TOOLS,
        *(_wheel(sibling) for sibling in CLOSURES[package]),
    )
    # The wheels have the same name and version from one build to the next.
    session.install(
        "--reinstall-package",
        package,
        "--constraint",
        str(CONSTRAINTS),
        _wheel(package) + EXTRAS.get(package, ""),
    )


@nox.session
def end_to_end(session: nox.Session) -> None:
    """Test what crosses packages: the walkthrough, crashes, cases."""
    _sync(session, "--all-extras", "--group", "test")
    session.run("pytest", "-n", "2", "tests", "--ignore", "tests/test_docs.py", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Run the examples of README files and documents, and check their links."""
    _sync(session, "--all-extras", "--group", "test")
    session.run("pytest", "tests/test_docs.py", *session.posargs)


@nox.session
def site(session: nox.Session) -> None:
    """Build the documents as a site into build/site; a link or an anchor that fails, fails it."""
    _sync(session, "--only-group", "site")
    quiet = {"NO_MKDOCS_2_WARNING": "1"}  # the theme's news, at every build
    session.run("mkdocs", "build", "--strict", *session.posargs, env=quiet)
