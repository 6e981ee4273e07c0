! From the command line to a system of atoms; impossible options are refused before they cost time.
module md_setup
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, dp => c_double
  use mpi_f08, only: MPI_Allgather, MPI_Allreduce, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, &
    MPI_INTEGER8, MPI_SUM
  use bx_harness, only: bx_agree, bx_block_steps, bx_case, bx_case_given, bx_case_is, &
    bx_claim_file, bx_claim_memory, bx_claim_time, bx_file_read, bx_file_updated, bx_file_written, &
    bx_ok, bx_refuse, bx_resources, bx_seed, bx_selected, bx_string_at, bx_threads, bx_usage
  use md_atoms, only: copy_own
  use md_domain, only: hops_needed, make_domain, most_hops
  use md_files, only: dump_t, most_dumped, open_dump, read_dump, read_restart
  use md_judge, only: closest_pair
  use md_lattice, only: crystal_atoms, crystal_box, crystals, fill_crystal, find_crystal, warm_up
  use md_launch, only: census, counted, crystal, given, is_under_test, methods, &
    objection, parameters_differ, run, sampled, sized_by, start, start_moved, start_step, system, &
    warmed, world
  use md_list, only: entries_expected, most_atoms, most_entries
  use md_mesh, only: grid_of
  use md_oracle, only: parameters_error
  use md_potential, only: boltzmann, find_potential, ionic_kind, is_rigid, mass_to_energy, &
    tersoff_kind
  use md_reference, only: draw
  use md_system, only: use_style
  use md_verlet, only: make_lists
  implicit none (type, external)
  private
  public :: set_up

  integer, parameter :: sample_count = 24, most_samples = 256
  real(dp), public :: predicted = 0 !< bytes of this rank

  !> Estimates for a rank: own atoms, own atoms and ghosts, entries of lists; its part of the box.
  type :: share_t
    real(dp) :: own = 0, all = 0, entries = 0, part = 1
  end type share_t

