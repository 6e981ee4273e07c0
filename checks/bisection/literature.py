"""What was published, as numbers: reference/literature/."""

import csv
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "reference" / "literature"


def npar_times(benchmark):
    """Appendix B of Catlow et al. (2010): cores -> NPAR -> seconds, of benchmark 1, 2 or 5."""
    times = {}
    with open(FOLDER / "vasp_npar.csv", newline="") as file:
        for row in csv.DictReader(file):
            if int(row["benchmark"]) == benchmark:
                by_npar = times.setdefault(int(row["cores"]), {})
                by_npar[int(row["npar"])] = float(row["time_s"])
    return times


def best(by_npar):
    """The NPAR of the shortest time."""
    return min(by_npar, key=by_npar.get)


def spread(by_npar):
    """The longest time over the shortest."""
    return max(by_npar.values()) / min(by_npar.values())


def stage_time(benchmark, stage, cores):
    """The better of two runs, as the source counts; None if it failed."""
    with open(FOLDER / "vasp_timings.csv", newline="") as file:
        for row in csv.DictReader(file):
            key = int(row["benchmark"]), row["stage"], int(row["cores"])
            if key == (benchmark, stage, cores) and row["status"] == "ok":
                return min(float(row["run1_s"]), float(row["run2_s"]))
    return None


HYBRIDS = {"node": "hybrid_1mpi_per_node", "node2": "hybrid_2mpi_per_node"}


def md_times(cluster, test):
    """Table 1 of Chorley and Walker (2010): cores -> layout -> seconds; more cores than one, where
    layouts differ."""
    names = {"pure_mpi": "mpi", **{model: layout for layout, model in HYBRIDS.items()}}
    times = {}
    with open(FOLDER / "dlpoly_times.csv", newline="") as file:
        for row in csv.DictReader(file):
            if (row["cluster"], int(row["test"])) == (cluster, test) and int(row["cores"]) > 1:
                by_layout = times.setdefault(int(row["cores"]), {})
                by_layout[names[row["model"]]] = float(row["time_s"])
    return times


def crossover(times):
    """The fewest cores from which on a hybrid layout is the fastest; None if it never is."""
    from_here = None
    for cores in sorted(times):
        hybrid = best(times[cores]) != "mpi"
        from_here = (from_here or cores) if hybrid else None
    return from_here
