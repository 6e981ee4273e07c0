#include "result.h"

#include "adapters.h"
#include "json.h"
#include "layout.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct bx_carried {
    bool reads;            /* the first rank of its host */
    double off_node, time; /* B that this rank has handed to MPI for other nodes; s */
    bx_adapters before;
};

static double off_node_bytes(void)
{
    double sent[4];
    bx_profile_read_sum(sent);
    return sent[3];
}

bx_carried *bx_carried_begin(const bx_run *run)
{
    bx_carried *begun = bx_memory_alloc(1, sizeof *begun);
    int rank_on_host;
    PMPI_Comm_rank(run->host, &rank_on_host);
    begun->reads = rank_on_host == 0;
    begun->off_node = off_node_bytes();
    begun->time = MPI_Wtime();
    if (begun->reads) bx_adapters_read(&begun->before);
    return begun;
}

/* NaN, which the file has as null, where the counter began anew. */
static double growth(double before, double after) { return after < before ? NAN : after - before; }

static void add_adapter(bx_json *list, const bx_adapter *before, const bx_adapter *after,
                        double payload)
{
    bx_json *json = bx_json_object(list, NULL);
    double sent = growth(before->sent, after->sent);
    int counted = 0;
    BX_TEXTS(json, {"name", after->name}, {"kind", after->kind}, {"state", after->state},
             {"firmware", after->firmware});
    BX_NUMBERS(json, {"rate", after->rate}, {"sent", sent},
               {"received", growth(before->received, after->received)},
               {"share", payload > 0 ? sent / payload : NAN});
    bx_json *errors = bx_json_object(json, "errors");
    for (int i = 0; i < BX_ADAPTER_ERRORS; i++) {
        double grown = growth(before->errors[i], after->errors[i]);
        counted += !isnan(grown);
        if (grown > 0) bx_json_number(errors, bx_adapter_errors[i], grown);
    }
    bx_json_number(json, "error_counters", counted);
}

/* Of this host; `payload`: B that its ranks handed to MPI for other hosts, NaN if unknown. */
static char *host_text(const bx_carried *begun, double payload, double seconds)
{
    static bx_adapters after;
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    bx_adapters_read(&after);
    bx_json *json = bx_json_create();
    bx_json_text(json, "host", host);
    BX_NUMBERS(json, {"seconds", seconds}, {"payload", payload},
               {"segments", growth(begun->before.segments, after.segments)},
               {"retransmitted", growth(begun->before.retransmitted, after.retransmitted)});
    bx_json *list = bx_json_array(json, "list");
    for (int i = 0; i < after.count; i++)
        for (int k = 0; k < begun->before.count; k++)
            if (strcmp(begun->before.adapters[k].name, after.adapters[i].name) == 0)
                add_adapter(list, &begun->before.adapters[k], &after.adapters[i], payload);
    return bx_json_take_text(json);
}

void bx_carried_end(const bx_run *run, bx_carried *begun, bx_json *list)
{
    double sent = off_node_bytes() - begun->off_node, payload = 0;
    PMPI_Reduce(&sent, &payload, 1, MPI_DOUBLE, MPI_SUM, 0, run->host);
    if (run->common.ranks_per_node > 0) payload = NAN; /* between emulated nodes, on one host */
    char *text = begun->reads ? host_text(begun, payload, MPI_Wtime() - begun->time) : NULL;
    free(begun);
    char *all = bx_layout_gather_texts(run->world, text);
    if (all && *all) { /* in one text, which has less memory on many hosts */
        for (char *end = all + strlen(all); end[1]; end += strlen(end)) *end = ',';
        bx_json_raw(list, NULL, all);
    }
    BX_FREE(text, all);
}
