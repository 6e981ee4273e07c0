! Collectives by MPI, or by the point-to-point messages that stood for them in the code of the 2010
! report ("emulated"); and what each sends, from sizes alone.  That code cut messages and sums into
! blocks (VASP's guide on MPI_BLOCK and USE_COLLECTIVE), and broadcast by MPI_Bcast (table 2).
module npar_collectives
  use, intrinsic :: iso_c_binding, only: c_int, dp => c_double
  use mpi_f08, only: MPI_Allgatherv, MPI_Allreduce, MPI_Alltoall, MPI_Alltoallv, MPI_Bcast, &
    MPI_Comm, MPI_Comm_rank, MPI_Comm_size, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, MPI_Irecv, &
    MPI_Isend, MPI_Reduce_scatter, MPI_Request, MPI_STATUSES_IGNORE, MPI_SUM, MPI_Waitall
  use bx_charges, only: bx_is_hollow
  use bx_harness, only: bx_region_read, bx_traffic_classes, bx_traffic_read, bx_traffic_t
  implicit none (type, external)
  private
  public :: sum_over, sum_parts, gather_parts, exchange, broadcast
  public :: traffic_t, traffic_so_far, traffic_of_sum, traffic_of_alltoall_sum
  public :: traffic_of_exchange, traffic_of_broadcast
  public :: operator(+), operator(*)

  !> Messages and bytes of all ranks together, counted as in bx.h.
  type :: traffic_t
    real(dp) :: messages = 0, bytes = 0
  end type traffic_t

  interface operator(+)
    module procedure add_traffic
  end interface operator(+)
  interface operator(*)
    module procedure repeat_traffic
  end interface operator(*)

  integer, parameter :: bytes_each = 8
  integer, parameter :: block_size = 8000 !< reals: MPI_BLOCK of VASP's makefiles
  integer, parameter :: tag = 1

contains

  !> Replaces `values` by their sum over the ranks of comm.  Emulated, for each block: chunks go to
  !> all ranks, each sums its chunk in the order of ranks, the sums go back to all.  Collective.
  subroutine sum_over(values, comm, emulated, by_alltoall)
    real(dp), intent(inout), contiguous :: values(:)
    type(MPI_Comm), intent(in) :: comm
    logical, intent(in) :: emulated
    logical, intent(in), optional :: by_alltoall !< the same by two MPI_Alltoall, unless emulated
    logical :: in_chunks
    integer :: ranks, first
    in_chunks = emulated
    if (present(by_alltoall)) in_chunks = emulated .or. by_alltoall
    call MPI_Comm_size(comm, ranks)
    if (ranks == 1) return
    if (in_chunks) then
      do first = 1, size(values), block_size
        call complete_interchange(values(first:min(first + block_size - 1, size(values))), comm, &
                                  ranks, emulated)
      end do
    else
      call MPI_Allreduce(MPI_IN_PLACE, values, size(values), MPI_DOUBLE_PRECISION, MPI_SUM, comm)
    end if
  end subroutine sum_over

  !> Two exchanges of chunks: each rank sums its chunk, all receive the sums.
  subroutine complete_interchange(values, comm, ranks, emulated)
    real(dp), intent(inout), contiguous :: values(:)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(in) :: ranks
    logical, intent(in) :: emulated
    real(dp), allocatable :: mine(:), theirs(:)
    integer(c_int) :: chunks(ranks)
    integer :: chunk, r
    chunk = chunk_size(size(values), ranks)
    chunks = int(chunk, c_int)
    allocate (mine(chunk*ranks), theirs(chunk*ranks))
    if (.not. bx_is_hollow()) then
      mine(:size(values)) = values
      mine(size(values) + 1:) = 0
    end if
    call exchange(mine, chunks, theirs, chunks, comm, emulated)
    if (.not. bx_is_hollow()) then
      mine(:chunk) = sum(reshape(theirs, [chunk, ranks]), 2)
      do r = 2, ranks
        mine((r - 1)*chunk + 1:r*chunk) = mine(:chunk)
      end do
    end if
    call exchange(mine, chunks, theirs, chunks, comm, emulated)
    if (.not. bx_is_hollow()) values = theirs(:size(values))
  end subroutine complete_interchange

  !> Reals of a chunk: n over the ranks, rounded up.
  pure integer function chunk_size(n, ranks) result(chunk)
    integer, intent(in) :: n, ranks
    chunk = (n + ranks - 1)/ranks
  end function chunk_size

  !> Sends send_counts(r) reals to each rank r and receives receive_counts(r) from it, both in the
  !> order of ranks: by MPI_Alltoall where all counts are equal, else by MPI_Alltoallv.  Those of
  !> all ranks are equal, or of none.  Collective.
  subroutine exchange(send, send_counts, receive, receive_counts, comm, emulated)
    real(dp), intent(in), contiguous :: send(:)
    real(dp), intent(inout), contiguous :: receive(:)
    integer(c_int), intent(in) :: send_counts(:), receive_counts(:)
    type(MPI_Comm), intent(in) :: comm
    logical, intent(in) :: emulated
    integer(c_int), dimension(size(send_counts)) :: send_at, receive_at
    send_at = offsets(send_counts)
    receive_at = offsets(receive_counts)
    if (emulated) then
      call by_messages(send, send_counts, send_at, receive, receive_counts, receive_at, comm)
    else if (all([send_counts, receive_counts] == send_counts(1))) then
      call MPI_Alltoall(send, send_counts(1), MPI_DOUBLE_PRECISION, receive, send_counts(1), &
                        MPI_DOUBLE_PRECISION, comm)
    else
      call MPI_Alltoallv(send, send_counts, send_at, MPI_DOUBLE_PRECISION, receive, &
                         receive_counts, receive_at, MPI_DOUBLE_PRECISION, comm)
    end if
  end subroutine exchange

  !> The same by messages of a block at most; the own part is copied.
  subroutine by_messages(send, send_counts, send_at, receive, receive_counts, receive_at, comm)
    real(dp), intent(in), contiguous, asynchronous :: send(:)
    real(dp), intent(inout), contiguous, asynchronous :: receive(:)
    integer(c_int), intent(in) :: send_counts(0:), send_at(0:), receive_counts(0:), receive_at(0:)
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Request) :: requests(sum(blocks_of(send_counts) + blocks_of(receive_counts)))
    integer :: me, ranks, i, peer, at, length, count
    call MPI_Comm_rank(comm, me)
    ranks = size(send_counts)
    count = 0
    do i = 1, ranks - 1
      peer = modulo(me - i, ranks)
      do at = 0, receive_counts(peer) - 1, block_size
        length = min(block_size, receive_counts(peer) - at)
        count = count + 1
        call MPI_Irecv(receive(receive_at(peer) + at + 1:receive_at(peer) + at + length), length, &
                       MPI_DOUBLE_PRECISION, peer, tag, comm, requests(count))
      end do
    end do
    do i = 1, ranks - 1
      peer = modulo(me + i, ranks)
      do at = 0, send_counts(peer) - 1, block_size
        length = min(block_size, send_counts(peer) - at)
        count = count + 1
        call MPI_Isend(send(send_at(peer) + at + 1:send_at(peer) + at + length), length, &
                       MPI_DOUBLE_PRECISION, peer, tag, comm, requests(count))
      end do
    end do
    if (.not. bx_is_hollow()) receive(receive_at(me) + 1:receive_at(me) + receive_counts(me)) = &
      send(send_at(me) + 1:send_at(me) + send_counts(me))
    call MPI_Waitall(count, requests(:count), MPI_STATUSES_IGNORE)
  end subroutine by_messages

  !> Sums `values`, which hold counts(r) numbers for each rank r in turn: `mine` gets this rank's.
  !> Emulated: they go to their rank, which adds them in the order of ranks.  Collective.
  subroutine sum_parts(values, counts, mine, comm, emulated)
    real(dp), intent(in), contiguous :: values(:)
    integer(c_int), intent(in) :: counts(:)
    real(dp), intent(inout), contiguous :: mine(:)
    type(MPI_Comm), intent(in) :: comm
    logical, intent(in) :: emulated
    real(dp), allocatable :: theirs(:)
    integer(c_int) :: same(size(counts))
    if (size(counts) == 1) then
      mine = values
    else if (emulated) then
      same = size(mine, kind=c_int)
      allocate (theirs(size(mine)*size(counts)))
      call by_messages(values, counts, offsets(counts), theirs, same, offsets(same), comm)
      if (.not. bx_is_hollow()) mine = sum(reshape(theirs, [size(mine), size(counts)]), 2)
    else
      call MPI_Reduce_scatter(values, mine, counts, MPI_DOUBLE_PRECISION, MPI_SUM, comm)
    end if
  end subroutine sum_parts

  !> Gathers the numbers of all ranks on each: counts(r) of rank r in turn.  Collective.
  subroutine gather_parts(mine, values, counts, comm, emulated)
    real(dp), intent(in), contiguous :: mine(:)
    real(dp), intent(inout), contiguous :: values(:)
    integer(c_int), intent(in) :: counts(:)
    type(MPI_Comm), intent(in) :: comm
    logical, intent(in) :: emulated
    integer(c_int) :: same(size(counts))
    if (size(counts) == 1) then
      values = mine
    else if (emulated) then
      same = size(mine, kind=c_int)
      call by_messages(mine, same, 0*same, values, counts, offsets(counts), comm)
    else
      call MPI_Allgatherv(mine, size(mine), MPI_DOUBLE_PRECISION, values, counts, &
                          offsets(counts), MPI_DOUBLE_PRECISION, comm)
    end if
  end subroutine gather_parts

  !> Where each rank's numbers begin, from 0.
  pure function offsets(counts) result(at)
    integer(c_int), intent(in) :: counts(:)
    integer(c_int) :: at(size(counts))
    integer :: r
    at(1) = 0
    do r = 2, size(counts)
      at(r) = at(r - 1) + counts(r - 1)
    end do
  end function offsets

  !> Messages of so many reals.
  elemental integer function blocks_of(n) result(blocks)
    integer, intent(in) :: n
    blocks = (n + block_size - 1)/block_size
  end function blocks_of

  !> Sends the values of `root` to all.  Collective.
  subroutine broadcast(values, root, comm)
    real(dp), intent(inout), contiguous :: values(:)
    integer, intent(in) :: root
    type(MPI_Comm), intent(in) :: comm
    integer :: ranks
    call MPI_Comm_size(comm, ranks)
    if (ranks > 1 .and. size(values) > 0) then
      call MPI_Bcast(values, size(values), MPI_DOUBLE_PRECISION, root, comm)
    end if
  end subroutine broadcast

  ! ---- counts ----

  !> Traffic of this rank so far, without that of eigensolver libraries.
  type(traffic_t) function traffic_so_far() result(sent)
    type(bx_traffic_t) :: all(bx_traffic_classes), scalapack(bx_traffic_classes), &
      elpa(bx_traffic_classes)
    call bx_traffic_read(all)
    call bx_region_read("ScaLAPACK", scalapack)
    call bx_region_read("ELPA", elpa)
    sent%messages = sum(all%messages - scalapack%messages - elpa%messages)
    sent%bytes = sum(all%bytes - scalapack%bytes - elpa%bytes)
  end function traffic_so_far

  elemental type(traffic_t) function add_traffic(a, b) result(sum_)
    type(traffic_t), intent(in) :: a, b
    sum_ = traffic_t(a%messages + b%messages, a%bytes + b%bytes)
  end function add_traffic

  !> Traffic of so many repetitions.
  elemental type(traffic_t) function repeat_traffic(a, times) result(product_)
    type(traffic_t), intent(in) :: a
    integer, intent(in) :: times
    product_ = traffic_t(a%messages*times, a%bytes*times)
  end function repeat_traffic

  !> Traffic of sum_over of n reals: a reduction counts the vector that each rank contributes.
  elemental type(traffic_t) function traffic_of_sum(n, ranks, emulated) result(traffic)
    integer, intent(in) :: n, ranks
    logical, intent(in) :: emulated
    if (ranks == 1) return
    if (emulated) then
      traffic = traffic_of_alltoall_sum(n, ranks)
    else
      traffic = traffic_t(real(ranks, dp), real(bytes_each, dp)*n*ranks)
    end if
  end function traffic_of_sum

  !> Traffic of sum_over by_alltoall, or emulated, of n reals: two chunks of each block to every
  !> other rank.
  elemental type(traffic_t) function traffic_of_alltoall_sum(n, ranks) result(traffic)
    integer, intent(in) :: n, ranks
    real(dp) :: pairs, chunks
    pairs = 2.0_dp*ranks*(ranks - 1)
    chunks = real(n/block_size, dp)*chunk_size(block_size, ranks) &
             + chunk_size(mod(n, block_size), ranks)
    traffic = traffic_t(pairs*blocks_of(n), pairs*bytes_each*chunks)
  end function traffic_of_alltoall_sum

  !> Traffic of exchange, where rank i sends from(i)*to(j) reals to rank j: a collective counts one
  !> message per pair, empty ones too; emulated, each block is one.
  pure type(traffic_t) function traffic_of_exchange(from, to, emulated) result(traffic)
    integer, intent(in) :: from(:), to(:)
    logical, intent(in) :: emulated
    integer :: i, blocks
    if (emulated) then
      do i = 1, size(from)
        if (i == 1 .or. from(i) /= from(max(i - 1, 1))) blocks = sum(blocks_of(from(i)*to))
        traffic%messages = traffic%messages + blocks - blocks_of(from(i)*to(i))
      end do
    else
      traffic%messages = real(size(from), dp)*(size(from) - 1)
    end if
    traffic%bytes = bytes_each*(sum(real(from, dp))*sum(real(to, dp)) &
                                - dot_product(real(from, dp), real(to, dp)))
  end function traffic_of_exchange

  !> Traffic of broadcast of n reals: one message to each other rank.
  elemental type(traffic_t) function traffic_of_broadcast(n, ranks) result(traffic)
    integer, intent(in) :: n, ranks
    if (n == 0) return
    traffic = traffic_t(real(ranks - 1, dp), real(bytes_each, dp)*n*(ranks - 1))
  end function traffic_of_broadcast

end module npar_collectives
