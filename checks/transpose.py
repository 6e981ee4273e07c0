"""The distributed 3D FFT of plane-wave codes: every way to transpose, on every case and layout."""

import reframe as rfm

from bisection.rfm import KernelCheck, Launch


class TransposeLaunch(Launch):
    """The transpose, all methods in turn."""

    kernel = "transpose"
    case = parameter(["cnt40", "cnt80", "silicon", "tin-8k", "al2o3-g"])
    # A step of cnt40 takes a millisecond on two cores, the others tens: seconds a launch for all.
    # Many short rounds, as ratios are taken in each and neighbours come and go.
    work = dict.fromkeys(["cnt80", "silicon", "tin-8k", "al2o3-g"], "--bands 2")
    sampling = {
        "cnt40": "--repeats 40 --block 4",
        "cnt80": "--repeats 6 --block 2 --warmup 0",
        "silicon": "--repeats 6 --block 2 --warmup 0",
        "tin-8k": "--repeats 5 --block 2 --warmup 0",
        "al2o3-g": "--repeats 6 --block 2 --warmup 0",
    }


@rfm.simple_test
class transpose(KernelCheck):
    """Is each method right, and as fast beside alltoallv and serial FFTW as it should be?"""

    launch = fixture(TransposeLaunch, scope="environment")
    method = parameter(
        [
            "alltoallv",
            "p2p",
            "padded",
            "shm",
            "shm-padded",
            "gather-scatter",
            "direct",
            "alltoallw",
            "leaders",
            "overlap",
        ]
    )
    asserted = ["time", "ratio_alltoallv", "ratio_serial", "exchange_share"]
    quick = ["cnt40"]
