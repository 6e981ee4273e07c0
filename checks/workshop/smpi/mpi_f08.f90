! The part of mpi_f08 that the kernels use, for MPI libraries without such a module, as SimGrid's.
! Its C side (mpi_f08.c) calls C's routines, so that the wrappers of profile_c.c count the messages.
module mpi_f08
  use, intrinsic :: iso_c_binding, only: c_int, c_null_ptr, c_ptr
  implicit none (type, external)
  private

  type, bind(C), public :: MPI_Comm
    integer(c_int) :: MPI_VAL = 0
  end type MPI_Comm
  type, bind(C), public :: MPI_Datatype
    integer(c_int) :: MPI_VAL = -1
  end type MPI_Datatype
  type, bind(C), public :: MPI_Op
    integer(c_int) :: MPI_VAL = -1
  end type MPI_Op
  type, bind(C), public :: MPI_Request
    type(c_ptr) :: handle = c_null_ptr !< C's, which Fortran's handle does not fit
  end type MPI_Request
  type, bind(C), public :: MPI_Status !< no kernel reads one, and libraries' differ in length
    private
    integer(c_int) :: ignored = 0
  end type MPI_Status

  ! Places in the tables of mpi_f08.c.
  type(MPI_Datatype), parameter, public :: MPI_DOUBLE_PRECISION = MPI_Datatype(0), &
    MPI_INTEGER = MPI_Datatype(1), MPI_INTEGER8 = MPI_Datatype(2), &
    MPI_CHARACTER = MPI_Datatype(3), MPI_LOGICAL = MPI_Datatype(4), &
    MPI_2DOUBLE_PRECISION = MPI_Datatype(5)
  type(MPI_Op), parameter, public :: MPI_SUM = MPI_Op(0), MPI_MAX = MPI_Op(1), &
    MPI_MIN = MPI_Op(2), MPI_MAXLOC = MPI_Op(3), MPI_MINLOC = MPI_Op(4)
  type(MPI_Comm), parameter, public :: MPI_COMM_SELF = MPI_Comm(-2) ! no handle of SMPI's
  type(MPI_Status), parameter, public :: MPI_STATUS_IGNORE = MPI_Status(), &
    MPI_STATUSES_IGNORE(1) = MPI_Status()
  ! Known by their addresses.
  integer(c_int), bind(C, name="bx_f08_in_place"), public :: MPI_IN_PLACE = 0
  type(MPI_Comm), bind(C, name="bx_f08_world"), public :: MPI_COMM_WORLD

  public :: MPI_Allgather, MPI_Allgatherv, MPI_Allreduce, MPI_Alltoall, MPI_Alltoallv, &
    MPI_Barrier, MPI_Bcast, MPI_Comm_free, MPI_Comm_rank, MPI_Comm_size, MPI_Comm_split, &
    MPI_Finalize, MPI_Gather, MPI_Gatherv, MPI_Init, MPI_Irecv, MPI_Isend, MPI_Recv, &
    MPI_Reduce_scatter, MPI_Sendrecv, MPI_Ssend, MPI_Waitall

  interface
    subroutine MPI_Allgather(send, send_count, send_type, receive, receive_count, receive_type, &
      comm) bind(C, name="bx_f08_allgather")
      import :: c_int, MPI_Comm, MPI_Datatype
      implicit none (type, external)
      !GCC$ attributes no_arg_check :: send, receive
      type(*), dimension(*), intent(in) :: send
      integer(c_int), intent(in) :: send_count, receive_count
      type(MPI_Datatype), intent(in) :: send_type, receive_type
      type(*), dimension(*), intent(inout) :: receive
      type(MPI_Comm), intent(in) :: comm
    end subroutine MPI_Allgather

    subroutine MPI_Allgatherv(send, send_count, send_type, receive, receive_counts, receive_at, &
      receive_type, comm) bind(C, name="bx_f08_allgatherv")
      import :: c_int, MPI_Comm, MPI_Datatype
      implicit none (type, external)
      !GCC$ attributes no_arg_check :: send, receive
      type(*), dimension(*), intent(in) :: send
      integer(c_int), intent(in) :: send_count, receive_counts(*), receive_at(*)
      type(MPI_Datatype), intent(in) :: send_type, receive_type
      type(*), dimension(*), intent(inout) :: receive
      type(MPI_Comm), intent(in) :: comm
    end subroutine MPI_Allgatherv

    subroutine MPI_Allreduce(send, receive, count, datatype, op, comm) bind(C, &
      name="bx_f08_allreduce")
      import :: c_int, MPI_Comm, MPI_Datatype, MPI_Op
      implicit none (type, external)
      !GCC$ attributes no_arg_check :: send, receive
      type(*), dimension(*), intent(in) :: send
      type(*), dimension(*), intent(inout) :: receive
      integer(c_int), intent(in) :: count
      type(MPI_Datatype), intent(in) :: datatype
      type(MPI_Op), intent(in) :: op
      type(MPI_Comm), intent(in) :: comm
    end subroutine MPI_Allreduce

    subroutine MPI_Alltoall(send, send_count, send_type, receive, receive_count, receive_type, &
      comm) bind(C, name="bx_f08_alltoall")
      import :: c_int, MPI_Comm, MPI_Datatype
      implicit none (type, external)
      !GCC$ attributes no_arg_check :: send, receive
      type(*), dimension(*), intent(in) :: send
      integer(c_int), intent(in) :: send_count, receive_count
      type(MPI_Datatype), intent(in) :: send_type, receive_type
      type(*), dimension(*), intent(inout) :: receive
      type(MPI_Comm), intent(in) :: comm
    end subroutine MPI_Alltoall

    subroutine MPI_Alltoallv(send, send_counts, send_at, send_type, receive, receive_counts, &
      receive_at, receive_type, comm) bind(C, name="bx_f08_alltoallv")
      import :: c_int, MPI_Comm, MPI_Datatype
      implicit none (type, external)
      !GCC$ attributes no_arg_check :: send, receive
      type(*), dimension(*), intent(in) :: send
      integer(c_int), intent(in) :: send_counts(*), send_at(*), receive_counts(*), receive_at(*)
      type(MPI_Datatype), intent(in) :: send_type, receive_type
      type(*), dimension(*), intent(inout) :: receive
      type(MPI_Comm), intent(in) :: comm
    end subroutine MPI_Alltoallv

    subroutine MPI_Barrier(comm) bind(C, name="bx_f08_barrier")
      import :: MPI_Comm
      implicit none (type, external)
      type(MPI_Comm), intent(in) :: comm
    end subroutine MPI_Barrier

    subroutine MPI_Bcast(buffer, count, datatype, root, comm) bind(C, name="bx_f08_bcast")
      import :: c_int, MPI_Comm, MPI_Datatype
      implicit none (type, external)
      !GCC$ attributes no_arg_check :: buffer
      type(*), dimension(*), intent(inout) :: buffer
      integer(c_int), intent(in) :: count, root
      type(MPI_Datatype), intent(in) :: datatype
      type(MPI_Comm), intent(in) :: comm
    end subroutine MPI_Bcast

    subroutine MPI_Comm_free(comm) bind(C, name="bx_f08_comm_free")
      import :: MPI_Comm
      implicit none (type, external)
      type(MPI_Comm), intent(inout) :: comm
    end subroutine MPI_Comm_free

    subroutine MPI_Comm_rank(comm, rank) bind(C, name="bx_f08_comm_rank")
      import :: c_int, MPI_Comm
      implicit none (type, external)
      type(MPI_Comm), intent(in) :: comm
      integer(c_int), intent(out) :: rank
    end subroutine MPI_Comm_rank

    subroutine MPI_Comm_size(comm, size) bind(C, name="bx_f08_comm_size")
      import :: c_int, MPI_Comm
      implicit none (type, external)
      type(MPI_Comm), intent(in) :: comm
      integer(c_int), intent(out) :: size
    end subroutine MPI_Comm_size

    subroutine MPI_Comm_split(comm, color, key, new_comm) bind(C, name="bx_f08_comm_split")
      import :: c_int, MPI_Comm
      implicit none (type, external)
      type(MPI_Comm), intent(in) :: comm
      integer(c_int), intent(in) :: color, key
      type(MPI_Comm), intent(out) :: new_comm
    end subroutine MPI_Comm_split

    subroutine MPI_Finalize() bind(C, name="bx_f08_finalize")
      implicit none (type, external)
    end subroutine MPI_Finalize

    subroutine MPI_Gather(send, send_count, send_type, receive, receive_count, receive_type, root, &
      comm) bind(C, name="bx_f08_gather")
      import :: c_int, MPI_Comm, MPI_Datatype
      implicit none (type, external)
      !GCC$ attributes no_arg_check :: send, receive
      type(*), dimension(*), intent(in) :: send
      integer(c_int), intent(in) :: send_count, receive_count, root
      type(MPI_Datatype), intent(in) :: send_type, receive_type
      type(*), dimension(*), intent(inout) :: receive
      type(MPI_Comm), intent(in) :: comm
    end subroutine MPI_Gather

    subroutine MPI_Gatherv(send, send_count, send_type, receive, receive_counts, receive_at, &
      receive_type, root, comm) bind(C, name="bx_f08_gatherv")
      import :: c_int, MPI_Comm, MPI_Datatype
      implicit none (type, external)
      !GCC$ attributes no_arg_check :: send, receive
      type(*), dimension(*), intent(in) :: send
      integer(c_int), intent(in) :: send_count, receive_counts(*), receive_at(*), root
      type(MPI_Datatype), intent(in) :: send_type, receive_type
      type(*), dimension(*), intent(inout) :: receive
      type(MPI_Comm), intent(in) :: comm
    end subroutine MPI_Gatherv

    subroutine MPI_Init() bind(C, name="bx_f08_init")
      implicit none (type, external)
    end subroutine MPI_Init

    subroutine MPI_Irecv(buffer, count, datatype, source, tag, comm, request) bind(C, &
      name="bx_f08_irecv")
      import :: c_int, MPI_Comm, MPI_Datatype, MPI_Request
      implicit none (type, external)
      !GCC$ attributes no_arg_check :: buffer
      type(*), dimension(*), intent(inout), asynchronous :: buffer
      integer(c_int), intent(in) :: count, source, tag
      type(MPI_Datatype), intent(in) :: datatype
      type(MPI_Comm), intent(in) :: comm
      type(MPI_Request), intent(out) :: request
    end subroutine MPI_Irecv

    subroutine MPI_Isend(buffer, count, datatype, target, tag, comm, request) bind(C, &
      name="bx_f08_isend")
      import :: c_int, MPI_Comm, MPI_Datatype, MPI_Request
      implicit none (type, external)
      !GCC$ attributes no_arg_check :: buffer
      type(*), dimension(*), intent(in), asynchronous :: buffer
      integer(c_int), intent(in) :: count, target, tag
      type(MPI_Datatype), intent(in) :: datatype
      type(MPI_Comm), intent(in) :: comm
      type(MPI_Request), intent(out) :: request
    end subroutine MPI_Isend

    subroutine MPI_Recv(buffer, count, datatype, source, tag, comm, status) bind(C, &
      name="bx_f08_recv")
      import :: c_int, MPI_Comm, MPI_Datatype, MPI_Status
      implicit none (type, external)
      !GCC$ attributes no_arg_check :: buffer
      type(*), dimension(*), intent(inout) :: buffer
      integer(c_int), intent(in) :: count, source, tag
      type(MPI_Datatype), intent(in) :: datatype
      type(MPI_Comm), intent(in) :: comm
      type(MPI_Status), intent(in) :: status
    end subroutine MPI_Recv

    subroutine MPI_Reduce_scatter(send, receive, receive_counts, datatype, op, comm) bind(C, &
      name="bx_f08_reduce_scatter")
      import :: c_int, MPI_Comm, MPI_Datatype, MPI_Op
      implicit none (type, external)
      !GCC$ attributes no_arg_check :: send, receive
      type(*), dimension(*), intent(in) :: send
      type(*), dimension(*), intent(inout) :: receive
      integer(c_int), intent(in) :: receive_counts(*)
      type(MPI_Datatype), intent(in) :: datatype
      type(MPI_Op), intent(in) :: op
      type(MPI_Comm), intent(in) :: comm
    end subroutine MPI_Reduce_scatter

    subroutine MPI_Sendrecv(send, send_count, send_type, target, send_tag, receive, receive_count, &
      receive_type, source, receive_tag, comm, status) bind(C, name="bx_f08_sendrecv")
      import :: c_int, MPI_Comm, MPI_Datatype, MPI_Status
      implicit none (type, external)
      !GCC$ attributes no_arg_check :: send, receive
      type(*), dimension(*), intent(in) :: send
      integer(c_int), intent(in) :: send_count, target, send_tag, receive_count, source, &
        receive_tag
      type(MPI_Datatype), intent(in) :: send_type, receive_type
      type(*), dimension(*), intent(inout) :: receive
      type(MPI_Comm), intent(in) :: comm
      type(MPI_Status), intent(in) :: status
    end subroutine MPI_Sendrecv

    subroutine MPI_Ssend(buffer, count, datatype, target, tag, comm) bind(C, name="bx_f08_ssend")
      import :: c_int, MPI_Comm, MPI_Datatype
      implicit none (type, external)
      !GCC$ attributes no_arg_check :: buffer
      type(*), dimension(*), intent(in) :: buffer
      integer(c_int), intent(in) :: count, target, tag
      type(MPI_Datatype), intent(in) :: datatype
      type(MPI_Comm), intent(in) :: comm
    end subroutine MPI_Ssend

    subroutine MPI_Waitall(count, requests, statuses) bind(C, name="bx_f08_waitall")
      import :: c_int, MPI_Request, MPI_Status
      implicit none (type, external)
      integer(c_int), intent(in) :: count
      type(MPI_Request), intent(inout) :: requests(*)
      type(MPI_Status), intent(in) :: statuses(*)
    end subroutine MPI_Waitall
  end interface

end module mpi_f08
