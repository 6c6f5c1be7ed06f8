"""Versions of installed packages that do not work together, read from dist-info, nothing imported."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rootrank.preflight.finding import MAY, WILL, Finding, Place, Severity, rule
from rootrank.preflight.host import Package, normal
from rootrank.preflight.job import Job

DECLARED = rule(
    "version-requirement", "installed packages meet what each other declares",
    "python-dependency-mismatch", "Requires-Dist in each package's dist-info/METADATA",
)  # fmt: skip
KNOWN = rule(
    "version-pair", "no pair of versions that is known to break",
    "python-dependency-mismatch", "the issue or source named in the finding",
)  # fmt: skip

# One package below a version while another is at or above one: (package, below, other, from).
_PAIRS: tuple[tuple[str, str, str, str, Severity, str, str], ...] = (
    ("torch", "2.3", "numpy", "2", MAY,
     "wheels before 2.3 are built for NumPy 1: tensor.numpy() and DataLoader stop with \"Numpy is not available\"",
     "pytorch/pytorch issues 107302, 132179"),
    ("deepspeed", "0.14.4", "numpy", "2", WILL,
     "deepspeed imports numpy.BUFSIZE, which NumPy 2 does not have", "deepspeedai/DeepSpeed issue 5671"),
    ("deepspeed", "0.14.1", "torch", "2.4", WILL,
     "deepspeed imports `log` from torch's elastic agent, which was renamed",
     "deepspeedai/DeepSpeed issue 5337"),
    ("deepspeed", "0.11", "pydantic", "2", WILL,
     "its configuration classes are pydantic 1 (FieldInfo has no attribute field_info)",
     "deepspeedai/DeepSpeed pull 4407, issue 3963"),
    ("deepspeed", "0.16", "torch", "2.6", MAY,
     "torch.load is weights-only by default there; DeepSpeed's checkpoints need 0.16 to load",
     "lightning 2.6.6 strategies/deepspeed.py"),
    ("torch", "2.6", "transformers", "4.51", MAY,
     "transformers refuses to torch.load weights before torch 2.6 (safetensors are not affected)",
     "transformers utils/import_utils.py check_torch_load_is_safe"),
    ("accelerate", "1.1", "transformers", "5", WILL,
     "Trainer of transformers 5 needs accelerate 1.1.0", "transformers 5.24.0 utils/import_utils.py ACCELERATE_MIN_VERSION"),
)  # fmt: skip


def check(job: Job) -> Iterator[Finding]:
    """Yield pairs of installed versions that fail together."""
    packages = job.host.packages if job.host else {}
    for name, below, other, since, severity, why, source in _PAIRS:
        mine, its = packages.get(name), packages.get(other)
        if mine and its and not at_least(mine.version, below) and at_least(its.version, since):
            found = KNOWN.found(
                severity, Place(name="packages", key=name),
                f"{name} {mine.version} with {other} {its.version}", why + ".",
                f"upgrade {name} to {below} or later, or take {other} before {since}",
            )  # fmt: skip
            yield _sourced(found, source)
    for package in packages.values():
        yield from _requirements(package, packages)


def _sourced(found: Finding, source: str) -> Finding:
    from dataclasses import replace

    return replace(found, source=source)


_REQUIRE = re.compile(r"([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(;.*)?\Z")
_CLAUSE = re.compile(r"(===|==|!=|>=|<=|~=|>|<)\s*([\w.*+!-]+)")


def _requirements(package: Package, packages: dict[str, Package]) -> Iterator[Finding]:
    for text in package.requires:
        match = _REQUIRE.match(text.strip())
        if not match or match.group(3):  # an environment marker or an extra: not decided here
            continue
        other = packages.get(normal(match.group(1)))
        if other and not satisfies(other.version, match.group(2)):
            yield DECLARED.found(
                MAY if _pinned(match.group(2)) else WILL, Place(name="packages", key=package.name),
                f"{package.name} {package.version} requires {text.strip()[:120]}, installed is "
                f"{other.version}",
                "the package declares that it does not work with this version.",
                f"pip install '{other.name}{match.group(2).strip().replace(' ', '')}'",
            )  # fmt: skip


def _pinned(spec: str) -> bool:
    """Return whether only an upper bound or an exact version is asked: often wider than it must."""
    return not any(op in (">=", ">", "~=") for op, _ in _CLAUSE.findall(spec))


def satisfies(version: str, spec: str) -> bool:
    """Return whether a version meets a specifier; what cannot be read is met."""
    return all(_meets(version, op, wanted) for op, wanted in _CLAUSE.findall(spec))


def _meets(version: str, op: str, wanted: str) -> bool:
    if op in ("==", "!=") and wanted.endswith(".*"):
        prefix = _release(wanted[:-2])
        same = _release(version)[: len(prefix)] == prefix
        return same if op == "==" else not same
    mine, its = _padded(_release(version)), _padded(_release(wanted))
    if op == "~=":
        return (
            mine >= its
            and mine[: max(1, len(_release(wanted)) - 1)]
            == (its[: max(1, len(_release(wanted)) - 1)])
        )
    answers = {
        "==": mine == its, "!=": mine != its, ">=": mine >= its, "<=": mine <= its,
        ">": mine > its, "<": mine < its,
    }  # fmt: skip
    return answers.get(op, True)


def _release(version: str) -> tuple[int, ...]:
    """Return the release numbers: 2.13.0+cpu is 2, 13, 0. Pre-releases count as the release."""
    numbers = re.match(r"v?(\d{1,9}(?:\.\d{1,9}){0,6})", version)
    return tuple(int(n) for n in numbers.group(1).split(".")) if numbers else (0,)


def _padded(release: tuple[int, ...]) -> tuple[int, ...]:
    return (release + (0,) * 7)[:7]


def at_least(version: str, wanted: str) -> bool:
    """Return whether a version is the wanted one or later."""
    return _padded(_release(version)) >= _padded(_release(wanted))
