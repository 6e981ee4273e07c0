/* JSON of the result: a tree that is added to and written, never read back. */
#pragma once

#include <stdio.h>

typedef struct bx_json {
    char kind;  /* {, [ or " as it begins; or \0, any other as it is written */
    char *name; /* of an object's member */
    union {
        struct bx_json *first; /* of { and [ */
        char *text;            /* of " and \0 */
    };
    struct bx_json *last; /* of { and [ */
    struct bx_json *next; /* in the parent */
} bx_json;

/* Returns an empty object. */
bx_json *bx_json_create(void);
void bx_json_free(bx_json *json);
/* Returns a member of an object; NULL if there is none, or no object. */
bx_json *bx_json_get(const bx_json *object, const char *name);
/* Returns the bytes of the character that UTF-8 text begins with; 0 where it begins with none: a
 * surrogate, an overlong form, what is above U+10FFFF or cut off (RFC 3629). */
size_t bx_json_character(const char *text);
/* Adds a value that is JSON already. */
void bx_json_raw(bx_json *parent, const char *name, const char *text);
/* Writes a value, the members of its outer `lines` levels on lines of their own. */
void bx_json_write(FILE *file, const bx_json *json, int lines);
/* Frees a value; returns its text on one line, which the caller frees. */
char *bx_json_take_text(bx_json *json);
