! The verification of a method, and of the state after its timed blocks.
module md_verify
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, c_ptr, dp => c_double
  use, intrinsic :: iso_fortran_env, only: error_unit
  use mpi_f08, only: MPI_Allreduce, MPI_DOUBLE_PRECISION, MPI_INTEGER8, MPI_IN_PLACE, MPI_SUM
  use bx_charges, only: is_hollow => bx_is_hollow
  use bx_harness, only: bx_block_steps, bx_check, bx_check_always, bx_largest, bx_note, bx_passed, &
    bx_refuse, bx_resources, bx_seed, bx_string_at, bx_traffic_classes, bx_traffic_read, &
    bx_traffic_t
  use md_atoms, only: atoms_t, copy_own
  use md_constraints, only: bond_error, bonds_of_all
  use md_domain, only: collect_atoms
  use md_spme, only: spme_sum
  use md_files, only: write_dump, write_restart
  use md_forces, only: cached_loops, find_forces
  use md_halo, only: forward
  use md_judge, only: copies_apart, displace, endpoint_t, find_departure, list_errors, &
    listed_pairs, molecule_errors, motion, outdated, own_step_errors, pair_error, remember, &
    step_errors, virial_of_energy
  use md_lattice, only: crystals
  use md_launch, only: census, counted, crystal, endpoints, ghosts, given, methods, neighbours, &
    origin, origin_is_listed, parameters_differ, run, sampled, seen, settled, start, start_moved, &
    start_step, system, warmed, world
  use md_oracle, only: oracle_boltzmann, site_energies, site_neighbours
  use md_potential, only: ionic_kind, is_rigid, most_species, tersoff_kind
  use md_reference, only: edge_energy, look, reference_errors, sample_t
  use md_system, only: list_full, failure_of_all, failure_t, skin_of, too_dense, use_style
  use md_verlet, only: advance, resume_from, hold_velocities, observation_t, observe
  implicit none (type, external)
  private
  public :: verify_method, verify_cached, restore, check_repeat

  !> Largest change of the energy in steps of 1 fs, relative to what is or becomes kinetic: of stiff
  !> bonds (Tersoff, molecules), of others.
  real(dp), parameter :: conserved(2) = [0.05_dp, 0.01_dp]
  !> Largest errors of an atom's sums; of those with charges, whose error function is a polynomial:
  !> 240 neighbours, each to within 3e-11 eV/A and eV; of sums over all atoms.
  real(dp), parameter :: exact = 1e-12_dp, of_charges = 1e-8_dp, of_sums = 1e-11_dp
  !> Of the virial, by a millionth of growth, which energies of 1e-15 tell to 1e-9; but where a bond
  !> of Tersoff's potential begins, its second derivative has a step.
  real(dp), parameter :: of_growth = 1e-5_dp
  !> Of two charges, whose polynomial has this error at its degree, and 7 times as much at one less.
  real(dp), parameter :: of_pair = 1e-10_dp
  !> Of the perfect crystal by the smooth particle mesh, which is an interpolation.
  real(dp), parameter :: of_madelung = 1e-6_dp
  !> Of bonds, relative to their lengths; of velocities in steps of 1 fs with bonds: those of
  !> shorter steps have more of the rounding of positions.
  real(dp), parameter :: of_bonds = 2e-8_dp, of_shaken = 1e-11_dp

  type(c_ptr) :: outcomes !< of the method that is verified

