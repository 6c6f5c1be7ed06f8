"""The closed word lists of an entry's head, and which fields a condition may name.

Belongs here: words. docs/entry-format.md and docs/sightings.md explain them; a test compares.
Must not be here: anything that reads or judges an entry.
"""

from __future__ import annotations

KINDS = ("cause", "symptom", "outcome")
CATEGORIES = (
    "wont-start",
    "crash",
    "killed",
    "hang",
    "slow",
    "out-of-memory",
    "wrong-numbers",
    "lost-progress",
)
PHASES = (
    "launch",
    "rendezvous",
    "init",
    "data",
    "forward",
    "backward",
    "optimizer",
    "collective",
    "checkpoint",
    "eval",
    "teardown",
)
LAYERS = (
    "hardware",
    "driver",
    "network",
    "storage",
    "scheduler",
    "environment",
    "framework",
    "configuration",
    "code",
    "data",
)
OWNERS = ("user-code", "configuration", "framework", "infrastructure", "unknown")
RETRIES = ("will-recur", "may-succeed", "unknown")
REPAIRS = ("code", "config", "environment", "resubmit", "drain-node", "unknown")
AFFECTS = ("training", "inference")
TAINTS = ("checkpoints", "none")
EFFORTS = ("minutes", "hours", "days")
MATURITIES = ("draft", "tested", "proven")

ROLES = ("initiating", "downstream", "confirming", "context")
SPEAKS_OF = ("self", "peer", "teardown", "environment")
EXTENTS = ("one", "some", "all")
SCOPES = ("rank", "host", "job")
LANES = ("same", "other", "any")
CHECK_KINDS = ("command", "swap-node")

# Head key -> its words. Lists and single values alike.
ENUMS = {
    "kind": KINDS,
    "category": CATEGORIES,
    "phase": PHASES,
    "layer": LAYERS,
    "owner": OWNERS,
    "retry": RETRIES,
    "repair": REPAIRS,
    "affects": AFFECTS,
    "taints": TAINTS,
    "effort": EFFORTS,
}

HEADINGS = ("Quick answer", "Mechanism", "Perspectives", "Code", "FAQ", "Examples")
REQUIRED_HEADINGS = ("Quick answer", "Mechanism", "Examples")
PERSPECTIVES = ("Executive", "Engineer", "On call")

# Sighting kind -> the fields that it carries (docs/sightings.md).
SIGHTINGS: dict[str, tuple[str, ...]] = {
    "exception": (
        *("type", "qualified", "message", "frames", "user_frame", "code", "innermost"),
        *("chain", "via"),
    ),
    "abort": ("type", "message", "frames"),
    "fatal-signal": ("signal", "message", "frames", "library", "process", "by"),
    "exit": ("code", "signal", "by", "forced"),
    "log-error": ("level", "logger", "message"),
    "cuda-error": ("name", "message", "library"),
    "device-assert": ("message", "file", "block", "thread"),
    "collective-timeout": (
        *("op", "seq", "group", "timeout_ms", "elapsed_ms", "library"),
        *("last_enqueued", "last_started", "last_completed"),
    ),
    "peer-loss": ("library", "peer", "message"),
    "watchdog-note": ("note", "last_enqueued", "last_completed"),
    "desync": ("ranks", "seq", "message"),
    "nccl-warn": ("file", "message"),
    "oom-kill": ("process", "pid", "constraint", "anon_rss_kb", "cgroup"),
    "xid": ("code", "pci", "pid", "process", "message"),
    "sxid": ("code", "pci", "port", "fatal"),
    "gpu-health": ("message", "check"),
    "kernel": ("event", "process", "pid", "device", "message"),
    "scheduler": ("event", "job", "step", "host", "message"),
    "orchestrator": ("reason", "object", "message", "code"),
    "teardown": ("signal", "by", "pid", "forced"),
    "stack": ("thread", "frames", "pid", "state", "wait", "op"),
    "host-state": ("state", "wchan", "under_oom", "usage", "limit", "path", "message"),
    "completed": ("what",),
    "checkpoint": ("event", "step", "path"),
    "failure": ("message", "type"),
}
DERIVED = (
    "stalled",
    "silent-first",
    "missing",
    "finished-early",
    "behind",
    "divergent",
    "identical-on-all",
    "nan-first",
    "drop",
    "spike",
    "falling",
    "creeping",
    "coverage-ends",
    "recovered",
)
DERIVED_FIELDS = ("ranks", "metric", "from", "to", "op", "frame", "seq", "step", "message")
# Conditions that every sighting understands, whatever fields its kind has.
ANY_FIELDS = (
    *("text", "message", "frame", "any_frame", "count", "ranks", "phase", "step", "by"),
    *("speaks_of", "implies_rank"),
)
# Conditions whose value is a regular expression, searched; all others are compared.
PATTERN_FIELDS = frozenset(
    ["message", "frame", "user_frame", "code", "innermost", "any_frame", "text", "library"]
    + ["group", "op", "process", "file", "object", "logger", "wchan", "path", "name", "what"]
    + ["chain", "qualified", "func"]
)
