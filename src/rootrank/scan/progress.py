"""A job's own progress lines: step, loss, rates, checkpoints, the end.

Belongs here: numbers of Megatron, DeepSpeed, HF Trainer, Lightning, nanoGPT-like and tqdm lines. Must not be here: trends.
"""

from __future__ import annotations

import re

from rootrank.model import Line, Progress, Sighting, SpeaksOf
from rootrank.scan.words import sighting

_NUM = r"(?P<{}>-?(?:nan|inf|\d[\d,]*\.?\d*(?:[eE][+-]?\d+)?))"
_STEP = re.compile(
    r"\b(?:(?P<key>global[_ ]steps?|step|iteration|iter|it|batch|micro_step|update|train_step)\b['\"]?|(?P<t>t_env)\b)\s*[:=#]?\s*\[?\s*(?P<step>\d+)(?!\d*\.\d+ ON )(?:\s*/\s*(?P<total>\d+))?",
    re.I,
)
_TQDM = re.compile(
    r"(?P<pct>\d{1,3})%\|.{0,200}?\|\s*(?P<step>[\d.]+k?)/(?P<total>[\d.]+k?)\s*\[(?P<rest>[^\]]*)\]?"
)
_RATE = re.compile(
    r"(?P<rate>[\d.]+) ?(?P<unit>it/s|s/it|steps?/s|samples/s|tokens/s|ex(?:amples)?/s)"
)
_LOSS = re.compile(
    r"\b(?:lm[ _-]loss|train(?:ing)?[_/ ]loss|total[_ ]loss|per_token_loss|loss)\b['\"]?\s*(?:value)?\s*[:=]?\s*"
    + _NUM.format("loss"),
    re.I,
)
_GRAD = re.compile(r"\bgrad(?:ient)?[_ -]?norm\b['\"]?\s*[:=]?\s*" + _NUM.format("grad"), re.I)
_SCALE = re.compile(r"\bloss[_ ]scale\b['\"]?\s*[:=]?\s*" + _NUM.format("scale"), re.I)
_STEP_S = re.compile(
    r"elapsed time per iteration \((?P<unit>ms|s)\): ?(?P<s>[\d.]+)|step_avg:(?P<ms>[\d.]+)ms|\bstep[_ ]time['\"]?\s*[:=]?\s*(?P<st>[\d.]+)|, time (?P<nano>[\d.]+)ms|\bseconds: (?P<plain>[\d.]+)",
    re.I,
)
_THROUGHPUT = re.compile(
    r"(?:samples per second|TFLOPs|tokens per (?:gpu per )?second|CurrSamplesPerSec|tokens/s(?:ec)?(?:/(?:gpu|device|chip))?|throughput|train_samples_per_second)\b['\"]?\s*(?:per GPU \(TFLOP/s/GPU\))?[:=]?\s*(?P<n>\d[\d.]*)|(?P<per>\d[\d.]*) ?(?:examples|samples|tokens|images|sequences|seqs?)/s(?:ec)?\b",
    re.I,
)
_SKIPPED = re.compile(r"(?:number of skipped iterations:|skipped=)\s*(?P<n>\d+)")
_HF = re.compile(r"\{'(?:loss|train_loss|eval_loss|grad_norm)': ")
_EPOCH = re.compile(r"['\"]?\bepoch\b['\"]?\s*[:=]?\s*(?P<epoch>\d+(?:\.\d+)?)", re.I)
_CONFIG = re.compile(
    r"^\s*[\w.]+ \.{3,} |steps_per_print|^\s*--|\bargs\b|Namespace\(|num_train_epochs|^\s*\"?[a-z_]+\"?: ?\S{0,40},?$|def |self\.|return "
)
_HINT = re.compile(r"step|iter|epoch|%\||loss|t_env|STEP|Step|Iter|Epoch|update", re.I)

_DONE = re.compile(
    r"(?P<what>'?train_runtime'?\s*[:=]|[Tt]raining (?:has )?(?:completed|finished|is complete|complete|done|successful)|[Ff]inished training|`?Trainer\.fit`? stopped: |stopping_early:"
    r"|exiting program (?:at|after) iteration|\[exiting program|training ends|Training ended|[Jj]ob completed successfully|[Aa]ll (?:steps|epochs) (?:done|completed)|^(?:INFO )?done\.?$|Best model saved|Out of bounds values : 0 OK|# Avg bus bandwidth)"
)
_CHECKPOINT = re.compile(
    r"(?P<event>[Ss]aving|[Ss]aved|successfully saved|[Ll]oading|[Ll]oaded|successfully loaded|is ready now|about to be saved)\b.{0,80}?\b(?P<what>checkpoint|model states?|global_step|\.pt\b|\.safetensors|\.ckpt)",
    re.I,
)
_CKPT_STEP = re.compile(
    r"(?:iteration|global_step|step[_-]?|checkpoint-|iter_)\s*0*(?P<step>\d+)", re.I
)
_CKPT_PATH = re.compile(r"(?:to|from|at) +(?P<path>[\w./~-]*/[\w./-]+)")


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _count(text: str) -> int:
    return (
        int(float(text[:-1]) * 1000) if text.endswith("k") else int(float(text))
    )  # ValueError is the caller's


