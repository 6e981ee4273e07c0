/* Command line: strict long options from one table, the same on every rank; the first fault is
 * refused with the value and what is allowed. */
#include "json.h"
#include "run.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPTIONS = 64, MOST_SAMPLES = 10000000 };

static int common_table(bx_common *c, bx_option *table)
{
    const bx_option common[] = {
        {"case", "NAME", "case to run (see --list)", BX_TEXT, 0, 0, &c->case_name},
        {"method", "A,B|all", "methods, or families of methods, to verify and measure", BX_TEXT, 0,
         0, &c->methods},
        {"baseline", "A,B|none", "baselines to measure as well", BX_TEXT, 0, 0, &c->baselines},
        {"repeats", "N", "rounds; each round measures a block of every method", BX_INTEGER, 1, 1e6,
         &c->repeats},
        {"block", "N", "samples of a method in each round", BX_INTEGER, 1, 1e6, &c->block},
        {"warmup", "N", "untimed steps before each block", BX_INTEGER, 0, 1e6, &c->warmup},
        {"start", "HOW",
         "how the ranks begin a step: barrier, window (at one time, by synchronised clocks), auto "
         "(window where its skew is below a tenth of a step)",
         BX_TEXT, 0, 0, &c->start},
        {"ranks-per-node", "N", "emulate nodes of N ranks (default: discovered)", BX_INTEGER, 1,
         1e6, &c->ranks_per_node},
        {"expect-ranks", "N", "fail unless the launch has N ranks (default: any)", BX_INTEGER, 1,
         1e9, &c->expect_ranks},
        {"seed", "N", "seed of the random input", BX_INTEGER, 0, 9e15, &c->seed},
        {"limit", "SECONDS", "refuse a launch whose estimated time is longer", BX_REAL, 1, 1e9,
         &c->limit},
        {"progress-timeout", "SECONDS",
         "end the launch if no step finishes for so long (default: 60 s or 20 rounds, the longer); "
         "0: "
         "never end it",
         BX_REAL, 0, 1e9, &c->progress_timeout},
        {"separate-waiting", NULL, "put a barrier before each collective and time it as waiting",
         BX_FLAG, 0, 0, &c->separate_waiting},
        {"profile", NULL, "print where the time goes: own code, libraries, MPI by routine", BX_FLAG,
         0, 0, &c->profile},
        {"output", "FILE", "JSON file of the result, written whole or not at all", BX_TEXT, 0, 0,
         &c->output},
        {"label", "KEY=VALUE", "label kept in the result; may be given again", BX_TEXT, 0, 0, NULL},
        {"list", NULL, "print the cases and methods: what each trades, when it wins", BX_FLAG, 0, 0,
         &c->list},
        {"help", NULL, "print this text", BX_FLAG, 0, 0, &c->help},
    };
    int count = (int)(sizeof common / sizeof *common);
    memcpy(table, common, sizeof common);
    return count;
}

static int full_table(const bx_run *run, bx_option *table)
{
    int count = common_table(&((bx_run *)run)->common, table);
    if (count + (int)run->kernel->option_count > MAX_OPTIONS) {
        fprintf(stderr, "bisection-%s: more than %d options\n", run->kernel->name, MAX_OPTIONS);
        MPI_Abort(MPI_COMM_WORLD, 70);
    }
    for (size_t i = 0; i < run->kernel->option_count; i++) {
        const bx_option *option = &run->kernel->options[i];
        for (int j = 0; j < count; j++) {
            if (strcmp(table[j].name, option->name) != 0) continue;
            fprintf(stderr, "bisection-%s: two options --%s\n", run->kernel->name, option->name);
            MPI_Abort(MPI_COMM_WORLD, 70);
        }
        table[count++] = *option;
    }
    return count;
}

/* ---- values ---- */

static bool parse_integer(const char *text, int64_t *value)
{
    char *end;
    errno = 0;
    long long parsed = strtoll(text, &end, 10);
    if (end == text || *end || errno == ERANGE || isspace((unsigned char)*text)) return false;
    *value = parsed;
    return true;
}

