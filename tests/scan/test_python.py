"""Tracebacks: chained, nested, truncated, interleaved; what they say and of whom."""

from __future__ import annotations

import pathlib

from rootrank.model import SpeaksOf
from tests.helpers import sightings

SITE = "/opt/venv/lib/python3.11/site-packages"


def only(found: list, kind: str = "exception"):  # type: ignore[no-untyped-def,type-arg]
    """Return the one sighting of a kind."""
    rows = [s for s in found if s.kind == kind]
    assert 1 == len(rows), [(s.kind, s.text) for s in found]
    return rows[0]


def test_user_frame_is_the_last_outside_libraries(tmp_path: pathlib.Path) -> None:
    """The innermost frame may be torch's; the user's own last frame is what to look at."""
    s = only(sightings(tmp_path, f"""\
Traceback (most recent call last):
  File "/home/user/train.py", line 12, in <module>
    main()
  File "/home/user/model.py", line 40, in forward
    return self.proj(x)
  File "{SITE}/torch/nn/modules/linear.py", line 116, in forward
    return F.linear(input, self.weight, self.bias)
RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x512 and 256x64)
"""))  # fmt: skip

    assert "/home/user/model.py:40 in forward" == s.get("user_frame")
    assert f"{SITE}/torch/nn/modules/linear.py:116 in forward" == s.get("innermost")
    assert "RuntimeError" == s.get("type")
    assert SpeaksOf.SELF is s.speaks_of


def test_chain_keeps_the_first_error(tmp_path: pathlib.Path) -> None:
    """The exception that others were raised from is in their chain."""
    rows = [s for s in sightings(tmp_path, """\
Traceback (most recent call last):
  File "a.py", line 1, in load
    open(p)
FileNotFoundError: [Errno 2] No such file or directory: 'x.json'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 9, in <module>
    load()
  File "a.py", line 4, in load
    raise OSError("cannot load model x")
OSError: cannot load model x
""") if s.kind == "exception"]  # fmt: skip

    assert ["FileNotFoundError", "OSError"] == [s.get("type") for s in rows]
    assert ("FileNotFoundError: [Errno 2] No such file or directory: 'x.json'",) == rows[1].get(
        "chain"
    )


def test_ranks_that_share_a_stream_with_prefixes(tmp_path: pathlib.Path) -> None:
    """Interleaved line by line, each writer's traceback is still whole."""
    text = """\
[rank0]: Traceback (most recent call last):
[rank1]: Traceback (most recent call last):
[rank0]:   File "t.py", line 3, in <module>
[rank1]:   File "t.py", line 9, in <module>
[rank0]:     x = d["a"]
[rank1]:     y = 1 / 0
[rank1]: ZeroDivisionError: division by zero
[rank0]: KeyError: 'a'
"""
    rows = {s.origin.rank: s for s in sightings(tmp_path, text) if s.kind == "exception"}

    assert "KeyError" == rows[0].get("type")
    assert ("t.py:3 in <module>",) == rows[0].get("frames")
    assert "ZeroDivisionError" == rows[1].get("type")
    assert "y = 1 / 0" == rows[1].get("code")


def test_woven_words_of_two_ranks(tmp_path: pathlib.Path) -> None:
    """Two ranks that write one message at once are parted; whose it was stays unknown."""
    s = only(sightings(tmp_path, """\
Traceback (most recent call last):
  File "t.py", line 3, in <module>
TypeErrorTypeError: : 'NoneType' object is not iterable'NoneType' object is not iterable
"""))  # fmt: skip

    assert "TypeError" == s.get("type")
    assert "'NoneType' object is not iterable" == s.get("message")
    assert s.origin.rank is None


def test_caret_marks_of_other_ranks(tmp_path: pathlib.Path) -> None:
    """Caret lines of Python 3.11 that other ranks print into an exception line do not hide it."""
    rows = [s for s in sightings(tmp_path, """\
Traceback (most recent call last):
  File "t.py", line 3, in <module>
    open(p)
^^^FileNotFoundError^^: ^[Errno 2] No such file or directory: 'conf.yaml'^
""") if s.kind == "exception"]  # fmt: skip

    assert ["FileNotFoundError"] == [s.get("type") for s in rows]


def test_dataloader_worker(tmp_path: pathlib.Path) -> None:
    """A worker's own traceback, re-raised by its parent, is marked as such."""
    rows = [s for s in sightings(tmp_path, f"""\
Traceback (most recent call last):
  File "/home/user/train.py", line 5, in <module>
    for b in loader:
  File "{SITE}/torch/utils/data/dataloader.py", line 700, in __next__
    data = self._next_data()
ValueError: Caught ValueError in DataLoader worker process 3.
Original Traceback (most recent call last):
  File "{SITE}/torch/utils/data/_utils/worker.py", line 300, in _worker_loop
    data = fetcher.fetch(index)
  File "/home/user/data.py", line 77, in __getitem__
    raise ValueError("bad record 9")
ValueError: bad record 9

""") if s.kind == "exception"]  # fmt: skip

    assert ["dataloader-worker", "dataloader-worker"] == [s.get("via") for s in rows]
    assert "/home/user/data.py:77 in __getitem__" == rows[-1].get("user_frame")


def test_peer_words_in_an_exception(tmp_path: pathlib.Path) -> None:
    """An exception whose message speaks of somebody else is peer loss, not a failure of its own."""
    s = only(sightings(tmp_path, """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/home/user/train.py", line 93, in main
[rank0]:     loss.backward()
[rank0]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.7]:40886. This is typically caused by a remote worker crashing.
"""), "peer-loss")  # fmt: skip

    assert SpeaksOf.PEER is s.speaks_of
    assert "gloo" == s.get("library")
    assert 0 == s.origin.rank


def test_truncated_traceback_has_no_type(tmp_path: pathlib.Path) -> None:
    """A log that ends inside a traceback yields an exception of unknown type."""
    s = only(
        sightings(
            tmp_path, 'Traceback (most recent call last):\n  File "t.py", line 3, in f\n    g()\n'
        )
    )

    assert s.get("truncated")
    assert s.get("type") in ("", None)


def test_glued_to_a_progress_bar(tmp_path: pathlib.Path) -> None:
    """A traceback that starts at the end of a tqdm bar is found."""
    s = only(sightings(tmp_path, """\
 45%|####5     | 45/100 [00:10<00:12,  4.50it/s]Traceback (most recent call last):
  File "t.py", line 3, in <module>
    f()
ValueError: bad
"""))  # fmt: skip

    assert "ValueError" == s.get("type")


def test_a_thousand_nested_exceptions(tmp_path: pathlib.Path) -> None:
    """A long chain stays bounded and is read to its end."""
    one = 'Traceback (most recent call last):\n  File "t.py", line {n}, in f\n    g()\nValueError: level {n}\n\nDuring handling of the above exception, another exception occurred:\n\n'
    text = (
        "".join(one.format(n=n) for n in range(1000))
        + 'Traceback (most recent call last):\n  File "t.py", line 1, in f\n    g()\nKeyError: 1\n'
    )
    rows = sightings(tmp_path, text)

    assert any(s.get("type") == "KeyError" for s in rows)
