! Where Fortran has the members of the types that it shares with C; unit_layout.c compares.
module unit_layout
  use, intrinsic :: iso_c_binding, only: c_intptr_t, c_loc, c_ptr, c_size_t, c_sizeof
  use bx_harness, only: bx_choice_t, bx_kernel_t, bx_option_t, bx_traffic_t
  implicit none (type, external)
  private
  public :: fortran_layout

  type(bx_kernel_t), target :: k
  type(bx_option_t), target :: o
  type(bx_choice_t), target :: c
  type(bx_traffic_t), target :: t

contains

  !> Sizes of the four types, then offsets of their members, in the order of bx.h.
  subroutine fortran_layout(list) bind(C)
    integer(c_size_t), intent(out) :: list(*)
    list(:56) = [c_sizeof(k), c_sizeof(o), c_sizeof(c), c_sizeof(t), &
      from(c_loc(k), [c_loc(k%name), c_loc(k%summary), c_loc(k%cases), c_loc(k%case_count), &
        c_loc(k%methods), c_loc(k%method_count), c_loc(k%setup), c_loc(k%verify), c_loc(k%step), &
        c_loc(k%options), c_loc(k%option_count), c_loc(k%phases), c_loc(k%phase_count), &
        c_loc(k%phase_groups), c_loc(k%ratios), c_loc(k%ratio_count), c_loc(k%baselines), &
        c_loc(k%excluded_family), c_loc(k%sampling), c_loc(k%arrange), c_loc(k%applicable), &
        c_loc(k%comparable), c_loc(k%point_count), c_loc(k%point), c_loc(k%has_point), &
        c_loc(k%begin), c_loc(k%prepare), c_loc(k%inspect), c_loc(k%end), c_loc(k%promise), &
        c_loc(k%items), c_loc(k%metrics), c_loc(k%report), c_loc(k%teardown)]), &
      from(c_loc(o), [c_loc(o%name), c_loc(o%metavar), c_loc(o%help), c_loc(o%type), c_loc(o%low), &
        c_loc(o%high), c_loc(o%value)]), &
      from(c_loc(c), [c_loc(c%name), c_loc(c%summary), c_loc(c%wins), c_loc(c%baseline), &
        c_loc(c%family), c_loc(c%calls)]), &
      from(c_loc(t), [c_loc(t%calls), c_loc(t%messages), c_loc(t%off_node_messages), &
        c_loc(t%bytes), c_loc(t%off_node_bytes)])]
  end subroutine fortran_layout

  pure function from(start, members) result(offsets)
    type(c_ptr), intent(in) :: start, members(:)
    integer(c_size_t) :: offsets(size(members))
    offsets = transfer(members, offsets) - transfer(start, 0_c_size_t)
  end function from

end module unit_layout
