"""How fast a network trains on one GPU, and how well: ours against a plain PyTorch loop, in one run.

    python3 benchmarks/training_gpu.py speed    --out DIR              images a second: plain loop, ours, predicting
    python3 benchmarks/training_gpu.py variants --out DIR              runs side by side, one thing changed; a profile
    python3 benchmarks/training_gpu.py ends     --out DIR              a step's end as torch's, and no slower? quickly
    python3 benchmarks/training_gpu.py predict  --out DIR              prediction: normalisation apart and folded
    python3 benchmarks/training_gpu.py grouped                         convolutions of six runs apart and in groups
    python3 benchmarks/training_gpu.py shapes   --out DIR              the normalisation's sums in several launch shapes
    python3 benchmarks/training_gpu.py accuracy --out DIR --data ROOT  full-data and 5,000-label accuracies on CIFAR
    python3 benchmarks/training_gpu.py table                           the table from results/training_gpu_*.json

ROOT holds cifar10/ and cifar100/ as plain arrays ({train,test}_{images,labels}.npy). Every finished accuracy run is a
line of JSON at once, and runs that have one are not repeated, so the command can go on at another time.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import math
import platform
import subprocess
import sys
import time
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from marks import fill

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

CLASSES, SIZE = 10, 50_000
FLOPS = 2 * 0.5559e9  # multiply-adds of one forward pass of ResNet-18 at 32 pixels, twice


def facts() -> dict[str, Any]:
    """The machine."""
    import torch

    return {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }


def rate(call: Any, images: int, seconds: float = 2.0, at_once: int = 5) -> float:
    """Images a second over at least so many seconds, after three calls to warm up; so many calls are queued at once."""
    import torch

    for _ in range(3):
        call()
    torch.cuda.synchronize()
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in range(at_once):
            call()
        torch.cuda.synchronize()
        calls += at_once
    return images * calls / (time.perf_counter() - start)


class Plain:
    """The way most code trains: modules as torch has them, one operation after the other."""

    def __init__(self, images: Any, labels: Any, batch: int, half: bool) -> None:
        import torch
        from torch import nn

        class Block(nn.Module):
            def __init__(self, inside: int, width: int, stride: int) -> None:
                super().__init__()
                self.inner = nn.Sequential(
                    nn.Conv2d(inside, width, 3, stride, 1, bias=False),
                    nn.BatchNorm2d(width),
                    nn.ReLU(inplace=True),
                    nn.Conv2d(width, width, 3, 1, 1, bias=False),
                    nn.BatchNorm2d(width),
                )
                self.short = nn.Sequential()
                if stride > 1 or inside != width:
                    self.short = nn.Sequential(nn.Conv2d(inside, width, 1, stride, bias=False), nn.BatchNorm2d(width))

            def forward(self, x: Any) -> Any:
                return torch.relu(self.inner(x) + self.short(x))

        layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
        inside = 64
        for width, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
            layers.append(Block(inside, width, stride))
            inside = width
        net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES)).cuda()
        self.net = net.to(memory_format=torch.channels_last) if half else net
        self.optimiser = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
        self.images, self.labels, self.batch, self.half = images, labels, batch, half

    def step(self) -> None:
        """One step, augmentation included; the images are on the device already."""
        import torch
        from torch.nn import functional as F

        at = torch.randint(0, len(self.images), (self.batch,), device="cuda")
        x = F.pad(self.images[at].permute(0, 3, 1, 2).float().sub_(120).div_(64), (4, 4, 4, 4))
        down, across = torch.randint(0, 9, (2,)).tolist()
        x = x[:, :, down : down + 32, across : across + 32]
        x = torch.where(torch.rand(self.batch, 1, 1, 1, device="cuda") < 0.5, x, x.flip(3))
        if self.half:
            x = x.contiguous(memory_format=torch.channels_last)
        with torch.autocast("cuda", torch.bfloat16, enabled=self.half):
            loss = F.cross_entropy(self.net(x), self.labels[at])
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()


def norm_errors() -> dict[str, float]:
    """The fused normalisation against float64, forwards and backwards: the largest relative errors."""
    import torch
    from torch.nn import functional as F

    from ncalr.learn.nets.norm import NormAct

    worst: dict[str, float] = {}
    for shape in ((128, 64, 32, 32), (50, 128, 16, 16), (7, 512, 4, 4)):
        for with_residual in (False, True):
            for relu in (True, False):
                make = lambda s=shape: (  # noqa: E731
                    torch.randn(s, device="cuda").bfloat16().contiguous(memory_format=torch.channels_last)
                )
                x, r, slope = make().requires_grad_(), make().requires_grad_(), make()
                norm = NormAct(shape[1], relu).cuda()
                torch.nn.init.uniform_(norm.weight, 0.5, 2)
                torch.nn.init.normal_(norm.bias)
                y = norm(x, r if with_residual else None)
                y.backward(slope)
                x64, r64 = x.detach().double().requires_grad_(), r.detach().double().requires_grad_()
                w64, b64 = (p.detach().double().requires_grad_() for p in (norm.weight, norm.bias))
                mean, var = torch.zeros(shape[1]).double().cuda(), torch.ones(shape[1]).double().cuda()
                z = F.batch_norm(x64, mean, var, w64, b64, True, 0.1, norm.eps) + (r64 if with_residual else 0)
                z = torch.relu(z) if relu else z
                z.backward(slope.double())
                pairs = {"y": (y, z), "dx": (x.grad, x64.grad), "dw": (norm.weight.grad, w64.grad)}
                pairs |= {"db": (norm.bias.grad, b64.grad), "mean": (norm.running_mean, mean)}
                pairs |= {"var": (norm.running_var, var)}
                if with_residual:
                    pairs["dr"] = (r.grad, r64.grad)
                norm.eval()
                with torch.no_grad():
                    fixed = F.batch_norm(x64, mean, var, w64, b64, False, 0.1, norm.eps) + (r64 if with_residual else 0)
                    pairs["eval"] = (norm(x, r if with_residual else None), torch.relu(fixed) if relu else fixed)
                for name, (ours, reference) in pairs.items():
                    error = float((ours.double() - reference).norm() / reference.norm())
                    worst[name] = max(worst.get(name, 0.0), error)
    return worst


def first_errors() -> dict[str, float]:
    """Relative errors of the first layer as one, forwards, backwards and in evaluation, against float64."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    from ncalr.kernels import triton_first
    from ncalr.learn.nets.norm import NormAct, second

    worst: dict[str, float] = {}
    for shape, stride in (((128, 3, 32, 32), 1), ((128, 3, 64, 64), 2), ((37, 1, 28, 28), 1)):
        conv = nn.Conv2d(shape[1], 64, 3, stride, 1, bias=False).cuda().to(memory_format=torch.channels_last)
        norm = NormAct(64).cuda()
        with torch.no_grad():
            conv.weight.copy_(conv.weight.bfloat16())
        x = torch.randn(shape, device="cuda").bfloat16().contiguous(memory_format=torch.channels_last)
        wide = [p.detach().double().requires_grad_() for p in (conv.weight, norm.weight, norm.bias)]
        mean, var = torch.zeros(64, device="cuda").double(), torch.ones(64, device="cuda").double()
        inner = F.conv2d(x.double(), wide[0], None, stride, 1)
        z = F.relu(F.batch_norm(inner, mean, var, wide[1], wide[2], True, 0.1, norm.eps))
        slopes = [torch.randn(z.shape, device="cuda").bfloat16() for _ in range(2)]
        z.backward(slopes[0].double() + slopes[1].double())
        y = triton_first.conv_norm_act(x, conv.weight, stride, norm)
        torch.autograd.backward([y, second(y)], slopes)
        pairs = {"y": (y, z), "filters": (conv.weight.grad, wide[0].grad), "weight": (norm.weight.grad, wide[1].grad)}
        pairs |= {"mean": (norm.running_mean, mean), "var": (norm.running_var, var)}
        norm.eval()
        with torch.no_grad():
            fixed = F.relu(F.batch_norm(inner, mean, var, wide[1], wide[2], False, 0.1, norm.eps))
            pairs["eval"] = (triton_first.conv_norm_act(x, conv.weight, stride, norm), fixed)
        for name, (ours, reference) in pairs.items():
            error = float((ours.double() - reference).norm() / reference.norm())
            worst[name] = max(worst.get(name, 0.0), error)
    return worst


