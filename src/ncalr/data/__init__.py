"""Pools: items with permanent ids, and never labels; named datasets, splits and long tails."""

from ncalr.data.catalog import DATASETS, data_root
from ncalr.data.dataset import Dataset, load
from ncalr.data.encoded import EncodedPool
from ncalr.data.fetch import download
from ncalr.data.images import ImagePool
from ncalr.data.pool import ArrayPool, Pool
from ncalr.data.shards import ShardedPool, append_shards, put_columns, write_shards
from ncalr.data.splits import Subset, initial, known_novel
from ncalr.data.tables import TextPool, read_labels, read_table
from ncalr.data.tail import long_tail, long_tail_counts

__all__ = [
    "DATASETS",
    "ArrayPool",
    "Dataset",
    "EncodedPool",
    "ImagePool",
    "Pool",
    "ShardedPool",
    "Subset",
    "TextPool",
    "append_shards",
    "data_root",
    "download",
    "initial",
    "known_novel",
    "load",
    "long_tail",
    "long_tail_counts",
    "put_columns",
    "read_labels",
    "read_table",
    "write_shards",
]
