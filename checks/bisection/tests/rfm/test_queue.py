"""What becomes of launches in a queue, on ReFrame's own Slurm back-ends over fake_slurm."""

import pytest
from test_scheduler_faults import P2P, on_slurm

MPI_AND_NODE = "^transpose%method=p2p%launch.layout=(mpi|node)%launch.case="


@pytest.fixture
def slurm(fake, tmp_path):
    """slurm(back_end, faults, *arguments) is a Run."""
    return lambda *how, **more: on_slurm(tmp_path, fake, *how, **more)


class TestPlace:
    """What Slurm can never place would wait in its queue for ever."""

    def test_that_is_none_blocks_at_once_and_the_rest_runs(self, slurm, tmp_path):
        cases = ("-n", MPI_AND_NODE + "(cnt40|silicon)$")
        wrong = {"mpi/cnt40": "no-place", "mpi/silicon": "no-place"}
        run = slurm("squeue", wrong, selected=cases, tier="nightly")
        assert run.code == 3, run.text
        for case in ("cnt40", "silicon"):
            assert run.case("p2p", "node", case)["verdict"] == "pass"
            assert run.case("", "mpi", case)["cause"] == (
                "BLOCKED: the scheduler refused the job: sbatch: allocation failure: Requested "
                "node configuration is not available; down or drained: n2 (Not responding)"
            )
        asked = (tmp_path / "jobs" / "asked").read_text().split()
        assert len(asked) == len(set(asked)) == 2  # once a geometry

    def test_is_not_known_from_a_controller_that_does_not_answer(self, slurm):
        run = slurm("squeue", {"sbatch": 1}, selected=P2P)
        assert run.code == 0, run.text