contains

  !> Sets everything up to the first step.  Returns bx_ok or the code of a refusal.  Collective.
  integer(c_int) function set_up() result(code)
    type(dump_t) :: dump
    character(500) :: why
    integer :: cells
    logical :: reads, moving
    code = settle_options()
    if (code == bx_ok) code = claim_files()
    if (code /= bx_ok) return
    system%run = run
    system%timestep = given%timestep*1e-3_dp
    reads = bx_string_at(given%input) /= ""
    moving = .false.
    if (reads) then
      sized_by = "--input "//bx_string_at(given%input)
      call bx_case_is(run, "custom")
      call open_dump(bx_string_at(given%input), world, dump, why)
      if (why == "" .and. is_rigid(dump%potential)) why = "has molecules; only --case makes them"
      if (why /= "") code = bx_refuse(run, bx_usage, trim(sized_by)//": "//why)
      if (code /= bx_ok) return
      system%potential = dump%potential
      system%box = dump%box
      system%total = dump%atoms
    else
      sized_by = "--case "//bx_case(run)
      crystal = find_crystal(bx_case(run))
      cells = crystals(crystal)%cells
      if (given%cells > 0) then
        cells = int(given%cells)
        write (sized_by, "('--cells ', i0)") cells
      end if
      system%potential = find_potential(crystals(crystal)%species)
      system%box = crystal_box(crystals(crystal), cells)
      system%total = crystal_atoms(crystals(crystal), cells)
      if (cells /= crystals(crystal)%cells) call bx_case_is(run, "custom")
    end if
    code = check_motion()
    if (code /= bx_ok) return
    system%thread_lists = given%thread_lists
    system%skin = merge(given%skin, system%potential%skin, given%skin >= 0)
    call make_domain(world, system%box, system%potential%cutoff + system%skin, system%domain)
    code = check_sizes()
    if (code /= bx_ok) return
    allocate (system%list%work(bx_threads(run)))
    if (bx_string_at(given%restart) /= "") then
      code = read_start()
    else if (reads) then
      call read_dump(dump, system%domain, start, moving, why)
      if (why /= "") code = bx_refuse(run, bx_usage, trim(sized_by)//": "//why)
    else
      call fill_crystal(crystals(crystal), cells, system%box, system%domain, start)
    end if
    if (code == bx_ok) code = check_charge()
    if (code == bx_ok) code = claim_time()
    if (code /= bx_ok) return
    if (.not. (allocated(start_moved) .or. moving)) then
      call warm_up(world, system%potential, bx_seed(run), given%temperature, system%total, start)
      warmed = system%total > 1
    end if
    counted = census(start)
    call MPI_Allreduce(MPI_IN_PLACE, counted, 3, MPI_INTEGER8, MPI_SUM, world)
    call draw_samples()
    parameters_differ = parameters_error(system%potential)
    call copy_own(start, system%atoms) ! for the baseline, which may be alone
    if (reads) code = check_pairs()
  end function set_up

  !> Draws the atoms that are compared, or molecules: of all, then one of each rank, but of at most
  !> most_samples ranks.  Collective.
  subroutine draw_samples()
    integer(c_int64_t) :: mine, of_ranks(system%domain%world_size)
    integer :: k, r
    mine = 0
    associate (sites => system%potential%sites, ranks => system%domain%world_size)
      if (start%own > 0) mine = (start%id(1 + start%own/2) - 1)/sites + 1
      call MPI_Allgather(mine, 1, MPI_INTEGER8, of_ranks, 1, MPI_INTEGER8, world)
      sampled = draw(bx_seed(run), system%total/sites, sample_count/sites)
      do r = 1, ranks, 1 + (ranks - 1)/most_samples
        if (of_ranks(r) > 0 .and. all(sampled /= of_ranks(r))) sampled = [sampled, of_ranks(r)]
      end do
      sampled = [([(sites*(sampled(r) - 1) + k, k=1, sites)], r=1, size(sampled))]
    end associate
  end subroutine draw_samples

  !> Refuses options that contradict each other.
  integer(c_int) function settle_options() result(code)
    integer :: m, selected
    logical :: copied, saves, restarts, reads, named
    character(:), allocatable :: alone
    alone = ""
    if (bx_string_at(given%dump) /= "") alone = "--dump "//bx_string_at(given%dump)
    if (bx_string_at(given%restart) /= "") alone = "--restart "//bx_string_at(given%restart)
    if (bx_string_at(given%save) /= "") alone = "--save "//bx_string_at(given%save)
    selected = 0
    copied = .false.
    do m = 1, size(methods)
      if (.not. is_under_test(m)) cycle
      selected = selected + 1
      copied = copied .or. methods(m)%style%replicated
    end do
    saves = bx_string_at(given%save) /= ""
    restarts = bx_string_at(given%restart) /= ""
    reads = bx_string_at(given%input) /= ""
    named = bx_case_given(run)
    code = bx_ok
    if (alone /= "" .and. selected /= 1) then
      code = bx_refuse(run, bx_usage, alone//": needs one method; choose it with --method")
    else if (copied .and. (saves .or. restarts)) then
      code = bx_refuse(run, bx_usage, alone//": not with method replicated, whose ranks have all &
                       &atoms each; choose another with --method")
    else if (given%save_every > 0 .and. .not. saves) then
      code = bx_refuse(run, bx_usage, "--save-every: needs --save FILE")
    else if (reads .and. given%cells > 0) then
      code = bx_refuse(run, bx_usage, "--cells: not with --input, which has its own box")
    else if (reads .and. named) then
      code = bx_refuse(run, bx_usage, "--case "//bx_case(run)// &
                       ": not with --input, which has its own atoms")
    end if
  end function settle_options

  !> Refuses files that cannot be read or written later.  --restart and --save may name one file.
  integer(c_int) function claim_files() result(code)
    character(:), allocatable :: input, restart, save, dump
    input = bx_string_at(given%input)
    restart = bx_string_at(given%restart)
    save = bx_string_at(given%save)
    dump = bx_string_at(given%dump)
    if (input /= "") code = bx_claim_file(run, "input", input, bx_file_read)
    if (restart /= "" .and. restart /= save) then
      code = bx_claim_file(run, "restart", restart, bx_file_read)
    end if
    if (save /= "") then
      code = bx_claim_file(run, "save", save, &
                           merge(bx_file_updated, bx_file_written, restart == save))
    end if
    if (dump /= "") code = bx_claim_file(run, "dump", dump, bx_file_written)
    code = bx_agree(run)
  end function claim_files

  !> This rank's share of an even density, in domains, or in a copy of the box, whose pairs ranks
  !> share out.
  type(share_t) function even_share(copied) result(share)
    logical, intent(in) :: copied
    real(dp) :: density
    integer :: dims(3)
    dims = merge(1, system%domain%grid, copied)
    associate (reach => system%potential%cutoff + system%skin, box => system%box)
      density = real(system%total, dp)/box%volume
      share%part = 1.0_dp/product(dims)
      share%own = density*product(box%height/dims)
      share%all = density*product(box%height/dims + 2*reach)
      share%entries = entries_expected(real(system%total, dp)/system%domain%world_size, density, &
                                       reach, system%potential%kind /= tersoff_kind)
    end associate
  end function even_share

  !> Refuses a system for which domains, lists, memory or the dump are too small.
  integer(c_int) function check_sizes() result(code)
    character(:), allocatable :: dump
    integer :: m
    code = check_halo()
    if (code == bx_ok) code = check_lists(even_share(copied=.false.))
    predicted = bytes_needed(even_share(copied=.false.))
    do m = 1, size(methods)
      if (.not. methods(m)%style%replicated .or. code /= bx_ok) cycle
      if (.not. is_under_test(m)) cycle
      if (objection(m) /= "") cycle
      code = check_lists(even_share(copied=.true.))
      predicted = max(predicted, bytes_needed(even_share(copied=.true.)))
    end do
    if (code == bx_ok) code = bx_claim_memory(run, predicted, trim(sized_by))
    dump = bx_string_at(given%dump)
    if (code /= bx_ok .or. dump == "" .or. system%total <= most_dumped) return
    code = bx_refuse(run, bx_usage, "--dump "//dump//": "//trim(sized_by)// &
                     " has more atoms than can be dumped")
  end function check_sizes

  !> Refuses steps that are too long for the potential, or too long for the temperature.
  integer(c_int) function check_motion() result(code)
    real(dp), parameter :: most = 0.25_dp !< A per step: atoms would pass through each other's cores
    character(160) :: line
    real(dp) :: moved
    code = bx_ok
    associate (p => system%potential)
      moved = given%timestep*1e-3_dp*sqrt(3*boltzmann*given%temperature &
                                          /(mass_to_energy*minval(p%mass(:p%species))))
      if (given%timestep > p%longest) then
        write (line, "('--timestep ', g0.4, ': at most ', f3.1, ' fs for this potential')") &
          given%timestep, p%longest
      else if (given%temperature > p%hottest) then
        write (line, "('--temperature ', f0.1, ': at most ', f0.1, ' K for this potential, whose &
          &density is negative below ', f4.2, ' A')") given%temperature, p%hottest, p%closest
      else if (moved > most) then
        write (line, "('--temperature ', f0.1, ': atoms move ', f4.2, ' A in a --timestep of ', &
          &g0.4, ' fs; at most ', f4.2, ' A are allowed')") given%temperature, moved, &
          given%timestep, most
      else
        return
      end if
    end associate
    code = bx_refuse(run, bx_usage, line)
  end function check_motion

  !> Refuses a halo over more than most_hops domains.
  integer(c_int) function check_halo() result(code)
    character(240) :: line
    integer :: hops(3), d
    code = bx_ok
    associate (reach => system%potential%cutoff + system%skin)
      hops = hops_needed(system%domain, system%box, reach)
      d = maxloc(hops, 1)
      if (hops(d) <= most_hops) return
      write (line, "(': the box is too small for a cutoff of ', f0.2, ' A and a skin of ', f0.2, &
        &' A on these ', i0, ' ranks: domains are ', f0.2, ' A thick along vector ', a, &
        &', at least ', f0.2, ' A are needed')") system%potential%cutoff, system%skin, &
        system%domain%ranks, system%box%height(d)/system%domain%dims(d), "abc"(d:d), reach/most_hops
    end associate
    code = bx_refuse(run, bx_usage, trim(sized_by)//line)
  end function check_halo

  !> Refuses lists that 32 bits cannot count.
  integer(c_int) function check_lists(share) result(code)
    type(share_t), intent(in) :: share
    character(240) :: line
    real(dp) :: entries
    code = bx_ok
    entries = share%entries/bx_threads(run)
    if (share%all < 0.9_dp*most_atoms .and. entries < 0.9_dp*most_entries) return
    write (line, "(': about ', es8.1, ' atoms per rank with ghosts, and ', es8.1, ' entries of a &
      &neighbour list per thread; at most ', es8.1, ' and ', es8.1, ' are possible: use more ranks &
      &or threads')") share%all, entries, 0.9_dp*most_atoms, 0.9_dp*most_entries
    code = bx_refuse(run, bx_resources, trim(sized_by)//line)
  end function check_lists

  !> Bytes of this rank: atoms and their copies, ghosts, lists, kept terms of pairs.
  real(dp) function bytes_needed(share)
    type(share_t), intent(in) :: share
    real(dp), parameter :: grown = 1.25_dp       !< room of a list, relative to its entries
    real(dp), parameter :: entry = 4*grown       !< an index of 4 bytes
    real(dp), parameter :: kept = 2*8            !< metals: the two terms of an entry
    real(dp), parameter :: atom = 140            !< atoms_t: 136 bytes, and room to grow
    real(dp), parameter :: endpoint = 56         !< endpoint_t: id, position, velocity
    real(dp), parameter :: sums = 2*8            !< density and its slope
    real(dp), parameter :: sums_of_thread = 5*8  !< density and force, of all threads but the first
    real(dp), parameter :: corrected = 112       !< molecules: values, owners, chains of an atom
    real(dp), parameter :: bonds = 32            !< likewise: of an own atom
    real(dp), parameter :: chain = 4             !< likewise: of each atom of the box, by its id
    real(dp), parameter :: before = 80           !< endpoint_t with forces, of a verified step
    real(dp), parameter :: unscaled = 32         !< positions, while a virial is verified
    real(dp), parameter :: ion = 240             !< ion_t: an own ion, while charges are verified
    real(dp), parameter :: of_point = 8          !< a point of the mesh on a patch: a real
    real(dp), parameter :: fields = 20           !< of the methods' FFTs and messages: reals
    integer, parameter :: copies = 3             !< system, start and origin
    bytes_needed = merge(entry*share%entries, (entry + kept)*share%entries*grown, &
                         any(system%potential%kind == [tersoff_kind, ionic_kind]))
    if (system%potential%kind == ionic_kind) then
      bytes_needed = bytes_needed &
                     + of_point*product(real(grid_of(system%potential, system%box), dp)) &
                     *(share%all/real(system%total, dp) + fields*share%part)
    end if
    if (is_rigid(system%potential)) bytes_needed = bytes_needed + corrected*share%all &
                                                   + bonds*share%own + chain*real(system%total, dp)
    bytes_needed = bytes_needed + share%own*(copies*atom + size(methods)*endpoint) &
                   + (share%all - share%own)*atom &
                   + share%all*(sums + sums_of_thread*(bx_threads(run) - 1)) &
                   + max(before*share%own, unscaled*share%all, &
                         merge(ion*share%own, 0.0_dp, system%potential%kind == ionic_kind))
  end function bytes_needed

  !> Claims the time of the launch: per entry and per atom, as measured on one core of 2023.
  integer(c_int) function claim_time() result(code)
    type(share_t) :: share
    real(dp), parameter :: entry(2) = [13e-9_dp, 8e-9_dp] !< s: Tersoff, metals
    real(dp), parameter :: atom = 50e-9_dp, on_mesh = 600e-9_dp !< s
    real(dp) :: step, block, once
    integer :: m
    share = even_share(copied=.false.)
    step = (share%entries*merge(entry(1), entry(2), system%potential%kind == tersoff_kind) &
            + share%own*merge(atom + on_mesh, atom, system%potential%kind == ionic_kind)) &
           /bx_threads(run)
    block = 0
    once = real(given%until - start_step, dp)*step
    do m = 1, size(methods)
      if (objection(m) /= "") cycle
      if (bx_selected(run, methods(m)%name)) block = block + given%steps*methods(m)%cost*step
    end do
    code = bx_claim_time(run, once + block*bx_block_steps(run), block, trim(sized_by)// &
                         " with --steps and --until")
  end function claim_time

  !> Refuses ions whose charges are not balanced: Ewald's sum has no value then.  Collective.
  integer(c_int) function check_charge() result(code)
    character(120) :: line
    real(dp) :: charge
    integer :: k
    code = bx_ok
    if (system%potential%kind /= ionic_kind) return
    charge = sum([(system%potential%charge(start%species(k)), k=1, start%own)])
    call MPI_Allreduce(MPI_IN_PLACE, charge, 1, MPI_DOUBLE_PRECISION, MPI_SUM, world)
    if (abs(charge) < 0.5_dp) return
    write (line, "(': the charges of all ions add up to ', f0.1, ' e: they have to add up to 0')") &
      charge
    code = bx_refuse(run, bx_usage, trim(sized_by)//line)
  end function check_charge

  !> Refuses an input without any pair within the cutoff, or with atoms too close for any potential.
  integer(c_int) function check_pairs() result(code)
    real(dp), parameter :: least = 0.5_dp !< A
    character(160) :: line
    real(dp) :: distance
    integer(c_int64_t) :: ids(2)
    code = bx_ok
    call make_lists(system)
    call closest_pair(system, distance, ids)
    if (distance < least) then
      write (line, "(': atoms ', i0, ' and ', i0, ' are ', f5.3, ' A apart, at least ', f3.1, &
        &' A are needed')") ids, distance, least
      code = bx_refuse(run, bx_usage, trim(sized_by)//line)
    else if (distance >= system%potential%cutoff) then
      write (line, "(': no two atoms are within the cutoff, ', f0.2, ' A: there is nothing to &
        &compute')") system%potential%cutoff
      code = bx_refuse(run, bx_usage, trim(sized_by)//line)
    end if
    system%listed = .false.
  end function check_pairs

  !> Reads --restart: atoms at the positions of their lists, and the step.
  integer(c_int) function read_start() result(code)
    character(500) :: why
    integer :: m
    do m = 1, size(methods) ! the one that is selected
      if (is_under_test(m)) call use_style(system, methods(m)%style)
    end do
    call read_restart(bx_string_at(given%restart), system, start, start_moved, start_step, why)
    code = bx_ok
    if (why /= "") code = bx_refuse(run, bx_usage, "--restart "//trim(why))
    if (code == bx_ok .and. start_step > given%until) code = bx_refuse(run, bx_usage, &
      "--until: is before the step of --restart "//bx_string_at(given%restart))
  end function read_start

end module md_setup
