! One choice of NPAR: the two-dimensional grid of ranks, and the state on it.
!
! World rank r is in band group r / ncore, and there member r mod ncore of the team that shares each
! band (ncore = ranks / NPAR).  Bands are dealt round the groups: band n is in group
! mod(n - 1, NPAR).  Six ranks, NPAR = 2:
!
!   member     0  1  2      a row is a `team`: its ranks share each of their bands' plane waves,
!   group 0    0  1  2      and transform them: bands 1, 3, 5, ...
!   group 1    3  4  5      bands 2, 4, 6, ...
!              |            a column is `across`: the same plane waves of all bands, between which
!           `across`        bands are redistributed, and sums go over the groups
module npar_state
  use, intrinsic :: iso_c_binding, only: c_loc, c_null_ptr, c_ptr, c_size_t, &
    dp => c_double
  use mpi_f08, only: MPI_Comm
  use bx_harness, only: bx_lap
  use bx_transpose, only: bx_exchange_t, bx_fft_t
  use npar_basis, only: basis_t
  use npar_matrix, only: matrix_t
  use npar_model, only: crystal_t, spectrum_t
  use npar_sampling, only: part_t
  implicit none (type, external)
  private
  public :: knobs_t, state_t, lap, npar_wipe, wipe, flat, exchange_by
  public :: bands_of, first_of_each

  character(*), parameter, public :: phase_names(*) = [character(16) :: &
    "fft1d", "pack", "exchange", "unpack", "fft2d", "kinetic", "nonlocal", "redistribute", &
    "subspace", "reduce", "diagonalise", "rotate", "update", "paw", "paw-sum", "density", &
    "zeroing", "exact-exchange"]
  !> Their numbers, from 0; the first five are those of the transpose library.
  integer(c_size_t), parameter, public :: phase_kinetic = 5, phase_nonlocal = 6, &
    phase_redistribute = 7, phase_subspace = 8, phase_reduce = 9, phase_diagonalise = 10, &
    phase_rotate = 11, phase_update = 12, phase_paw = 13, phase_paw_sum = 14, phase_density = 15, &
    phase_zeroing = 16, phase_exchange = 17
  integer, parameter, public :: batch = 4 !< fields of the transpose library's plan

  !> The knobs of a method.
  type :: knobs_t
    logical :: emulated = .false. !< collectives by point-to-point messages
    logical :: paw_alltoall = .false. !< the large sums by two MPI_Alltoall
    logical :: zeroing = .false. !< work arrays zeroed before they are written over
    logical :: by_atom = .false. !< projectors of an atom on a band, by dgemv; else all by dgemm
    character(16) :: linear_algebra = "lapack" !< library of the matrices between bands
    character(16) :: transpose = "alltoallv"
  end type knobs_t

  !> The state of one choice of NPAR; shapes in comments, reals unless said otherwise.
  type :: state_t
    type(c_ptr) :: run = c_null_ptr
    type(crystal_t) :: crystal
    type(spectrum_t), pointer :: spectra(:) => null()
    integer :: occupied = 0
    integer :: inner = 2 !< residual minimisations a step
    type(knobs_t) :: knobs
    logical :: failed = .false. !< a factorisation did not exist
    logical :: infinite = .false. !< a minimisation met a number that is not finite

    type(MPI_Comm) :: world, team, across !< across: the like members of all groups
    integer :: ranks = 1, rank = 0, npar = 1, ncore = 1, group = 0, member = 0

    type(basis_t) :: basis
    integer, allocatable :: band(:) !< global numbers of my bands
    integer :: height = 0 !< plane waves of each group's slice; zeros fill up the last slices
    integer :: k = 0 !< the k-point that `kinetic` and `beta` are of
    real(dp), allocatable :: kinetic(:) !< (2 * waves)
    !> (2 * waves, projectors); of complex waves, whose projectors are real, (waves, projectors)
    real(dp), allocatable :: beta(:, :)
    real(dp), allocatable :: parts(:, :) !< (waves, 2 * my bands) complex bands, parts apart
    real(dp), pointer, contiguous :: d(:, :, :) => null() !< (channels, channels, atoms): Hartree
    real(dp), allocatable :: d_exact(:, :, :) !< the exact integrals
    real(dp) :: squares = 0 !< sum over my atoms' points of the squares of their weights
    real(dp), allocatable :: probe(:, :) !< (2 * waves, k-points) sum of the exact bands with signs
    real(dp), pointer, contiguous :: psi(:, :, :) => null() !< (2 * waves, my bands, k-points)
    real(dp), pointer, contiguous :: h(:, :) => null()
    !> (2 * waves, my bands) of the minimisations, in the memory of spare and spare_h
    real(dp), pointer, contiguous :: p(:, :) => null(), hp(:, :) => null()
    real(dp), allocatable :: projection(:, :, :) !< (projectors, 1 or 2 * my bands, 2)
    real(dp), allocatable :: energy(:, :) !< (bands, k-points): Hartree
    !> (2 * waves of my slice, bands)
    real(dp), pointer, contiguous :: wide(:, :) => null(), wide_h(:, :) => null(), &
      spare(:, :) => null(), spare_h(:, :) => null()
    real(dp), pointer, contiguous :: shared(:, :) => null() !< memory of p and spare, hp and spare_h
    real(dp), allocatable :: buffer(:) !< between the two layouts
    type(matrix_t) :: matrix !< between all bands, for the driver of the knobs

    type(bx_fft_t) :: fft !< of my team
    type(bx_exchange_t) :: exchange !< by the method of the knobs
    !> transforms by that method: there and back, one way, of exact exchange
    type(part_t) :: apply, forward, pair, back
    !> the sum of a band's exact exchange over the groups; redistribution, there and back
    type(part_t) :: sum_vx, move(2)
    real(dp), pointer, contiguous :: potential(:, :, :) => null() !< (nx, ny, planes): Hartree
    real(dp), pointer, contiguous :: ionic(:, :, :) => null() !< without the density's part
    real(dp) :: strength = 0 !< potential per density: Hartree
    real(dp), pointer, contiguous :: density(:, :, :) => null() !< input: electrons per box
    real(dp), pointer, contiguous :: density_out(:, :, :) => null(), &
      density_exact(:, :, :) => null()
    real(dp) :: noted = 0 !< weighted sum of the density's deviation before a step
  contains
    procedure :: waves => stored_waves
    procedure :: factor => reals_an_element
  end type state_t

  interface
    subroutine npar_wipe(memory, bytes) bind(C)
      import :: c_ptr, c_size_t
      implicit none (type, external)
      type(c_ptr), value :: memory
      integer(c_size_t), value :: bytes
    end subroutine npar_wipe
  end interface

