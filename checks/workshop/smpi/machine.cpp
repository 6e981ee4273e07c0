/* A machine as a SimGrid platform (smpirun -platform): nodes of one network interface and several
 * cores, by LogGP (Alexandrov et al. 1995) whose gap is the node's.
 *
 * An interface is a queue in which a message is served for gap + size / bandwidth on its way out,
 * and again on its way in, whichever core it is of; between the two it travels for the latency.
 * Within a node the sending core copies one message after the other, at intra_bandwidth or its
 * share of the node's memory.  SimGrid's links are wide and alone: sharing them out is what costs
 * it most.  Cables of a torus are queues, too (link=B/s): a message takes those of its way, along
 * one axis after the other, as soon as they have served what was sent before.
 *
 * BX_PLATFORM="nodes=8 cores=4 latency=6e-6 ..." has the numbers of one machine, see machines.csv;
 * launch.py writes it.  They are properties of each host too, for what kernels charge.  Faults are
 * lists "NODE:FACTOR,...": slow_link (bandwidth), far_link (latency), slow_host (computing). */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <simgrid/s4u.hpp>
#include <simgrid/version.h>
#if SIMGRID_VERSION_MAJOR < 4
#include <simgrid/kernel/resource/NetworkModelIntf.hpp>
#endif
#include <smpi/smpi.h>
#include <sstream>

namespace sg4 = simgrid::s4u;

static std::map<std::string, std::string> values;

static double number(const std::string &name)
{
    if (!values.count(name)) {
        fprintf(stderr, "machine: BX_PLATFORM has no %s\n", name.c_str());
        exit(2);
    }
    return strtod(values[name].c_str(), nullptr);
}

/* The factor of a node in a list of faults. */
static double fault(const std::string &name, int node)
{
    std::istringstream list(values.count(name) ? values[name] : "");
    for (std::string item; std::getline(list, item, ',');)
        if (strtol(item.c_str(), nullptr, 10) == node)
            return strtod(item.c_str() + item.find(':') + 1, nullptr);
    return 1;
}

static const double LINK_LATENCY = 1e-6; /* s of a route; factors make it what it is to be */
static double gap, travel, intra_travel; /* s */

struct Interface {
    double bandwidth, far;            /* B/s; a factor */
    double out_free = 0, in_free = 0; /* s: when it has served what it knows of */
};
static std::vector<Interface> interfaces;

static int number_of(const sg4::Host *host)
{
    return (int)strtol(host->get_cname() + 1, nullptr, 10);
}

/* Where a node of a Cray XT is: four of a blade along one axis, 24 blades of a cabinet along
 * another, and cabinets.  A job fills blades in their order. */
enum { ACROSS, BLADE, SLOT, AXES, OF_BLADE = 4, OF_CABINET = 24 };
struct Place {
    int at[AXES];
    explicit Place(int node)
        : at{node / (OF_BLADE * OF_CABINET), node % OF_BLADE, node / OF_BLADE % OF_CABINET}
    {
    }
    int node() const { return at[BLADE] + OF_BLADE * (at[SLOT] + OF_CABINET * at[ACROSS]); }
};
static double link_bandwidth;        /* B/s of a cable, each way; 0: without limit */
static std::map<int, double> cables; /* s: when it has served what it knows of */

/* When the cables between two nodes have served a message that begins now. */
static double carried(double now, double size, int from, int to)
{
    double served = now;
    if (link_bandwidth <= 0) return served;
    Place here(from);
    const Place there(to);
    for (int axis = 0; axis < AXES; axis++)
        while (here.at[axis] != there.at[axis]) {
            int way = there.at[axis] - here.at[axis];
            /* slots alone are a ring within a cabinet */
            bool up = axis == SLOT && 2 * abs(way) > OF_CABINET ? way < 0 : way > 0;
            double &free = cables[(here.node() * AXES + axis) * 2 + up];
            free = std::max(now, free) + size / link_bandwidth;
            served = std::max(served, free);
            here.at[axis] += up ? 1 : -1;
            if (axis == SLOT) here.at[axis] = (here.at[axis] + OF_CABINET) % OF_CABINET;
        }
    return served;
}

