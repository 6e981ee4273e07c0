! What a simulated run leaves out, and charges instead.  A hollow run skips arithmetic: a charge
! says whether its work is to be done (bx_computes).  Of parts of a step that all take as long it
! simulates one, and charges its time for the others.
module npar_sampling
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use omp_lib, only: omp_get_wtime
  use mpi_f08, only: MPI_Comm
  use bx_charges, only: bx_charge_seconds, bx_is_hollow, bx_is_sampled, bx_synchronise
  use npar_collectives, only: traffic_so_far, traffic_t, operator(+), operator(*)
  implicit none (type, external)
  private
  public :: part_t

  type(traffic_t), public :: left_out !< of this rank, by a hollow run that charges its time

  !> A transform or sum that always takes as long.  A hollow run of a team of one rank computes the
  !> first, and charges its time for the others.  So does a team of several ranks where parts are
  !> sampled; its ranks begin together.
  type :: part_t
    real(dp), private :: seconds = -1, begin = 0 !< seconds: of one thing
    type(traffic_t), private :: sent !< likewise; since the begin
    integer, private :: things = 1 !< that are equal
  contains
    procedure :: is_simulated_now
    procedure :: begins
    procedure :: mark_done
    procedure :: charge
  end type part_t

contains

  !> Whether a part of a team of so many ranks is to be computed; `mark_done` is called after it.
  !> If not, its time was charged.
  logical function is_simulated_now(self, team, ranks, things)
    class(part_t), intent(inout) :: self
    type(MPI_Comm), intent(in) :: team
    integer, intent(in) :: ranks
    integer, intent(in), optional :: things !< equal ones of this part, 1 by default
    self%things = 1
    if (present(things)) self%things = things
    is_simulated_now = .true.
    if (.not. merge(bx_is_sampled(), bx_is_hollow(), ranks > 1)) return
    is_simulated_now = self%seconds < 0
    if (is_simulated_now) then
      call self%begins(team)
    else
      call self%charge(real(self%things, dp), real(self%things, dp))
    end if
  end function is_simulated_now

  !> Begins a part; the ranks of the team together.
  subroutine begins(self, team)
    class(part_t), intent(inout) :: self
    type(MPI_Comm), intent(in) :: team
    call bx_synchronise(team%MPI_VAL)
    self%begin = omp_get_wtime()
    self%sent = traffic_so_far()
  end subroutine begins

  !> Keeps the time of a part since its begin.
  subroutine mark_done(self)
    class(part_t), intent(inout) :: self
    type(traffic_t) :: sent
    if (.not. bx_is_hollow()) return
    self%seconds = (omp_get_wtime() - self%begin)/self%things
    sent = traffic_so_far() + self%sent*(-1)
    self%sent = traffic_t(sent%messages/self%things, sent%bytes/self%things)
  end subroutine mark_done

  !> Charges `times` the time and bytes of one thing, in so many times its messages.
  subroutine charge(self, times, messages)
    class(part_t), intent(in) :: self
    real(dp), intent(in) :: times, messages
    call bx_charge_seconds(times*self%seconds)
    left_out = left_out + traffic_t(self%sent%messages*messages, self%sent%bytes*times)
  end subroutine charge

end module npar_sampling
