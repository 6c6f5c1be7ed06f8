"""Judges the commands that entries show: a check and an "ask" must change nothing.

Belongs here: the words that change a machine, a job or a cluster. A denylist cannot prove that a
command is harmless; it stops the mistakes that authors make. Must not be here: running anything.
"""

from __future__ import annotations

import re
import shlex

# Programs that change something whatever their arguments are.
_NEVER = frozenset(
    "rm rmdir mv cp dd kill pkill killall reboot shutdown halt poweroff init tee truncate touch"
    " mkdir mkfs mkswap fdisk parted umount modprobe rmmod insmod chmod chown chgrp ln scancel"
    " sbatch salloc qdel qsub bkill crontab useradd iptables nft apt apt-get yum dnf pip pip3"
    " conda nvme-format hdparm renice taskset ifdown ifup wget eval".split()
)
# Programs that read, except with one of these words among their arguments.
_EXCEPT: dict[str, frozenset[str]] = {
    name: frozenset(words.split())
    for name, words in {
        "scontrol": "update requeue requeuehold hold release reconfigure shutdown suspend resume"
        " reboot create delete",
        "kubectl": "delete apply edit patch drain cordon uncordon scale create replace rollout"
        " label annotate taint run set",
        "oc": "delete apply edit patch drain scale create replace rollout",
        "docker": "rm kill stop restart run start update prune rmi system build cp",
        "podman": "rm kill stop restart run start update prune rmi build cp",
        "systemctl": "start stop restart reload enable disable mask unmask kill isolate",
        "service": "start stop restart reload",
        "nvidia-smi": "-r --gpu-reset -pm -pl -mig -e -c -lgc -rgc -ac -rac -lmc -rmc"
        " --persistence-mode --power-limit --multi-instance-gpu --ecc-config --compute-mode"
        " --lock-gpu-clocks --applications-clocks",
        "rocm-smi": "--gpureset --setsclk --setperflevel --resetclocks",
        "dcgmi": "policy --set config",
        "ip": "add del set flush change replace",
        "ethtool": "-s -K -G -C -L -A -E -p",
        "sysctl": "-w -p",
        "sed": "-i --in-place",
        "find": "-delete -fprint",
        "git": "reset checkout clean commit push pull merge rebase stash restore",
        "mount": "-o --bind --remount",
        "ray": "stop start down up",
        "sinfo": "",
        "curl": "-X -d --data -F --upload-file -T -O",
        "ibportstate": "reset disable enable speed width",
        "mlxconfig": "set reset",
        "mst": "restart",
    }.items()
}
_WRAPPERS = frozenset(
    ["sudo", "time", "env", "nohup", "xargs", "timeout", "watch", "nice", "ionice"]
)
# Programs that run what their arguments say, somewhere else.
_RUNNERS = frozenset("ssh bash sh srun pdsh clush kubectl oc docker podman".split())
# Writing to nowhere and joining streams change nothing.
_HARMLESS_REDIRECT = re.compile(r"\d*>{1,2}\s*(?:&\d|/dev/null\b)|&>\s*/dev/null\b")
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"")


def writes(command: str) -> str | None:
    """Return the word for which a command may change something, or None when none is known."""
    bare = _HARMLESS_REDIRECT.sub(" ", command)
    # A quoted text is an argument, except where a shell or a remote host gets it to run.
    quoted = [q[1:-1] for q in _QUOTED.findall(bare)]
    outside = _QUOTED.sub(" '' ", bare)
    if ">" in re.sub(r"<[A-Za-z_ -]+>", "", outside):
        return ">"
    for part in re.split(r"\|\||&&|[|;&\n]|\$\(|`|\bdo\b|\bthen\b", outside):
        if word := _part_writes(part):
            return word
    if _RUNNERS.intersection(outside.split()):
        return next((word for q in quoted if (word := writes(q))), None)
    return None


def _part_writes(part: str) -> str | None:
    try:
        words = shlex.split(part.replace("(", " ").replace(")", " "))
    except ValueError:
        words = part.split()
    words = [w for w in words if not re.fullmatch(r"[A-Z_][A-Z0-9_]*=.*", w)]
    while words and (words[0] in _WRAPPERS or words[0].startswith("-") or words[0].isdigit()):
        words = words[1:]
    if not words:
        return None
    program = words[0].rsplit("/", 1)[-1]
    if program in _NEVER or program.startswith("mkfs."):
        return program
    bad = _EXCEPT.get(program, frozenset()).intersection(words[1:])
    if bad:
        return f"{program} {min(bad)}"
    if program == "find":
        at = [i for i, w in enumerate(words) if w in ("-exec", "-execdir", "-ok")]
        return next((w for i in at if (w := _part_writes(" ".join(words[i + 1 :])))), None)
    if program in _RUNNERS:
        return next((w for w in words[1:] if w in _NEVER), None)
    return None