def slots(count: int, batch: int, pool: Any, labels: Any, **options: Any) -> list[Any]:
    """So many slots, started on the whole pool."""
    from ncalr.learn import TorchLearner

    learner = TorchLearner("resnet18", "strong", batch=batch, progress=False, **options)
    feed = learner._feed(pool)
    found = [learner._new_slot(CLASSES, tuple(pool.shape), batch, feed) for _ in range(count)]
    for number, slot in enumerate(found):
        slot.start(number, np.arange(len(pool)), labels, CLASSES)
    return found


def interleaved(found: list[Any], seconds: float = 2.0) -> float:
    """Images a second over all of these slots, their epochs begun as in a training."""
    import torch

    steps = min(slot.steps for slot in found)
    state = {"epoch": 0, "place": 0}

    def turn() -> None:
        if state["place"] == 0:
            state["epoch"] += 1
            for slot in found:
                slot.begin(1 + state["epoch"] % 50)
        for slot in found:
            slot.step(state["place"], 1)
        state["place"] = (state["place"] + 1) % steps

    result = rate(turn, sum(slot.build.batch for slot in found), seconds, at_once=30)
    torch.cuda.synchronize()
    return result


def speed(out: Path) -> None:
    """Images a second."""
    import torch

    from ncalr.data import ArrayPool
    from ncalr.learn import Job, TorchLearner, needs_of

    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (SIZE, 32, 32, 3), np.uint8)
    labels = rng.integers(0, CLASSES, SIZE)
    pool = ArrayPool(images)
    result: dict[str, Any] = {"machine": facts(), "norm_errors": norm_errors()}
    print(result["norm_errors"], flush=True)
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    result["matmul_tflops"] = 2 * 8192**3 * rate(lambda: a @ a, 1, 1.0) / 1e12
    on_device, targets = torch.from_numpy(images).cuda(), torch.from_numpy(labels).cuda()
    rows: dict[str, float] = {}

    def note(name: str, value: float) -> None:
        rows[name] = value
        print(f"{name}: {value:,.0f} images/s", flush=True)

    torch.backends.cudnn.benchmark = True
    for batch in (128, 512):
        note(f"plain loop, float32, batch {batch}", rate(Plain(on_device, targets, batch, False).step, batch))
        note(f"plain loop, bfloat16, batch {batch}", rate(Plain(on_device, targets, batch, True).step, batch))
    note("ours, no graph, batch 128", interleaved(slots(1, 128, pool, labels, graphs=False)))
    for batch, counts in ((128, (1, 2, 4, 6)), (512, (1, 4))):
        found = slots(max(counts), batch, pool, labels)
        for count in counts:
            note(f"ours, {count} runs, batch {batch}", interleaved(found[:count]))
        if batch == 128:
            slot = found[0]

            def sweep(chunk: int, slot: Any = slot) -> float:
                slot.chunk = chunk
                return rate(lambda: [None for _ in slot.sweep(slot.feed, np.arange(SIZE))], SIZE)

            for chunk in (1024, 2048, 4096, 8192):
                note(f"pool prediction, chunks of {chunk}", sweep(chunk))
        del found
    learner = TorchLearner("resnet18", "strong", epochs=20, progress=False)
    jobs = [
        Job(pool, np.arange(10_000), labels[:10_000], CLASSES, seed=seed, needs=needs_of("ncal")) for seed in range(4)
    ]
    learner.fit_all([jobs[0]])
    torch.cuda.synchronize()
    start = time.perf_counter()
    models = learner.fit_all(jobs)
    torch.cuda.synchronize()
    elapsed = time.perf_counter() - start
    seen = sum(model.record.images for model in models)
    watched = sum(len(model.record.checkpoints) * len(model.watched) for model in models)
    note("a whole fit of four runs: training images", seen / elapsed)
    result["whole_fit"] = {"seconds": elapsed, "trained": seen, "watched": watched}
    result["rows"] = rows
    best = rows["ours, 4 runs, batch 512"]
    result["share_of_matmul"] = {
        name: 3 * FLOPS * rows[name] / (result["matmul_tflops"] * 1e12)
        for name in ("ours, 4 runs, batch 128", "ours, 4 runs, batch 512", "plain loop, bfloat16, batch 128")
    }
    print(f"share of the matrix rate at best: {3 * FLOPS * best / result['matmul_tflops'] / 1e12:.1%}")
    out.mkdir(parents=True, exist_ok=True)
    (out / "training_gpu_speed.json").write_text(json.dumps(result, indent=1))


