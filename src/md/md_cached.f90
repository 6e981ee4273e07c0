! The baseline of a time step: the potential's loops on a few atoms, from cache.
module md_cached
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use md_forces, only: charge_loops
  use md_ionic, only: ionic_pass
  use md_list, only: worker_t
  use md_metal, only: density_pass, force_pass
  use md_potential, only: ionic_kind, tersoff_kind
  use md_system, only: system_t
  use md_tersoff, only: tersoff_pass
  implicit none (type, external)
  private
  public :: cached_loops

contains

  !> Does the loops over pairs of so many steps on a few atoms of each thread, repeated: from cache,
  !> without lists, messages or waiting threads.  The time of a step beyond it is the cost of memory
  !> and of parallelism.  Local.
  subroutine cached_loops(system, steps, energy, atoms)
    type(system_t), intent(in) :: system
    integer, intent(in) :: steps
    !> Of the pairs (of ions: the virial), the first time and the last: eV.
    real(dp), intent(out) :: energy(2)
    real(dp), intent(out) :: atoms !< whose loops were done, over the steps
    real(dp) :: mine(3), sums(3)
    integer :: t
    sums = 0
    !$omp parallel do num_threads(size(system%list%work)) schedule(static, 1) private(mine) &
    !$omp& reduction(+:sums)
    do t = 1, size(system%list%work)
      call repeat_loops(system, system%list%work(t), steps, mine(:2), mine(3))
      sums = sums + mine
    end do
    !$omp end parallel do
    energy = sums(:2)
    atoms = sums(3)
    call charge_loops(system, steps)
  end subroutine cached_loops

  !> The same for one thread.
  subroutine repeat_loops(system, work, steps, energy, atoms)
    type(system_t), intent(in) :: system
    type(worker_t), intent(in) :: work
    integer, intent(in) :: steps
    real(dp), intent(out) :: energy(2), atoms
    integer, parameter :: few = 128 !< atoms
    real(dp), allocatable :: rho(:), f(:, :), kept(:, :)
    real(dp) :: mine, lowest
    integer :: n, left, all, from, to, everything(2)
    energy = 0
    atoms = 0
    everything = [1, system%atoms%all]
    all = work%last - work%first + 1
    if (all < 1) return
    allocate (rho(system%atoms%all), f(4, system%atoms%all), source=0.0_dp)
    from = work%first + max(0, all - few)/2 ! from the middle: at the faces lists differ
    to = from + min(few, all) - 1
    allocate (kept(max(1, work%start(to + 1)), 2), source=0.0_dp)
    do n = 1, steps
      left = all
      do while (left > 0)
        to = from + min(few, left) - 1
        associate (most => max(1, system%list%most), x => system%atoms%x)
          select case (system%potential%kind)
          case (tersoff_kind)
            call tersoff_pass(system%potential, from, to, work%start(from:), work%entry, most, x, &
                              system%atoms%species, everything, f, f, mine)
          case (ionic_kind)
            call ionic_pass(system%potential, system%smooth, from, to, work%start(from:), &
                            work%entry, most, x, f, mine)
          case default
            call density_pass(system%potential, from, to, work%start(from:), work%entry, most, x, &
                              .true., rho, kept(:, 1), kept(:, 2), mine, lowest)
            call force_pass(system%potential, from, to, work%start(from:), work%entry, most, x, &
                            system%slope, .true., kept(:, 1), kept(:, 2), f)
          end select
        end associate
        if (left == all) then ! the same atoms every time
          if (n == 1) energy(1) = mine
          energy(2) = mine
        end if
        atoms = atoms + to - from + 1
        left = left - few
      end do
    end do
  end subroutine repeat_loops

end module md_cached
