"""What model states need: per GPU, per host and on NVMe, by the published formulas, shown.

Belongs here: bytes of weights, gradients and optimizer states. Must not be here: activations, which
depend on the code; every answer is therefore a lower bound for a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rootrank.preflight.finding import MAY, NOTE, WILL, Finding, Open, rule
from rootrank.preflight.job import Job
from rootrank.preflight.readers import Document, whole
from rootrank.preflight.zero import ZERO, device_of, stage_of

GPU = rule(
    "zero-gpu-memory", "model states fit the memory of a GPU", "cuda-out-of-memory-at-init",
    "deepspeed 0.19.8 runtime/zero/stage3.py estimate_zero3_model_states_mem_needs, stage_1_and_2.py "
    "estimate_zero2_model_states_mem_needs; ZeRO paper arXiv 1910.02054 section 3.1, figure 1",
)  # fmt: skip
HOST = rule(
    "zero-host-memory", "offloaded model states fit the memory of a host", "host-memory-stall",
    "deepspeed 0.19.8 runtime/zero/stage3.py estimate_zero3_model_states_mem_needs, stage_1_and_2.py "
    "estimate_zero2_model_states_mem_needs",
)  # fmt: skip
DISK = rule(
    "zero-nvme-space", "offloaded model states fit the disk", "disk-full",
    "deepspeed 0.19.8 runtime/zero/offload_config.py (Adam: parameter, gradient, momentum, variance "
    "in fp32); ZeRO-Infinity arXiv 2104.07857 section 3",
)  # fmt: skip
BUFFER = 1.5  # additional_buffer_factor of DeepSpeed's estimates


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Bytes for each place. `host_low` is without buffers and without a full copy at load."""

    gpu: float
    host: float
    host_low: float
    formula: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The size of a model: parameters, those of the largest layer, and where that is from."""

    params: float
    largest: float
    source: str


def check(job: Job) -> Iterator[Finding]:
    """Yield what does not fit, and note the numbers for the report."""
    model = model_of(job)
    for d in job.of("deepspeed"):
        if model is None:
            _ask(job, d)
            continue
        per_node, nodes = job.per_node, job.nodes or 1
        if not per_node:
            if job.world:
                per_node = max(1, job.world // nodes)
            else:
                job.open.append(_open(d, "the number of processes is not known",
                                      "give --world and --nodes, or the launch command"))  # fmt: skip
                continue
        need = needs(d, model, per_node, nodes)
        job.estimates.append(_line(d, model, need, per_node, nodes))
        yield from _gpu(job, d, need)
        yield from _host(job, d, need)
        yield from _disk(job, d, model, nodes)


def _ask(job: Job, d: Document) -> None:
    if stage_of(d) or d.section(ZERO):
        job.open.append(
            _open(d, "the size of the model is not known",
                  "give --params N (such as 7e9), or the model's config.json")
        )  # fmt: skip


def _open(d: Document, why: str, remedy: str) -> Open:
    return Open(what=f"{d.name}: memory of model states", why=why, remedy=remedy)


# --------------------------------------------------------------------------- model


def model_of(job: Job) -> Model | None:
    """Return the model's size: as given, else computed from its config.json."""
    found = next((size for d in job.of("model") if (size := _size(d))), None)
    if job.options.params:
        largest = found.largest if found else 0.0
        return Model(params=job.options.params, largest=largest, source="--params")
    return found


def _first(d: Document, *names: str) -> int:
    return next((v for n in names if (v := whole(d.get(n))) is not None), 0)


def _size(d: Document) -> Model | None:
    """Return the size of a decoder or encoder of the usual shape, from its published fields.

    Embeddings V·h (twice when untied), per layer attention 2h² + 2·h·kv and an MLP of two matrices,
    or three where gated; norms are left out (below a thousandth).
    """
    width = _first(d, "hidden_size", "n_embd", "d_model")
    layers = _first(d, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    heads = _first(d, "num_attention_heads", "n_head", "num_heads", "n_heads") or 1
    words = _first(d, "vocab_size")
    if not 0 < width < 1 << 20 or not 0 < layers < 1 << 16 or not 0 <= words < 1 << 26:
        return None
    inner = _first(d, "intermediate_size", "n_inner", "d_ff", "ffn_dim") or 4 * width
    head = _first(d, "head_dim") or width // heads
    groups = _first(d, "num_key_value_heads") or heads
    attention = 2 * width * heads * head + 2 * width * groups * head
    gated = str(d.get("hidden_act") or "").lower() in ("silu", "swiglu", "geglu", "swish") or (
        d.get("model_type") in ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "mixtral")
    )
    mlp = (3 if gated else 2) * width * inner
    experts = max(1, _first(d, "num_local_experts", "num_experts", "n_routed_experts"))
    tied = d.get("tie_word_embeddings")
    tied = not gated if tied is None else bool(tied)
    embeddings = words * width * (1 if tied else 2)
    total = float(embeddings + layers * (attention + experts * mlp))
    largest = float(max(words * width, width * inner))
    return Model(params=total, largest=largest, source=d.name)


