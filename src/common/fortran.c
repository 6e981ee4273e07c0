/* What Fortran cannot call as it is: variable arguments, C communicators, inline functions. */
#include "bx.h"

MPI_Fint bx_comm_f(const bx_run *run);
MPI_Fint bx_node_comm_f(const bx_run *run);
int bx_refuse_text(bx_run *run, int code, const char *text);
void bx_note_text(bx_run *run, const char *text);
void bx_detail_number(cJSON *details, const char *name, double value);
void bx_detail_text(cJSON *details, const char *name, const char *value);
double bx_uniform_f(int64_t seed, int64_t index);

MPI_Fint bx_comm_f(const bx_run *run) { return MPI_Comm_c2f(bx_comm(run)); }
MPI_Fint bx_node_comm_f(const bx_run *run) { return MPI_Comm_c2f(bx_node_comm(run)); }
int bx_refuse_text(bx_run *run, int code, const char *text)
{
    return bx_refuse(run, code, "%s", text);
}
void bx_note_text(bx_run *run, const char *text) { bx_note(run, "%s", text); }
/* `details` is NULL on all ranks but one. */
void bx_detail_number(cJSON *details, const char *name, double value)
{
    if (details) cJSON_AddNumberToObject(details, name, value);
}
void bx_detail_text(cJSON *details, const char *name, const char *value)
{
    if (details) cJSON_AddStringToObject(details, name, value);
}
double bx_uniform_f(int64_t seed, int64_t index)
{
    return bx_uniform((uint64_t)seed, (uint64_t)index);
}