static bool parse_real(const char *text, double *value)
{
    char *end;
    errno = 0;
    double parsed = strtod(text, &end);
    if (end == text || *end || errno == ERANGE || !isfinite(parsed) ||
        isspace((unsigned char)*text) || strpbrk(text, "xX"))
        return false;
    *value = parsed;
    return true;
}

static bool parse_grid(const char *text, int64_t value[3], double low, double high)
{
    char copy[128], *rest = copy;
    if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy) return false;
    for (int d = 0; d < 3; d++) {
        char *part = strsep(&rest, ",");
        if (!part || !parse_integer(part, &value[d]) || (double)value[d] < low ||
            (double)value[d] > high)
            return false;
    }
    return !rest;
}

static int set_value(bx_run *run, const bx_option *option, const char *text)
{
    bool good = true;
    switch (option->type) {
    case BX_FLAG:
        *(bool *)option->value = true;
        return BX_OK;
    case BX_TEXT:
        if (!*text) return bx_run_refuse(run, BX_USAGE, "--%s: needs a value", option->name);
        if (option->value) {
            *(const char **)option->value = text;
            return BX_OK;
        }
        if (text[0] == '=' || !strchr(text, '='))
            return bx_run_refuse(run, BX_USAGE, "--label %s: not of the form KEY=VALUE", text);
        if (run->common.label_count == BX_MAX_LABELS)
            return bx_run_refuse(run, BX_USAGE, "--label %s: more than %d labels", text,
                                 BX_MAX_LABELS);
        for (int i = 0; i < run->common.label_count; i++)
            if (strncmp(run->common.labels[i], text, (size_t)(strchr(text, '=') - text) + 1) == 0)
                return bx_run_refuse(run, BX_USAGE, "--label %s: the key is given twice", text);
        run->common.labels[run->common.label_count++] = text;
        return BX_OK;
    case BX_INTEGER: {
        int64_t value = 0;
        good = parse_integer(text, &value) && (double)value >= option->low &&
               (double)value <= option->high;
        if (good) *(int64_t *)option->value = value;
        break;
    }
    case BX_REAL: {
        double value = 0;
        good = parse_real(text, &value) && value >= option->low && value <= option->high;
        if (good) *(double *)option->value = value;
        break;
    }
    case BX_GRID: {
        int64_t value[3];
        good = parse_grid(text, value, option->low, option->high);
        if (good) memcpy(option->value, value, sizeof value);
        break;
    }
    }
    if (good) return BX_OK;
    const char *kind = option->type == BX_REAL   ? "a number"
                       : option->type == BX_GRID ? "NX,NY,NZ, each a whole number"
                                                 : "a whole number";
    return bx_run_refuse(run, BX_USAGE, "--%s %s: not %s from %.10g to %.10g", option->name, text,
                         kind, option->low, option->high);
}

/* ---- names ---- */

/* Appends the names of `kind` (cases, methods or baselines) to text, ", " between. */
static void join_names(char *text, size_t size, const bx_choice *choices, size_t count,
                       bool baseline)
{
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (choices[i].baseline != baseline) continue;
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s", used ? ", " : "", choices[i].name);
    }
}

static bool in_family(const bx_choice *method, const char *family)
{
    return method->family && family && strcmp(method->family, family) == 0;
}

/* Whether a name selects a method or baseline: its own, that of its family, or `all`. */
static bool selects(const char *name, const bx_choice *method, const char *excluded)
{
    if (strcmp(name, method->name) == 0 || in_family(method, name)) return true;
    return strcmp(name, "all") == 0 && !method->baseline && !in_family(method, excluded);
}

