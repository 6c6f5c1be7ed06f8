"""rootrank reads the logs of a failed distributed training job: which rank failed first, and why.

Belongs here: the public names, and nothing else. They are resolved on first use, so that
`import rootrank` costs a training script (which may import it at start) next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rootrank._version import __version__

if TYPE_CHECKING:
    from rootrank.errors import (
        InputError,
        KnowledgeError,
        MissingExtraError,
        RootrankError,
        UsageError,
    )
    from rootrank.knowledge.load import load_knowledge
    from rootrank.knowledge.types import Entry, Knowledge
    from rootrank.model import (
        Action,
        Cause,
        Collateral,
        Coverage,
        Diagnosis,
        Evidence,
        Gap,
        Initiating,
        Missing,
        RootCause,
        Status,
        Verdict,
        to_plain,
    )
    from rootrank.pipeline import diagnose

__all__ = [
    "Action",
    "Cause",
    "Collateral",
    "Coverage",
    "Diagnosis",
    "Entry",
    "Evidence",
    "Gap",
    "Initiating",
    "InputError",
    "Knowledge",
    "KnowledgeError",
    "Missing",
    "MissingExtraError",
    "RootCause",
    "RootrankError",
    "Status",
    "UsageError",
    "Verdict",
    "__version__",
    "diagnose",
    "load_knowledge",
    "to_plain",
]

_ERRORS = ["InputError", "KnowledgeError", "MissingExtraError", "RootrankError", "UsageError"]
_HOMES = {
    "diagnose": "rootrank.pipeline",
    "load_knowledge": "rootrank.knowledge.load",
    "Entry": "rootrank.knowledge.types",
    "Knowledge": "rootrank.knowledge.types",
    **dict.fromkeys(_ERRORS, "rootrank.errors"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rootrank' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES.get(name, "rootrank.model")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
