"""`workshop bench md` with neither LAMMPS nor the kernel: what it writes, reads, concludes."""

import itertools
import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bisection.kernels.local import BenchError, Estimate
from workshop.peers import AT_LEAST, Limit, NotMeasured, lammps, md, meshes, potentials, quartiles
from workshop.peers import text as peers
from workshop.peers.lammps import ONE, PAIR, THREADS
from workshop.peers.potentials import SYSTEMS

LOG = """\
LAMMPS (22 Jul 2025 - Update 4)
Per MPI rank memory allocation (min/avg/max) = 3.2 | 3.402 | 3.6 Mbytes
{head}
         0   600           -4.2799991
        20   283.44759     -4.2390989
Loop time of 0.00296566 on 2 procs for 20 steps with 1024 atoms

Performance: 582.670 ns/day, 0.041 hours/ns, 6743.861 timesteps/s, 6.906 Matom-step/s
60.0% CPU use with 1 MPI tasks x 2 OpenMP threads

Nlocal:           1024 ave        1024 max        1024 min
   Step          Temp          PotEng
        20   283.44759     -4.2390989
        70   121.36591     -4.2181598
Loop time of 7.5e-03 on 2 procs for 50 steps with 1024 atoms

176.3% CPU use with 1 MPI tasks x 2 OpenMP threads
Total wall time: 0:00:00
"""


# ---- LAMMPS' output ----


@pytest.mark.parametrize("head", ["Step Temp PotEng ", "   Step          Temp          PotEng    "])
def test_a_log_is_read(head):
    log = lammps.parsed(LOG.format(head=head))
    assert log.loops == [(0.00296566, 2, 20, 1024), (7.5e-3, 2, 50, 1024)]
    assert log.memory == 3.402 * 1024**2
    assert log.used == pytest.approx(1.763)  # of the sample, not of what came before
    assert log.energy == -4.2799991


def test_a_log_without_times_is_told():
    with pytest.raises(NotMeasured, match="ERROR: Unknown pair style"):
        lammps.parsed("LAMMPS\nERROR: Unknown pair style")


def test_version_and_packages_are_read():
    text = "\nLarge-scale Simulator - 29 Sep 2021 - Update 2\n\nInstalled packages:\n\n"
    text += "ASPHERE CG-DNA OPT \nOPENMP \n\nList of individual style options\n\nOPTIONS"
    version, packages = lammps.described(text)
    assert version == "29 Sep 2021 - Update 2"
    assert packages == {"ASPHERE", "CG-DNA", "OPT", "OPENMP"}


def build(*packages, **how):
    return lammps.Build("LAMMPS", "lmp", "1", frozenset(packages), **how)


def test_styles():
    assert build().styles(ONE) == {"plain": []}
    assert list(build("OPT", "OPENMP").styles(PAIR)) == ["opt", "omp"]
    assert build("OPT", "OPENMP").styles(THREADS) == {"omp": ["-sf", "omp", "-pk", "omp", "2"]}
    assert build("OPT").styles(THREADS) == {}


# ---- LAMMPS' input ----


def shells(sites, edge, cutoff):
    """Distances from the first site, with the other's type."""
    cells = range(-4, 5)
    for cell in itertools.product(cells, cells, cells):
        for *at, kind in sites:
            r = edge * math.dist((0, 0, 0), [c + x for c, x in zip(cell, at, strict=True)])
            if 0 < r < cutoff:
                yield r, kind - 1


@pytest.mark.parametrize(("case", "metal"), [("cu3au", "GUPTA_TABLE"), ("fe", "IRON_TABLE")])
def test_a_metal_has_its_energy(case, metal):
    system, metal = SYSTEMS[case], getattr(potentials, metal)
    energies = []
    for x, y, z, kind in system.sites:
        sites = [(a - x, b - y, c - z, other) for a, b, c, other in system.sites]
        around = [
            (r, metal.pairs[kind - 1, other])
            for r, other in shells(sites, system.edge, metal.cutoff)
        ]
        density = sum(pair.density(r) for r, pair in around)
        # beyond its last density LAMMPS would go on in a straight line, and not say so
        assert 2 * density < metal.density_step * (potentials.DENSITIES - 1)
        energies.append(
            sum(pair.pair(r) for r, pair in around) / 2 - metal.scale * math.sqrt(density)
        )
    assert sum(energies) / len(energies) == pytest.approx(system.energy, abs=1e-5)


