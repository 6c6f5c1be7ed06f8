"""Strings that try to become something else, put through every field of a diagnosis. No test here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

from rootrank.model import Diagnosis

STRINGS = {
    "ansi": "\x1b[31mred\x1b[0m \x1b[2J\x1b[1;1H gone",
    "nested-ansi": "\x1b[3\x1b[0m1m \x1b\x1b[0m[2J",
    "osc": "\x1b]0;owned\x07 \x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\ \x9d0;t\x9c",
    "c1": "\x9b31m \x90q\x9c \x85 \x84",
    "c0": "a\x00b\x07c\x08d\x0be\x0cf\rg\x7f",
    "lines": "first\nsecond\r\nthird\u2028fourth\u2029fifth",
    "bidi": "user \u202etxt.exe\u202c \u2066x\u2069 \u200f \u061c",
    "invisible": "pay\u200bpal \u200d \ufeff \u2060 \u00ad \U000e0041\U000e0042 \ufe0f",
    "surrogate": "bad \udcff\udc80 bytes \ud800",
    "script": "</script></style></title></pre><script>alert(1)</script><img src=x onerror=alert(1)>",
    "attribute": "\" onmouseover=\"alert(1)' onfocus='alert(1) x=`y`",
    "svg": "]]></text><svg onload=alert(1)><a xlink:href='javascript:alert(1)'>",
    "comment": "--> <!-- <![CDATA[ ]]> &lt;b&gt; &amp; &#x3c;",
    "fence": "```\n</details>\n# owned\n~~~\n````` `a`",
    "markdown": "# a\n- b\n1. c\n> d\n[x](javascript:alert(1)) ![i](http://evil.example/i.png) **b** _u_ ~~s~~",
    "calls": "@someone please see #123 and acme/repo#4 https://evil.example www.evil.example",
    "table": "| a | b |\n|---|---|\n| c | d |\n\n---\n===\n",
    "math": "$x$ $$y$$ \\(z\\) \\",
    "wide": "内存不足：进程被杀死 " * 12 + "é́́́ 👩‍👩‍👧",
    "long": "x" * 6000,
    "long-words": "Error " * 3000,
    "empty": "",
    "blank": " \t ",
    "quotes": 'it\'s "x" `y` $(reboot) \\',
}


def through(d: Diagnosis, change: Callable[[str], str]) -> Diagnosis:
    """Return `d` with `change` applied to every string it holds."""
    changed: Diagnosis = _walk(d, change)
    return changed


def _walk(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_walk(v, change) for v in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{f.name: _walk(getattr(value, f.name), change) for f in fields(value)}
        )
    return value
