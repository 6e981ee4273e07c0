! The time of a step, estimated from its operations and modest rates.  On one rank of a virtual
! machine, mini1 to mini5, bench1 and bench3 take between a half and all of the estimate.
module npar_cost
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use npar_hamiltonian, only: fields_of
  use npar_state, only: bands_of, state_t
  implicit none (type, external)
  private
  public :: step_seconds

  real(dp), parameter :: fft_rate = 1e10_dp, blas_rate = 2e10_dp !< operations per second of a core
  real(dp), parameter :: one_centre = 1e6_dp !< operations of an atom

contains

  !> Seconds of scf_step on this rank, with so many threads, each on a core of its own.
  pure function step_seconds(s, threads) result(seconds)
    type(state_t), intent(in) :: s
    integer, intent(in) :: threads
    real(dp) :: seconds, points, fft, blas, bands, mine, rows, share
    integer :: transforms, fields, pairs, group
    points = product(real(s%crystal%grid, dp))
    bands = s%crystal%bands
    mine = size(s%band)
    rows = 2.0_dp*s%height
    fields = fields_of(s%crystal, size(s%band))
    transforms = 2*(1 + s%inner)*fields + fields_of(s%crystal, count(s%band <= s%occupied))
    if (s%crystal%hybrid) then
      pairs = sum([(fields_of(s%crystal, bands_of(s%occupied, s%npar, group)), &
                    group=0, s%npar - 1)])
      transforms = transforms + 2*fields + pairs + 2*pairs*size(s%band)
    end if
    fft = transforms*5*points*log(points)/log(2.0_dp)/s%ncore
    blas = 8.0_dp*s%waves()*s%crystal%projectors()*mine*(1 + s%inner) + 8*s%factor()*bands**2*rows
    ! the projectors of another k-point
    if (s%crystal%kpoints > 1) blas = blas + 40.0_dp*s%waves()*s%crystal%projectors()
    share = merge(1.0_dp, 1.0_dp/s%ranks, s%knobs%linear_algebra == "lapack")
    blas = blas + 10*s%factor()**2*bands**3*share
    seconds = s%crystal%kpoints*(fft/fft_rate + blas/blas_rate)
    seconds = seconds + one_centre/fft_rate*((s%crystal%atoms + s%ranks - 1)/s%ranks)
    seconds = seconds/threads
  end function step_seconds

end module npar_cost
