"""What the labelling page's default network learns of photographs from nothing: cat or dog, against always saying "dog".

    python benchmarks/photos.py --data ROOT     results/photos.json and the table in docs/labelling.md (about ten minutes on one core)
    python benchmarks/photos.py                 the table again, from the JSON

ROOT holds oxford_pets/ as plain arrays ({train,test}_{images,labels}.npy, classes.json), 64 pixels a side. The network,
its recipe and the size of its pictures are those of `ncalr label`; labels are drawn at random.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from dataclasses import asdict
from datetime import date
from pathlib import Path

import numpy as np
from marks import fill

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "results" / "photos.json"
LABELS, SEEDS, SIZE = (60, 150, 300, 600), 5, 32
CATS = {
    *("Abyssinian", "Bengal", "Birman", "Bombay", "British_Shorthair", "Egyptian_Mau"),
    *("Maine_Coon", "Persian", "Ragdoll", "Russian_Blue", "Siamese", "Sphynx"),
}


def measure(data: Path) -> None:
    """Train with each number of labels and each seed; a line of figures each."""
    import torch

    from ncalr.data import ArrayPool
    from ncalr.learn import Job
    from ncalr.web.models import Choice

    torch.set_num_threads(1)
    (train, labels), (test, truth) = (_read(data / "oxford_pets", split) for split in ("train", "test"))
    choice = Choice("resnet8", "digits")
    runs = []
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(len(train))
        for count in LABELS:
            began = time.perf_counter()
            chosen = order[:count]
            model = choice.learner().fit(Job(ArrayPool(train), chosen, labels[chosen], 2, seed=seed))
            right = model.predict(ArrayPool(test)).argmax(1) == truth
            by_class = float(np.mean([right[truth == label].mean() for label in (0, 1)]))
            runs.append({"seed": seed, "labels": count, "accuracy": float(right.mean()), "mean_over_classes": by_class})
            print(runs[-1], f"{time.perf_counter() - began:.0f} s", flush=True)
    facts = {"date": str(date.today()), "model": asdict(choice), "size": SIZE, "test_items": len(truth)}
    facts |= {"dogs": float((truth == 1).mean()), "runs": runs}
    RESULT.write_text(json.dumps(facts, indent=1) + "\n")


def _read(folder: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Pictures as the page's model reads them, and 1 where there is a dog."""
    from PIL import Image

    from ncalr.web.decoder import thumbnail

    breeds = json.loads((folder / "classes.json").read_text())
    dog = np.array([breed not in CATS for breed in breeds])
    pictures = []
    for pixels in np.load(folder / f"{split}_images.npy"):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "png")
        pictures.append(thumbnail(file.getvalue(), SIZE))
    return np.stack(pictures), dog[np.load(folder / f"{split}_labels.npy")].astype(int)


def write() -> None:
    """The table of the page on labelling, from the JSON."""
    facts = json.loads(RESULT.read_text())
    counts = sorted({run["labels"] for run in facts["runs"]})
    seeds = len({run["seed"] for run in facts["runs"]})
    rows = {
        "accuracy": "accuracy",
        "mean_over_classes": "mean over the two classes",
    }
    lines = [
        f"Oxford Pets, cat or dog, `{facts['model']['network']}` at {facts['size']} pixels as `ncalr label` trains it, mean over {seeds} seeds on "
        f'{facts["test_items"]:,} other pictures. Always saying "dog" has {100 * facts["dogs"]:.0f} %, and 50 % over the two classes.',
        "",
        "| labels | " + " | ".join(str(count) for count in counts) + " |",
        "| --- |" + " --- |" * len(counts),
    ]
    for key, name in rows.items():
        means = [np.mean([run[key] for run in facts["runs"] if run["labels"] == count]) for count in counts]
        lines.append(f"| {name} | " + " | ".join(f"{100 * mean:.0f} %" for mean in means) + " |")
    fill(ROOT / "docs" / "labelling.md", "photographs", "\n".join(lines))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="measure, with the data that lie here")
    given = parser.parse_args()
    if given.data:
        measure(given.data)
    write()
