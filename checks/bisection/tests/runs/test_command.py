"""ReFrame's output as progress."""

from bisection.runs.command import Progress


def test_progress(capsys):
    import sys

    progress = Progress(sys.stdout)
    progress.read(
        "[ RUN      ] TransposeLaunch %layout=mpi %case=cnt40 ~generic:default+system /0a"
    )
    assert progress.now == "transpose mpi cnt40"
    progress.read("[       OK ] ( 2/43) TransposeLaunch %layout=mpi")
    progress.read("[     FAIL ] ( 3/43) transpose")
    assert (progress.done, progress.total, progress.failed) == (3, "43", 1)
