! The self-consistent-field step, and the state it works on: made, set to its start, freed.
module npar_scf
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, dp => c_double
  use mpi_f08, only: MPI_Comm_free, MPI_Comm_rank, MPI_Comm_size, MPI_Comm_split
  use bx_charges, only: bx_is_hollow, bx_is_sampled, bx_synchronise
  use bx_harness, only: bx_largest, bx_uniform
  use bx_transpose, only: bx_free_fft, bx_make_fft
  use npar_basis, only: make_basis
  use npar_check, only: set_probe
  use npar_collectives, only: sum_over
  use npar_density, only: add_density, finish_density, set_exact_density, set_ionic_potential, &
    set_potential
  use npar_exchange, only: apply_exchange, exchange_energy, pair_ffts_t
  use npar_hamiltonian, only: apply_hamiltonian, choose_kpoint, fields_of, fields_of_groups
  use npar_model, only: most_channels
  use npar_paw, only: exact_one_centre_terms, sum_one_centre_terms
  use npar_state, only: batch, state_t
  use npar_subspace, only: diagonalise_subspace, orthonormalise
  use npar_update, only: residual_norms, update_bands
  implicit none (type, external)
  private
  public :: place_ranks, make_state, free_state, start_state, scf_step, exchange_step, evaluate
  public :: largest_count, state_bytes
  public :: step_seconds

  real(dp), parameter :: fft_rate = 1e10_dp, blas_rate = 2e10_dp !< operations per second of a core
  real(dp), parameter :: one_centre = 1e6_dp !< operations of an atom

