! The closed form of the NPAR kernel against dense diagonalisation of the same Hamiltonian, written
! down plane wave by plane wave; and what its distribution promises.
program unit_npar
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use, intrinsic :: ieee_arithmetic, only: ieee_quiet_nan, ieee_value
  use bx_harness, only: bx_largest
  use npar_accuracy, only: accuracy_of, accuracy_t
  use npar_basis, only: basis_t, beyond_cutoff, count_plane_waves, make_basis
  use npar_cases, only: nice_size, number, read_box
  use npar_model, only: crystal_t, depth, grid_of_pairs, householder, pi, solve_spectra, &
    sorted, spectrum_t
  use npar_paw, only: idle_ranks
  use unit_check, only: check, end_checks
  implicit none (type, external)

  interface
    subroutine dsyevd(jobz, uplo, n, a, lda, w, work, lwork, iwork, liwork, info)
      import :: dp
      implicit none (type, external)
      character, intent(in) :: jobz, uplo
      integer, intent(in) :: n, lda, lwork, liwork
      type(*), intent(inout) :: a(*)
      real(dp), intent(out) :: w(*), work(*)
      integer, intent(out) :: iwork(*), info
    end subroutine dsyevd
  end interface

  call test_small_things()
  call test_distribution()
  call test_closed_form(crystal_t(bands=12, atoms=1, grid=20, box=7.0_dp, cutoff=20.0_dp))
  call test_closed_form(crystal_t(bands=8, atoms=1, kpoints=2, grid=20, &
                                  box=[7.0_dp, 6.5_dp, 8.0_dp], cutoff=20.0_dp, gamma=.false.))
  call test_cutoff(crystal_t(bands=12, atoms=1, grid=20, box=7.0_dp, cutoff=11.0_dp, &
                             gamma=.false.))
  call test_cutoff(crystal_t(bands=9, atoms=1, grid=24, box=[8.0_dp, 4.0_dp, 7.0_dp], &
                             cutoff=13.0_dp, gamma=.false.))
  call test_exchange()
  call end_checks("unit_npar", first=.true.)