static int select_names(bx_run *run, const char *option, const char *list, bool baseline)
{
    const bx_kernel *kernel = run->kernel;
    char copy[512], known[512];
    join_names(known, sizeof known, kernel->methods, kernel->method_count, baseline);
    if (baseline && strcmp(list, "none") == 0) return BX_OK;
    if (snprintf(copy, sizeof copy, "%s", list) >= (int)sizeof copy || list[0] == ',' ||
        list[strlen(list) - 1] == ',' || strstr(list, ",,"))
        return bx_run_refuse(run, BX_USAGE, "--%s %.200s: not a list of names; choose from %s",
                             option, list, known);
    for (char *next, *name = strtok_r(copy, ",", &next); name; name = strtok_r(NULL, ",", &next)) {
        bool any = false;
        for (const char *before = copy; before < name; before += strlen(before) + 1)
            if (strcmp(before, name) == 0)
                return bx_run_refuse(run, BX_USAGE, "--%s %.200s: %s is given twice", option, list,
                                     name);
        for (size_t m = 0; m < kernel->method_count; m++)
            if (kernel->methods[m].baseline == baseline &&
                selects(name, &kernel->methods[m], kernel->excluded_family))
                any = run->selected[m] = true;
        if (!any)
            return bx_run_refuse(run, BX_USAGE, "--%s %s: unknown; choose from %s or %s", option,
                                 name, known, baseline ? "none" : "all");
    }
    return BX_OK;
}

static int check_case(bx_run *run)
{
    const bx_kernel *kernel = run->kernel;
    for (size_t i = 0; i < kernel->case_count; i++)
        if (strcmp(kernel->cases[i].name, run->common.case_name) == 0) return BX_OK;
    char names[512];
    join_names(names, sizeof names, kernel->cases, kernel->case_count, false);
    return bx_run_refuse(run, BX_USAGE, "--case %s: unknown; choose from %s", run->common.case_name,
                         names);
}

/* ---- the line ---- */

/* getopt_long accepts unambiguous abbreviations; this suite does not. */
static bool spelt_out(const char *argument, const char *name)
{
    size_t length = strlen(name);
    return strncmp(argument, "--", 2) == 0 && strncmp(argument + 2, name, length) == 0 &&
           (argument[2 + length] == '\0' || argument[2 + length] == '=');
}

/* JSON is UTF-8, and the command line goes into it. */
static bool is_utf8(const char *text)
{
    while (*text && bx_json_character(text)) text += bx_json_character(text);
    return !*text;
}

int bx_options_parse(bx_run *run, int argc, char **argv)
{
    const bx_kernel *kernel = run->kernel;
    for (int i = 0; i < argc; i++)
        if (!is_utf8(argv[i]))
            return bx_run_refuse(run, BX_USAGE, "argument %d is not UTF-8 text", i);
    static const int64_t usual[] = {10, 5, 1};
    const int64_t *sampling = kernel->sampling ? kernel->sampling : usual;
    run->common = (bx_common){.case_name = kernel->cases[0].name,
                              .methods = "all",
                              .baselines = kernel->baselines ? kernel->baselines : "none",
                              .start = "auto",
                              .repeats = sampling[0],
                              .block = sampling[1],
                              .warmup = sampling[2],
                              .limit = 600,
                              .progress_timeout = -1, /* by the rounds */
                              .seed = 1};
    BX_ALLOC(kernel->method_count, run->selected);
    bx_option table[MAX_OPTIONS];
    int count = full_table(run, table);
    struct option options[MAX_OPTIONS + 1];
    memset(options, 0, sizeof options);
    for (int i = 0; i < count; i++)
        options[i] = (struct option){
            table[i].name, table[i].type == BX_FLAG ? no_argument : required_argument, NULL, 0};
    opterr = 0;
    optind = 0; /* from the start: simulated ranks share this state */
    for (;;) {
        int index = -1, at = optind > 0 ? optind : 1;
        int got = getopt_long(argc, argv, "+:", options, &index);
        if (got == -1 && optind > at) /* it has passed over a bare -- */
            return bx_run_refuse(run, BX_USAGE, "--: unexpected; every option is written --name");
        if (got == -1) break;
        if (got == ':') return bx_run_refuse(run, BX_USAGE, "%s: needs a value", argv[at]);
        if (got != 0 || !spelt_out(argv[at], table[index].name))
            return bx_run_refuse(run, BX_USAGE, "%s: unknown option or needless value; see --help",
                                 argv[at]);
        if (set_value(run, &table[index], optarg) != BX_OK) return run->refusal;
    }
    if (optind < argc)
        return bx_run_refuse(run, BX_USAGE, "%s: unexpected; every option is written --name",
                             argv[optind]);
    if (run->common.repeats * run->common.block > MOST_SAMPLES)
        return bx_run_refuse(run, BX_USAGE, "--repeats %lld --block %lld: more than %d samples",
                             (long long)run->common.repeats, (long long)run->common.block,
                             MOST_SAMPLES);
    if (check_case(run) != BX_OK) return run->refusal;
    if (select_names(run, "method", run->common.methods, false) != BX_OK) return run->refusal;
    return select_names(run, "baseline", run->common.baselines, true);
}