# --------------------------------------------------------------------------- formulas


def needs(d: Document, model: Model, per_node: int, nodes: int) -> Need:
    """Return what mixed precision with Adam needs under this file's ZeRO stage and offload."""
    stage = stage_of(d)
    optimizer = device_of(d, "offload_optimizer") in ("cpu", "nvme")
    params = device_of(d, "offload_param") in ("cpu", "nvme")
    p, ranks = model.params, per_node * nodes
    if stage == 3:
        return _three(d, model, per_node, nodes, optimizer, params)
    if stage == 2 and optimizer:
        host = p * max(4 * ranks, 16) * BUFFER
        # DeepSpeed counts all ranks on one host here; on several, each holds its share.
        low = p * 16 / nodes
        return Need(gpu=2 * p, host=host / nodes, host_low=low,
                    formula="GPU 2P; host P·max(4·ranks, 16)·1.5 / nodes")  # fmt: skip
    load = p * 4 * per_node * BUFFER
    if stage == 2:
        gpu, text = 2 * p + 18 * p / ranks, "GPU 2P + 18P/ranks"
    elif stage == 1 and optimizer:
        gpu, text = 4 * p, "GPU 4P"
        return Need(gpu=gpu, host=p * 16 / nodes * BUFFER, host_low=p * 12 / nodes,
                    formula=f"{text}; host 12P/nodes to 16P/nodes·1.5")  # fmt: skip
    elif stage == 1:
        gpu, text = 4 * p + 12 * p / ranks, "GPU 4P + 12P/ranks"
    else:
        gpu, text = 16 * p, "GPU 16P"
    return Need(gpu=gpu, host=load, host_low=0.0,
                formula=f"{text}; host while loading up to 4P·ranks per node·1.5")  # fmt: skip


def _three(
    d: Document, model: Model, per_node: int, nodes: int, optimizer: bool, params: bool
) -> Need:
    p, layer = model.params, 4 * model.largest
    if not optimizer:
        # DeepSpeed's estimate ignores offload_param alone; 2 of the 18 bytes then leave the GPU.
        kept = 16 if params else 18
        gpu = layer + kept * p / (per_node * nodes)
        host = p * 4 * per_node * BUFFER
        return Need(gpu=gpu, host=host, host_low=2 * p / nodes if params else 0.0,
                    formula=f"GPU 4·largest layer + {kept}P/ranks; host while loading up to "
                    "4P·ranks per node·1.5")  # fmt: skip
    share = 18 if params else 16
    gpu = layer if params else layer + 2 * p / (per_node * nodes)
    on_disk = _on_disk(d)
    low = max(0.0, (share - on_disk)) * p / nodes
    high = p * max(4 * per_node, share / nodes) * BUFFER
    text = "GPU 4·largest layer" + ("" if params else " + 2P/ranks")
    kept_text = f" (of these {on_disk}P on NVMe)" if on_disk else ""
    return Need(gpu=gpu, host=high if not on_disk else max(low, p * 4 * per_node), host_low=low,
                formula=f"{text}; host {share}P/nodes{kept_text} to "
                f"P·max(4·ranks per node, {share}/nodes)·1.5")  # fmt: skip


def _on_disk(d: Document) -> int:
    """Return the bytes per parameter that lie on NVMe instead of in host memory."""
    states = 16 if device_of(d, "offload_optimizer") == "nvme" else 0
    return states + (2 if device_of(d, "offload_param") == "nvme" else 0)


# --------------------------------------------------------------------------- judgement


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB" if size < 100 * 2**30 else f"{size / 2**30:,.0f} GiB"


def _line(d: Document, model: Model, need: Need, per_node: int, nodes: int) -> str:
    host = (f"{_gib(need.host_low)} to {_gib(need.host)}" if need.host_low
            else f"up to {_gib(need.host)} while loading")  # fmt: skip
    return (
        f"{d.name}: P = {model.params / 1e9:.2f} billion parameters ({model.source}), ZeRO stage "
        f"{stage_of(d)}, {nodes} × {per_node} ranks: {_gib(need.gpu)} per GPU without activations, "
        f"host {host} per node [{need.formula}]"
    )