contains

  subroutine test_small_things()
    type(crystal_t) :: rutile
    integer :: i
    real(dp) :: nan
    call check(all(sorted([3.0_dp, 1.0_dp, 2.0_dp, 1.0_dp]) == [2, 4, 3, 1]), "sorted")
    call check(nice_size(11) == 12 .and. nice_size(13) == 14 .and. nice_size(97) == 98, "nice_size")
    call check(all(read_box("2,3,4.5") > [1.9_dp, 2.9_dp, 4.4_dp]), "box of three")
    call check(all(read_box("2") > 1.9_dp), "box of one")
    call check(all(.not. read_box("2,3") > 0), "box of two")
    call check(all(.not. read_box("2,x,3") > 0), "box of letters")
    call check(all(.not. read_box("-2") > 0), "box below zero")
    call check(number(13.75_dp) == "13.75" .and. number(0.5_dp) == "0.5", "numbers")
    call check(number(1e6_dp) == "1E+06" .and. number(2.5e-7_dp) == "2.5E-07" .and. &
               number(0.0_dp) == "0", "large and small numbers")
    nan = ieee_value(nan, ieee_quiet_nan)
    call check(.not. bx_largest([1.0_dp, nan]) <= huge(nan), "the largest of a NaN is infinite")
    ! Catlow et al. (2010): three quarters idle for 64 atoms on 256 cores, 1298 of 2048 for 750
    call check(idle_ranks(64, 256) == 192, "idle ranks of benchmark 1")
    call check(idle_ranks(750, 2048) == 1298, "idle ranks of benchmark 5")
    call check(idle_ranks(64, 32) == 0, "no idle ranks")
    rutile = crystal_t(atoms=8, channels=[18, 8], formula=3)
    call check(all([(rutile%projectors_before(i), i=1, 5)] == [0, 18, 26, 34, 52]) .and. &
               rutile%projectors() == 94, "projectors of titanium oxide")
    call check(all([(rutile%channels_of(i), i=1, 5)] == [18, 8, 8, 18, 8]), "channels of its atoms")
    do i = 1, rutile%atoms
      call check(abs(norm2(householder(i, rutile%channels_of(i))) - 1) <= 1e-12_dp, &
                 "norm of the reflection")
    end do
  end subroutine test_small_things

  !> Every plane wave has one owner, whatever the number of ranks, also more than columns.
  subroutine test_distribution()
    type(crystal_t) :: crystal
    type(basis_t) :: basis
    integer, allocatable :: seen(:, :, :)
    integer, allocatable :: g(:, :)
    integer :: ranks(6), r, i, me, waves(0:63), gamma
    ranks = [1, 2, 3, 5, 8, 64]
    do gamma = 0, 1
      crystal = crystal_t(bands=4, atoms=1, grid=20, box=7.0_dp, cutoff=3.0_dp, gamma=gamma == 1)
      do r = 1, size(ranks)
        allocate (seen(-9:9, -9:9, -9:9), source=0)
        waves = 0
        do me = 0, ranks(r) - 1
          basis = make_basis(crystal, ranks(r), me)
          g = basis%labels()
          waves(me) = basis%waves
          do i = 1, basis%waves
            seen(g(1, i), g(2, i), g(3, i)) = seen(g(1, i), g(2, i), g(3, i)) + 1
          end do
        end do
        call check(sum(waves) == count_plane_waves(crystal), "number of plane waves")
        call check(maxval(seen) == 1, "one owner each")
        if (ranks(r) <= 3) call check(maxval(waves) - minval(waves(:ranks(r) - 1)) <= 12, "balance")
        deallocate (seen)
      end do
    end do
  end subroutine test_distribution

  subroutine test_closed_form(crystal)
    type(crystal_t), intent(in) :: crystal
    type(crystal_t) :: whole
    type(spectrum_t), allocatable :: spectra(:)
    type(basis_t) :: basis
    real(dp), allocatable :: h(:, :), e(:), work(:)
    integer, allocatable :: iwork(:)
    integer :: occupied, k, n, info
    real(dp) :: error
    call solve_spectra(crystal, spectra, occupied)
    if (crystal%kpoints == 2) then ! of a mesh of 2 x 1 x 1
      call check(all(abs(spectra(2)%kpoint - [1.5_dp/5, 0.5_dp/3, 0.5_dp/3]) < 1e-15_dp), "k-point")
    end if
    whole = crystal
    whole%gamma = .false. ! the whole sphere, in which the matrix is real
    basis = make_basis(whole, 1, 0)
    n = basis%waves
    allocate (e(n), work(1 + 6*n), iwork(1))
    do k = 1, size(spectra)
      h = dense(crystal, spectra(k), basis%labels())
      call dsyevd("N", "U", n, h, n, e, work, size(work), iwork, 1, info)
      error = maxval(abs(e(:crystal%bands) - spectra(k)%energy(:crystal%bands)))
      call check(info == 0 .and. error <= 1e-10_dp, "closed form against dense diagonalisation")
      call check(all(abs(beyond_cutoff(crystal, spectra(k), 1) - directly(crystal, spectra(k), 1)) &
                     <= 1e-13_dp*directly(crystal, spectra(k), 1)), "beyond the cutoff")
    end do
  end subroutine test_closed_form

  !> With plane waves up to the cutoff, eigenvalues and density differ from the closed form by what
  !> npar_accuracy derives, and not by far less.
  subroutine test_cutoff(crystal)
    type(crystal_t), intent(in) :: crystal
    type(spectrum_t), allocatable :: spectra(:)
    type(basis_t) :: basis
    type(accuracy_t) :: accuracy
    real(dp), allocatable :: h(:, :), e(:), work(:)
    integer, allocatable :: iwork(:)
    real(dp) :: lost(crystal%bands), shift(crystal%bands), place(3), density, exact, worst
    integer :: occupied, n, i, info
    call solve_spectra(crystal, spectra, occupied)
    accuracy = accuracy_of(crystal, spectra, occupied, 0.0_dp)
    basis = make_basis(crystal, 1, 0)
    n = basis%waves
    allocate (e(n), work(1 + 6*n + 2*n**2), iwork(3 + 5*n))
    h = dense(crystal, spectra(1), basis%labels())
    call dsyevd("V", "U", n, h, n, e, work, size(work), iwork, size(iwork), info)
    do i = 1, crystal%bands
      lost(i) = sum(beyond_cutoff(crystal, spectra(1), spectra(1)%state(i))*[1, 0])
      shift(i) = e(i) - spectra(1)%energy(i)
    end do
    associate (ratio => maxval(shift)/(maxval(lost)*crystal%cutoff))
      call check(info == 0 .and. ratio > 0.5_dp .and. ratio < 2, "eigenvalues by what is lost")
    end associate
    worst = 0
    do i = 1, 50
      place = modulo(i*[0.4142_dp, 0.7321_dp, 0.2361_dp], 1.0_dp)
      density = density_at(h(:, :occupied), basis%labels(), place)
      exact = exact_density_at(spectra(1), occupied, place)
      worst = max(worst, abs(density - exact)/(2*occupied))
    end do
    call check(worst < accuracy%density .and. worst > accuracy%density/100, &
               "density by what is lost")
  end subroutine test_cutoff

  !> Of coefficients (waves, bands), at a place in units of the edges: electrons a box.
  pure real(dp) function density_at(c, g, place) result(density)
    real(dp), intent(in) :: c(:, :), place(3)
    integer, intent(in) :: g(:, :)
    complex(dp) :: wave(size(g, 2))
    integer :: i
    wave = [(exp(cmplx(0.0_dp, -2*pi*dot_product(g(:, i), place), dp)), i=1, size(g, 2))]
    density = 2*sum([(abs(sum(c(:, i)*wave))**2, i=1, size(c, 2))])
  end function density_at

  !> The same of the closed form.
  pure real(dp) function exact_density_at(s, occupied, place) result(density)
    type(spectrum_t), intent(in) :: s
    integer, intent(in) :: occupied
    real(dp), intent(in) :: place(3)
    complex(dp) :: amplitude
    integer :: i, d, n, m
    m = ubound(s%wave, 1)
    density = 0
    do i = 1, occupied
      amplitude = 1
      do d = 1, 3
        amplitude = amplitude*sum([(s%wave(n, s%quantum(d, s%state(i)), d) &
                                    *exp(cmplx(0.0_dp, -2*pi*n*place(d), dp)), n=-m, m)])
      end do
      density = density + 2*abs(amplitude)**2
    end do
  end function exact_density_at

  !> beyond_cutoff, wave by wave.
  function directly(crystal, s, state) result(sums)
    type(crystal_t), intent(in) :: crystal
    type(spectrum_t), intent(in) :: s
    integer, intent(in) :: state
    real(dp) :: sums(2), c
    integer :: x, y, z, m
    m = ubound(s%wave, 1)
    sums = 0
    do z = -m, m
      do y = -m, m
        do x = -m, m
          if (sum(crystal%quantum()*[x, y, z]**2) <= crystal%cutoff*(1 + 1e-12_dp)) cycle
          c = abs(s%wave(x, s%quantum(1, state), 1)*s%wave(y, s%quantum(2, state), 2) &
                  *s%wave(z, s%quantum(3, state), 3))
          sums = sums + [c**2, c]
        end do
      end do
    end do
  end function directly

  !> H(G, G'): kinetic energy, cosines between neighbours, projectors.
  function dense(crystal, s, g) result(h)
    type(crystal_t), intent(in) :: crystal
    type(spectrum_t), intent(in) :: s
    integer, intent(in) :: g(:, :)
    real(dp), allocatable :: h(:, :), state(:)
    real(dp) :: q(3)
    integer :: i, j, d, n
    n = size(g, 2)
    q = crystal%quantum()
    allocate (h(n, n), source=0.0_dp)
    do j = 1, n
      h(j, j) = sum(q*(g(:, j) + s%kpoint)**2)
      do i = 1, n
        if (sum(abs(g(:, i) - g(:, j))) /= 1) cycle
        d = maxloc(abs(g(:, i) - g(:, j)), 1)
        h(i, j) = depth(d)*q(d)
      end do
    end do
    ! sum over mixtures of P_a D_ab P_b' = sum over states of shift |state><state|
    do i = 1, crystal%projectors()
      state = [(s%wave(g(1, j), s%quantum(1, i), 1)*s%wave(g(2, j), s%quantum(2, i), 2) &
                *s%wave(g(3, j), s%quantum(3, i), 3), j=1, n)]
      do j = 1, n
        h(:, j) = h(:, j) + s%shift(i)*state*state(j)
      end do
    end do
  end function dense

  !> The occupied plane waves of one shell: six neighbours of G = 0 and itself.
  subroutine test_exchange()
    type(crystal_t) :: crystal
    type(spectrum_t), allocatable :: spectra(:)
    integer :: occupied
    real(dp) :: unit, expected
    crystal = crystal_t(bands=10, atoms=1, grid=20, box=6.0_dp, cutoff=12.0_dp, hybrid=.true.)
    call solve_spectra(crystal, spectra, occupied)
    call check(occupied == 7, "whole shells are occupied")
    ! pairs of G' and G at squared distances 1 (6 of them), 2 (12) and 4 (3), each in two orders
    unit = -0.25_dp*4*acos(-1.0_dp)/6.0_dp**3/(2*acos(-1.0_dp)/6)**2
    expected = unit*2*(6/1.0_dp + 12/2.0_dp + 3/4.0_dp)
    call check(abs(spectra(1)%exchange/expected - 1) < 1e-13_dp, "exchange of two shells")
    ! between whole shells a wave's mirror images are occupied with it, or it is not
    crystal%bands = 9
    call solve_spectra(crystal, spectra, occupied)
    call check(any(occupied == [3, 5]), "G = 0 and pairs are occupied")
    crystal%bands = 2
    call solve_spectra(crystal, spectra, occupied)
    call check(occupied == 0, "G = 0 alone has nothing to exchange with")
    call check(all(grid_of_pairs(spectra(1), 7, 1) == 3), "products of neighbours with G = 0")
    call check(all(grid_of_pairs(spectra(1), 7, 7) == 5), "products of neighbours")
  end subroutine test_exchange

end program unit_npar