@pytest.mark.parametrize("metal", [potentials.GUPTA_TABLE, potentials.IRON_TABLE])
def test_a_table_has_the_functions_of_its_metal(metal):
    _, units, _, elements, sizes, *rest = potentials.eam_table(metal)
    assert units == "UNITS: metal"
    densities, density_step, radii, step, cutoff = map(float, sizes.split())
    assert radii * step > cutoff + 2 * step
    words = iter(" ".join(rest).split())

    def holds(count, step, function):
        values = [float(next(words)) for _ in range(int(count))]
        assert values == pytest.approx([function(k * step) for k in range(int(count))], rel=1e-13)

    count = len(elements.split()) - 1
    for i in range(count):
        assert [next(words) for _ in range(4)] == [str(word) for word in metal.elements[i][1:]]
        holds(densities, density_step, lambda density: -metal.scale * math.sqrt(density))
        for j in range(count):
            holds(radii, step, metal.pairs[i, j].density)
    for pair in itertools.combinations_with_replacement(range(count), 2):
        holds(radii, step, lambda r, pair=pair: r * metal.pairs[pair].pair(r))
    assert not list(words)


def test_the_tersoff_file():
    lines = [line.split() for line in potentials.tersoff_file() if not line.startswith("#")]
    triples = {tuple(words[:3]): [float(word) for word in words[3:]] for words in lines}
    assert len(triples) == 8
    words = triples["Si", "C", "C"]
    r, s = math.sqrt(2.7 * 1.8), math.sqrt(3.0 * 2.1)
    attraction = [(1.7322 + 2.2119) / 2, 0.9776 * math.sqrt(471.18 * 346.74)]
    repulsion = [(2.4799 + 3.4879) / 2, math.sqrt(1830.8 * 1393.6)]
    assert words[:8] == [3, 1, 0, 1.0039e5, 16.217, -0.59825, 0.78734, 1.1e-6]
    assert words[8:] == pytest.approx([*attraction, (r + s) / 2, (s - r) / 2, *repulsion])
    assert triples["Si", "Si", "Si"][9] == 471.18  # chi is of unlike pairs
    assert triples["Si", "C", "Si"][7:12] == pytest.approx([0, 0, 0, 2.85, 0.15])  # of the third


def test_the_script_of_a_lattice_and_that_of_ions():
    text = lammps.script(SYSTEMS["sic"], "sic.potential", (), 0.7, 50, 3)
    assert "create_atoms 1 box basis 1 1 basis 2 1 basis 3 1 basis 4 1 basis 5 2" in text
    assert "neighbor 0.7 bin\nneigh_modify delay 0 every 1 check yes\n" in text
    assert "newton on\n" in text
    assert text.endswith("run 20\n" + 3 * "run 50 pre no\n")
    mesh = ("kspace_style pppm 1e-5", "kspace_modify order 7")
    text = lammps.script(SYSTEMS["nacl"], "salt", mesh, 0.7, 50, 3)
    assert "atom_style charge\n" in text
    assert "set type 2 charge -1\npair_style born/coul/long 10.9\ninclude salt\n" in text
    assert "kspace_style pppm 1e-5\nkspace_modify order 7\nneighbor" in text
    _, *pairs = potentials.salt_lines()
    assert float(pairs[0].split()[6]) == pytest.approx(1.0486, rel=1e-4)  # eV A^6


# ---- meshes of equal accuracy ----

IONS = (("Cl", (2.5, 0.0, 0.0)), ("Na", (0.0, 0.0, 0.0)), ("Na", (0.0, 3.0, 3.0)))


@pytest.fixture
def errors(tmp_path, monkeypatch):
    """errors(ours, theirs): a mesh of theirs has the error theirs(points, order)."""

    def put(ours, theirs):
        def ran(build, layout, style, file):
            text = file.read_text()
            mesh = re.search(r"pppm .*\nkspace_modify order (\d) .* (\d+)\n", text)
            assert ("long 10.9 20" in text) == (mesh is None)  # the sum without a mesh
            error = theirs(int(mesh[2]), int(mesh[1])) if mesh else 0.0
            written = re.search(r"write_dump all custom (\S+) id fx fy fz", text)[1]
            rows = [f"{k} {k} 2 {3 + error}" for k in range(1, 4)]
            Path(written).write_text("\n".join([*("head",) * 9, *rows]) + "\n")

        monkeypatch.setattr(meshes, "ran", ran)
        dump = tmp_path / "nacl.xyz"
        lines = [f"{k} {name} {' '.join(map(str, at))} 0 0 0 {k} 2 {3 + ours} -1"
                 for k, (name, at) in enumerate(IONS, 1)]  # fmt: skip
        dump.write_text("\n".join(["3", "Lattice", *lines]) + "\n")
        return meshes.equal_meshes(dump, build("OPT"), SYSTEMS["nacl"], tmp_path / "salt")

    return put


