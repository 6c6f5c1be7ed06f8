"""Other machines: fakes of ssh, srun and kubectl run the collector here, in a process of its own."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import time
from pathlib import Path

import pytest

from rootrank.errors import InputError, UsageError
from rootrank.live import Options, collect, preview, remote

from .jobs import SLEEP, fake, job

# ssh passes words through a shell there; srun and kubectl pass them on as they are.
SSH = """
while [ "$1" != -- ]; do shift; done
host=$2; shift 2
case $host in
  refused) echo "ssh: connect to host refused port 22: Connection refused" >&2; exit 255 ;;
  hangs) sleep 300 ;;
  nonsense) echo "Welcome to this machine" ;;
  *) exec sh -c "$*" ;;
esac
"""
SRUN = """
while :; do case $1 in --*) shift ;; *) break ;; esac; done
exec "$@"
"""


def test_hosts(tmp_path: Path, fakes: Path) -> None:
    """Two hosts answer, one refuses, one hangs, one talks nonsense: a bundle of two, three named."""
    fake(fakes, "ssh", SSH)
    with job(tmp_path, [SLEEP, SLEEP]) as running:
        began = time.monotonic()
        result = collect(
            Options(
                output=str(tmp_path / "b"), hosts=("one", "two", "refused", "hangs", "nonsense"),
                run_id=running.run_id, interval_s=0.2, remote_deadline_s=8,
            )
        )  # fmt: skip
        assert time.monotonic() - began < 15
    hosts = result.manifest["hosts"]
    assert ["one", "two"] == [h["target"] for h in hosts]
    assert ["ssh", "ssh"] == [h["via"] for h in hosts]
    assert [[0, 1], [0, 1]] == [[r["rank"] for r in h["ranks"]] for h in hosts]
    assert 2 == len({h["folder"] for h in hosts})
    lost = {m["what"]: m["reason"] for m in result.manifest["missing"]}
    assert "Connection refused" in lost["host refused"]
    assert "no answer within" in lost["host hangs"]
    assert "no bundle" in lost["host nonsense"]
    for h in hosts:
        assert (tmp_path / "b" / h["folder"] / "proc_rank1.txt").exists()
        assert abs(h["clock"]["offset_s"]) <= h["clock"]["error_s"] + 0.01 < 9


def test_slurm_nodes(tmp_path: Path, fakes: Path) -> None:
    """The nodes of a job, through srun, only the ranks of that job."""
    fake(fakes, "squeue", "echo 'node-[1-2]'")
    fake(fakes, "scontrol", '[ "$2" = hostnames ] && printf "node-1\\nnode-2\\n" || echo JobId=77')
    fake(fakes, "sacct", "echo 'JobID|State'")
    fake(fakes, "srun", SRUN)
    with job(tmp_path, [SLEEP], SLURM_JOB_ID="77"):
        result = collect(output="-", slurm="77", interval_s=0.1)
    hosts = result.manifest["hosts"]
    assert ["node-1", "node-2", None] == [h.get("target") for h in hosts]
    assert b"JobID|State\n" == result.files["cluster/sacct.txt"]
    assert b"JobId=77\n" == result.files["cluster/scontrol.txt"]


PODS = json.dumps(
    {
        "items": [
            {"metadata": {"name": "a-0", "labels": {"training.kubeflow.org/job-name": "a"}}},
            {"metadata": {"name": "a-1", "labels": {"training.kubeflow.org/job-name": "a"}}},
            {"metadata": {"name": "other", "labels": None}},
        ]
    }
)
KUBECTL = """
case "$1 $2" in
  "get pods") cat <<'J'
PODS
J
  ;;
  exec*) shift; while [ "$1" != -- ]; do last=$1; shift; done; shift
         [ "$last" = a-1 ] && { echo "error: container not found" >&2; exit 1; }
         exec "$@" ;;
  logs*) case "$*" in *--previous*) exit 1 ;; *) echo "a line of $*" ;; esac ;;
  *) echo "$*" ;;
esac
"""


def test_pods(tmp_path: Path, fakes: Path) -> None:
    """The pods of a job by its label; a pod that has ended is described from outside all the same."""
    fake(fakes, "kubectl", KUBECTL.replace("PODS", PODS))
    with job(tmp_path, [SLEEP]) as running:
        result = collect(output="-", k8s="ml/a", run_id=running.run_id, interval_s=0.1)
    assert ["a-0", None] == [h.get("target") for h in result.manifest["hosts"]]
    assert ["host a-1"] == [m["what"] for m in result.manifest["missing"]]
    assert b"describe pod -n ml a-1\n" == result.files["cluster/kubectl_describe_a-1.txt"]
    assert "cluster/pods/a-0.log" in result.files
    assert "cluster/pods/a-0-previous.log" not in result.files
    assert not any("previous" in m["what"] for m in result.manifest["hosts"][-1]["missing"])


@pytest.mark.parametrize("name", ["-oProxyCommand=x", "a b", "$(id)", ""])
def test_host_names_that_are_commands(name: str) -> None:
    """What begins with a dash, or holds more than a name, reaches no shell."""
    with pytest.raises(UsageError):
        collect(hosts=(name,))


@pytest.mark.parametrize("given", [{"slurm": "77; rm -rf /"}, {"k8s": "a/b --all"}])
def test_ids_that_are_commands(given: dict[str, str]) -> None:
    """The same of jobs and pods."""
    with pytest.raises(UsageError):
        collect(**given)


def test_without_the_program(fakes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without kubectl it is said where to go."""
    monkeypatch.setenv("PATH", str(fakes))
    with pytest.raises(InputError, match="kubectl is not here"):
        collect(k8s="a")


def test_preview_of_a_visit(fakes: Path) -> None:
    """Whom, and how; nothing is run there."""
    fake(fakes, "ssh", "exit 9")
    lines = preview(hosts=("one",))
    assert lines[0].startswith("one: ssh -o BatchMode=yes")


def archive(*members: tuple[str, bytes, bytes]) -> bytes:
    """Return a .tar.gz of (name, type, data)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, kind, data in members:
            info = tarfile.TarInfo(name)
            info.type, info.size, info.linkname = kind, len(data), "/etc/passwd"
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def test_a_hostile_bundle() -> None:
    """Names that lead out, links and devices are left out."""
    data = archive(
        ("../../etc/cron", tarfile.REGTYPE, b"x"), ("/abs", tarfile.REGTYPE, b"x"),
        ("h/link", tarfile.SYMTYPE, b""), ("h/ok.txt", tarfile.REGTYPE, b"x"),
    )  # fmt: skip
    assert ({"h/ok.txt": b"x"}, True) == remote.unpack(data)


def test_a_bomb(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundle that unfolds without end is cut at its bound."""
    monkeypatch.setattr(remote, "_BUNDLE_LIMIT", 1 << 20)
    members = [(f"h/{n}", tarfile.REGTYPE, bytes(1 << 18)) for n in range(64)]
    files, whole = remote.unpack(archive(*members))
    assert (True, False) == (len(files) < 8, whole)
    head = tarfile.TarInfo("x")
    head.type, head.size = tarfile.GNUTYPE_LONGNAME, 1 << 40
    assert ({}, False) == remote.unpack(gzip.compress(head.tobuf() + bytes(1 << 20)))


def test_half_a_bundle() -> None:
    """What came before the connection broke is kept."""
    files, whole = remote.unpack(archive(("h/a", tarfile.REGTYPE, b"x" * 9))[:-30])
    assert not whole
    assert set(files) <= {"h/a"}
