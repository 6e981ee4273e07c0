! Tersoff's potential: energy 1/2 sum_i sum_j fc(r_ij) [A exp(-lambda r_ij) - b_ij B exp(-mu r_ij)],
! b_ij = (1 + (beta zeta_ij)^n)^(-1/2n), zeta_ij = sum_k fc(r_ik) g(theta_ijk)
! (J. Tersoff, Phys. Rev. B 39, 5566 (1989), equations 1 and 2).
!
! Neighbours in reach are few, four in SiC, so that vector units take as many atoms at once, each
! with its own neighbours in slots; slots that an atom lacks have no weight.  Terms of two
! neighbours j and k serve both zeta_ij and zeta_ik: the angle is the same.
module md_tersoff
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use md_potential, only: most_species, potential_t
  implicit none (type, external)
  private
  public :: tersoff_pass

  integer, parameter :: lanes = 8 !< atoms that are computed at once
  real(dp), parameter :: pi = acos(-1.0_dp)
  real(dp), parameter :: least_zeta = 1e-30_dp !< b is 1 there to the last digit

contains

  !> Adds the forces (eV/A) of the bonds of atoms first..last, on them and on their neighbours, to
  !> `f`.  Atoms outside direct(1)..direct(2) are other threads': their forces go to `spill`.
  !> Entries are those of worker_t in md_list; `most` is the largest number of neighbours of an
  !> atom.
  subroutine tersoff_pass(p, first, last, start, entry, most, x, species, direct, f, spill, &
                          energy, pair_energy)
    type(potential_t), intent(in) :: p
    integer, intent(in) :: first, last, start(first:), entry(*), most, species(*), direct(2)
    real(dp), intent(in) :: x(4, *)
    real(dp), intent(inout) :: f(4, *), spill(4, *)
    real(dp), intent(out) :: energy !< of the bonds of these centres: eV
    real(dp), intent(inout), optional :: pair_energy(*) !< of the bonds of each centre: eV
    real(dp), dimension(lanes, most) :: dx, dy, dz, r2
    integer, dimension(lanes, most) :: other, pair
    integer :: count(lanes), centre(lanes), i, l, group
    real(dp) :: bonds(lanes)
    energy = 0
    do i = first, last, lanes
      group = min(lanes, last - i + 1)
      call collect(p, i, group, first, start, entry, x, species, count, centre, dx, dy, dz, r2, &
                   other, pair)
      call bond_forces(p, i, group, count, centre, dx, dy, dz, r2, other, pair, direct, f, &
                       spill, bonds)
      energy = energy + sum(bonds(:group))
      if (present(pair_energy)) then
        do l = 1, group
          pair_energy(i + l - 1) = bonds(l)
        end do
      end if
    end do
  end subroutine tersoff_pass

  !> Neighbours in reach of the `group` atoms from i on, as vectors from the centre.
  subroutine collect(p, i, group, first, start, entry, x, species, count, centre, dx, dy, dz, r2, &
                     other, pair)
    type(potential_t), intent(in) :: p
    integer, intent(in) :: i, group, first, start(first:), entry(*), species(*)
    real(dp), intent(in) :: x(4, *)
    integer, intent(out) :: count(lanes), centre(lanes)
    real(dp), intent(inout), dimension(lanes, *) :: dx, dy, dz, r2
    integer, intent(inout), dimension(lanes, *) :: other, pair
    real(dp) :: xi, yi, zi, ddx, ddy, ddz, d2, limit(0:most_species - 1)
    integer :: l, k, m, n, a, b, atom
    do l = 1, group
      atom = i + l - 1
      a = species(atom)
      limit = p%outer(:, a)**2
      xi = x(1, atom)
      yi = x(2, atom)
      zi = x(3, atom)
      m = 0
      do k = start(atom), start(atom + 1) - 1
        n = entry(k)/4
        b = iand(entry(k), 3)
        ddx = x(1, n) - xi
        ddy = x(2, n) - yi
        ddz = x(3, n) - zi
        d2 = ddx*ddx + ddy*ddy + ddz*ddz
        dx(l, m + 1) = ddx
        dy(l, m + 1) = ddy
        dz(l, m + 1) = ddz
        r2(l, m + 1) = d2
        other(l, m + 1) = n
        pair(l, m + 1) = 1 + b + most_species*(a - 1)
        m = m + merge(1, 0, d2 < limit(b))
      end do
      count(l) = m
      centre(l) = a
    end do
    count(group + 1:) = 0
    centre(group + 1:) = 1
    do l = 1, lanes ! slots without weight, which must not divide by zero
      do m = count(l) + 1, maxval(count)
        dx(l, m) = 1
        dy(l, m) = 0
        dz(l, m) = 0
        r2(l, m) = 1
        pair(l, m) = 1
      end do
    end do
  end subroutine collect

  !> Adds the forces of the bonds of `group` centres from atom i on, one centre per lane; bonds(l)
  !> is the energy of each (eV).
  subroutine bond_forces(p, i, group, count, centre, dx, dy, dz, r2, other, pair, direct, f, &
                         spill, bonds)
    type(potential_t), intent(in) :: p
    integer, intent(in) :: i, group, count(lanes), centre(lanes), direct(2)
    real(dp), intent(in), dimension(lanes, *) :: dx, dy, dz, r2
    integer, intent(in), dimension(lanes, *) :: other, pair
    real(dp), intent(inout) :: f(4, *), spill(4, *)
    real(dp), intent(out) :: bonds(lanes)
    real(dp), dimension(lanes, maxval(count)) :: ux, uy, uz, inverse, r, cut, slope, zeta, weight, &
      along, fx, fy, fz
    real(dp), dimension(lanes, maxval(count)*(maxval(count) - 1)/2) :: cosine, g, dg
    real(dp), dimension(most_species**2) :: repulsion, attraction, lambda, mu
    real(dp), dimension(lanes) :: c2, d2, ratio, h, beta, n, sx, sy, sz
    real(dp) :: w, q, bend, stretch_j, stretch_k, repel, attract, t, b, db
    integer :: slots, l, j, k, m
    slots = maxval(count)
    bonds = 0
    if (slots == 0) return
    repulsion = reshape(p%repulsion, [most_species**2])
    attraction = reshape(p%attraction, [most_species**2])
    lambda = reshape(p%lambda, [most_species**2])
    mu = reshape(p%mu, [most_species**2])
    c2 = p%c2(centre)
    d2 = p%d2(centre)
    ratio = c2/d2
    h = p%h(centre)
    beta = p%beta_n(centre)
    n = p%n(centre)
    do j = 1, slots
      !$omp simd
      do l = 1, lanes
        inverse(l, j) = 1/sqrt(r2(l, j))
        r(l, j) = r2(l, j)*inverse(l, j)
        ux(l, j) = dx(l, j)*inverse(l, j)
        uy(l, j) = dy(l, j)*inverse(l, j)
        uz(l, j) = dz(l, j)*inverse(l, j)
        cut(l, j) = merge(1.0_dp, 0.0_dp, j <= count(l))
        slope(l, j) = 0
        zeta(l, j) = 0
        fx(l, j) = 0
        fy(l, j) = 0
        fz(l, j) = 0
      end do
    end do
    call smooth(p, count, centre, pair, r, cut, slope)

    m = 0
    do k = 2, slots
      do j = 1, k - 1
        m = m + 1
        !$omp simd private(w, q)
        do l = 1, lanes
          cosine(l, m) = ux(l, j)*ux(l, k) + uy(l, j)*uy(l, k) + uz(l, j)*uz(l, k)
          w = h(l) - cosine(l, m)
          q = c2(l)/(d2(l) + w*w)
          g(l, m) = 1 + ratio(l) - q
          dg(l, m) = -2*w*q*q/c2(l)
          zeta(l, j) = zeta(l, j) + cut(l, k)*g(l, m)
          zeta(l, k) = zeta(l, k) + cut(l, j)*g(l, m)
        end do
      end do
    end do

    do j = 1, slots
      !$omp simd private(repel, attract, q, t, b, db)
      do l = 1, lanes
        repel = repulsion(pair(l, j))*exp(-lambda(pair(l, j))*r(l, j))
        attract = attraction(pair(l, j))*exp(-mu(pair(l, j))*r(l, j))
        q = max(zeta(l, j), least_zeta)
        t = exp(n(l)*log(beta(l)*q))
        b = exp(-0.5_dp/n(l)*log(1 + t))
        db = -0.5_dp*b*t/((1 + t)*q)
        weight(l, j) = -0.5_dp*cut(l, j)*attract*db
        bonds(l) = bonds(l) + 0.5_dp*cut(l, j)*(repel - b*attract)
        along(l, j) = 0.5_dp*(slope(l, j)*(repel - b*attract) + &
                              cut(l, j)*(mu(pair(l, j))*b*attract - lambda(pair(l, j))*repel))
      end do
    end do

    m = 0
    do k = 2, slots
      do j = 1, k - 1
        m = m + 1
        !$omp simd private(bend, stretch_j, stretch_k)
        do l = 1, lanes
          bend = (weight(l, j)*cut(l, k) + weight(l, k)*cut(l, j))*dg(l, m)
          along(l, j) = along(l, j) + weight(l, k)*slope(l, j)*g(l, m) &
                        - bend*inverse(l, j)*cosine(l, m)
          along(l, k) = along(l, k) + weight(l, j)*slope(l, k)*g(l, m) &
                        - bend*inverse(l, k)*cosine(l, m)
          stretch_j = bend*inverse(l, j)
          stretch_k = bend*inverse(l, k)
          fx(l, j) = fx(l, j) - stretch_j*ux(l, k)
          fy(l, j) = fy(l, j) - stretch_j*uy(l, k)
          fz(l, j) = fz(l, j) - stretch_j*uz(l, k)
          fx(l, k) = fx(l, k) - stretch_k*ux(l, j)
          fy(l, k) = fy(l, k) - stretch_k*uy(l, j)
          fz(l, k) = fz(l, k) - stretch_k*uz(l, j)
        end do
      end do
    end do

    sx = 0
    sy = 0
    sz = 0
    do j = 1, slots
      !$omp simd
      do l = 1, lanes
        fx(l, j) = fx(l, j) - along(l, j)*ux(l, j)
        fy(l, j) = fy(l, j) - along(l, j)*uy(l, j)
        fz(l, j) = fz(l, j) - along(l, j)*uz(l, j)
        sx(l) = sx(l) + fx(l, j)
        sy(l) = sy(l) + fy(l, j)
        sz(l) = sz(l) + fz(l, j)
      end do
    end do
    do l = 1, group
      do j = 1, count(l)
        k = other(l, j)
        if (k >= direct(1) .and. k <= direct(2)) then
          f(1:3, k) = f(1:3, k) + [fx(l, j), fy(l, j), fz(l, j)]
        else
          spill(1:3, k) = spill(1:3, k) + [fx(l, j), fy(l, j), fz(l, j)]
        end if
      end do
      k = i + l - 1
      f(1, k) = f(1, k) - sx(l)
      f(2, k) = f(2, k) - sy(l)
      f(3, k) = f(3, k) - sz(l)
    end do
  end subroutine bond_forces

  !> The cutoff function and its slope between the inner and the outer radius, where few bonds are.
  pure subroutine smooth(p, count, centre, pair, r, cut, slope)
    type(potential_t), intent(in) :: p
    integer, intent(in) :: count(lanes), centre(lanes), pair(lanes, *)
    real(dp), intent(in) :: r(lanes, *)
    real(dp), intent(inout) :: cut(lanes, *), slope(lanes, *)
    real(dp) :: inner(most_species**2), wave, t
    integer :: l, j, a, b
    inner = reshape(p%inner, [most_species**2])
    do l = 1, lanes
      do j = 1, count(l)
        if (r(l, j) <= inner(pair(l, j))) cycle
        a = centre(l)
        b = pair(l, j) - most_species*(a - 1)
        wave = pi/(p%outer(b, a) - p%inner(b, a))
        t = wave*(r(l, j) - p%inner(b, a))
        cut(l, j) = 0.5_dp + 0.5_dp*cos(t)
        slope(l, j) = -0.5_dp*wave*sin(t)
      end do
    end do
  end subroutine smooth

end module md_tersoff