def readers_agree() -> bool:
    """Whether slopes of two readers, added inside the fused pass, give what autograd's sum gives, to the last bit."""
    import torch

    from ncalr.learn.nets.norm import NormAct, second

    def slopes(norm: Any, x: Any, residual: Any, apart: bool, weights: Any) -> Any:
        y = norm(x, residual)
        loss = (y * weights[0]).sum() + ((second(y) if apart else y) * weights[1]).sum()
        return torch.autograd.grad(loss, [x, norm.weight, norm.bias, *([] if residual is None else [residual])])

    equal = True
    for shape in ((128, 64, 32, 32), (50, 128, 16, 16), (7, 512, 4, 4)):
        norm = NormAct(shape[1]).cuda()
        drawn = [torch.randn(shape, device="cuda").bfloat16() for _ in range(4)]
        x, r, *weights = (t.contiguous(memory_format=torch.channels_last) for t in drawn)
        for residual in (None, r.requires_grad_()):
            given = (norm, x.requires_grad_(), residual)
            both = (slopes(*given, False, weights), slopes(*given, True, weights))
            equal &= all(torch.equal(one, two) for one, two in zip(*both, strict=True))
    return equal


def thirty_steps(found: list[Any], pool: Any, labels: Any) -> list[dict[str, Any]]:
    """The weights of each slot after thirty steps side by side, all from the same seed."""
    import torch

    for slot in found:
        slot.start(0, np.arange(len(pool)), labels, CLASSES)
        slot.begin(1)
    for place in range(30):
        for slot in found:
            slot.step(place, 1)
    torch.cuda.synchronize()
    states = [slot.state() for slot in found]
    torch.cuda.synchronize()
    return states


def alike(states: list[dict[str, Any]]) -> bool:
    """Whether they are all equal to the last bit."""
    import torch

    return all(torch.equal(state[name], value) for state in states[1:] for name, value in states[0].items())


def ranked_streams(levels: int) -> Any:
    """A patch: runs that go before others, so that kernels of one find what the last one wrote still at hand."""
    import torch

    stream, numbers = torch.cuda.Stream, itertools.count()
    return patch.object(torch.cuda, "Stream", lambda device: stream(device, priority=-(next(numbers) % levels)))


def grouped() -> None:
    """Convolutions of six runs: side by side on six streams, and as one convolution of six groups; forth and back."""
    import torch
    from torch.nn import functional as F

    runs, batch = 6, 128

    def graph_of(groups: int, c: int, side: int) -> tuple[Any, Any]:
        draw = lambda *shape: torch.randn(shape, device="cuda").bfloat16()  # noqa: E731
        last = {"memory_format": torch.channels_last}
        x = draw(batch, groups * c, side, side).contiguous(**last).requires_grad_()
        weight = draw(groups * c, c, 3, 3).contiguous(**last).requires_grad_()
        slope = draw(batch, groups * c, side, side).contiguous(**last)
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()

        def step() -> None:
            torch.autograd.grad(F.conv2d(x, weight, padding=1, groups=groups), (x, weight), slope)

        torch.cuda.synchronize()
        with torch.cuda.stream(stream), torch.backends.cudnn.flags(enabled=True, benchmark=True):
            step()
            stream.synchronize()
            with torch.cuda.graph(graph, stream=stream):
                for _ in range(10):
                    step()
        return graph, stream

    def replay(graphs: list[tuple[Any, Any]]) -> None:
        for graph, stream in graphs:
            with torch.cuda.stream(stream):
                graph.replay()

    for c, side in ((64, 32), (128, 16), (256, 8), (512, 4)):
        apart, one = [graph_of(1, c, side) for _ in range(runs)], [graph_of(runs, c, side)]
        times = [1e6 / rate(lambda graphs=graphs: replay(graphs), 10, 0.4) for graphs in (apart, one)]
        print(f"{c} channels at {side} pixels: {times[0]:.0f} us apart, {times[1]:.0f} us in groups", flush=True)


def small_pool() -> tuple[Any, Any]:
    """Random images and labels."""
    from ncalr.data import ArrayPool

    rng = np.random.default_rng(0)
    return ArrayPool(rng.integers(0, 256, (20_000, 32, 32, 3), np.uint8)), rng.integers(0, CLASSES, 20_000)


def algorithms() -> None:
    """Six runs with every algorithm tried, in a process of its own: one number."""
    import torch

    torch.backends.cudnn.benchmark_limit = 0
    print(interleaved(slots(6, 128, *small_pool()), 1.5))


def profiled(found: list[Any], steps: int = 20) -> list[str]:
    """What each kernel takes, a step of one run."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    interleaved(found, 0.3)
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for slot in found:
            slot.begin(2)
        torch.cuda.synchronize()
        start = time.perf_counter()
        for place in range(steps):
            for slot in found:
                slot.step(place, 1)
        torch.cuda.synchronize()
        wall = time.perf_counter() - start
    each = steps * len(found)
    rows = sorted(seen.key_averages(), key=lambda row: -row.self_device_time_total)
    total = sum(row.self_device_time_total for row in rows) / each
    launches = sum(row.count for row in rows if row.self_device_time_total) / each
    head = (
        f"{len(found)} runs: {total:.0f} us of kernels a step in {launches:.0f} launches, {1e6 * wall / steps:.0f} us"
    )
    return [head] + [
        f"{row.self_device_time_total / each:9.1f} us {row.count / each:6.1f} x  {row.key[:150]}" for row in rows[:70]
    ]


APART = "first convolution and its normalisation apart"
PASSES = "optimiser, slopes and copies of weights in passes of their own"


def in_passes() -> Any:
    """A patch: steps that end with torch's optimiser."""
    from ncalr.learn.slot import Slot

    recorded = Slot._recorded
    return patch.object(Slot, "_recorded", lambda slot, _: recorded(slot, False))