def _gpu(job: Job, d: Document, need: Need) -> Iterator[Finding]:
    size = job.options.gpu_memory_bytes
    source = "--gpu-memory"
    if size is None and job.host and job.host.gpus:
        size, source = min(g.memory_bytes for g in job.host.gpus), "this machine's smallest GPU"
    if not size or need.gpu <= size * 0.9:
        return
    yield GPU.found(
        WILL if need.gpu > size else MAY, d.place(ZERO, "stage"),
        f"{_gib(need.gpu)} of model states per GPU, {_gib(size)} there ({source})",
        f"{need.formula.split(';')[0]}, and activations come on top.",
        "raise the stage, offload the optimizer, use more ranks, or train fewer parameters",
    )  # fmt: skip


def _memory(job: Job) -> tuple[int, str] | None:
    """Return the memory of a node and where that number is from; the tightest limit counts."""
    found: list[tuple[int, str]] = []
    if job.options.host_memory_bytes:
        return job.options.host_memory_bytes, "--host-memory"
    for script in job.scripts:
        size = memory_of(script.batch("mem"))
        if size:
            found.append((size, f"{script.name} --mem"))
    if job.host and job.host.memory_bytes:
        found.append((job.host.memory_bytes, "this machine"))
    if job.host and job.host.cgroup_bytes:
        found.append((job.host.cgroup_bytes, "this cgroup's limit"))
    return min(found, default=None)


def memory_of(text: str | None) -> int | None:
    """Return Slurm's --mem in bytes: a number of MiB, or with K, M, G, T. 0 means all: None."""
    if not text:
        return None
    unit = {"K": 10, "M": 20, "G": 30, "T": 40}.get(text[-1:].upper())
    digits = text[:-1] if unit else text
    if not digits.isdigit() or len(digits) > 9:
        return None
    return (int(digits) << (unit or 20)) or None


def _host(job: Job, d: Document, need: Need) -> Iterator[Finding]:
    limit = _memory(job)
    if limit is None:
        if need.host_low:
            job.open.append(
                Open(what=f"{d.name}: {_gib(need.host_low)} or more of host memory per node",
                     why="the memory of a node is not known", remedy="give --host-memory GiB, or --host"),
            )  # fmt: skip
        return
    size, source = limit
    if need.host <= size:
        return
    if not need.host_low:
        yield from _loading(job, d, need, size, source)
        return
    yield HOST.found(
        WILL if need.host_low > size else MAY,
        d.place(ZERO),
        f"{_gib(need.host_low)} to {_gib(need.host)} of host memory per node, {_gib(size)} there ({source})",
        f"{need.formula.partition('; ')[2]}; the lower number is without buffers and with weights "
        "loaded in shares (zero.Init). Beyond the limit the kernel kills a rank, or stalls it "
        "silently in its cgroup.",
        "more nodes, a lower offload share, or NVMe",
    )  # fmt: skip


def _loading(job: Job, d: Document, need: Need, size: int, source: str) -> Iterator[Finding]:
    """Nothing is offloaded: only the copies that ranks make while the weights load count."""
    # In 16 bits and without buffers; under stage 3 weights normally load in shares (zero.Init).
    least = need.host / BUFFER / 2
    yield HOST.found(
        MAY if least > size and stage_of(d) < 3 else NOTE,
        d.place(ZERO),
        f"{_gib(least)} to {_gib(need.host)} of host memory per node while the weights load, "
        f"{_gib(size)} there ({source})",
        "every rank that loads a full copy holds it in host memory first: 2P to 4P·1.5 bytes each.",
        "load with low_cpu_mem_usage or zero.Init, from safetensors, or one rank after another",
    )  # fmt: skip


def _disk(job: Job, d: Document, model: Model, nodes: int) -> Iterator[Finding]:
    if not job.host or stage_of(d) != 3:
        return
    for what, each in (("offload_optimizer", 16), ("offload_param", 2)):
        path = d.get(ZERO, what, "nvme_path")
        if device_of(d, what) != "nvme" or not isinstance(path, str):
            continue
        need = each * model.params / nodes
        free = job.host.disk(path).free_bytes
        if need > free:
            yield DISK.found(
                WILL, d.place(ZERO, what, "nvme_path"),
                f"{_gib(need)} go to {path}, {_gib(free)} are free",
                f"{each} bytes per parameter / nodes. A full target is not reported when it is "
                "written: the job dies later, reading a file that is too short.",
                "free space, or another disk",
            )  # fmt: skip