/* Seconds until a message that begins now has arrived. */
static double delay(double size, const sg4::Host *from, const sg4::Host *to)
{
    if (from == to) return intra_travel; /* the copy is the sender's: see load_platform */
    double now = sg4::Engine::get_clock();
    int sender = number_of(from), receiver = number_of(to);
    Interface &a = interfaces[sender], &b = interfaces[receiver];
    a.out_free = std::max(now, a.out_free) + gap + size / a.bandwidth;
    double arrives = a.out_free + travel * std::max(a.far, b.far);
    /* in the order of departure: that of arrival is not known yet */
    b.in_free = std::max(now, b.in_free) + gap + size / b.bandwidth;
    return std::max({arrives, b.in_free, carried(now, size, sender, receiver)}) - now;
}

static sg4::Link *wide_link(sg4::NetZone *zone, const std::string &name)
{
    sg4::Link *link = zone->create_link(name, 1e18);
    link->set_latency(LINK_LATENCY / 2)->set_sharing_policy(sg4::Link::SharingPolicy::FATPIPE);
    return link->seal();
}

extern "C" void load_platform(const sg4::Engine &engine)
{
    const char *text = getenv("BX_PLATFORM");
    std::istringstream words(text ? text : "");
    for (std::string word; words >> word;)
        values[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    double overhead = number("overhead"), intra_overhead = number("intra_overhead");
    double share = number("memory") / number("per_node"); /* of the node's, as in charge.c */
    double intra_bandwidth = std::min(number("intra_bandwidth"), share);
    gap = number("gap");
    link_bandwidth = values.count("link") ? number("link") : 0;
    /* the latency is that of an empty message between MPI calls: their overheads are part of it */
    travel = std::max(0.0, number("latency") - 2 * overhead - gap);
    intra_travel = std::max(0.0, number("intra_latency") - 2 * intra_overhead);

    bool linked = !values.count("at_once"); /* otherwise a message takes a second of any network */
#if SIMGRID_VERSION_MAJOR < 4
    sg4::NetZone *zone =
        linked ? sg4::create_star_zone("machine") : sg4::create_empty_zone("machine");
#else
    sg4::NetZone *top = engine.get_netzone_root();
    sg4::NetZone *zone =
        linked ? top->add_netzone_star("machine") : top->add_netzone_empty("machine");
#endif
    for (int i = 0; i < (int)number("nodes"); i++) {
        std::string name = "n" + std::to_string(i);
        interfaces.push_back({number("bandwidth") * fault("slow_link", i), fault("far_link", i)});
        sg4::Host *host = zone->create_host(name, number("flops") * fault("slow_host", i));
        host->set_core_count((int)number("cores"));
        for (auto &[key, value] : values) host->set_property("bx_" + key, value);
        host->seal();
        if (!linked) continue;
        zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr,
                        {sg4::LinkInRoute(wide_link(zone, name + "_nic"))}, true);
        zone->add_route(host->get_netpoint(), host->get_netpoint(), nullptr, nullptr,
                        {sg4::LinkInRoute(wide_link(zone, name + "_memory"))});
    }
    zone->seal();
    if (!linked) return;

    sg4::NetZone *root = engine.get_netzone_root();
    using Links = std::vector<sg4::Link *>;
    using Zones = std::unordered_set<sg4::NetZone *>;
    auto bandwidth_factor = [](double, const sg4::Host *, const sg4::Host *, const Links &,
                               const Zones &) { return 1.0; };
    auto latency_factor = [](double size, const sg4::Host *from, const sg4::Host *to, const Links &,
                             const Zones &) {
        return std::max(0.0, delay(size, from, to)) /
               (from == to ? LINK_LATENCY / 2 : LINK_LATENCY);
    };
#if SIMGRID_VERSION_MAJOR < 4
    auto *model =
        dynamic_cast<simgrid::kernel::resource::NetworkModelIntf *>(root->get_network_model());
    model->set_bw_factor_cb(bandwidth_factor);
    model->set_lat_factor_cb(latency_factor);
#else
    root->set_bandwidth_factor_cb(bandwidth_factor);
    root->set_latency_factor_cb(latency_factor);
#endif
    for (auto operation : {SmpiOperation::SEND, SmpiOperation::ISEND, SmpiOperation::RECV})
        smpi_register_op_cost_callback(operation, [=](size_t size, sg4::Host *from, sg4::Host *to) {
            if (from != to) return overhead;
            bool copies = operation != SmpiOperation::RECV;
            return intra_overhead + (copies ? (double)size / intra_bandwidth : 0);
        });
}