def progress(line: Line) -> Progress | None:
    """Return the sample that a progress line carries, or None."""
    text = line.text
    if len(text) > 4000 or not _HINT.search(text):
        return None
    bar = _TQDM.search(text) if "%|" in text else None
    step, total, unit = None, None, "step"
    m = _STEP.search(text)
    if m and not (bar and m.start() > bar.start()):
        step, total = int(m["step"]), int(m["total"]) if m["total"] else None
        unit = "t_env" if m["t"] else (m["key"] or "step").lower().replace(" ", "_").rstrip("s")
    elif bar:
        try:
            step, total, unit = _count(bar["step"]), _count(bar["total"]), "bar"
        except ValueError:
            return None
    hf = _HF.search(text)
    loss, grad = _LOSS.search(text), _GRAD.search(text)
    if step is None and not hf:
        return None
    if not bar and not hf and not loss and not m_is_rich(text) and _CONFIG.search(text):
        return None
    rate = _RATE.search(text)
    thr = _THROUGHPUT.search(text)
    seconds = _step_seconds(text, rate)
    scale, skipped = _SCALE.search(text), _SKIPPED.search(text)
    return Progress(
        line=line.number, offset=line.offset, step=step, total=total, time_s=line.time_s, unit=unit,
        loss=_loss(text, loss), grad_norm=_number(grad["grad"]) if grad else None,
        loss_scale=_number(scale["scale"]) if scale else None, step_s=seconds,
        throughput=_number(thr["n"] or thr["per"]) if thr else None, skipped=int(skipped["n"]) if skipped else None,
        text=line.raw[:400], rank=line.origin.rank, order=line.offset,
    )  # fmt: skip


def m_is_rich(text: str) -> bool:
    """Tell a progress line from a sentence that happens to hold "step 3": it carries numbers of its own."""
    return len(re.findall(r"\d", text)) >= 4


def loss_of(line: Line) -> float | None:
    """Return the loss that follows a progress bar on the same line."""
    return _loss(line.text, _LOSS.search(line.text)) if len(line.text) < 4000 else None


def throughput_of(line: Line) -> float | None:
    """Return the rate on a wrapped progress line's continuation."""
    m = _THROUGHPUT.search(line.text)
    return _number(m["n"] or m["per"]) if m else None


_NANS = re.compile(r"[:=] ?nan\b", re.I)


def _loss(text: str, loss: re.Match[str] | None) -> float | None:
    """Return the loss; where several numbers of a line are NaN, the line's NaN stands for it."""
    if loss:
        return _number(loss["loss"])
    return float("nan") if len(_NANS.findall(text)) >= 2 else None


def _step_seconds(text: str, rate: re.Match[str] | None) -> float | None:
    m = _STEP_S.search(text)
    if m:
        whole = _number(m["s"] or m["st"] or m["plain"])
        if whole is not None:
            return whole / 1000 if m["unit"] == "ms" and m["s"] else whole
        thousandths = _number(m["ms"] or m["nano"])
        return None if thousandths is None else thousandths / 1000
    value = _number(rate["rate"]) if rate and rate["unit"] in ("it/s", "s/it") else None
    if not value:
        return None
    return value if rate and rate["unit"] == "s/it" else 1 / value


def milestone(line: Line) -> Sighting | None:
    """The job's own words about its end or its checkpoints."""
    text = line.text
    m = _DONE.search(text)
    if m:
        return sighting(line, "completed", what=m["what"].strip()[:60])
    if "heckpoint" in text or "global_step" in text or "safetensors" in text:
        c = _CHECKPOINT.search(text)
        if c and not re.search(r"\b(?:error|fail|unable|cannot|could not)\b", text, re.I):
            event = c["event"].lower()
            name = (
                "loaded"
                if "loaded" in event
                else "loading"
                if "load" in event
                else "saved"
                if event in ("saved", "successfully saved", "is ready now")
                else "saving"
            )
            step, path = _CKPT_STEP.search(text), _CKPT_PATH.search(text)
            return sighting(
                line,
                "checkpoint",
                SpeaksOf.SELF,
                event=name,
                step=int(step["step"]) if step else None,
                path=path["path"] if path else None,
            )
    return None


PARSERS = (
    (
        (
            "train_runtime", "raining completed", "raining finished", "raining complete", "raining done", "raining is complete",
            "raining has ", "inished training", " stopped: ", "stopping_early", "exiting program", "training ends",
            "Training ended", "ob completed successfully", "INFO done", "Avg bus bandwidth", "Best model saved",
            "heckpoint", "global_step",
        ),
        milestone,
    ),
)  # fmt: skip
