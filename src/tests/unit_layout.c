/* C and Fortran agree on the layout of the types of bx.h. */
#include "bx.h"
#include "unit.h"

void fortran_layout(size_t *list);

int main(void)
{
    static const struct {
        const char *member;
        size_t offset;
    } expected[] = {
#define MEMBER(type, member) {#type "." #member, offsetof(type, member)}
#define K(member) MEMBER(bx_kernel, member)
#define O(member) MEMBER(bx_option, member)
#define C(member) MEMBER(bx_choice, member)
#define T(member) MEMBER(bx_traffic, member)
        {"bx_kernel", sizeof(bx_kernel)},
        {"bx_option", sizeof(bx_option)},
        {"bx_choice", sizeof(bx_choice)},
        {"bx_traffic", sizeof(bx_traffic)},
        K(name),
        K(summary),
        K(cases),
        K(case_count),
        K(methods),
        K(method_count),
        K(setup),
        K(verify),
        K(step),
        K(options),
        K(option_count),
        K(phases),
        K(phase_count),
        K(phase_groups),
        K(ratios),
        K(ratio_count),
        K(baselines),
        K(excluded_family),
        K(sampling),
        K(arrange),
        K(applicable),
        K(comparable),
        K(point_count),
        K(point),
        K(has_point),
        K(begin),
        K(prepare),
        K(inspect),
        K(end),
        K(promise),
        K(items),
        K(metrics),
        K(report),
        K(teardown),
        O(name),
        O(metavar),
        O(help),
        O(type),
        O(low),
        O(high),
        O(value),
        C(name),
        C(summary),
        C(wins),
        C(baseline),
        C(family),
        C(calls),
        T(calls),
        T(messages),
        T(off_node_messages),
        T(bytes),
        T(off_node_bytes),
    };
    enum { COUNT = sizeof expected / sizeof *expected };
    size_t seen[COUNT];
    fortran_layout(seen);
    for (int i = 0; i < COUNT; i++) {
        if (seen[i] != expected[i].offset)
            printf("%s: %zu in Fortran, %zu in C\n", expected[i].member, seen[i],
                   expected[i].offset);
        CHECK(seen[i] == expected[i].offset);
    }
    return unit_failures != 0;
}