contains

  !> Sets what the transforms exchange by, for a method; forgets the times of all parts.
  subroutine exchange_by(s, exchange)
    type(state_t), intent(inout) :: s
    type(bx_exchange_t), intent(in) :: exchange
    s%apply = part_t()
    s%forward = part_t()
    s%pair = part_t()
    s%back = part_t()
    s%sum_vx = part_t()
    s%move = part_t()
    s%exchange = exchange
  end subroutine exchange_by

  !> Number of plane waves stored on this rank.
  pure integer function stored_waves(self) result(n)
    class(state_t), intent(in) :: self
    n = self%basis%waves
  end function stored_waves

  !> 1 for real matrices (gamma), 2 for complex ones.
  pure integer function reals_an_element(self) result(n)
    class(state_t), intent(in) :: self
    n = merge(1, 2, self%crystal%gamma)
  end function reals_an_element

  !> Number of a group's bands.
  pure integer function bands_of(bands, npar, group) result(n)
    integer, intent(in) :: bands, npar, group
    n = (bands - group + npar - 1)/npar
  end function bands_of

  !> First thing of each part, (0:parts) from 0, where `things` are shared as evenly as possible.
  pure function first_of_each(things, parts) result(first)
    integer, intent(in) :: things, parts
    integer :: first(0:parts), i
    first = [(things/parts*i + min(i, mod(things, parts)), i=0, parts)]
  end function first_of_each

  !> Adds the time since the last lap to a phase (phase_...).
  subroutine lap(s, phase)
    type(state_t), intent(in) :: s
    integer(c_size_t), intent(in) :: phase
    call bx_lap(s%run, phase)
  end subroutine lap

  !> With --zeroing, sets an array to 0 that is about to be overwritten.
  subroutine wipe(s, array)
    type(state_t), intent(in) :: s
    real(dp), intent(inout), target, contiguous :: array(:)
    if (s%knobs%zeroing .and. size(array) > 0) then
      call npar_wipe(c_loc(array), 8_c_size_t*size(array, kind=c_size_t))
    end if
  end subroutine wipe

  !> A matrix as one vector.
  function flat(matrix) result(vector)
    real(dp), intent(in), target, contiguous :: matrix(:, :)
    real(dp), pointer, contiguous :: vector(:)
    vector(1:size(matrix)) => matrix
  end function flat

end module npar_state
