! Coulomb forces and energies of single ions by Ewald's sum itself, as a reference for md_ionic and
! md_mesh: error functions in real space, structure factors of all wave vectors, no mesh (P. P.
! Ewald, Ann. Phys. 369, 253 (1921)).
module md_ewald
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use mpi_f08, only: MPI_Allreduce, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, MPI_SUM
  use md_oracle, only: charge_of, oracle_coulomb
  use md_samples, only: gather_near, sample_t
  use md_system, only: system_t
  implicit none (type, external)
  private
  public :: ewald_sum, near_sum

  real(dp), parameter :: pi = acos(-1.0_dp)
  !> Both sums end where a Gaussian of this many widths does: to 1e-9 of a term.
  real(dp), parameter :: widths = 4.4_dp

  !> Wave vectors (a, b, c) with a = -last..last: one of each pair k, -k.
  type :: row_t
    integer :: b = 0, c = 0, first = 0, last = 0
  end type row_t

contains

  !> Forces (eV/A, (3, samples)) and energies (eV) of the samples by all other ions and all images:
  !> on every rank.  Collective.
  subroutine ewald_sum(system, samples, force, energy)
    type(system_t), intent(in) :: system
    type(sample_t), intent(in) :: samples(:)
    real(dp), intent(out) :: force(3, size(samples)), energy(size(samples))
    type(row_t), allocatable :: rows(:)
    real(dp) :: reach, split, all(4, size(samples))
    reach = 0.499_dp*minval(system%box%height)
    split = widths/reach
    rows = rows_within(system, widths*split/pi)
    call near_sum(system, samples, reach, split, all)
    call add_waves(system, samples, split, rows, all)
    force = all(:3, :)
    energy = all(4, :)
  end subroutine ewald_sum

  !> Forces (eV/A) and energies (eV) of the samples by the ions within `reach` (A), screened by
  !> Gaussians of the splitting parameter `split` (1/A), less the energy of each with its own:
  !> sums(4, samples), on every rank.  Collective.
  subroutine near_sum(system, samples, reach, split, sums)
    type(system_t), intent(in) :: system
    type(sample_t), intent(in) :: samples(:)
    real(dp), intent(in) :: reach, split
    real(dp), intent(out) :: sums(4, size(samples))
    real(dp), allocatable :: near(:, :)
    integer :: s, root
    sums = 0
    do s = 1, size(samples)
      root = mod(s, system%domain%world_size)
      call gather_near(system, samples(s)%x, reach, root, near)
      if (root == system%domain%world_rank) then
        call add_near(system, samples(s), split, near, sums(:, s))
      end if
    end do
    call MPI_Allreduce(MPI_IN_PLACE, sums, size(sums), MPI_DOUBLE_PRECISION, MPI_SUM, &
                       system%domain%world)
  end subroutine near_sum

  !> Adds force and energy of a sample by the ions near(1:3, :) (A), of species near(4, :), screened
  !> by Gaussians, and takes away the energy of its own.
  subroutine add_near(system, sample, split, near, sums)
    type(system_t), intent(in) :: system
    type(sample_t), intent(in) :: sample
    real(dp), intent(in) :: split, near(:, :)
    real(dp), intent(inout) :: sums(4)
    real(dp) :: q, pair, r
    integer :: k
    q = charge_of(system%potential%name(sample%species))
    do k = 1, size(near, 2)
      r = norm2(near(1:3, k))
      pair = oracle_coulomb*q*charge_of(system%potential%name(nint(near(4, k))))
      sums(:3) = sums(:3) - pair*near(1:3, k)/r**3 &
                 *(erfc(split*r) + 2*split*r/sqrt(pi)*exp(-(split*r)**2))
      sums(4) = sums(4) + 0.5_dp*pair*erfc(split*r)/r
    end do
    sums(4) = sums(4) - oracle_coulomb*q**2*split/sqrt(pi)
  end subroutine add_near

  !> Rows of wave vectors no longer than `limit`, over 2 pi: 1/A.
  function rows_within(system, limit) result(rows)
    type(system_t), intent(in) :: system
    real(dp), intent(in) :: limit
    type(row_t), allocatable :: rows(:)
    integer :: most(3), a, b, c, last
    allocate (rows(0))
    most = int(limit*norm2(system%box%edge, dim=1)) + 1
    do c = 0, most(3)
      do b = merge(0, -most(2), c == 0), most(2)
        last = -1
        do a = 0, most(1) ! the longer of a and -a may be outside: it is small, too
          if (min(length(a), length(-a)) <= limit) last = a
        end do
        if (b == 0 .and. c == 0) then
          rows = [rows, row_t(b, c, 1, last)]
        else if (last >= 0) then
          rows = [rows, row_t(b, c, -last, last)]
        end if
      end do
    end do

  contains

    real(dp) function length(of_a)
      integer, intent(in) :: of_a
      length = norm2(matmul([of_a, b, c], system%box%inverse))
    end function length

  end function rows_within

  !> Adds the samples' forces and energies by the Gaussians of all ions, as waves.
  subroutine add_waves(system, samples, split, rows, sums)
    type(system_t), intent(in) :: system
    type(sample_t), intent(in) :: samples(:)
    real(dp), intent(in) :: split
    type(row_t), intent(in) :: rows(:)
    real(dp), intent(inout) :: sums(:, :)
    complex(dp), allocatable :: factor(:), wave(:)
    real(dp) :: k(3), weight, q
    integer :: n, row, at, a, s
    n = sum(rows%last - rows%first + 1)
    allocate (factor(n), source=(0.0_dp, 0.0_dp))
    allocate (wave(n))
    do s = 1, system%atoms%own
      q = charge_of(system%potential%name(system%atoms%species(s)))
      call waves_at(system%box%fractions(system%atoms%x(1:3, s)), rows, wave)
      factor = factor + q*wave
    end do
    call MPI_Allreduce(MPI_IN_PLACE, factor, 2*n, MPI_DOUBLE_PRECISION, MPI_SUM, &
                       system%domain%comm)
    do s = 1, size(samples)
      q = charge_of(system%potential%name(samples(s)%species))
      call waves_at(system%box%fractions(samples(s)%x), rows, wave)
      at = 0
      do row = 1, size(rows)
        do a = rows(row)%first, rows(row)%last
          at = at + 1
          k = 2*pi*matmul([a, rows(row)%b, rows(row)%c], system%box%inverse)
          weight = 8*pi*oracle_coulomb/system%box%volume*q*exp(-sum(k*k)/(2*split)**2)/sum(k*k)
          sums(:3, s) = sums(:3, s) + weight*k*aimag(conjg(factor(at))*wave(at))
          sums(4, s) = sums(4, s) + 0.5_dp*weight*real(conjg(factor(at))*wave(at), dp)
        end do
      end do
    end do
  end subroutine add_waves

  !> exp(i k x) of all wave vectors at a point (fractions of the box).
  pure subroutine waves_at(s, rows, wave)
    real(dp), intent(in) :: s(3)
    type(row_t), intent(in) :: rows(:)
    complex(dp), intent(out) :: wave(:)
    complex(dp) :: along(-maxval(rows%last):maxval(rows%last)), across
    integer :: a, row, at
    do a = lbound(along, 1), ubound(along, 1)
      along(a) = phase(a*s(1))
    end do
    at = 0
    do row = 1, size(rows)
      across = phase(rows(row)%b*s(2) + rows(row)%c*s(3))
      do a = rows(row)%first, rows(row)%last
        at = at + 1
        wave(at) = across*along(a)
      end do
    end do
  end subroutine waves_at

  !> exp(2 pi i turns).
  pure complex(dp) function phase(turns)
    real(dp), intent(in) :: turns
    phase = cmplx(cos(2*pi*turns), sin(2*pi*turns), dp)
  end function phase

end module md_ewald
