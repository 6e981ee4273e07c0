! The checkpoint between the two parts of a hybrid calculation (--split-calculation): its bands.
module npar_checkpoint
  use, intrinsic :: iso_c_binding, only: c_int, c_loc, dp => c_double
  use mpi_f08, only: MPI_Allreduce, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, MPI_SUM
  use bx_harness, only: bx_ok, bx_refuse, bx_resources, bx_seed, bx_string_at, bx_text, bx_usage
  use bx_restart, only: bx_restart_access, bx_restart_number_t, bx_restart_set_t
  use npar_basis, only: count_plane_waves
  use npar_launch, only: crystal, given, occupied, ranks, run, world
  use npar_state, only: state_t
  implicit none (type, external)
  private
  public :: read_checkpoint, write_checkpoint

contains

  !> Reads or writes the file: rows of waves and energies, one of each band of this rank.
  subroutine access_file(reads, s, energies, why)
    logical, intent(in) :: reads
    type(state_t), intent(in) :: s
    real(dp), intent(inout), target :: energies(:) !< of this rank's bands: Hartree
    character(*), intent(out) :: why
    character(*), parameter :: names(*) = [character(20) :: "bands", "occupied", "atoms", &
      "plane waves", "grid points along x", "grid points along y", "grid points along z", "ranks", &
      "seed", "box along x", "box along y", "box along z", "cutoff", "noise"]
    real(dp) :: values(size(names))
    type(bx_restart_number_t) :: numbers(size(names))
    type(bx_restart_set_t) :: sets(2)
    integer :: i
    values = [real([crystal%bands, occupied, crystal%atoms, count_plane_waves(crystal), &
                    crystal%grid, ranks, int(bx_seed(run))], dp), crystal%box, crystal%cutoff, &
              real(given%noise, dp)]
    numbers = [(bx_restart_number_t(bx_text(names(i)), values(i)), i=1, size(names))]
    sets(1) = bx_restart_set_t(bx_text("waves"), columns=2*count_plane_waves(crystal), &
                               mine=size(s%band), rows=c_loc(s%psi))
    sets(2) = bx_restart_set_t(bx_text("energies"), columns=1, mine=size(s%band), &
                               rows=c_loc(energies))
    call bx_restart_access(reads, bx_string_at(given%checkpoint), world, &
                           "bisection-npar-checkpoint-2", numbers, sets, why)
  end subroutine access_file

  !> Into the state's bands; refuses what is not a checkpoint of this calculation.  Collective.
  integer(c_int) function read_checkpoint(s) result(code)
    type(state_t), intent(inout) :: s
    character(500) :: why
    real(dp), target :: energies(size(s%band))
    code = bx_ok
    energies = 0
    call access_file(.true., s, energies, why)
    s%energy = 0
    s%energy(s%band, 1) = energies
    call MPI_Allreduce(MPI_IN_PLACE, s%energy, size(s%energy), MPI_DOUBLE_PRECISION, MPI_SUM, world)
    if (why /= "") code = bx_refuse(run, bx_usage, "--checkpoint "//why)
  end function read_checkpoint

  !> Writes the state's bands to --checkpoint, whole or not at all; refuses if that fails.
  !> Collective.
  subroutine write_checkpoint(s)
    type(state_t), intent(in) :: s
    character(500) :: why
    real(dp), target :: energies(size(s%band))
    integer(c_int) :: code
    energies = s%energy(s%band, 1)
    call access_file(.false., s, energies, why)
    if (why /= "") code = bx_refuse(run, bx_resources, "--checkpoint "//why)
  end subroutine write_checkpoint

end module npar_checkpoint
