/* A two-level fat tree as a SimGrid platform, sound or with slow cables (smpirun -platform):
 *   BX_TREE="LEAVES HOSTS SPINES"  hosts per leaf switch; host i is n<i> on leaf i / HOSTS
 *   BX_CABLES="CABLE WAY FACTOR DELAY; ..."  bandwidth times FACTOR, DELAY seconds of latency more;
 *     CABLE: node <i>, or uplink <leaf> <spine>; WAY: out (towards the spines), in, both
 * Routes are static: a message to host j goes up to the spine j modulo SPINES. */
#include <iostream>
#include <map>
#include <simgrid/s4u.hpp>
#include <simgrid/version.h>
#include <sstream>

namespace sg4 = simgrid::s4u;

static const double BANDWIDTH = 12.5e9 /* B/s */, LATENCY = 250e-9 /* s, of one cable */;

static std::string text_of(const char *variable)
{
    const char *text = getenv(variable);
    return text ? text : "";
}

static void refuse(const std::string &variable, const std::string &text)
{
    std::cerr << "fat_tree: " << variable << " '" << text << "' is not understood\n";
    exit(2);
}

static sg4::Host *create_host(sg4::NetZone *zone, const std::vector<unsigned long> &,
                              unsigned long id)
{
    sg4::Host *host = zone->create_host("n" + std::to_string(id), 1e10);
    host->set_property("bx_name", "a fat tree");
    return host->seal();
}

static sg4::NetZone *create_tree(const sg4::Engine &engine, unsigned leaves, unsigned hosts,
                                 unsigned spines)
{
    auto policy = sg4::Link::SharingPolicy::SPLITDUPLEX;
#if SIMGRID_VERSION_MAJOR < 4
    (void)engine;
    auto create = [](sg4::NetZone *zone, const std::vector<unsigned long> &at, unsigned long id) {
        simgrid::kernel::routing::NetPoint *none = nullptr;
        return std::make_pair(create_host(zone, at, id)->get_netpoint(), none);
    };
    return sg4::create_fatTree_zone("tree", nullptr, {2, {hosts, leaves}, {1, spines}, {1, 1}},
                                    sg4::ClusterCallbacks(create), BANDWIDTH, LATENCY, policy);
#else
    return engine.get_netzone_root()
        ->add_netzone_fatTree("tree", 2, {hosts, leaves}, {1, spines}, {1, 1}, BANDWIDTH, LATENCY,
                              policy)
        ->set_host_cb(create_host);
#endif
}

extern "C" void load_platform(const sg4::Engine &engine)
{
    unsigned leaves, hosts, spines;
    std::istringstream tree(text_of("BX_TREE"));
    if (!(tree >> leaves >> hosts >> spines)) refuse("BX_TREE", tree.str());
    create_tree(engine, leaves, hosts, spines)->seal();

    /* links are link_from_LOWER_UPPER_NUMBER_{UP,DOWN}, numbered from the last spine on */
    std::map<std::string, std::vector<sg4::Link *>> cables; /* up, down */
    std::map<unsigned, unsigned> leaf_of;                   /* by SimGrid's number */
    std::map<unsigned, std::map<unsigned, std::string>> upper;
    for (sg4::Link *link : engine.get_all_links()) {
        unsigned from, to, number;
        char way;
        if (sscanf(link->get_cname(), "link_from_%u_%u_%u_%c", &from, &to, &number, &way) != 4)
            continue;
        std::string name = std::string(link->get_name(), 0, link->get_name().rfind('_'));
        cables[name].resize(2);
        cables[name][way == 'D'] = link;
        upper[from][to] = name;
        if (from < leaves * hosts) leaf_of[to] = from / hosts;
    }
    std::istringstream list(text_of("BX_CABLES"));
    for (std::string item; std::getline(list, item, ';');) {
        std::istringstream words(item);
        std::string kind, way, name;
        unsigned a = 0, b = 0;
        double factor = 0, delay = 0;
        words >> kind >> a;
        if (kind == "uplink") words >> b;
        if (!(words >> way >> factor >> delay) || (way != "out" && way != "in" && way != "both"))
            refuse("BX_CABLES", item);
        if (kind == "node" && a < leaves * hosts) name = upper[a].begin()->second;
        for (auto [number, leaf] : leaf_of)
            if (kind == "uplink" && leaf == a && b < spines)
                name = std::next(upper[number].rbegin(), b)->second;
        if (name.empty()) refuse("BX_CABLES", item);
        for (int down = 0; down < 2; down++) {
            if (way == (down ? "out" : "in")) continue;
            sg4::Link *link = cables[name][down];
            link->set_bandwidth(link->get_bandwidth() * factor);
            link->set_latency(link->get_latency() + delay);
        }
    }
}
