! charge.h for Fortran.  Calls stand under `if (bx_is_simulated)`, a constant: elsewhere are none.
module bx_charges
  use, intrinsic :: iso_c_binding, only: c_bool, c_double, c_int
  implicit none (type, external)
  private
  public :: bx_charge, bx_charge_fork, bx_charge_products, bx_charge_seconds, bx_computed
  public :: bx_hollow_messages
  public :: bx_is_hollow, bx_is_sampled, bx_synchronise

#ifdef BX_SIMULATED
  logical, parameter, public :: bx_is_simulated = .true.
#else
  logical, parameter, public :: bx_is_simulated = .false.
#endif
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

    !> As in charge.h; MPI_VAL of the team.  Collective over the team.
    subroutine bx_charge_synchronise(team) bind(C)
      import :: c_int
      implicit none (type, external)
      integer(c_int), value :: team
    end subroutine bx_charge_synchronise

    !> As in charge.h.  Collective over MPI_COMM_WORLD.
    logical(c_bool) function bx_charge_hollow_messages(hollow) bind(C)
      import :: c_bool
      implicit none (type, external)
      logical(c_bool), value :: hollow
    end function bx_charge_hollow_messages

    !> Whether arithmetic is skipped whose result is not looked at.  Local.
    logical(c_bool) function bx_charge_is_hollow() bind(C)
      import :: c_bool
      implicit none (type, external)
    end function bx_charge_is_hollow

    !> Whether of parts of a hollow run that are equally long few are simulated.  Local.
    logical(c_bool) function bx_charge_is_sampled() bind(C)
      import :: c_bool
      implicit none (type, external)
    end function bx_charge_is_sampled
  end interface

contains

  !> Whether of parts of a hollow run that are equally long few are simulated.  Local.
  logical function bx_is_sampled()
    bx_is_sampled = .false.
    if (bx_is_simulated) bx_is_sampled = bx_charge_is_sampled()
  end function bx_is_sampled

  !> How many of so many things are computed: none in a hollow run.  Local.
  integer function bx_computed(count)
    integer, intent(in) :: count
    bx_computed = merge(0, count, bx_is_hollow())
  end function bx_computed

  !> Pays what is owed, and waits for the other ranks of a team, in no time of its own.
  !> Collective over the team.
  subroutine bx_synchronise(team)
    integer(c_int), intent(in) :: team !< MPI_VAL
    if (bx_is_simulated) call bx_charge_synchronise(team)
  end subroutine bx_synchronise

  !> Messages of a hollow run carry no data from now on, or they do again.  Takes no time.
  !> Collective over MPI_COMM_WORLD.
  subroutine bx_hollow_messages(hollow)
    logical, intent(in) :: hollow
    logical(c_bool) :: before
    if (bx_is_simulated) before = bx_charge_hollow_messages(logical(hollow, c_bool))
  end subroutine bx_hollow_messages

  !> Whether only counts of messages are verified, on a simulated machine.  Local.
  logical function bx_is_hollow()
    bx_is_hollow = .false.
    if (bx_is_simulated) bx_is_hollow = bx_charge_is_hollow()
  end function bx_is_hollow

end module bx_charges