def passes_agree(pool: Any, labels: Any) -> dict[str, float]:
    """How far our end of a step and torch's are apart, by parameter: the largest of three steps, over the step's way.

    Each step begins with the same weights and momenta: left to themselves, two trainings in half precision part ways by
    a tenth within three steps, whatever made them differ first. Copies must be their weights, rounded.
    """
    import torch

    found = []
    for how in (nullcontext(), in_passes()):
        with how:
            found += slots(1, 128, pool, labels, warm_up=0.0)  # or the first steps lead nowhere
    ours, theirs = found
    if ours.last is None or theirs.last is not None:
        return {"they are not two": math.nan}
    for slot in found:
        slot.start(0, np.arange(len(pool)), labels, CLASSES)
        slot.begin(1)
    worst: dict[str, float] = {}
    for place in range(3):
        torch.cuda.synchronize()
        before = ours.state()
        torch.cuda.synchronize()
        with theirs.on(), torch.no_grad():
            theirs.load(before)
            for mine, other in zip(ours.momenta(), theirs.momenta(), strict=True):
                other.copy_(mine)
        torch.cuda.synchronize()
        for slot in found:
            slot.step(place, 1)
        torch.cuda.synchronize()
        states = [slot.state() for slot in found]
        torch.cuda.synchronize()
        for name, _ in ours.net.named_parameters():
            one, two, old = (state[name].double() for state in (*states, before))
            worst[name] = max(worst.get(name, 0.0), float((one - two).norm() / (two - old).norm()))
        copies = zip(ours.halves.weights, ours.copies, strict=True)
        if not all(torch.equal(copy, weight.bfloat16()) for weight, copy in copies):
            return {"copies": math.inf}
    return worst


def check_passes(result: dict[str, Any], pool: Any, labels: Any) -> None:
    """Note how far our end of a step and torch's are apart, and whether that is rounding."""
    apart = passes_agree(pool, labels)
    farthest = max(apart, key=lambda name: math.inf if math.isnan(apart[name]) else apart[name])
    result["one_pass_error"] = apart[farthest]
    result["checks"]["the optimiser in one pass as torch's"] = apart[farthest] < 1e-3
    print(f"one pass against torch's optimiser: {apart[farthest]:.1e} of a step's way, {farthest}", flush=True)


def by_turns(result: dict[str, Any], ours: list[Any], theirs: list[Any]) -> None:
    """Note images a second of steps that end our way and torch's, each twice."""
    result["turns"] = turns = [interleaved(some, 1.0) for some in (ours, theirs) * 2]
    print(f"by turns, as it is and so: {', '.join(f'{turn:,.0f}' for turn in turns)}", flush=True)


def ends(out: Path) -> bool:
    """Whether our end of a step is torch's but for rounding, and no slower, side by side: asked before a long queue."""
    pool, labels = small_pool()
    result: dict[str, Any] = {"machine": facts(), "checks": {}}
    check_passes(result, pool, labels)
    ours = slots(6, 128, pool, labels)
    with in_passes():
        theirs = slots(6, 128, pool, labels)
    by_turns(result, ours, theirs)
    turns = result["turns"]
    result["checks"]["no slower"] = sum(turns[::2]) > sum(turns[1::2])
    out.mkdir(parents=True, exist_ok=True)
    (out / "training_gpu_ends.json").write_text(json.dumps(result, indent=1))
    return all(result["checks"].values())


def ends_table(found: dict[str, Any]) -> list[str]:
    """The lines of `ends` for the table."""
    ours, theirs = found["turns"][::2], found["turns"][1::2]
    told = [" and ".join(f"{turn:,.0f}" for turn in some) for some in (ours, theirs)]
    return [
        f"The end of a step in one pass and by torch's optimiser, six runs of 128 side by side, by turns in one run: "
        f"{told[0]} images a second against {told[1]} ({sum(ours) / sum(theirs):.3f} x).",
        "",
        f"* weights after a step: {found['one_pass_error']:.0e} of the step's way apart",
        *(f"* {name}: {'yes' if passed else 'no'}" for name, passed in found["checks"].items()),
        "",
    ]


def _with_every_algorithm(rows: dict[str, dict[str, float]], left: float) -> None:
    """Six runs with every algorithm tried, where so many seconds are enough."""
    try:
        command = [sys.executable, __file__, "algorithms"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=max(left, 1), check=True)
        rows["every cuDNN algorithm tried, 6 x 128"] = {"images_a_second": float(done.stdout.split()[-1])}
    except (subprocess.SubprocessError, ValueError, IndexError) as error:
        print(f"every cuDNN algorithm tried: nothing after {left:.0f} s ({type(error).__name__})")