def test_each_mesh_is_the_smallest_of_our_accuracy(errors, tmp_path):
    equal = errors(1e-4, lambda points, order: (1e-4, 2e-4)[points < (81 if order == 5 else 60)])
    assert equal.ours == pytest.approx(1e-4)
    assert [mesh.lines[1] for mesh in equal.theirs] == [
        "kspace_modify order 5 gewald 0.3 mesh 81 81 81",
        "kspace_modify order 5 gewald 0.321 mesh 81 81 81",
        "kspace_modify order 7 gewald 0.3 mesh 60 60 60",
        "kspace_modify order 7 gewald 0.321 mesh 60 60 60",
    ]
    assert all(mesh.error <= equal.ours for mesh in equal.theirs)
    ions = (tmp_path / "nacl.data").read_text().partition("Atoms # charge\n\n")[2]
    assert ions.splitlines() == ["1 2 -1 2.5 0.0 0.0", "2 1 1 0.0 0.0 0.0", "3 1 1 0.0 3.0 3.0"]


def test_meshes_that_are_never_accurate_are_left_out(errors):
    equal = errors(1e-5, lambda points, order: 1e-3 if order == 5 else 1e-6)
    assert [mesh.lines[1].split()[2] for mesh in equal.theirs] == ["7", "7"]
    with pytest.raises(NotMeasured, match="no mesh of LAMMPS has an error of at most 1e-05"):
        errors(1e-5, lambda points, order: 1e-3)


# ---- conclusions ----


@pytest.mark.parametrize(
    ("ratio", "limit", "text"),
    [
        ((0.99, 0.9, 1.1), Limit(1.0, AT_LEAST), "MISSED by 1.0% (within the spread)"),
        ((1.01, 0.9, 1.1), Limit(1.0, AT_LEAST), "met by 1.0% (within the spread)"),
        ((1.01, 0.9, 1.1), Limit(1.0), "MISSED by 1.0% (within the spread)"),
        ((0.91, 0.91, 0.91), Limit(0.1, "within"), "met"),
    ],
)
def test_verdict_within_the_spread(ratio, limit, text):
    assert peers.verdict(Estimate(*ratio), limit) == text


def test_quartiles():
    assert quartiles([5.0, 1.0, 4.0, 2.0, 3.0]) == Estimate(3.0, 2.0, 4.0)
    assert quartiles([2.0]) == Estimate(2.0, 2.0, 2.0)  # one turn has no spread


def test_a_disturbance_does_not_choose_the_skin():
    asked = []

    def rate(skin):
        asked.append(skin)
        disturbed = asked.count(skin) == 1 and skin == 0.4
        lucky = asked.count(skin) == 2 and skin == 0.7
        return 5 - abs(skin - 0.4) - disturbed * 0.25 + lucky * 0.5

    row = md.Row(ONE, md.rate_by_skin(rate, {1.0: 4.4}), {}, {}, {})
    assert row.skin == 0.4
    assert row.skins[0.4] == 5
    assert 1.0 not in asked[:5]  # known
    assert len(asked) == len(md.SKINS) - 1 + 2 * 3


# ---- the whole, on stubs of both sides ----

# LAMMPS under mpirun: its time is 1 ns an atom, step and core, and more with a wrong skin.
STUB = """\
import re, sys
words = sys.argv
cores = int(words[words.index("-n") + 1])
if "-pk" in words:
    cores *= int(words[words.index("-pk") + 2])
text = open(words[words.index("-in") + 1]).read()
skin = float(re.search("neighbor (\\\\S+) bin", text)[1])
print("memory allocation (min/avg/max) = 1 | 2 | 3 Mbytes\\nStep Temp PotEng\\n 0 600 ENERGY")
for steps in re.findall("^run (\\\\d+)", text, re.M):
    seconds = 1e-9 * ATOMS * int(steps) / cores * (1 + abs(skin - 0.7))
    print(f"Loop time of {seconds} on {cores} procs for {steps} steps with ATOMS atoms")
    print("99.0% CPU use with")
"""


def made(seconds, atoms, **more):
    """A result of the kernel."""
    samples = {"seconds": [seconds] * 4, "disturbed": [0, 0, 1, 0]}
    packed = {"method": "packed", "metrics": {"time": {"value": seconds}}, "samples": samples}
    return {"results": [packed], "details": {"atoms": atoms, "memory_per_atom": 600.0}, **more}