/* ---- help ---- */

static void print_default(const bx_option *option)
{
    const int64_t *grid = option->value;
    if (option->type == BX_INTEGER && *(int64_t *)option->value >= (int64_t)option->low)
        printf(" [%lld]", (long long)*(int64_t *)option->value);
    if (option->type == BX_REAL && *(double *)option->value >= option->low)
        printf(" [%g]", *(double *)option->value);
    if (option->type == BX_GRID && grid[0] > 0)
        printf(" [%lld,%lld,%lld]", (long long)grid[0], (long long)grid[1], (long long)grid[2]);
    const char *text = option->type == BX_TEXT && option->value ? *(char **)option->value : NULL;
    if (text && *text) printf(" [%s]", text);
}

void bx_options_help(const bx_run *run)
{
    bx_option table[MAX_OPTIONS];
    int count = full_table(run, table);
    printf("bisection-%s: %s\n\n", run->kernel->name, run->kernel->summary);
    for (int i = 0; i < count; i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s %s", table[i].name,
                 table[i].metavar ? table[i].metavar : "");
        printf("  %-26s", left);
        if (strlen(left) > 26) printf("\n%-28s", "");
        printf(" %s", table[i].help);
        print_default(&table[i]);
        printf("\n");
    }
    printf("\nA rank has one thread unless OMP_NUM_THREADS says otherwise.\n");
    printf("Exit code: 0 verified, 1 wrong answer, 2 usage, 3 resources, 4 no progress (HANG).\n");
}

/* Lists the choices that are baselines or not, and of the family `excluded` or not. */
static void list_choices(const char *title, const bx_choice *choices, size_t count, bool baseline,
                         const char *excluded, bool of_family)
{
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        if (choices[i].baseline != baseline || in_family(&choices[i], excluded) != of_family)
            continue;
        if (!any) printf("%s\n", title);
        any = true;
        printf("  %-16s %s\n", choices[i].name, choices[i].summary);
        if (choices[i].wins) printf("  %-16s   %s\n", "", choices[i].wins);
    }
}

void bx_options_list(const bx_run *run)
{
    const bx_kernel *kernel = run->kernel;
    const bx_choice *methods = kernel->methods;
    size_t count = kernel->method_count;
    list_choices("cases", kernel->cases, kernel->case_count, false, NULL, false);
    list_choices("methods", methods, count, false, kernel->excluded_family, false);
    if (kernel->excluded_family)
        list_choices(kernel->excluded_family, methods, count, false, kernel->excluded_family, true);
    list_choices("baselines", methods, count, true, NULL, false);
}

void bx_options_add(const bx_run *run, bx_json *object)
{
    bx_option table[MAX_OPTIONS];
    int count = full_table(run, table);
    for (int i = 0; i < count; i++) {
        const bx_option *option = &table[i];
        const void *value = option->value;
        const int64_t *grid = value;
        double real = option->type == BX_REAL ? *(const double *)value : NAN;
        if (!value || value == &run->common.help || value == &run->common.list) continue;
        if (option->type == BX_FLAG) bx_json_bool(object, option->name, *(const bool *)value);
        if (option->type == BX_INTEGER) bx_json_number(object, option->name, (double)*grid);
        if (option->type == BX_REAL)
            bx_json_number(object, option->name, real < option->low ? NAN : real);
        if (option->type == BX_TEXT)
            bx_json_text(object, option->name, *(const char *const *)value);
        if (option->type == BX_GRID)
            bx_json_list(object, option->name, 3,
                         (double[]){(double)grid[0], (double)grid[1], (double)grid[2]});
    }
}
