/* JSON as it is written; test_json.py reads it with a parser that is not ours. */
#include "json.h"

#include "bx.h"
#include "unit.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

static const double NUMBERS[] = {0,    -1,     0.1, 1 / 3., 1e-300, 4e-324, 9007199254740993.,
                                 1e22, DBL_MAX};

/* All texts of up to four of these bytes, at which UTF-8's ranges begin or end. */
static void add_bytes(bx_json *list)
{
    static const unsigned char edges[] = {0,    0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
                                          0xc1, 0xc2, 0xe0, 0xed, 0xef, 0xf0, 0xf4, 0xf5};
    const size_t count = sizeof edges;
    for (size_t i = 0; i < count * count * count * count; i++) {
        char text[5] = "";
        for (size_t rest = i, k = 0; k < 4; k++, rest /= count) text[k] = (char)edges[rest % count];
        bx_json_text(list, NULL, text);
    }
}

int main(void)
{
    bx_json *json = bx_json_create(), *nested = bx_json_array(json, "nested");
    char control[33] = "";
    for (int c = 1; c < ' '; c++) control[c - 1] = (char)c;
    BX_TEXTS(json, {"quotes", "say \"no\" to C:\\ / \\u0041"}, {"control", control},
             {"utf-8", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f"}, {"none", NULL},
             {"", "empty name"}, {"a \"name\"\n", ""});
    bx_json_list(json, "numbers", sizeof NUMBERS / sizeof *NUMBERS, NUMBERS);
    bx_json_list(json, "not finite", 3, (double[]){NAN, INFINITY, -INFINITY});
    bx_json_list(nested, NULL, 0, NULL);
    bx_json *inner = bx_json_object(bx_json_object(nested, NULL), "inner");
    bx_json_bool(inner, "yes", true);
    bx_json_bool(inner, "no", false);
    bx_json_raw(nested, NULL, "{\"raw\":[1]}");
    BX_NUMBERS(inner, {"replaced", 1}, {"last", 2});
    bx_json_object(bx_json_object(inner, "replaced"), "by");
    bx_json_object(json, "empty");
    add_bytes(bx_json_array(json, "bytes"));
    CHECK(bx_json_get(inner, "last") && !bx_json_get(inner, "first") && !bx_json_get(NULL, "a"));
    CHECK(!bx_json_object(NULL, "a"));
    bx_json_number(NULL, "a", 1);
    for (int lines = 0; lines < 4; lines += 3) {
        bx_json_write(stdout, json, lines);
        putchar('\n');
        if (lines == 0) puts("---");
    }
    bx_json_free(json);
    return unit_failures > 0;
}