@pytest.fixture
def stubs(tmp_path, monkeypatch):
    """stubs(of threads, energy, packages) puts both sides in place; ours is 1.5 times as fast."""

    def put(threads=1.0, energy=-4.28, packages=("OPT", "OPENMP")):
        def launch(kernel, ranks, arguments, output, number=1):
            words = dict(itertools.pairwise(arguments))
            atoms = 2 * int(words["--cells"]) ** 3
            gain = threads if number > 1 else 1
            seconds = 1e-9 * atoms / (ranks * number) / 1.5 / gain
            seconds *= 1 + abs(float(words["--skin"]) - 0.4)
            return made(seconds, atoms)

        script = tmp_path / "mpirun"
        text = STUB.replace("ATOMS", "31250").replace("ENERGY", str(energy))
        script.write_text(f"#!{sys.executable}\n{text}")
        script.chmod(0o755)
        peer = build(*packages, mpirun=str(script)) if packages is not None else None
        monkeypatch.setattr(md, "launch", launch)
        monkeypatch.setattr(lammps, "lammps_on_path", lambda: peer)

    return put


FE = ["md", "--case", "fe", "--turns", "2"]


def test_both_sides_at_their_best_skin(stubs, bench):
    stubs(threads=0.9)
    text = bench(*FE)
    wanted = [
        f"{ONE} 1500.00 0.4 1000.00 LAMMPS opt 0.7 1.50 [1.50 1.50] 1.0 met by 50.0% "
        "75% of the samples, LAMMPS had 99% of its cores",
        f"{PAIR} 3000.00 0.4 2000.00 LAMMPS opt 0.7 1.50 [1.50 1.50] 1.0 met by 50.0%",
        f"{THREADS} 2700.00 0.4 2000.00 LAMMPS omp 0.7 1.35 [1.35 1.35] 75%",
        f"{THREADS} / twice {ONE} 0.90 [0.90 0.90] 0.92 MISSED by 2.2%",
        f"LAMMPS {2 * 1024**2 / 31250:.0f}",
    ]
    assert [line for line in wanted if line not in text] == [], text


def test_memory_beside_its_limit(stubs, bench, monkeypatch):
    limited = replace(SYSTEMS["fe"], memory=Limit(500, unit="B"))
    monkeypatch.setitem(SYSTEMS, "fe", limited)
    stubs()
    without = (Estimate(1.3, 1.2, 1.4), 300.0)
    monkeypatch.setattr(md, "recomputed", lambda ours, row: without)
    assert "1.30 [1.20 1.40] of the time, 300 bytes per atom" in bench(*FE)
    assert f"{ONE} 600, LAMMPS 67, at most 500 B: MISSED by 20.0%; {PAIR} 600" in bench(*FE)


MISSING = "missing: LAMMPS with threads: make bench WHAT=md ARGS=--install-peers"
UNLIKE = "LAMMPS opt is left out: -4.2 eV per atom, it should be -4.28"


@pytest.mark.parametrize(
    ("how", "texts", "met"),
    [
        # the threads' target is our own
        ({"packages": None}, ["MPI: apt install lammps", MISSING, "1500.00", "met by 8.7%"], 0),
        ({"packages": ("OPT",)}, [MISSING], 2),
        ({"energy": -4.2}, [UNLIKE, "1500.00 0.4 missing"], 0),
    ],
)
def test_a_lammps_that_is_missing_or_computes_something_else(stubs, bench, how, texts, met):
    stubs(**how)
    printed = bench(*FE)
    assert [text for text in texts if text not in printed] == []
    assert printed.count("met by 50.0%") == met


def test_the_papers_tests(stubs, bench, monkeypatch):
    stubs()
    asked, usual = [], md.launch

    def launch(kernel, ranks, arguments, output, *threads):
        if not arguments[1].startswith("test"):
            return usual(kernel, ranks, arguments, output, *threads)
        asked.append(arguments[1])
        if arguments[1] == "test10":
            raise BenchError("exited with 1")
        return made(0.1, 3e5, peak=2e8)

    monkeypatch.setattr(md, "launch", launch)
    text = bench(*FE, "--full")
    assert asked == ["test10", "test20", "test30"]
    assert " test10: not measured: exited with 1 test20:" in text
    assert "test30: 300,000 atoms, 0.100 s per step, 3.00 Matom-steps/s; peak memory" in text
    assert text.endswith("200 MB, 600 bytes per atom at the end")
