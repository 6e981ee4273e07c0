! charge.h for Fortran.  In a normal build these procedures do nothing (fortran.c).
module bx_charges
  use, intrinsic :: iso_c_binding, only: c_bool, c_double, c_int
  implicit none (type, external)
  private
  public :: bx_charge, bx_charge_fork, bx_charge_products, bx_charge_seconds, bx_computes, &
    bx_hollow_messages, bx_is_hollow, bx_is_sampled, bx_synchronise

  logical(c_bool), parameter, public :: by_all_threads = .true._c_bool, &
    by_one_thread = .false._c_bool
  !> Kinds of work: flop, but bytes of copies.
  integer(c_int), parameter, public :: bx_fft = 0, bx_algebra = 1, bx_pairs = 2, bx_copy = 3

  interface
    !> Adds work of this rank to what it owes: done by all threads of the rank, or by one.  Local.
    subroutine bx_charge(work, amount, by_threads) bind(C)
      import :: c_bool, c_double, c_int
      implicit none (type, external)
      integer(c_int), value :: work !< bx_fft, bx_algebra, bx_pairs or bx_copy
      real(c_double), value :: amount
      logical(c_bool), value :: by_threads !< by_all_threads, or by_one_thread
    end subroutine bx_charge

    !> As in charge.h.  Local.
    subroutine bx_charge_products(flop, bytes, times) bind(C)
      import :: c_double
      implicit none (type, external)
      real(c_double), value :: flop, bytes, times
    end subroutine bx_charge_products

    !> Adds the beginning and end of a parallel region.  Local.
    subroutine bx_charge_fork() bind(C)
      implicit none (type, external)
    end subroutine bx_charge_fork

    !> Adds seconds to what this rank owes.  Local.
    subroutine bx_charge_seconds(seconds) bind(C)
      import :: c_double
      implicit none (type, external)
      real(c_double), value :: seconds
    end subroutine bx_charge_seconds

    !> Pays what is owed, and waits for the other ranks of a team, in no time of its own.
    !> Collective over the team.
    subroutine bx_synchronise(team) bind(C, name="bx_charge_synchronise")
      import :: c_int
      implicit none (type, external)
      integer(c_int), value :: team !< MPI_VAL
    end subroutine bx_synchronise

    !> Messages of a hollow run carry no data from now on, or they do again; returns what held
    !> before.  Takes no time.  Collective over MPI_COMM_WORLD.
    logical(c_bool) function bx_hollow_messages(hollow) bind(C, name="bx_charge_hollow_messages")
      import :: c_bool
      implicit none (type, external)
      logical(c_bool), value :: hollow
    end function bx_hollow_messages

    !> Whether only counts of messages are verified, and arithmetic is skipped.  Local.
    logical(c_bool) function bx_is_hollow() bind(C, name="bx_charge_is_hollow")
      import :: c_bool
      implicit none (type, external)
    end function bx_is_hollow

    !> Whether of parts of a hollow run that are equally long few are simulated.  Local.
    logical(c_bool) function bx_is_sampled() bind(C, name="bx_charge_is_sampled")
      import :: c_bool
      implicit none (type, external)
    end function bx_is_sampled
  end interface

contains

  !> Charges work as bx_charge; whether it is to be done: a hollow run skips it.  Local.
  logical function bx_computes(work, amount, by_threads)
    integer(c_int), intent(in) :: work
    real(c_double), intent(in) :: amount
    logical(c_bool), intent(in) :: by_threads
    call bx_charge(work, amount, by_threads)
    bx_computes = .not. bx_is_hollow()
  end function bx_computes

end module bx_charges