contains

  !> Verifies method m before it is timed.  Collective.
  subroutine verify_method(m, verification)
    integer, intent(in) :: m
    type(c_ptr), intent(in) :: verification
    outcomes = verification
    system%domain%sealed = .true.
    if (.not. settled) call settle(m)
    if (settled) then
      if (.not. is_hollow()) call verify_renewal(m)
      if (bx_passed(run, outcomes)) call verify_block(m)
    end if
    system%domain%sealed = .false.
  end subroutine verify_method

  !> Adds an outcome.
  subroutine check(name, error, tolerance, unit)
    character(*), intent(in) :: name, unit
    real(dp), intent(in) :: error, tolerance
    call bx_check(outcomes, name, error, tolerance, unit)
  end subroutine check

  !> Runs from the start to --until, and writes the files of --save and --dump.  All blocks begin
  !> there.
  subroutine settle(m)
    integer, intent(in) :: m
    type(observation_t) :: first
    real(dp) :: sent(2)
    real(dp), allocatable :: energies(:)
    integer(c_int64_t) :: stop_at, pairs
    call use_style(system, methods(m)%style)
    call take_atoms(start)
    if (warmed) call check_start()
    system%step = start_step
    system%listed = .false.
    call forget_failures()
    if (allocated(start_moved)) then
      call resume_from(system, start_moved)
    else
      call advance(system, 0)
      if (is_rigid(system%potential)) call hold_velocities(system)
    end if
    if (failed()) return
    if (crystal > 0 .and. .not. allocated(start_moved)) call check_crystal()
    first = observe(system)
    pairs = listed_pairs(system)
    sent = 0
    do while (system%step < given%until)
      stop_at = given%until
      if (given%save_every > 0) stop_at = min(stop_at, (system%step/given%save_every + 1) &
                                              *given%save_every)
      sent = sent - traffic_less_tally()
      call advance(system, int(min(stop_at - system%step, 1000000000_c_int64_t)))
      sent = sent + traffic_less_tally()
      if (failed()) return
      if (given%save_every > 0 .and. system%step < given%until) then
        if (.not. saved()) return
      end if
    end do
    call check_traffic(sent)
    call judge(energies, seen)
    call check_conserved(first, seen, listed_pairs(system) - pairs)
    if (failed()) return
    call describe()
    if (bx_string_at(given%dump) /= "") then
      if (.not. dumped(energies)) return
    end if
    if (.not. bx_passed(run, outcomes)) then
      if (bx_string_at(given%save) /= "") call bx_note(run, "--save "// &
        bx_string_at(given%save)//": not written, as the answer is wrong")
      return
    end if
    if (bx_string_at(given%save) /= "") then
      if (.not. saved()) return
    end if
    call copy_own(system%atoms, origin)
    origin_is_listed = keeps_list(m)
    start = atoms_t() ! its memory is another's
    settled = .true.
  end subroutine settle

  !> Checks that the velocities to start with are of --temperature, bonds not counted.
  subroutine check_start()
    real(dp) :: kinetic, temperature
    call motion(system, kinetic, temperature)
    temperature = 2*kinetic/(3*oracle_boltzmann*real(system%total - 1, dp))
    call check("start", abs(temperature - given%temperature)/max(1.0_dp, given%temperature), &
               of_sums, "of the temperature")
  end subroutine check_start

  !> Checks the atoms of a crystal before they move: all have their neighbours, and, but for
  !> molecules, each has the energy of its site.
  subroutine check_crystal()
    real(dp), allocatable :: energies(:)
    real(dp) :: sites(most_species), worst
    integer :: k
    if (is_hollow()) return
    call check("crystal_pairs", real(abs(listed_pairs(system) - site_neighbours(system%potential, &
               crystals(crystal))*(system%total/crystals(crystal)%sites)), dp), 0.0_dp, "pairs")
    if (is_rigid(system%potential)) return
    allocate (energies(system%atoms%own))
    sites = site_energies(system%potential, crystals(crystal))
    call find_forces(system, energies)
    worst = 0
    do k = 1, system%atoms%own
      associate (site => sites(system%atoms%species(k)))
        worst = max(worst, bx_largest([energies(k) - site])/abs(site))
      end associate
    end do
    call check("crystal", worst, merge(of_madelung, exact, has_mesh()), "of each energy")
  end subroutine check_crystal

  !> Sets the system to its state at --until, in the style of method m, with the list that it had
  !> there, which may be of an earlier step.  Collective.
  subroutine restore(m)
    integer, intent(in) :: m
    call use_style(system, methods(m)%style)
    call take_atoms(origin)
    system%step = given%until
    system%listed = .false.
    call forget_failures()
    if (origin_is_listed .and. keeps_list(m)) then
      associate (n => origin%own)
        system%atoms%x(1:3, :n) = origin%listed(:, :n)
        call resume_from(system, origin%x(1:3, :n))
      end associate
    else
      call advance(system, 0)
    end if
  end subroutine restore

  !> Whether method m can go on with the list of an earlier step: one of the same atoms in the same
  !> order on each rank.
  logical function keeps_list(m)
    integer, intent(in) :: m
    keeps_list = .not. (methods(m)%style%dlpoly3 .or. methods(m)%style%replicated)
  end function keeps_list

  !> Sets the system's atoms to this rank's of `atoms`: its own, or, where each rank has a copy of
  !> the box, those of all ranks.  Collective.
  subroutine take_atoms(atoms)
    type(atoms_t), intent(in) :: atoms
    if (system%domain%copies > 1) then
      call collect_atoms(system%domain, system%total, atoms, system%atoms)
    else
      call copy_own(atoms, system%atoms)
    end if
  end subroutine take_atoms

  !> Clears the failures of an earlier method.
  subroutine forget_failures()
    system%failure = failure_t()
    system%domain%damaged_from = -1
  end subroutine forget_failures

  !> Checks that lists are made anew when atoms have moved by more than half the skin, with all
  !> pairs within the lists' reach and no others.
  subroutine verify_renewal(m)
    integer, intent(in) :: m
    real(dp), parameter :: most = 0.8_dp !< A: with a larger one, shaken atoms would meet
    type(sample_t), allocatable :: samples(:)
    integer(c_int64_t) :: wrong
    real(dp) :: skin
    skin = system%skin
    system%skin = min(skin, most)
    call use_style(system, methods(m)%style)
    call take_atoms(origin)
    system%step = given%until
    system%listed = .false.
    call forget_failures()
    call advance(system, 0)
    call displace(system, 0.55_dp*system%skin, bx_seed(run))
    call forward(system%domain, system%atoms%x, 4, 3, .true.) ! a molecule's ghosts go with it
    call advance(system, 1)
    if (.not. failed(forgiven=too_dense)) then
      samples = look(system, sampled)
      wrong = list_errors(system, samples, skin_of(system)) + outdated(system, skin_of(system)/2)
      call check("renewal", real(wrong, dp), 0.0_dp, "pairs and atoms")
    end if
    system%skin = skin
  end subroutine verify_renewal

  !> Verifies a block's steps one by one.  Timed blocks repeat them, and must end at the same
  !> places.
  subroutine verify_block(m)
    integer, intent(in) :: m
    type(observation_t) :: first, now
    type(sample_t), allocatable :: before(:), after(:)
    type(endpoint_t) :: all_before
    real(dp), allocatable :: energies(:)
    real(dp) :: sent(2), errors(3)
    integer(c_int64_t) :: n, pairs
    logical :: rigid
    rigid = is_rigid(system%potential)
    call restore(m)
    if (failed()) return
    first = observe(system)
    pairs = listed_pairs(system)
    call check_agrees(first)
    after = look(system, sampled)
    errors = 0
    sent = 0
    do n = 1, bx_block_steps(run)*given%steps
      before = after
      if (.not. rigid) call remember(system, all_before, with_forces=.true.)
      sent = sent - traffic_less_tally()
      call advance(system, 1)
      sent = sent + traffic_less_tally()
      if (failed()) return
      after = look(system, sampled)
      if (rigid) then
        errors = max(errors, molecule_errors(system, before, after, given%timestep*1e-3_dp))
      else
        errors(:2) = max(errors(:2), step_errors(system, before, after, given%timestep*1e-3_dp), &
                         own_step_errors(system, all_before, given%timestep*1e-3_dp))
      end if
    end do
    call check("positions", errors(1), 1e-14_dp, "of the box")
    call check("velocities", errors(2), merge(of_shaken*max(1.0_dp, 1/given%timestep), 1e-13_dp, &
               rigid), "of the fastest")
    if (rigid) then
      call check("bonds", errors(3), of_bonds, "of each sampled bond")
      call check("all_bonds", bond_error(system%constraints, system%atoms), of_bonds, &
                 "of each bond")
      call check("bond_count", abs(bonds_of_all(system%constraints, system%domain, &
                 system%atoms) - real(system%total, dp)), 0.0_dp, "bonds")
    end if
    call check_traffic(sent)
    if (system%domain%copies > 1) then
      call check("copies", real(copies_apart(system), dp), 0.0_dp, "atoms")
    end if
    call judge(energies, now)
    call check_conserved(first, now, listed_pairs(system) - pairs)
    if (failed()) return
    call remember(system, endpoints(m), with_forces=.false.)
  end subroutine verify_block

  !> Checks that a method observes at --until what the first one has observed there.
  subroutine check_agrees(now)
    type(observation_t), intent(in) :: now
    real(dp) :: other(3)
    other = [now%potential - seen%potential, now%kinetic - seen%kinetic, &
             (now%pressure - seen%pressure)*system%box%volume]
    call check("agrees", bx_largest(other)/max(1.0_dp, abs(now%potential), now%kinetic), of_sums, &
               "of the energy")
  end subroutine check_agrees

  !> Checks that as many messages and bytes were sent as were meant to be.
  subroutine check_traffic(sent)
    real(dp), intent(in) :: sent(2) !< messages and bytes of this rank, minus those that were meant
    real(dp) :: all(2)
    call MPI_Allreduce(sent, all, 2, MPI_DOUBLE_PRECISION, MPI_SUM, world)
    call bx_check_always(outcomes, "messages", abs(all(1)), 0.0_dp, "messages")
    call bx_check_always(outcomes, "bytes", abs(all(2)), 0.0_dp, "bytes")
  end subroutine check_traffic

  !> Checks what is observed, forces, energies, lists and atoms of the system as it is.
  subroutine judge(energies, now)
    real(dp), allocatable, intent(out) :: energies(:) !< of own atoms, (own): eV
    type(observation_t), intent(out) :: now
    type(sample_t), allocatable :: samples(:)
    real(dp), allocatable :: force(:, :), energy(:) !< of the samples, by charges
    real(dp) :: errors(2), virial, of_mesh_alone
    allocate (energies(system%atoms%own))
    if (.not. is_hollow()) virial = virial_of_energy(system)
    now = observe(system, energies)
    if (is_hollow()) return
    samples = look(system, sampled, energies)
    if (has_mesh()) then
      call check("pairs", pair_error(system), of_pair, "of each")
      allocate (force(3, size(samples)), energy(size(samples)))
      call spme_sum(system, samples, force, energy, of_mesh_alone)
      virial = virial + of_mesh_alone
    end if
    call reference_errors(system, samples, errors(1), errors(2), force, energy, &
                          but_shared=has_mesh())
    call check("forces", errors(1), merge(of_charges, exact, has_mesh()), "of the largest")
    call check("energies", errors(2), merge(of_charges, exact, has_mesh()), "of each")
    call check("parameters", parameters_differ, 1e-12_dp, "of stored energies")
    call check("lists", real(list_errors(system, samples, 0.0_dp), dp), 0.0_dp, "pairs")
    call check_observed(now, energies, virial)
    call check_atoms()
  end subroutine judge

  !> Whether a mesh has a part of the forces.
  logical function has_mesh()
    has_mesh = system%potential%kind == ionic_kind
  end function has_mesh

  !> Verifies the baseline: its loops give the same energy every time, of as many atoms as a step
  !> has; so have `steps` timed steps, which have done `atoms`.
  subroutine verify_cached(verification, steps, atoms)
    type(c_ptr), intent(in) :: verification
    integer(c_int64_t), intent(in) :: steps
    real(dp), intent(in) :: atoms
    real(dp) :: energy(2), again
    outcomes = verification
    call advance(system, 0)
    call cached_loops(system, 2, energy, again)
    call check("repeat", abs(energy(1) - energy(2)), 0.0_dp, "eV")
    call check("work", abs(atoms + again - real(steps + 2, &
               dp)*(system%list%last - system%list%first + 1)), 0.0_dp, "atoms")
  end subroutine verify_cached

  !> Whether the system has failed, which is noted; a failure of the kind `forgiven` does not count.
  !> Collective.
  logical function failed(forgiven)
    integer, intent(in), optional :: forgiven
    character(240) :: line
    integer(c_int) :: code
    call failure_of_all(system, line)
    failed = line /= ""
    if (failed .and. present(forgiven)) failed = system%failure%kind /= forgiven
    call check("trajectory", merge(1.0_dp, 0.0_dp, failed), 0.0_dp, "failures")
    if (.not. failed) return
    if (system%failure%kind == list_full) then
      code = bx_refuse(run, bx_resources, line)
    else
      call announce(line)
    end if
  end function failed

  !> Writes a line to standard error and to the result.
  subroutine announce(line)
    character(*), intent(in) :: line
    call bx_note(run, line)
    if (system%domain%world_rank == 0) write (error_unit, "(2a)") "bisection-md: ", trim(line)
  end subroutine announce

  !> Messages and bytes that this rank has sent, minus those that were meant to be.
  function traffic_less_tally() result(excess)
    real(dp) :: excess(2)
    type(bx_traffic_t) :: traffic(bx_traffic_classes)
    call bx_traffic_read(traffic)
    excess = [sum(traffic%messages) - system%domain%tally%messages, &
              sum(traffic%bytes) - system%domain%tally%bytes]
  end function traffic_less_tally

  !> Checks potential energy, temperature and pressure, by the atoms' energies and velocities, and
  !> the sum of x f over all pairs (eV) that the energy has.
  subroutine check_observed(now, energies, virial)
    type(observation_t), intent(in) :: now
    real(dp), intent(in) :: energies(:), virial !< eV
    real(dp) :: potential, kinetic, temperature
    potential = sum(energies)
    call MPI_Allreduce(MPI_IN_PLACE, potential, 1, MPI_DOUBLE_PRECISION, MPI_SUM, &
                       system%domain%comm)
    call check("sum", abs(now%potential - potential)/max(1.0_dp, abs(potential)), 1e-12_dp, &
               "of the energy")
    call motion(system, kinetic, temperature)
    call check("temperature", abs(now%temperature - temperature)/max(1.0_dp, temperature), &
               of_sums, "of the temperature")
    call check("pressure", &
               abs(3*system%box%volume*now%pressure - 2*kinetic - virial)/max(real(system%total, &
               dp), abs(virial), abs(potential)), of_growth, "of the energy")
  end subroutine check_observed

  !> Checks that energy and momentum are conserved since `before`.  Atoms that have come within a
  !> sharp cutoff since then, `gained` in number, or gone, change the energy.
  subroutine check_conserved(before, now, gained)
    type(observation_t), intent(in) :: before, now
    integer(c_int64_t), intent(in) :: gained
    real(dp) :: tolerance, moving, lost
    lost = before%potential - now%potential
    moving = max(before%kinetic, now%kinetic, abs(lost), 1e-6_dp*abs(now%potential), 1e-9_dp)
    tolerance = merge(conserved(1), conserved(2), is_rigid(system%potential) .or. &
                      system%potential%kind == tersoff_kind)*max(1.0_dp, given%timestep**2)
    if (gained /= 0) tolerance = tolerance + abs(real(gained, dp)) &
                                 *edge_energy(system, look(system, sampled))/moving
    call check("conserved", abs(now%kinetic - before%kinetic - lost)/moving, tolerance, &
               "of the kinetic energy")
    call check("momentum", bx_largest(now%momentum - before%momentum)/real(system%total, dp), &
               1e-9_dp, "u A/ps an atom")
  end subroutine check_conserved

  !> Checks that every atom exists once.
  subroutine check_atoms()
    integer(c_int64_t) :: sums(3)
    sums = census(system%atoms)
    call MPI_Allreduce(MPI_IN_PLACE, sums, 3, MPI_INTEGER8, MPI_SUM, system%domain%comm)
    call check("atoms", real(maxval(abs(sums - counted)), dp), 0.0_dp, "other than at first")
  end subroutine check_atoms

  !> Writes --dump; if that fails, refuses.
  logical function dumped(energies)
    real(dp), intent(in) :: energies(:)
    character(500) :: why
    call write_dump(bx_string_at(given%dump), system, energies, why)
    dumped = written("dump", why)
  end function dumped

  !> Writes --save; if that fails, refuses.
  logical function saved()
    character(500) :: why
    call write_restart(bx_string_at(given%save), system, why)
    saved = written("save", why)
  end function saved

  !> Whether a file was written; if not, refuses with the reason.
  logical function written(option, why)
    character(*), intent(in) :: option, why
    integer(c_int) :: code
    written = why == ""
    if (.not. written) code = bx_refuse(run, bx_resources, "--"//option//" "//why)
  end function written

  !> Sets the mean numbers of ghosts per rank and entries per atom, for the report.
  subroutine describe()
    real(dp) :: sums(2)
    integer :: t
    sums = real([system%atoms%all - system%atoms%own, 0], dp)
    do t = 1, size(system%list%work)
      associate (work => system%list%work(t))
        sums(2) = sums(2) + work%start(work%last + 1) - 1
      end associate
    end do
    call MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE_PRECISION, MPI_SUM, world)
    ghosts = sums(1)/system%domain%world_size
    neighbours = sums(2)/real(system%total, dp)
  end subroutine describe

  !> Checks that a timed block has not failed, and has ended where the verified one has, whose steps
  !> it repeats.  The same instructions give the same bits.  A compiler's code may add in another
  !> order from call to call; such rounding grows by at most exp(25 t/ps) (measured: exp(21 t/ps),
  !> SiC at 1500 K).
  subroutine check_repeat(m, verification)
    integer, intent(in) :: m
    type(c_ptr), intent(in) :: verification
    character(240) :: line
    real(dp) :: distance, time, rounding, tolerance
    integer(c_int64_t) :: id
    integer :: rank
    outcomes = verification
    if (failed()) return
    call find_departure(system, endpoints(m), distance, id, rank)
    time = real(bx_block_steps(run)*given%steps, dp)*system%timestep
    rounding = 2e-13_dp + 1e-15_dp*maxval(abs(system%box%edge)) ! A
    tolerance = min(rounding*exp(min(25*time, 100.0_dp)), 1e-3_dp)
    call check("repeat", distance, tolerance, "A")
    if (distance <= tolerance) return
    write (line, "(2a, i0, a, i0, a, es8.2, a)") trim(methods(m)%name), ": atom ", id, &
      " on rank ", rank, " ended ", distance, &
      " A from where the same steps brought it in verification"
    call announce(line)
  end subroutine check_repeat

end module md_verify
