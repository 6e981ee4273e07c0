! The checkpoint between the two parts of a hybrid calculation (--split-calculation).
module npar_checkpoint
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_loc, c_null_char
  use bx_harness, only: bx_ok, bx_refuse, bx_resources, bx_seed, bx_string_at, bx_usage
  use npar_basis, only: count_plane_waves
  use npar_launch, only: crystal, given, occupied, ranks, run, world
  use npar_state, only: state_t
  implicit none (type, external)
  private
  public :: read_checkpoint, write_checkpoint

  !> What a checkpoint is of, as npar_checkpoint.h has it.
  type, bind(C) :: npar_checkpoint_t
    integer(c_int) :: bands, occupied, atoms, plane_waves, grid(3), ranks, seed
    real(c_double) :: box(3), cutoff, noise
  end type npar_checkpoint_t

  interface
    function npar_checkpoint_write(path, comm, sizes, mine, waves, energies, why, why_size) &
      result(failed) bind(C)
      import :: c_char, c_double, c_int, npar_checkpoint_t
      implicit none (type, external)
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: comm, mine, why_size
      type(npar_checkpoint_t), intent(in) :: sizes
      real(c_double), intent(in) :: waves(*), energies(*)
      character(kind=c_char), intent(out) :: why(*)
      integer(c_int) :: failed
    end function npar_checkpoint_write

    function npar_checkpoint_read(path, comm, sizes, mine, waves, energies, why, why_size) &
      result(failed) bind(C)
      import :: c_char, c_double, c_int, npar_checkpoint_t
      implicit none (type, external)
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: comm, mine, why_size
      type(npar_checkpoint_t), intent(in) :: sizes
      real(c_double), intent(out) :: waves(*), energies(*)
      character(kind=c_char), intent(out) :: why(*)
      integer(c_int) :: failed
    end function npar_checkpoint_read
  end interface

contains

  !> Into the state's bands; refuses what is not a checkpoint of this calculation.
  function read_checkpoint(s) result(code)
    type(state_t), intent(inout) :: s
    integer(c_int) :: code
    character(kind=c_char), target :: why(500)
    code = bx_ok
    why = c_null_char
    if (npar_checkpoint_read(bx_string_at(given%checkpoint)//c_null_char, &
                             int(world%MPI_VAL, c_int), sizes_here(), &
                             size(s%band, kind=c_int), s%psi, s%energy, why, &
                             size(why, kind=c_int)) /= 0) then
      code = bx_refuse(run, bx_usage, "--checkpoint "//bx_string_at(c_loc(why)))
    end if
  end function read_checkpoint

  !> Writes the state's bands to --checkpoint, whole or not at all; refuses if that fails.
  !> Collective.
  subroutine write_checkpoint(s)
    type(state_t), intent(in) :: s
    character(kind=c_char), target :: why(500)
    integer(c_int) :: failed
    why = c_null_char
    failed = npar_checkpoint_write(bx_string_at(given%checkpoint)//c_null_char, &
                                   int(world%MPI_VAL, c_int), sizes_here(), &
                                   size(s%band, kind=c_int), s%psi, s%energy, why, &
                                   size(why, kind=c_int))
    if (failed /= 0) then
      failed = bx_refuse(run, bx_resources, "--checkpoint "//bx_string_at(c_loc(why)))
    end if
  end subroutine write_checkpoint

  !> The sizes of this calculation.
  function sizes_here() result(sizes)
    type(npar_checkpoint_t) :: sizes
    sizes = npar_checkpoint_t(crystal%bands, occupied, crystal%atoms, count_plane_waves(crystal), &
                              crystal%grid, ranks, int(bx_seed(run)), crystal%box, crystal%cutoff, &
                              given%noise)
  end function sizes_here

end module npar_checkpoint
