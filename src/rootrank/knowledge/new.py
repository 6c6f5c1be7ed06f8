"""The template of a new entry: what `rootrank kb new` writes.

Belongs here: the skeleton with the questions an author must answer. Must not be here: rules (see
`check`); the template as written fails them until it is filled in.
"""

from __future__ import annotations

import re
from pathlib import Path

from rootrank.errors import UsageError
from rootrank.knowledge import vocabulary as words

_TEMPLATE = """\
```toml
id = "{id}"
title = ""        # a fragment a report can print: what failed
summary = ""      # one or two sentences: what happened, who is affected
kind = "cause"    # {kinds}
category = "{category}"
phase = []        # {phases}
layer = ""        # {layers}
owner = ""        # {owners}
retry = ""        # {retries}
repair = ""       # {repairs}
stacks = []
affects = ["training"]
tags = []
search = ""       # the words that a person would paste into a search box
related = []

# What the log shows. Prefer a sighting (docs/sightings.md) to literal text.
[[signal]]
name = ""
role = "initiating"
literal = [""]    # or: on = "exception", type = "…", message = '…'
regex = ''
limits = ""       # what a match does not prove

[match]
any = [""]

# Why it can happen. With several, each needs the question that decides it.
[[cause]]
id = ""
text = ""
ask = ""
command = ""      # read-only

[[fix]]
text = ""
edit = ""
risk = ""
verify = ""

[[reference]]
url = ""
says = ""
checked = ""      # the day you read it, YYYY-MM-DD
```

## Quick answer

What it is, and what to do first. Two to four sentences.

## Mechanism

How the library or the system gets there.

## Examples

```log match
# reconstructed

```

```log near
# reconstructed

```

```log near
# reconstructed

```
"""


def template(entry: str, category: str) -> str:
    """Return the text of a new entry file."""
    return _TEMPLATE.format(
        id=entry,
        category=category,
        kinds=" | ".join(words.KINDS),
        phases=" ".join(words.PHASES),
        layers=" ".join(words.LAYERS),
        owners=" | ".join(words.OWNERS),
        retries=" | ".join(words.RETRIES),
        repairs=" | ".join(words.REPAIRS),
    )


def create(entry: str, category: str, folder: Path) -> Path:
    """Write the template and return its path; UsageError when the id is bad or taken."""
    if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", entry):
        raise UsageError("kb new", f"id {entry!r}", "use lower case, digits and hyphens")
    if category not in words.CATEGORIES:
        remedy = f"use one of {', '.join(words.CATEGORIES)}"
        raise UsageError("kb new", f"category {category!r}", remedy)
    taken = list(folder.glob(f"*/{entry}.md"))
    if taken:
        raise UsageError("kb new", f"{taken[0]} exists", "choose another id, or edit it")
    path = folder / category / f"{entry}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(template(entry, category), encoding="utf-8")
    return path
