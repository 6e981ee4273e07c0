! Samples for verification: a few random atoms and all atoms near them, on any rank.  A search over
! all atoms finds them, without lists or ghosts, so that lists and ghosts can be judged by them.
module md_samples
  use, intrinsic :: iso_c_binding, only: c_int64_t, dp => c_double
  use mpi_f08, only: MPI_Allgather, MPI_Allreduce, MPI_DOUBLE_PRECISION, MPI_Gatherv, &
    MPI_IN_PLACE, MPI_INTEGER, MPI_SUM
  use bx_harness, only: bx_uniform
  use md_domain, only: domain_t
  use md_system, only: system_t
  implicit none (type, external)
  private
  public :: sample_t, draw, look, gather_near, gather_rows

  !> An atom as its owner has it.
  type :: sample_t
    integer(c_int64_t) :: id = 0
    integer :: owners = 0 !< ranks that have it: one
    integer :: species = 0
    real(dp) :: x(3) = 0, v(3) = 0, f(3) = 0 !< A, A/ps, eV/A
    real(dp) :: energy = 0                   !< eV
  end type sample_t

contains

  !> Ids of at most `count` of `total` atoms: repeated draws are dropped.
  function draw(seed, total, count) result(ids)
    integer(c_int64_t), intent(in) :: seed, total
    integer, intent(in) :: count
    integer(c_int64_t), allocatable :: ids(:)
    integer(c_int64_t) :: id
    integer :: s
    ids = [integer(c_int64_t) ::]
    do s = 1, count
      id = 1 + min(total - 1, int(0.5_dp*(1 + bx_uniform(seed, int(s, c_int64_t))) &
                                  *real(total, dp), c_int64_t))
      if (all(ids /= id)) ids = [ids, id]
    end do
  end function draw

  !> The atoms of these ids, on every rank.  Collective.
  function look(system, ids, energies) result(samples)
    type(system_t), intent(in) :: system
    integer(c_int64_t), intent(in) :: ids(:)
    real(dp), intent(in), optional :: energies(:) !< (own): eV; without, energies are 0
    type(sample_t) :: samples(size(ids))
    real(dp) :: table(12, size(ids))
    integer :: s, k
    table = 0
    do k = 1, system%atoms%own
      if (all(ids /= system%atoms%id(k))) cycle
      s = findloc(ids, system%atoms%id(k), dim=1)
      associate (atoms => system%atoms)
        table(:11, s) = table(:11, s) + [1.0_dp, real(atoms%species(k), dp), atoms%x(1:3, k), &
                                         atoms%v(:, k), atoms%f(1:3, k)]
      end associate
      if (present(energies)) table(12, s) = energies(k)
    end do
    call MPI_Allreduce(MPI_IN_PLACE, table, size(table), MPI_DOUBLE_PRECISION, MPI_SUM, &
                       system%domain%comm)
    do s = 1, size(ids)
      samples(s) = sample_t(ids(s), nint(table(1, s)), nint(table(2, s)), table(3:5, s), &
                            table(6:8, s), table(9:11, s), table(12, s))
    end do
  end function look

  !> All atoms and images within `reach` (A) of a point (A), but not the one at the point itself.
  !> Collective over the world.
  subroutine gather_near(system, point, reach, root, near)
    type(system_t), intent(in) :: system
    real(dp), intent(in) :: point(3), reach
    integer, intent(in) :: root
    !> (4, atoms) on rank `root` of the world: vectors from the point (A), and species.
    real(dp), allocatable, intent(out) :: near(:, :)
    real(dp), allocatable :: mine(:, :)
    integer :: count, k, a, b, c, images(3)
    real(dp) :: s(3), d(3)
    images = int(reach/system%box%height + 0.5_dp)
    count = 0
    allocate (mine(4, 64))
    do k = 1, system%atoms%own
      s = system%box%fractions(system%atoms%x(1:3, k) - point)
      s = s - anint(s)
      do c = -images(3), images(3)
        do b = -images(2), images(2)
          do a = -images(1), images(1)
            d = matmul(system%box%edge, s + [a, b, c])
            if (norm2(d) > reach .or. norm2(d) < 1e-9_dp) cycle
            count = count + 1
            if (count > size(mine, 2)) mine = reshape(mine, [4, 2*count], pad=[0.0_dp])
            mine(:, count) = [d, real(system%atoms%species(k), dp)]
          end do
        end do
      end do
    end do
    if (system%domain%copies > 1) then ! this rank has all atoms
      near = mine(:, :count)
    else
      call gather_rows(system%domain, mine(:, :count), root, near)
    end if
  end subroutine gather_near

  !> Joins the ranks' rows, mine(4, :), in the order of ranks, to all(4, :) on rank `root` of the
  !> world.  Collective over it.
  subroutine gather_rows(domain, mine, root, all)
    type(domain_t), intent(in) :: domain
    integer, intent(in) :: root
    real(dp), intent(in) :: mine(:, :)
    real(dp), allocatable, intent(out) :: all(:, :)
    integer :: counts(domain%world_size), offsets(domain%world_size), r
    call MPI_Allgather(size(mine), 1, MPI_INTEGER, counts, 1, MPI_INTEGER, domain%world)
    offsets = [(sum(counts(:r - 1)), r=1, domain%world_size)]
    allocate (all(4, sum(counts)/4))
    call MPI_Gatherv(mine, size(mine), MPI_DOUBLE_PRECISION, all, counts, offsets, &
                     MPI_DOUBLE_PRECISION, root, domain%world)
  end subroutine gather_rows

end module md_samples
