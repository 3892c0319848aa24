"""The geometry of class means: mergeable statistics, alignment (CMA, CMAP), neural-collapse measures, separation."""

from ncalr.geometry.alignment import cma, cmap, cmap_table
from ncalr.geometry.collapse import (
    Collapse,
    cdnv,
    measure_collapse,
    nc1,
    nc1_quotient,
    nc2_equiangular,
    nc2_equinorm,
    nc3,
    nc4,
)
from ncalr.geometry.robust import geometric_median, robust_statistics, trimmed_mean, weighted_statistics
from ncalr.geometry.separation import class_distances, separation_of
from ncalr.geometry.statistics import ClassStatistics

__all__ = [
    "ClassStatistics",
    "Collapse",
    "cdnv",
    "class_distances",
    "cma",
    "cmap",
    "cmap_table",
    "geometric_median",
    "measure_collapse",
    "nc1",
    "nc1_quotient",
    "nc2_equiangular",
    "nc2_equinorm",
    "nc3",
    "nc4",
    "robust_statistics",
    "separation_of",
    "trimmed_mean",
    "weighted_statistics",
]
