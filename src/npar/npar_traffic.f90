! Messages and bytes of one self-consistent-field step: those that the sizes give, and those that
! were sent.  They are of all ranks, counted as in bx.h, without those of eigensolver libraries.
module npar_traffic
  use, intrinsic :: iso_c_binding, only: c_int, dp => c_double
  use mpi_f08, only: MPI_Allreduce, MPI_Comm, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, MPI_SUM
  use bx_transpose, only: bx_counts, bx_fft_t, bx_way_forward, bx_way_inverse
  use npar_basis, only: basis_t, make_basis
  use npar_collectives, only: traffic_of_alltoall_sum, traffic_of_broadcast, traffic_of_exchange, &
    traffic_of_sum, traffic_so_far, traffic_t, operator(+), operator(*)
  use npar_exchange, only: pair_ffts_t
  use npar_hamiltonian, only: fields_of, fields_of_groups
  use npar_model, only: most_channels
  use npar_state, only: bands_of, first_of_each, state_t
  implicit none (type, external)
  private
  public :: all_traffic, traffic_of_exchange_step, traffic_of_step, traffic_since

contains

  !> Traffic of scf_step with the state's knobs, from the sizes.  Collective: teams lie differently
  !> on nodes, and each counts its own exchanges.
  type(traffic_t) function traffic_of_step(s, ffts) result(total)
    type(state_t), intent(in) :: s
    type(pair_ffts_t), intent(in) :: ffts
    total = of_all_teams(s, within_team(s, bands_of(s%crystal%bands, s%npar, s%group), &
                                        bands_of(s%occupied, s%npar, s%group)))
    total = of_large_sum(s, most_channels**2*s%crystal%atoms, s%ranks) &
            + (total + among_groups(s))*s%crystal%kpoints
    if (s%npar > 1) total = total + density(s)
    if (s%crystal%hybrid) total = total + traffic_of_exchange_step(s, ffts)
  end function traffic_of_step

  !> Traffic of exchange_step, likewise.
  function traffic_of_exchange_step(s, ffts) result(total)
    type(state_t), intent(in) :: s
    type(pair_ffts_t), intent(in) :: ffts
    type(traffic_t) :: total, there, back, of_pair
    integer :: twos, group, member, planes(0:s%ncore)
    type(basis_t) :: basis
    there = exchanged(s, s%fft, bx_way_forward)
    back = exchanged(s, s%fft, bx_way_inverse)
    of_pair = exchanged(s, ffts%fft, bx_way_inverse) + exchanged(s, ffts%fft, bx_way_forward)
    twos = fields_of(s%crystal, bands_of(s%occupied, s%npar, s%group))
    ! every team transforms all bands
    total = there*(twos + fields_of_groups(s)) + of_pair*(twos*s%crystal%bands) &
            + back*fields_of(s%crystal, bands_of(s%crystal%bands, s%npar, s%group))
    total = of_all_teams(s, total)
    if (s%npar == 1) return
    planes = first_of_each(s%crystal%grid(3), s%ncore)
    do member = 0, s%ncore - 1
      basis = make_basis(s%crystal, s%ncore, member)
      do group = 0, s%npar - 1
        total = total + traffic_of_broadcast( &
                2*basis%waves*bands_of(s%crystal%bands, s%npar, group), s%npar)
      end do
      total = total + of_large_sum(s, s%crystal%grid(1)*s%crystal%grid(2) &
                                   *(planes(member + 1) - planes(member)), s%npar)*s%crystal%bands
    end do
  end function traffic_of_exchange_step

  !> The sum over the teams of what each sends within.  Collective.
  type(traffic_t) function of_all_teams(s, team) result(total)
    type(state_t), intent(in) :: s
    type(traffic_t), intent(in) :: team
    real(dp) :: teams(2)
    teams = [team%messages, team%bytes]
    call MPI_Allreduce(MPI_IN_PLACE, teams, 2, MPI_DOUBLE_PRECISION, MPI_SUM, s%across)
    total = traffic_t(teams(1), teams(2))
  end function of_all_teams

  !> A sum of n numbers over some ranks, of D_ij or of exact exchange, by the state's knobs.
  type(traffic_t) function of_large_sum(s, n, ranks) result(traffic)
    type(state_t), intent(in) :: s
    integer, intent(in) :: n, ranks
    if (s%knobs%paw_alltoall) then
      traffic = traffic_of_alltoall_sum(n, ranks)
    else
      traffic = traffic_of_sum(n, ranks, s%knobs%emulated)
    end if
  end function of_large_sum

  !> One team's FFT exchanges and sums at one k-point.
  function within_team(s, bands, occupied) result(traffic)
    type(state_t), intent(in) :: s
    integer, intent(in) :: bands, occupied
    type(traffic_t) :: traffic, there, back
    integer :: applications, fields
    applications = 1 + s%inner
    there = exchanged(s, s%fft, bx_way_forward)
    back = exchanged(s, s%fft, bx_way_inverse)
    fields = fields_of(s%crystal, bands)
    traffic = (there + back)*(applications*fields) + there*fields_of(s%crystal, occupied)
    traffic = traffic + traffic_of_sum(s%factor()*s%crystal%projectors()*bands, s%ncore, &
                                       s%knobs%emulated)*applications
    ! each minimisation: energies, then the residual's length along the direction
    traffic = traffic + traffic_of_sum(3*bands, s%ncore, s%knobs%emulated)*2*s%inner
  end function within_team

  !> One exchange of an FFT in one direction, by the method of the state's knobs.
  type(traffic_t) function exchanged(s, fft, way) result(traffic)
    type(state_t), intent(in) :: s
    type(bx_fft_t), intent(in) :: fft
    integer(c_int), intent(in) :: way
    call bx_counts(fft, trim(s%knobs%transpose), way, traffic%messages, traffic%bytes)
  end function exchanged

  !> Six redistributions and two matrices.
  type(traffic_t) function among_groups(s) result(traffic)
    type(state_t), intent(in) :: s
    integer :: member, group, height, bands(s%npar)
    type(basis_t) :: basis
    ! H and overlaps; eigenvectors and Cholesky's factor
    traffic = s%matrix%traffic_of_panels(s%knobs%emulated)*2
    if (s%npar == 1) return
    bands = [(bands_of(s%crystal%bands, s%npar, group), group=0, s%npar - 1)]
    do member = 0, s%ncore - 1
      basis = make_basis(s%crystal, s%ncore, member)
      height = (basis%waves + s%npar - 1)/s%npar
      ! three there, three back
      traffic = traffic + traffic_of_exchange(bands, spread(2*height, 1, s%npar), &
                                              s%knobs%emulated)*6
    end do
  end function among_groups

  !> The density of a team's planes, from every group to every group.
  type(traffic_t) function density(s) result(traffic)
    type(state_t), intent(in) :: s
    integer :: member, planes(0:s%ncore)
    planes = first_of_each(s%crystal%grid(3), s%ncore)
    do member = 0, s%ncore - 1
      traffic = traffic + traffic_of_sum(s%crystal%grid(1)*s%crystal%grid(2) &
                                         *(planes(member + 1) - planes(member)), s%npar, &
                                         s%knobs%emulated)
    end do
  end function density

  !> Traffic of all ranks since `earlier`.  Collective.
  type(traffic_t) function traffic_since(earlier, world) result(sent)
    type(traffic_t), intent(in) :: earlier
    type(MPI_Comm), intent(in) :: world
    sent = all_traffic(traffic_so_far() + earlier*(-1), world)
  end function traffic_since

  !> Sum over the ranks, of parts that were left out with rounding.  Collective.
  type(traffic_t) function all_traffic(mine, world) result(all)
    type(traffic_t), intent(in) :: mine
    type(MPI_Comm), intent(in) :: world
    real(dp) :: both(2)
    both = [mine%messages, mine%bytes]
    call MPI_Allreduce(MPI_IN_PLACE, both, 2, MPI_DOUBLE_PRECISION, MPI_SUM, world)
    all = traffic_t(anint(both(1)), anint(both(2)))
  end function all_traffic

end module npar_traffic
