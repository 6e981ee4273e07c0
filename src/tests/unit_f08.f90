! Every routine of workshop/smpi/mpi_f08.f90 against closed forms; also built for the real module.
program unit_f08
  use, intrinsic :: iso_c_binding, only: c_int64_t, dp => c_double
  use mpi_f08, only: MPI_2DOUBLE_PRECISION, MPI_Allgather, MPI_Allgatherv, MPI_Allreduce, &
    MPI_Alltoall, MPI_Alltoallv, MPI_Barrier, MPI_Bcast, MPI_CHARACTER, MPI_Comm, MPI_Comm_free, &
    MPI_Comm_rank, MPI_COMM_SELF, MPI_Comm_size, MPI_Comm_split, MPI_COMM_WORLD, &
    MPI_DOUBLE_PRECISION, MPI_Finalize, MPI_Gather, MPI_Gatherv, MPI_IN_PLACE, MPI_Init, &
    MPI_INTEGER, MPI_INTEGER8, MPI_Irecv, MPI_Isend, MPI_LOGICAL, MPI_MAX, MPI_MAXLOC, MPI_MIN, &
    MPI_MINLOC, MPI_Recv, MPI_Reduce_scatter, MPI_Request, MPI_Sendrecv, MPI_Ssend, &
    MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE, MPI_SUM, MPI_Waitall
  implicit none (type, external)
  integer :: rank, ranks, i, total, part_rank, part_ranks
  integer, allocatable :: every(:), mine(:), counts(:), places(:), blocks(:)
  integer(c_int64_t) :: large
  real(dp) :: pair(2), value
  real(dp), allocatable :: reals(:)
  character(5) :: text
  logical :: flag
  type(MPI_Comm) :: part
  type(MPI_Request) :: requests(2)

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  part = MPI_COMM_WORLD
  call MPI_Comm_size(part, part_ranks)
  call expect("a copy of COMM_WORLD", part_ranks == ranks)
  total = ranks*(ranks + 1)/2
  counts = [(i + 1, i=0, ranks - 1)] ! of rank i
  places = [(i*(i + 1)/2, i=0, ranks - 1)]
  blocks = [((i + 1, part_rank=0, i), i=0, ranks - 1)] ! rank i's number, as often as counts(i)
  allocate (every(total), source=0)

  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), -rank, part)
  call MPI_Comm_rank(part, part_rank)
  call MPI_Comm_size(part, part_ranks)
  call expect("Comm_split", part_ranks == (ranks + 1 - mod(rank, 2))/2 &
              .and. part_rank == part_ranks - 1 - rank/2)
  call MPI_Comm_free(part)
  part = MPI_COMM_SELF
  call MPI_Comm_size(part, part_ranks)
  call expect("COMM_SELF", part_ranks == 1)

  i = rank
  call MPI_Allreduce(MPI_IN_PLACE, i, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call expect("Allreduce in place", i == total - ranks)
  value = rank + 0.5_dp
  call MPI_Allreduce(value, pair(1), 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD)
  call MPI_Allreduce(value, pair(2), 1, MPI_DOUBLE_PRECISION, MPI_MIN, MPI_COMM_WORLD)
  call expect("Allreduce of reals", all_equal(pair, [ranks - 0.5_dp, 0.5_dp]))
  large = 2_c_int64_t**40
  call MPI_Allreduce(MPI_IN_PLACE, large, 1, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD)
  call expect("Allreduce of 8 bytes", large == ranks*2_c_int64_t**40)
  pair = [real(mod(rank + 1, ranks), dp), real(rank, dp)]
  call MPI_Allreduce(MPI_IN_PLACE, pair, 1, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, MPI_COMM_WORLD)
  call expect("Allreduce MAXLOC", all_equal(pair, [ranks - 1.0_dp, modulo(-2, ranks) + 0.0_dp]))
  pair = [real(mod(rank + 1, ranks), dp), real(rank, dp)]
  call MPI_Allreduce(MPI_IN_PLACE, pair, 1, MPI_2DOUBLE_PRECISION, MPI_MINLOC, MPI_COMM_WORLD)
  call expect("Allreduce MINLOC", all_equal(pair, [0.0_dp, ranks - 1.0_dp]))

  text = merge("right", "wrong", rank == ranks - 1)
  call MPI_Bcast(text, 5, MPI_CHARACTER, ranks - 1, MPI_COMM_WORLD)
  flag = rank == 0
  call MPI_Bcast(flag, 1, MPI_LOGICAL, 0, MPI_COMM_WORLD)
  call expect("Bcast", text == "right" .and. flag)

  mine = [(rank + 1, i=1, rank + 1)]
  call MPI_Allgatherv(mine, rank + 1, MPI_INTEGER, every, counts, places, MPI_INTEGER, &
                      MPI_COMM_WORLD)
  call expect("Allgatherv", all_same(every, blocks))
  every = 0
  call MPI_Gatherv(mine, rank + 1, MPI_INTEGER, every, counts, places, MPI_INTEGER, 0, &
                   MPI_COMM_WORLD)
  call expect("Gatherv", rank > 0 .or. all_same(every, blocks))
  every(:ranks) = 0
  every(rank + 1) = rank + 7
  call MPI_Allgather(MPI_IN_PLACE, 1, MPI_INTEGER, every, 1, MPI_INTEGER, MPI_COMM_WORLD)
  call expect("Allgather in place", all_same(every(:ranks), [(i + 7, i=0, ranks - 1)]))
  every = 0
  call MPI_Gather(rank + 7, 1, MPI_INTEGER, every, 1, MPI_INTEGER, 0, MPI_COMM_WORLD)
  call expect("Gather", rank > 0 .or. all_same(every(:ranks), [(i + 7, i=0, ranks - 1)]))

  mine = [(100*rank + i, i=0, ranks - 1)]
  call MPI_Alltoall(mine, 1, MPI_INTEGER, every, 1, MPI_INTEGER, MPI_COMM_WORLD)
  call expect("Alltoall", all_same(every(:ranks), [(100*i + rank, i=0, ranks - 1)]))
  mine = [((rank + 1, part_rank=0, i), i=0, ranks - 1)] ! counts(i) numbers to rank i
  deallocate (every)
  allocate (every(ranks*(rank + 1)), source=0)
  call MPI_Alltoallv(mine, counts, places, MPI_INTEGER, every, [(rank + 1, i=1, ranks)], &
                     [((rank + 1)*i, i=0, ranks - 1)], MPI_INTEGER, MPI_COMM_WORLD)
  call expect("Alltoallv", all_same(every, [((i + 1, part_rank=0, rank), i=0, ranks - 1)]))
  allocate (reals(rank + 1), source=0.0_dp)
  call MPI_Reduce_scatter([(real(i, dp), i=1, total)], reals, counts, MPI_DOUBLE_PRECISION, &
                          MPI_SUM, MPI_COMM_WORLD)
  call expect("Reduce_scatter", &
              all_equal(reals, [(real(ranks*(places(rank + 1) + i), dp), i=1, rank + 1)]))

  mine = [rank, -1]
  call MPI_Irecv(mine(2), 1, MPI_INTEGER, modulo(rank - 1, ranks), 3, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(mine(1), 1, MPI_INTEGER, modulo(rank + 1, ranks), 3, MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call expect("Isend, Irecv, Waitall", mine(2) == modulo(rank - 1, ranks))
  call MPI_Sendrecv(mine(1), 1, MPI_INTEGER, modulo(rank - 1, ranks), 4, mine(2), 1, MPI_INTEGER, &
                    modulo(rank + 1, ranks), 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call expect("Sendrecv", mine(2) == modulo(rank + 1, ranks))
  mine(2) = rank
  if (rank > 0) call MPI_Ssend(mine, 2, MPI_INTEGER, 0, rank, MPI_COMM_WORLD)
  do i = 1, merge(ranks - 1, 0, rank == 0)
    call MPI_Recv(mine, 2, MPI_INTEGER, i, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call expect("Ssend, Recv", all_same(mine, [i, i]))
  end do
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Finalize()

contains

  logical function all_same(a, b)
    integer, intent(in) :: a(:), b(:)
    all_same = size(a) == size(b)
    if (all_same) all_same = .not. any(a /= b)
  end function all_same

  logical function all_equal(a, b)
    real(dp), intent(in) :: a(:), b(:)
    all_equal = size(a) == size(b)
    if (all_equal) all_equal = maxval(abs(a - b)) <= 0
  end function all_equal

  subroutine expect(routine, right)
    character(*), intent(in) :: routine
    logical, intent(in) :: right
    if (.not. right) error stop "wrong: "//routine
  end subroutine expect

end program unit_f08
