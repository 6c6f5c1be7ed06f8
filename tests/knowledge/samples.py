"""A complete, correct entry to take apart in tests, and folders of such entries."""

from __future__ import annotations

from pathlib import Path

GOOD = """```toml
id = "store-lost"
title = "The rendezvous store went away"
summary = "The process that hosts the store ended. Every rank that asks it afterwards fails."
kind = "cause"
category = "crash"
phase = ["rendezvous"]
layer = "framework"
owner = "user-code"
retry = "may-succeed"
repair = "code"
stacks = ["pytorch"]
affects = ["training"]
taints = "none"
min_ranks = 2
effort = "hours"
tags = ["store"]
systems = "Linux"
search = "store vanished"
related = []
aliases = ["lost store"]

[[signal]]
name = "gone"
role = "initiating"
literal = ["the store is gone", "store vanished"]
regex = 'store (?:is gone|vanished)'
limits = "Says that the store went, not why."
for = ["host-died"]

[[signal]]
name = "raised"
role = "confirming"
on = "exception"
type = "StoreError"
message = 'store.{0,40}gone'
limits = "Raised by whoever asked first."

[match]
all = ["gone"]
scope = "job"
explains = [{ what = "peer-loss", on = "other", after = true }]

[[cause]]
id = "host-died"
text = "The rank that hosted the store died."
ask = "whether rank 0 is alive"
command = "pgrep -af train.py"

[[cause]]
id = "closed-early"
text = "The store was closed while others still used it."
ask = "where the store is closed"

[[symptom]]
sees = "All ranks but one complain."
means = "The silent one hosted it."
for = ["host-died"]
against = ["closed-early"]

[[check]]
text = "Look for the host."
run = "pgrep -af train.py 2>/dev/null | head"
expect = "its process"
cost = "seconds"

[[fix]]
cause = "closed-early"
text = "Close it last."
edit = "barrier(); store.close()"
risk = "none known"
verify = "ten restarts pass"

[[prevent]]
text = "Host it in the launcher."
watch = "the host's pid"

[[reference]]
url = "https://docs.example.com/store"
says = "Who hosts the store."
checked = "2026-11-30"
```

## Quick answer

The store `vanished`. Look at **its host** first.

## Mechanism

Every rank asks one process.

## Perspectives

### Executive

One process takes all others down.

### On call

Restart the job.

## FAQ

### Is it the network?

Rarely.

## Examples

```log match
# captured
[rank1]: the store is gone
```

```log near
# reconstructed
[rank1]: the shop is gone
```

```log near
# reconstructed
## Not a heading
[rank1]: step 5 loss 1.0
```
"""


def changed(*pairs: tuple[str, str]) -> str:
    """Return the good entry with texts replaced; each must be there."""
    text = GOOD
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def folder_of(folder: Path, *texts: str) -> Path:
    """Write entries where their id and category say, and return the folder."""
    for text in texts:
        head = dict(
            line.split(" = ", 1)
            for line in text.split("\n")[:30]
            if " = " in line and line[0] != "["
        )
        category = head["category"].split("#")[0].strip().strip('"')
        path = folder / category / f"{head['id'].strip().strip(chr(34))}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
