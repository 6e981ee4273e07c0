/* The file of --switches: which nodes are on which switch. */
#include "pairs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *host;
    int node;
} entry;

static int by_host(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->host, ((const entry *)b)->host);
}

/* Without its domain; an address in numbers has none. */
static void cut_domain(char *host)
{
    if (strspn(host, "0123456789.") < strlen(host)) host[strcspn(host, ".")] = '\0';
}

/* One line of the file.  `sorted` has the nodes by their short names. */
static int read_line(bx_run *run, const char *path, int number, char *line, const entry *sorted,
                     int nodes, bx_pairs_switches *switches)
{
    static const char blanks[] = " \t\r\n";
    char *rest;
    line[strcspn(line, "#")] = '\0';
    const char *name = strtok_r(line, blanks, &rest);
    if (!name) return BX_OK;
    switches->names =
        bx_memory_grow(switches->names, (size_t)switches->count + 1, sizeof *switches->names);
    switches->names[switches->count] = bx_memory_copy_text(name);
    for (char *host; (host = strtok_r(NULL, blanks, &rest));) {
        cut_domain(host);
        const entry *node =
            bsearch(&(entry){.host = host}, sorted, (size_t)nodes, sizeof *sorted, by_host);
        if (!node) continue;
        int *place = &switches->switch_of[node->node];
        if (*place >= 0)
            return bx_run_refuse(run, BX_USAGE,
                                 "--switches %s: line %d: host %s is on switch %s too", path,
                                 number, host, switches->names[*place]);
        *place = switches->count;
    }
    switches->count++;
    return BX_OK;
}

int bx_pairs_switches_read(bx_run *run, const char *path, const char (*hosts)[BX_PAIRS_NAME],
                           int nodes, bx_pairs_switches *switches)
{
    FILE *file = fopen(path, "r");
    if (!file) return bx_run_refuse(run, BX_USAGE, "--switches %s: %s", path, strerror(errno));
    char (*names)[BX_PAIRS_NAME] = bx_memory_alloc((size_t)nodes, sizeof *names);
    entry *sorted = bx_memory_alloc((size_t)nodes, sizeof *sorted);
    BX_ALLOC((size_t)nodes, switches->switch_of);
    for (int i = 0; i < nodes; i++) {
        switches->switch_of[i] = -1;
        memcpy(names[i], hosts[i], BX_PAIRS_NAME);
        cut_domain(names[i]);
        sorted[i] = (entry){names[i], i};
    }
    qsort(sorted, (size_t)nodes, sizeof *sorted, by_host);
    int code = BX_OK;
    char *line = NULL;
    size_t size = 0;
    for (int number = 1; code == BX_OK && getline(&line, &size, file) >= 0; number++)
        code = read_line(run, path, number, line, sorted, nodes, switches);
    for (int i = 0; i < nodes && code == BX_OK; i++)
        if (switches->switch_of[i] < 0)
            code = bx_run_refuse(run, BX_USAGE, "--switches %s: no switch has host %s", path,
                                 hosts[i]);
    BX_FREE(line, sorted, names);
    fclose(file);
    return code;
}

void bx_pairs_switches_free(bx_pairs_switches *switches)
{
    for (int i = 0; switches->names && i < switches->count; i++) free(switches->names[i]);
    BX_FREE(switches->names, switches->switch_of);
}