def variants(out: Path, most: float, only: str = "") -> None:
    """Runs side by side as they are and with one thing changed; checks that the numbers are right; a profile.

    With `only`, those changes whose names begin so, a profile of one run, and no errors of other kernels.
    """
    import torch

    from ncalr.learn import slot as slot_module
    from ncalr.learn.halves import Halves
    from ncalr.learn.nets import first, resnet

    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    pool, labels = small_pool()
    rows: dict[str, dict[str, float]] = {}
    result: dict[str, Any] = {"machine": facts(), "checks": {}, "rows": rows}
    if not only:
        result["norm_errors"], result["first_errors"] = norm_errors(), first_errors()
        print({name: f"{value:.1e}" for name, value in result["first_errors"].items()}, flush=True)
        result["checks"]["slopes of two readers as autograd adds them"] = readers_agree()
    check_passes(result, pool, labels)

    def keep() -> None:
        (out / f"training_gpu_variants{'_only' if only else ''}.json").write_text(json.dumps(result, indent=1))

    def case(name: str, count: int, batch: int, *patches: Any, predicts: bool = False) -> list[Any]:
        """Slots built under these patches (a step is captured then), and how fast they are."""
        gc.collect()
        torch.cuda.empty_cache()
        start = time.perf_counter()
        with ExitStack() as stack:
            for one in patches:
                stack.enter_context(one)
            found = slots(count, batch, pool, labels)
            built = time.perf_counter() - start
            row = {"images_a_second": interleaved(found, 1.0), "built_in_seconds": built}
            if predicts:
                row["predicted_a_second"] = rate(lambda: swept(found[0], 16_384, 2048), 16_384, 0.7)
        rows[f"{name}, {count} x {batch}"] = row
        print(f"{time.perf_counter() - began:5.1f} s  {name}, {count} x {batch}: {row}", flush=True)
        keep()
        return found

    found = case("as it is", 6, 128, predicts=True)
    usual, states = found, thirty_steps(found, pool, labels)
    reference = reference_in_passes = states[0]
    result["checks"]["thirty steps twice on six streams: the same weights"] = alike(
        states + thirty_steps(found, pool, labels)
    )
    counters = [buffer for slot in found for name, buffer in slot.net.named_buffers() if name.endswith("arrived")]
    result["checks"]["counters at rest"] = not any(bool(counter.any()) for counter in counters)
    del states
    profiles = [profiled(found[:1]), *([] if only else [profiled(found)])]
    (out / f"profile{'_only' if only else ''}.txt").write_text(
        "\n\n".join("\n".join(lines) for lines in profiles) + "\n"
    )
    result["profiles"] = [lines[0] for lines in profiles]
    keep()
    plan: list[tuple[Any, ...]] = [
        (PASSES, 6, 128, in_passes()),
        (APART, 6, 128, patch.object(first, "suits", lambda _: False)),
        ("streams of six priorities", 6, 128, ranked_streams(6)),
        ("streams of two priorities", 6, 128, ranked_streams(2)),
        ("streams of six priorities", 4, 128, ranked_streams(6)),
        ("as it is", 4, 128),
        ("as it is", 3, 128),
        ("as it is", 8, 128),
        ("batches made by torch", 6, 128, in_passes(), patch.object(slot_module, "triton_module", lambda _: None)),
        ("as it is", 6, 256),
        ("as it is", 4, 512),
        ("as it is", 6, 512),
        ("sums of 64 rows", 6, 128, shape_patch((64, 4, 512, 256))),
        ("weights cast by autocast", 6, 128, patch.object(slot_module, "Halves", lambda _: Halves(()))),
        ("slopes added by autograd", 6, 128, patch.object(resnet, "second", lambda x: x)),
        ("as it is", 10, 128),
    ]
    for name, count, batch, *patches in plan:
        if not name.startswith(only):
            continue
        if time.perf_counter() - began > most:
            print(f"no time for: {name}, {count} x {batch}")
            continue
        found = []
        try:
            found = case(name, count, batch, *patches, predicts=name == APART)
        except Exception as error:  # the others are still wanted
            print(f"{name}, {count} x {batch} failed: {error!r:.300}", flush=True)
            continue
        if name == PASSES:
            reference_in_passes = thirty_steps(found, pool, labels)[0]
            by_turns(result, usual, found)
            usual = []
        if name in ("weights cast by autocast", "slopes added by autograd", "batches made by torch"):
            of = reference if name == "slopes added by autograd" else reference_in_passes
            same = alike([of, *thirty_steps(found, pool, labels)])
            result["checks"][f"{name}: the same weights after thirty steps"] = same
    del found
    gc.collect()
    torch.cuda.empty_cache()
    if not only:
        _with_every_algorithm(rows, most + 15 - (time.perf_counter() - began))
    result["seconds"] = time.perf_counter() - began
    keep()
    print("\n".join(profiles[0][:45]))
    print("\n".join(result["profiles"]))
    print({name: f"{value:.1e}" for name, value in result.get("norm_errors", {}).items()})
    for name, passed in result["checks"].items():
        print(f"{'yes' if passed else 'NO':4s}{name}")
    base = rows["as it is, 6 x 128"]["images_a_second"]
    for name, row in rows.items():
        print(f"{row['images_a_second']:9,.0f} images/s  {row['images_a_second'] / base:5.2f}  {name}")


def patterned_pool(size: int) -> tuple[Any, Any]:
    """Images that can be learnt: a pattern a class under noise."""
    from ncalr.data import ArrayPool

    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, size)
    patterns = rng.normal(0, 12, (CLASSES, 8, 8, 3)).repeat(4, 1).repeat(4, 2)
    images = rng.normal(120, 40, (size, 32, 32, 3)).astype(np.float32)
    images += patterns[labels]
    return ArrayPool(images.clip(0, 255).astype(np.uint8)), labels