contains

  !> Sets the grid of ranks, this rank's bands and plane waves, for NPAR groups; `world` and the
  !> crystal must be set.  Collective.
  subroutine place_ranks(s, npar)
    type(state_t), intent(inout) :: s
    integer, intent(in) :: npar
    integer :: i
    call MPI_Comm_rank(s%world, s%rank)
    call MPI_Comm_size(s%world, s%ranks)
    s%npar = npar
    s%ncore = s%ranks/npar
    s%group = s%rank/s%ncore
    s%member = mod(s%rank, s%ncore)
    call MPI_Comm_split(s%world, s%group, s%rank, s%team)
    call MPI_Comm_split(s%world, s%member, s%rank, s%across)
    call bx_synchronise(s%team%MPI_VAL) ! for the first time while messages carry data
    call bx_synchronise(s%across%MPI_VAL)
    s%basis = make_basis(s%crystal, s%ncore, s%member)
    s%band = [(i, i=s%group + 1, s%crystal%bands, npar)]
    s%height = (s%waves() + npar - 1)/npar
  end subroutine place_ranks

  !> Bytes that make_state allocates on this rank, without the transpose library's plan and the
  !> matrix between bands.
  function state_bytes(s) result(bytes)
    type(state_t), intent(in) :: s
    real(dp) :: bytes, narrow, wide, bands, projectors
    bands = s%crystal%bands
    projectors = s%crystal%projectors()
    narrow = 2.0_dp*s%waves()*size(s%band)
    wide = 2.0_dp*s%height*bands
    bytes = narrow*(s%crystal%kpoints + 1) + 2*wide + 2*max(narrow, wide)
    bytes = bytes + merge(2.0_dp*s%height*s%npar*size(s%band), 0.0_dp, s%npar > 1)
    bytes = bytes + 2.0_dp*s%waves() + 2.0_dp*s%waves()*projectors/s%factor()
    if (.not. s%crystal%gamma) bytes = bytes + narrow ! the parts apart
    bytes = bytes + 2.0_dp*s%factor()*projectors*size(s%band)
    bytes = bytes + 2*2.0_dp*s%waves()*s%crystal%kpoints ! for the examination of the bands
    bytes = 8*bytes
  end function state_bytes

  !> Numbers in the largest of the arrays that are exchanged or summed on this rank: bands in either
  !> layout, projections.
  pure real(dp) function largest_count(s) result(numbers)
    type(state_t), intent(in) :: s
    numbers = max(2.0_dp*s%waves()*size(s%band), real(s%factor(), dp)*s%crystal%projectors() &
                  *size(s%band), &
                  2.0_dp*s%height*s%crystal%bands)
  end function largest_count

  !> Allocates the arrays, plans and solvers of a state whose ranks are placed; `planner` is an FFTW
  !> planner effort.  Collective.
  subroutine make_state(s, node_of, planner)
    type(state_t), intent(inout) :: s
    integer(c_int), intent(in) :: node_of(:) !< (ranks of the team)
    character(*), intent(in) :: planner
    integer :: waves, here, mine, nx, ny, nz
    s%fft = bx_make_fft(s%run, s%team, s%crystal%grid, s%basis%column_xy, s%basis%column_owner, &
                        node_of, batch, planner)
    waves = s%waves()
    mine = size(s%band)
    here = s%height
    allocate (s%kinetic(2*waves), s%beta(2*waves/s%factor(), s%crystal%projectors()))
    allocate (s%parts(merge(0, waves, s%crystal%gamma), merge(0, 2*mine, s%crystal%gamma)))
    allocate (s%d(most_channels, most_channels, s%crystal%atoms))
    allocate (s%psi(2*waves, mine, s%crystal%kpoints), s%h(2*waves, mine))
    allocate (s%shared(2*max(waves*mine, here*s%crystal%bands), 2))
    s%p(1:2*waves, 1:mine) => s%shared(:, 1)
    s%hp(1:2*waves, 1:mine) => s%shared(:, 2)
    s%spare(1:2*here, 1:s%crystal%bands) => s%shared(:, 1)
    s%spare_h(1:2*here, 1:s%crystal%bands) => s%shared(:, 2)
    allocate (s%projection(s%crystal%projectors(), s%factor()*mine, 2))
    allocate (s%energy(s%crystal%bands, s%crystal%kpoints))
    allocate (s%wide(2*here, s%crystal%bands), s%wide_h(2*here, s%crystal%bands))
    allocate (s%buffer(merge(2*here*s%npar*mine, 0, s%npar > 1)))
    nx = s%crystal%grid(1)
    ny = s%crystal%grid(2)
    nz = s%fft%planes
    allocate (s%potential(nx, ny, nz), s%ionic(nx, ny, nz), s%density(nx, ny, nz), &
              s%density_out(nx, ny, nz), s%density_exact(nx, ny, nz))
    if (bx_is_hollow()) then ! nobody looks at the answer; SimGrid's first messages carry data
      call sum_over(s%energy(:1, 1), s%team, .false.)
      call sum_over(s%energy(:1, 1), s%across, .false.)
      return
    end if
    call set_ionic_potential(s)
    call set_exact_density(s)
    call set_probe(s)
    s%d_exact = exact_one_centre_terms(s%crystal, s%spectra(1)%shift)
  end subroutine make_state

  !> Frees what make_state has allocated.  Collective.
  subroutine free_state(s)
    type(state_t), intent(inout) :: s
    deallocate (s%d, s%psi, s%h, s%shared, s%wide, s%wide_h)
    deallocate (s%potential, s%ionic, s%density, s%density_out, s%density_exact)
    call s%matrix%destroy()
    call bx_free_fft(s%fft)
    call MPI_Comm_free(s%team)
    call MPI_Comm_free(s%across)
  end subroutine free_state

  !> Sets the bands to the exact eigenstates plus noise of the norm `noise`, the same on every
  !> layout, and their density.  Collective.
  subroutine start_state(s, seed, noise)
    type(state_t), intent(inout) :: s
    integer(c_int64_t), intent(in) :: seed
    real(dp), intent(in) :: noise
    integer(c_int64_t) :: index
    integer, allocatable :: g(:, :)
    real(dp) :: size_of_noise
    integer :: k, i, n
    g = s%basis%labels()
    s%failed = .false.
    s%infinite = .false.
    do k = 1, s%crystal%kpoints
      call choose_kpoint(s, k)
      s%energy(:, k) = s%spectra(k)%energy(:s%crystal%bands)
      do i = 1, size(s%band)
        if (bx_is_hollow()) exit ! no memory is touched for what is not multiplied
        associate (c => s%psi(:, i, k))
          call s%basis%exact(s%spectra(k), s%spectra(k)%state(s%band(i)), c)
          do n = 1, s%waves()
            index = address(g(:, n), s%band(i), k)
            size_of_noise = noise/(1 + s%kinetic(2*n)/minval(s%crystal%quantum()))
            c(2*n - 1) = c(2*n - 1) + size_of_noise*bx_uniform(seed, 2*index)
            if (n /= s%basis%origin .or. .not. s%crystal%gamma) then
              c(2*n) = c(2*n) + size_of_noise*bx_uniform(seed, 2*index + 1)
            end if
          end do
        end associate
      end do
      if (.not. bx_is_sampled()) call orthonormalise(s, s%psi(:, :, k))
    end do
    if (.not. bx_is_hollow()) s%density = s%density_exact
    call set_potential(s)
  end subroutine start_state

  !> A number for each coefficient, for bx_uniform.
  pure integer(c_int64_t) function address(g, band, k) result(index)
    integer, intent(in) :: g(3), band, k
    integer, parameter :: span = 2048 !< grids are smaller
    index = ((int(k, c_int64_t)*1048576 + band)*span + modulo(g(1), span))*span + modulo(g(2), span)
    index = index*span + modulo(g(3), span)
  end function address

  !> One self-consistent-field step: one-centre terms; at each k-point diagonalisation among all
  !> bands, `inner` minimisations and orthonormalisation; density and potential.  Collective.
  subroutine scf_step(s, ffts)
    type(state_t), intent(inout) :: s
    type(pair_ffts_t), intent(inout) :: ffts
    integer :: k, i
    call sum_one_centre_terms(s)
    if (.not. bx_is_hollow()) s%density_out = 0
    do k = 1, s%crystal%kpoints
      call apply_at(s, ffts, k)
      call diagonalise_subspace(s, s%psi(:, :, k), s%h, s%energy(:, k))
      do i = 1, s%inner
        call update_bands(s, s%psi(:, :, k), s%h)
      end do
      call orthonormalise(s, s%psi(:, :, k))
      call add_density(s, s%psi(:, :, k))
    end do
    call finish_density(s)
  end subroutine scf_step

  !> Applies H at k-point k to all bands: h = H psi, with exact exchange for a hybrid functional.
  subroutine apply_at(s, ffts, k)
    type(state_t), intent(inout) :: s
    type(pair_ffts_t), intent(inout) :: ffts
    integer, intent(in) :: k
    call choose_kpoint(s, k)
    call apply_hamiltonian(s, s%psi(:, :, k), s%h)
    if (.not. s%crystal%hybrid) return
    call apply_exchange(s, ffts, s%psi(:, :, k), s%hp)
    s%h = s%h + s%hp
  end subroutine apply_at

  !> Exact exchange of the occupied bands among themselves, this rank's bands' part: Hartree.
  !> Collective.
  real(dp) function exchange_step(s, ffts) result(energy)
    type(state_t), intent(inout) :: s
    type(pair_ffts_t), intent(inout) :: ffts
    call apply_exchange(s, ffts, s%psi(:, :, 1), s%hp)
    energy = exchange_energy(s, s%psi(:, :, 1), s%hp)
  end function exchange_step

  !> Sets s%energy to the eigenvalues of H among the present bands (Hartree).  Collective.
  subroutine evaluate(s, ffts, residual)
    type(state_t), intent(inout) :: s
    type(pair_ffts_t), intent(inout) :: ffts
    real(dp), intent(out) :: residual !< largest of this rank's occupied bands: Hartree
    real(dp), allocatable :: norms(:)
    integer :: k
    residual = 0
    call sum_one_centre_terms(s)
    do k = 1, s%crystal%kpoints
      call apply_at(s, ffts, k)
      call diagonalise_subspace(s, s%psi(:, :, k), s%h, s%energy(:, k))
      norms = residual_norms(s, s%psi(:, :, k), s%h, s%energy(s%band, k))
      residual = max(residual, bx_largest(pack(norms, s%band <= s%occupied)))
    end do
  end subroutine evaluate

  !> Seconds of scf_step on this rank, with so many threads, each on a core of its own.
  pure function step_seconds(s, threads) result(seconds)
    type(state_t), intent(in) :: s
    integer, intent(in) :: threads
    real(dp) :: seconds, points, fft, blas, bands, mine, rows, share
    integer :: transforms, fields, twos
    points = product(real(s%crystal%grid, dp))
    bands = s%crystal%bands
    mine = size(s%band)
    rows = 2.0_dp*s%height
    fields = fields_of(s%crystal, size(s%band))
    transforms = 2*(1 + s%inner)*fields + fields_of(s%crystal, count(s%band <= s%occupied))
    if (s%crystal%hybrid) then
      twos = fields_of(s%crystal, count(s%band <= s%occupied))
      transforms = transforms + twos + fields + 2*twos*s%crystal%bands + fields_of_groups(s)
    end if
    fft = transforms*5*points*log(points)/log(2.0_dp)/s%ncore
    blas = 8.0_dp*s%waves()*s%crystal%projectors()*mine*(1 + s%inner) + 8*s%factor()*bands**2*rows
    ! the projectors of another k-point
    if (s%crystal%kpoints > 1) blas = blas + 40.0_dp*s%waves()*s%crystal%projectors()
    share = merge(1.0_dp, 1.0_dp/s%ranks, s%knobs%linear_algebra == "lapack")
    blas = blas + 10*s%factor()**2*bands**3*share
    seconds = s%crystal%kpoints*(fft/fft_rate + blas/blas_rate)
    seconds = seconds + one_centre/fft_rate*((s%crystal%atoms + s%ranks - 1)/s%ranks)
    seconds = seconds/threads
  end function step_seconds

end module npar_scf