def in_float32(slot: Any, count: int) -> list[Any]:
    """Features and logits of the slot's network without half precision, for the first items."""
    import torch

    from ncalr.learn.tap import Tap

    net = slot.build.make().to(slot.build.device).eval()
    state = slot.state()
    torch.cuda.synchronize()
    net.load_state_dict(state)
    tap, rows = Tap(net), [np.arange(at, min(at + 1024, count)) for at in range(0, count, 1024)]
    with torch.no_grad(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        found = [tap(net, slot.feed.normalise(raw, torch.float32)) for raw in slot.feed.read(rows)]
        return [torch.cat(parts) for parts in zip(*found, strict=True)]


def swept(slot: Any, count: int, chunk: int) -> list[Any]:
    """Features and logits as the slot predicts them."""
    import torch

    slot.chunk = chunk
    found = [part for _, part in slot.sweep(slot.feed, np.arange(count))]
    with slot.on():
        return [torch.cat(parts) for parts in zip(*found, strict=True)]


HOW = {"": "", "first": ", cuDNN's first choice of algorithms"}
"""Ways to predict: cuDNN times its algorithms, as in a run, or takes the first one. It chooses once a process."""


def predict(out: Path, how: str) -> None:
    """Prediction with normalisation as a pass of its own and folded into the convolutions: images a second, errors."""
    import torch

    count, chunks = 16_384, (2048, 4096)
    pool, labels = patterned_pool(count)
    # a short warm-up: it shall have learnt something after three epochs
    slot = slots(1, 128, pool, labels, epochs=10)[0]
    for epoch in (1, 2, 3):
        slot.begin(epoch)
        for place in range(slot.steps):
            slot.step(place, epoch)
    torch.cuda.synchronize()
    reference = in_float32(slot, count)
    torch.cuda.synchronize()
    kinds = {"a pass of its own": patch.object(slot.folding, "norms", []), "folded": nullcontext()}
    result: dict[str, Any] = {"machine": facts(), "how": how, "kinds": {}}
    outputs = {}
    for name, kind in kinds.items():
        with kind:
            outputs[name] = found = swept(slot, count, chunks[0])
            torch.cuda.synchronize()
            row = {
                "images_a_second": {
                    str(chunk): rate(lambda chunk=chunk: swept(slot, count, chunk), count, 1.0) for chunk in chunks
                },
                "features_error": float((found[0] - reference[0]).norm() / reference[0].norm()),
                "logits_error": float((found[1] - reference[1]).norm() / reference[1].norm()),
                "same_class": float((found[1].argmax(1) == reference[1].argmax(1)).float().mean()),
            }
        result["kinds"][name] = row
        print(name, row, flush=True)
    truth = torch.from_numpy(labels).to(reference[1].device)
    result["accuracy"] = float((reference[1].argmax(1) == truth).float().mean())
    apart, folded = outputs.values()
    result["same_class"] = float((apart[1].argmax(1) == folded[1].argmax(1)).float().mean())
    with slot.on():  # what a convolution writes to may be read by it: it must not matter what was there
        torch.cuda.empty_cache()
        torch.full((2**31,), float("nan"), dtype=torch.bfloat16, device=slot.build.device)
    again = swept(slot, count, chunks[0])
    torch.cuda.synchronize()
    result["checks"] = {
        "cuDNN takes the folded convolutions": not slot.folding.refused,
        "the same numbers in memory full of NaN": all(map(torch.equal, again, folded)),
    }
    print({name: value for name, value in result.items() if name != "kinds"}, flush=True)
    out.mkdir(parents=True, exist_ok=True)
    (out / f"training_gpu_predict{how and '_' + how}.json").write_text(json.dumps(result, indent=1))


def predict_table(found: dict[str, Any]) -> list[str]:
    """The lines of `predict` for the table."""
    chunks = list(next(iter(found["kinds"].values()))["images_a_second"])
    speeds = {
        name: [f"{row['images_a_second'][chunk]:,.0f}" for chunk in chunks] for name, row in found["kinds"].items()
    }
    return [
        "Prediction with batch normalisation as a pass of its own and folded into the convolutions"
        f"{HOW[found['how']]}, in another run (torch {found['machine']['torch']}); errors are relative, against "
        f"float32, of a network that is right on {found['accuracy']:.0%}:",
        "",
        f"| | {' | '.join(f'images a second, chunks of {chunk}' for chunk in chunks)} | error of features | of logits "
        "| same class as in float32 |",
        "| --- |" + " --- |" * (len(chunks) + 3),
        *(
            f"| {name} | {' | '.join(speeds[name])} "
            f"| {row['features_error']:.1e} | {row['logits_error']:.1e} | {row['same_class']:.2%} |"
            for name, row in found["kinds"].items()
        ),
        "",
        f"* the same class from both: {found['same_class']:.2%}",
        *(f"* {name}: {'yes' if passed else 'no'}" for name, passed in found["checks"].items()),
        "",
    ]


SHAPES = [  # rows a step, warps, most splits, fewest rows of a split
    (32, 4, 512, 256),
    (64, 4, 512, 256),
    (64, 8, 512, 256),
    (64, 8, 256, 256),
    (64, 8, 256, 128),
    (128, 8, 512, 256),
    (128, 8, 256, 256),
    (128, 16, 512, 256),
    (128, 16, 256, 256),
    (128, 16, 256, 128),
]


def shape_patch(shape: tuple[int, ...]) -> Any:
    """A patch: the sums launched so."""
    from ncalr.kernels import triton_norm

    names = ("SUM_ROWS", "SUM_WARPS", "MOST_SPLITS", "SPLIT_ROWS")
    return patch.multiple(triton_norm, **dict(zip(names, shape, strict=True)))


def normed(streams: int) -> Any:
    """The normalisations of one step of ResNet-18 at batch 128, forwards and backwards, so many at a time: a call."""
    import torch

    from ncalr.learn.nets.norm import NormAct

    graphs = []
    for _ in range(streams):
        layers = []
        for c, side, count in ((64, 32, 5), (128, 16, 5), (256, 8, 5), (512, 4, 5)):
            draw = lambda c=c, side=side: (  # noqa: E731
                torch.randn((128, c, side, side), device="cuda")
                .bfloat16()
                .contiguous(memory_format=torch.channels_last)
            )
            layers += [(NormAct(c).cuda(), draw().requires_grad_(), draw(), draw(), n % 2) for n in range(count)]

        def step(layers: Any = layers) -> None:
            for norm, x, residual, slope, ends in layers:  # what ends a block has a residual and two readers
                y = norm(x, residual if ends else None)
                torch.autograd.grad((y, y.second) if ends else (y,), x, (slope, residual) if ends else (slope,))

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            step()
            step()
            stream.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                step()
        graphs.append((graph, stream, layers))  # a graph does not own what it reads

    def call() -> None:
        for graph, stream, _ in graphs:
            with torch.cuda.stream(stream):
                graph.replay()

    return call


def one_shape(at: int) -> None:
    """Microseconds of the normalisations of a step, alone and of six side by side: two numbers."""
    with shape_patch(SHAPES[at]):
        print(*(1e6 / rate(normed(streams), streams, 0.4) for streams in (1, 6)))


def shapes(out: Path) -> None:
    """Each shape in a process of its own: first all at once, which compiles; then one by one. Then whole runs."""
    import torch

    out.mkdir(parents=True, exist_ok=True)
    commands = [[sys.executable, __file__, "shape", "--only", str(at)] for at in range(len(SHAPES))]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for process in [subprocess.Popen(command, **quiet) for command in commands]:
        process.wait(timeout=90)
    rows: list[dict[str, Any]] = []
    for shape, command in zip(SHAPES, commands, strict=True):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{shape} failed: {done.stderr[-300:]}", flush=True)
            continue
        alone, beside = map(float, done.stdout.split()[-2:])
        rows.append({"shape": shape, "alone": alone, "beside": beside})
        print(f"{shape!s:24}{alone:9.0f} us alone {beside:9.0f} us a step of six", flush=True)
        (out / "training_gpu_shapes.json").write_text(json.dumps(rows, indent=1))
    pool, labels = small_pool()
    usual = [row for row in rows if row["shape"] == SHAPES[0]]
    for row in sorted(rows, key=lambda row: row["beside"])[:3] + usual:
        gc.collect()
        torch.cuda.empty_cache()
        with shape_patch(row["shape"]):
            row["images a second"] = interleaved(slots(6, 128, pool, labels), 1.0)
        print(f"{row['shape']!s:24}{row['images a second']:9,.0f} images/s, 6 x 128", flush=True)
        (out / "training_gpu_shapes.json").write_text(json.dumps(rows, indent=1))


PLAINER = "strong(epochs=100, warm_up=0.0, drops=[0.6, 0.85], fallback=0.65)"
"""The recipe of the first measurements: full data, and the two paths compared on three seeds."""


def plan() -> list[dict[str, Any]]:
    """The accuracy runs, in the order in which they are wanted."""
    runs: list[dict[str, Any]] = [
        {"data": data, "labels": 50_000, "recipe": recipe, "seed": 0, "path": "graphs"}
        for data in ("cifar10", "cifar100")
        for recipe in ("strong(epochs=100)", "paper", PLAINER)
    ]
    few = {"data": "cifar10", "labels": 5000}
    later = "strong(epochs=100, drops=[0.8, 0.95], fallback=0.85)"
    for recipe in ("strong(epochs=100)", "strong(epochs=150)", "strong(epochs=120)", later):
        runs += [{**few, "recipe": recipe, "seed": seed, "path": "graphs"} for seed in range(3)]
    for path in ("graphs", "plain"):
        runs += [{**few, "recipe": PLAINER, "seed": seed, "path": path} for seed in range(3)]
    for labels, seeds in ((20_000, 2), (5000, 3)):  # do larger batches keep the accuracy?
        for changes in ("", ", batch=256, rate=0.2", ", batch=512, rate=0.2"):
            recipe = f"strong(epochs=100{changes})"
            some = {"data": "cifar100", "labels": labels, "recipe": recipe}
            runs += [{**some, "seed": seed, "path": "graphs"} for seed in range(seeds)]
    return runs


def accuracy(out: Path, root: Path, most: float, only: str) -> None:
    """Test accuracies of the plan's runs that are still missing, as long as time allows."""
    from ncalr.data import ArrayPool
    from ncalr.learn import Job, TorchLearner, needs_of

    done_file = out / "training_gpu_accuracy.jsonl"
    out.mkdir(parents=True, exist_ok=True)
    kept = ROOT / "results" / "training_gpu_accuracy.jsonl"
    lines = kept.read_text().splitlines() if kept.exists() else []
    done = [json.loads(line)["run"] for line in lines]
    missing = [run for run in plan() if run not in done]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in missing:
        key = (run["path"],)
        groups.setdefault(key, []).append(run)
    pools: dict[str, Any] = {}
    start = time.perf_counter()
    for key, runs in groups.items():
        if only and only not in map(str, key):
            continue
        if time.perf_counter() - start > most:
            break
        for run in runs:
            if run["data"] not in pools:
                folder = root / run["data"]
                arrays = {n: np.load(folder / f"{n}.npy") for n in ("train_images", "test_images")}
                targets = {n: np.load(folder / f"{n}.npy") for n in ("train_labels", "test_labels")}
                pools[run["data"]] = (
                    ArrayPool(arrays["train_images"]),
                    ArrayPool(arrays["test_images"]),
                    targets["train_labels"],
                    targets["test_labels"],
                )
        learners: dict[Any, Any] = {}
        for run in runs:
            graphs = run["path"] == "graphs"
            learners.setdefault(
                (run["recipe"], run["path"], run["data"]),
                TorchLearner("resnet18", run["recipe"], progress=False, graphs=graphs, together=4 if graphs else 1),
            )
        for batch_of_runs in together(runs):
            print(batch_of_runs, flush=True)
            jobs = []
            for run in batch_of_runs:
                train, _, labels, _ = pools[run["data"]]
                rng = np.random.default_rng([run["seed"], 1])
                ids = rng.permutation(len(train))[: run["labels"]]
                needs = needs_of("ncal") if run["labels"] < SIZE else frozenset()
                classes = int(labels.max()) + 1
                jobs.append(Job(train, ids, labels[ids], classes, seed=run["seed"], needs=needs))
            began = time.perf_counter()
            models = train_mixed([learners[(r["recipe"], r["path"], r["data"])] for r in batch_of_runs], jobs)
            seconds = time.perf_counter() - began
            with done_file.open("a") as file:
                for run, model in zip(batch_of_runs, models, strict=True):
                    _, test, _, truth = pools[run["data"]]
                    features, logits = model.outputs(test)
                    share = float((logits.argmax(1) == truth).mean())
                    line = {
                        "run": run,
                        "accuracy": share,
                        "seconds": seconds,
                        "beside": len(jobs),
                        "record": model.record.as_dict(),
                        "machine": facts(),
                        "collapse_error": collapse_error(model, truth, features, logits),
                    }
                    file.write(json.dumps(line) + "\n")
                    print(run, f"{share:.4f}", f"{seconds:.0f} s", model.record.flipping, flush=True)


def together(runs: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Runs that may train side by side."""
    if runs[0]["path"] == "plain":
        return [[run] for run in runs]
    return [runs[at : at + 8] for at in range(0, len(runs), 8)]


def train_mixed(learners: list[Any], jobs: list[Any]) -> list[Any]:
    """Jobs of several learners side by side: the scheduler of one, the trainings of each."""
    if len({id(learner) for learner in learners}) == 1:
        return list(learners[0].fit_all(jobs))
    from ncalr.learn.torch_learner import side_by_side

    trainings = [learner.training(job.checked()) for learner, job in zip(learners, jobs, strict=True)]
    models = dict(side_by_side(iter(trainings), len(jobs)))
    return [models[at] for at in range(len(jobs))]


def collapse_error(model: Any, truth: Any, features: Any, logits: Any) -> dict[str, float]:
    """The largest relative difference between the device's collapse sums and a float64 pass over the same features."""
    from dataclasses import asdict

    import torch

    from ncalr.geometry import measure_collapse
    from ncalr.learn.measures import Sums, read

    classes = model.classes
    weights = next(v for n, v in model.state.items() if n == "head.weight").float().cpu()
    on = lambda a: torch.from_numpy(np.ascontiguousarray(a)).cuda()  # noqa: E731
    sums = Sums(on(features), on(logits), on(truth), classes)
    fast, _, _ = read([t.cpu() for t in sums.tensors()], weights)
    slow = asdict(measure_collapse(features, truth, classes, weights=weights, predictions=logits.argmax(1)))
    return {
        n: abs(v - slow[n]) / max(abs(slow[n]), 1e-12) for n, v in asdict(fast).items() if n not in ("items", "classes")
    }


def write() -> None:
    """results/training_gpu.md, and the same in docs/learning.md."""
    folder = ROOT / "results"
    found = json.loads((folder / "training_gpu_speed.json").read_text())
    rows, machine = found["rows"], found["machine"]
    plain = rows["plain loop, bfloat16, batch 128"]
    best_plain = max(plain, rows["plain loop, float32, batch 128"])
    lines = [
        f"ResNet-18 at 32 pixels, augmentation included, one {machine['gpu']}, torch {machine['torch']}, one run:",
        "",
        "| | images a second | against the plain loop |",
        "| --- | --- | --- |",
    ]
    for name, value in rows.items():
        batch = 512 if "batch 512" in name else 128
        base = max(rows[f"plain loop, {kind}, batch {batch}"] for kind in ("float32", "bfloat16"))
        training = "prediction" not in name and "whole" not in name
        lines.append(f"| {name} | {value:,.0f} | {f'{value / base:.1f} ×' if training else ''} |")
    share = found["share_of_matmul"]
    whole = found["whole_fit"]
    lines += [
        "",
        f"The card's bf16 matrix rate in the same run: {found['matmul_tflops']:.0f} TFLOP/s. Four runs use "
        f"{share['ours, 4 runs, batch 128']:.0%} of it at batch 128 and {share['ours, 4 runs, batch 512']:.0%} at "
        f"batch 512 (the plain loop {share['plain loop, bfloat16, batch 128']:.0%}), counting three forward passes "
        f"a step. The whole fit is four runs of 10,000 labels, 20 epochs: {whole['trained']:,} images trained and "
        f"{whole['watched']:,} predicted at checkpoints in {whole['seconds']:.1f} s. The plain loop is the faster of "
        f"float32 and bfloat16: {best_plain:,.0f} images/s at batch 128.",
        "",
    ]
    tried = json.loads((folder / "training_gpu_variants.json").read_text())
    base = tried["rows"]["as it is, 6 x 128"]["images_a_second"]
    lines += [
        "Runs side by side (runs x batch) with one thing changed, in another run:",
        "",
        "| | images a second | | predicted a second, one run, chunks of 2048 |",
        "| --- | --- | --- | --- |",
        *(
            f"| {name} | {row['images_a_second']:,.0f} | {row['images_a_second'] / base:.2f} "
            f"| {format(row['predicted_a_second'], ',.0f') if 'predicted_a_second' in row else ''} |"
            for name, row in tried["rows"].items()
        ),
        "",
        *(f"* {name}: {'yes' if passed else 'no'}" for name, passed in tried["checks"].items()),
        "",
    ]
    if (ended := folder / "training_gpu_ends.json").exists():
        lines += ends_table(json.loads(ended.read_text()))
    for how in HOW:
        if (predicted := folder / f"training_gpu_predict{how and '_' + how}.json").exists():
            lines += predict_table(json.loads(predicted.read_text()))
    runs = [json.loads(line) for line in (folder / "training_gpu_accuracy.jsonl").read_text().splitlines()]
    lines += [
        "Test accuracy (`strong` has 120 epochs and `paper` 100 where a row does not say otherwise):",
        "",
        "| data | labels | recipe | path | test accuracy | the paper | seconds |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    paper = {"cifar10": "90 %", "cifar100": "70.75 %"}
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in runs:
        facts_ = run["run"]
        groups.setdefault((facts_["data"], facts_["labels"], facts_["recipe"], facts_["path"]), []).append(run)
    for (data, labels, recipe, path), members in groups.items():
        values = [100 * member["accuracy"] for member in members]
        spread = f" ± {np.std(values, ddof=1):.2f} ({len(values)} seeds)" if len(values) > 1 else ""
        beside = members[0]["beside"]
        seconds = f"{members[0]['seconds']:.0f}" + (f" for {beside} runs side by side" if beside > 1 else "")
        way = {"graphs": "graphs, side by side", "plain": "no graph, one by one"}[path]
        full = paper[data] if labels == SIZE else ""
        lines.append(
            f"| {data} | {labels:,} | {recipe} | {way} | {np.mean(values):.2f} %{spread} | {full} | {seconds} |"
        )
    few = [run for run in runs if run["run"]["labels"] == 5000 and run["run"]["path"] == "graphs"]
    if few:
        shares = [100 * run["record"]["flipping"] for run in few]
        lines += ["", f"FF is above 0 in {min(shares):.0f} to {max(shares):.0f} % of the pool at 5,000 labels."]
    text = "\n".join(lines) + "\n"
    head = "# Training on one GPU\n\nMade by `python benchmarks/training_gpu.py table`; not to be edited by hand.\n\n"
    (folder / "training_gpu.md").write_text(head + text)
    fill(ROOT / "docs" / "learning.md", "training", text)


WHAT = ["speed", "variants", "ends", "predict", "algorithms", "grouped", "shapes", "shape", "accuracy", "table"]


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("--out", type=Path, default=ROOT / "results")
    parser.add_argument("--data", type=Path)
    parser.add_argument(
        "--most", type=float, default=1e9, help="begin no group of runs, and no variant, after so many seconds"
    )
    parser.add_argument(
        "--only",
        default="",
        help="only the group with this key (full, 5000, graphs, plain); predict: first; variants: how names begin",
    )
    arguments = parser.parse_args()
    if arguments.what == "predict" and arguments.only not in HOW:
        parser.error(f"predict knows --only {' and '.join(filter(None, HOW))}, got {arguments.only}")
    if arguments.what == "speed":
        speed(arguments.out)
    elif arguments.what == "variants":
        variants(arguments.out, min(arguments.most, 75.0), arguments.only)
    elif arguments.what == "ends":
        raise SystemExit(not ends(arguments.out))
    elif arguments.what == "grouped":
        grouped()
    elif arguments.what == "predict":
        with patch("ncalr.learn.slot.timed", nullcontext) if arguments.only else nullcontext():
            predict(arguments.out, arguments.only)
    elif arguments.what == "algorithms":
        algorithms()
    elif arguments.what == "shapes":
        shapes(arguments.out)
    elif arguments.what == "shape":
        one_shape(int(arguments.only))
    elif arguments.what == "accuracy":
        accuracy(arguments.out, arguments.data, arguments.most, arguments.only)
    else:
        write()


if __name__ == "__main__":
    main()
